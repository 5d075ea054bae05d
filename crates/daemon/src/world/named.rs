//! Finds running work by the names that callers gave it. Work is a call of a tool, or a turn of a conversation (a
//! message of a user, and all that a model does until it has answered).

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

/// The maximum number of names at once.
const MAX_NAMES: usize = 10_000;

/// Why work did not begin under the name that its caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// Other work of this name is running.
    NameInUse,
    /// Too much other named work is running: this many calls and turns.
    TooMany(usize),
}

/// Cancels running work of one kind by its name.
#[derive(Default)]
pub(super) struct WorkByName(HashMap<String, CancellationToken>);

impl WorkByName {
    /// Adds running work, which `cancellation` cancels.
    pub(super) fn insert(&mut self, name: String, cancellation: CancellationToken) -> Result<(), NotBegun> {
        if self.0.len() >= MAX_NAMES {
            return Err(NotBegun::TooMany(MAX_NAMES));
        }
        if self.0.contains_key(&name) {
            return Err(NotBegun::NameInUse);
        }
        self.0.insert(name, cancellation);
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<CancellationToken> {
        self.0.get(name).cloned()
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_and_an_id_in_use_have_different_errors() {
        let mut all = WorkByName::default();
        let mut begin = |name: &str| all.insert(name.to_owned(), CancellationToken::new());
        (1..MAX_NAMES).for_each(|id| begin(&id.to_string()).unwrap());
        assert_eq!(begin("1"), Err(NotBegun::NameInUse));
        begin("last").unwrap();
        assert_eq!(begin("new"), Err(NotBegun::TooMany(MAX_NAMES)));
        all.remove("last");
        assert_eq!(all.insert("new".to_owned(), CancellationToken::new()), Ok(()));
    }
}
