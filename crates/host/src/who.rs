//! A condition on a principal, as rules and entries write it: `group:eng`, `role:operator`.

use crate::{
    glob::{BadGlob, Glob},
    principal::{Kind, Principal},
    text,
};

/// A condition on a principal: `group:GLOB`, `role:GLOB`, `person:GLOB` or `service:GLOB`, the last two on its subject.
#[derive(Clone, Debug)]
pub struct Who {
    written: String,
    of: Of,
    glob: Glob,
}

/// The property of a principal that a [`Who`] checks.
#[derive(Clone, Copy, Debug)]
enum Of {
    Group,
    Role,
    Subject(Kind),
}

/// The reason why a text is not a condition on a principal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadWho {
    /// A glob in it is invalid.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// It has an unknown form.
    #[error(
        "`{written}` is no condition on a caller: write `group:NAME`, `role:NAME`, `person:SUBJECT` or `service:SUBJECT`"
    )]
    Form {
        /// The condition, safe to print.
        written: String,
    },
}

impl Who {
    /// Reads a condition.
    ///
    /// # Errors
    /// [`BadWho`]
    pub fn read(written: &str) -> Result<Self, BadWho> {
        let (of, glob) = written.split_once(':').unwrap_or_default();
        let of = match of {
            "group" => Of::Group,
            "role" => Of::Role,
            "person" => Of::Subject(Kind::Person),
            "service" => Of::Subject(Kind::Service),
            _ => return Err(BadWho::Form { written: text::for_line(&text::clip(written, 100)).into_owned() }),
        };
        Ok(Self { written: written.to_owned(), of, glob: Glob::read(glob, written)? })
    }

    /// Returns whether it is true of `principal`.
    #[must_use]
    pub fn fits(&self, principal: &Principal) -> bool {
        match self.of {
            Of::Group => principal.groups().any(|group| self.glob.is_match(group)),
            Of::Role => self.glob.is_match(principal.role().word()),
            Of::Subject(kind) => principal.kind() == kind && self.glob.is_match(principal.subject()),
        }
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }
}

impl PartialEq for Who {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Who {}
