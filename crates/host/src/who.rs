//! Reads and checks conditions on a principal (the person or service that calls), as rules about calls and entries of
//! servers write them: `group:eng`, `role:operator`.

use crate::{
    glob::{BadGlob, Glob},
    principal::{Kind, Principal},
    text,
};

/// A condition on a principal: `group:GLOB`, `role:GLOB`, `person:GLOB` or `service:GLOB`, the last two on its subject.
#[derive(Clone, Debug)]
pub struct Who {
    /// The condition as it was written.
    written: String,
    property: Property,
    glob: Glob,
}

/// The property of a principal that a [`Who`] checks.
#[derive(Clone, Copy, Debug)]
enum Property {
    Group,
    Role,
    Subject(Kind),
}

/// The reason why a text is not a condition on a principal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadWho {
    /// The glob is invalid.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// The text has an unknown form.
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
        // Without a colon, the property is empty, and so unknown.
        let (property, glob) = written.split_once(':').unwrap_or_default();
        let property = match property {
            "group" => Property::Group,
            "role" => Property::Role,
            "person" => Property::Subject(Kind::Person),
            "service" => Property::Subject(Kind::Service),
            _ => return Err(BadWho::Form { written: text::for_line(&text::clip(written, 100)).into_owned() }),
        };
        Ok(Self { written: written.to_owned(), property, glob: Glob::read(glob, written)? })
    }

    /// Returns whether `principal` meets the condition.
    #[must_use]
    pub fn fits(&self, principal: &Principal) -> bool {
        match self.property {
            Property::Group => principal.groups().any(|group| self.glob.is_match(group)),
            Property::Role => self.glob.is_match(principal.role().word()),
            Property::Subject(kind) => principal.kind() == kind && self.glob.is_match(principal.subject()),
        }
    }

    /// Returns the condition as it was written.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }
}

impl PartialEq for Who {
    // The text determines the other fields.
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Who {}
