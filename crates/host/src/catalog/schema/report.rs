//! Records the changes that cleaning (making a schema fit for a model provider) makes to a schema, each with its place.

/// A change that cleaning made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The place, as a JSON Pointer (RFC 6901) from the root, through inlined definitions.
    pub path: String,
    /// The change, as a clause in lower case. Names in it come from the schema: escape it before printing.
    pub what: String,
}

impl Change {
    /// The maximum number of listed changes. If there are more, a last entry with an empty path counts the others.
    pub const MAX: usize = 100;

    /// The longest text of either field, in bytes; a longer one is cut and ends in `…`.
    pub const TEXT_BYTES: usize = 256;
}

/// The list of changes, and the current place in the schema.
#[derive(Debug, Default)]
pub(super) struct Report {
    current_path: Vec<String>,
    changes: Vec<Change>,
    /// The number of changes beyond [`Change::MAX`], which are only counted.
    omitted_count: usize,
}

impl Report {
    /// Runs `action` one level deeper, in the member `name`.
    pub(super) fn within<T>(&mut self, name: &str, action: impl FnOnce(&mut Self) -> T) -> T {
        self.enter(name);
        let result = action(self);
        self.leave();
        result
    }

    /// Goes one level deeper, into the member `name`, until [`Self::leave`].
    pub(super) fn enter(&mut self, name: &str) {
        let end = name.floor_char_boundary(Change::TEXT_BYTES);
        self.current_path.push(name[..end].replace('~', "~0").replace('/', "~1"));
    }

    /// Goes one level up.
    pub(super) fn leave(&mut self) {
        self.current_path.pop();
    }

    /// Returns how many levels deep the walk is.
    pub(super) fn depth(&self) -> usize {
        self.current_path.len()
    }

    /// Notes a change at the current place.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        if self.changes.len() == Change::MAX {
            self.omitted_count += 1;
            return;
        }
        let mut path = String::new();
        for name in &self.current_path {
            path.push('/');
            path.push_str(name);
            if path.len() > Change::TEXT_BYTES {
                break;
            }
        }
        self.changes.push(Change { path: shorten(path), what: shorten(what.into()) });
    }

    /// Returns the list.
    pub(super) fn into_changes(mut self) -> Vec<Change> {
        if self.omitted_count > 0 {
            self.changes.push(Change { path: String::new(), what: format!("{} more changes", self.omitted_count) });
        }
        self.changes
    }
}

/// Returns the text, cut to [`Change::TEXT_BYTES`].
fn shorten(mut text: String) -> String {
    const ELLIPSIS: char = '…';
    if text.len() > Change::TEXT_BYTES {
        text.truncate(text.floor_char_boundary(Change::TEXT_BYTES - ELLIPSIS.len_utf8()));
        text.push(ELLIPSIS);
    }
    text
}
