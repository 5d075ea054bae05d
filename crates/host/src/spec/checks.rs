//! Checks against the schemas of a tool, and what happens on a mismatch.

use serde::{Deserialize, Serialize};

/// What happens to a result whose structured content does not match the tool's output schema, or is missing. A result
/// that the tool itself marks as an error need not match; a result that cannot be checked always passes with a warning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSchema {
    /// It is passed on with a warning.
    #[default]
    Warn,
    /// It is replaced by an error result that names the mismatch.
    Reject,
}

impl OutputSchema {
    /// The mode that is written as `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "warn" => Some(Self::Warn),
            "reject" => Some(Self::Reject),
            _ => None,
        }
    }
}

/// What happens to invisible characters (tag characters, zero-width characters, bidi controls and their like) in the
/// texts of a server's tools, prompts and resources, and in its instructions. Names, and everything that a call has to
/// send back unchanged, stay as they came in either case; so do the definitions that are pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invisible {
    /// They are removed; see [`text::without_unseen`](crate::text::without_unseen).
    #[default]
    Remove,
    /// They are passed on.
    Keep,
}

impl Invisible {
    /// The mode that is written as `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "remove" => Some(Self::Remove),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}

/// What happens to arguments of a call that do not fit the input schema of their tool. Arguments that cannot be checked
/// (the schema is unusable, or checking takes too long) are always sent, and the gate and a person see the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidateArgs {
    /// They are sent unchecked.
    #[default]
    Off,
    /// They are sent, and the result has a warning.
    Warn,
    /// They are not sent: the call fails and names the mismatch.
    Strict,
}

impl ValidateArgs {
    /// The mode that is written as `word`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "off" => Some(Self::Off),
            "warn" => Some(Self::Warn),
            "strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// What happens to a tool that is not as it is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Nothing is pinned, nothing is compared.
    Off,
    /// A warning is reported, and the tool can be used.
    Warn,
    /// A warning is reported, and the tool is in quarantine. The default.
    #[default]
    Enforce,
}

impl PinMode {
    /// The configuration's word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    /// The mode of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Enforce].into_iter().find(|mode| mode.word() == word)
    }
}
