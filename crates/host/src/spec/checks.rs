//! What is checked against the schemas of a tool, and what becomes of what does not match.

use serde::Serialize;

/// What becomes of a result whose structured content does not match the tool's output schema, or is missing. A result that the
/// tool itself calls an error need not match, and one that cannot be checked is passed on with a warning in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSchema {
    /// It is passed on with a warning.
    #[default]
    Warn,
    /// It is replaced by an error result that says what is wrong with it.
    Reject,
}

/// What becomes of characters that are not seen (tag characters, zero-width characters, bidi controls and their like), in what
/// models, clients and people are told of a server's tools, prompts and resources, and in its instructions. Names, and all
/// that a call has to send back as it is, stay as they came in either case; so does what tools are pinned by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invisible {
    /// They are left out; see [`text::without_unseen`](crate::text::without_unseen).
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

/// What becomes of arguments of a call that do not fit the input schema of their tool. Arguments that cannot be checked (the
/// schema is unusable, or checking takes too long) are sent in any case, and what the gate and a person see is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidateArgs {
    /// They are sent without a look.
    #[default]
    Off,
    /// They are sent, and the result has a warning.
    Warn,
    /// They are not sent: the call fails and says what does not fit.
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
