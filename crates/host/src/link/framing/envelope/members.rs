//! Reads the members that JSON-RPC defines, and determines the kind of a message from them.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::link::framing::envelope::{Envelope, Id, MAX_BATCH, Outcome, Reason, salvage};

/// The members that JSON-RPC defines, as they were read. Other members are skipped.
#[derive(Deserialize)]
pub(super) struct Members<'a> {
    #[serde(default)]
    jsonrpc: Version,
    #[serde(default)]
    id: IdMember,
    #[serde(borrow)]
    method: Option<Text<'a>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    // `result` and `error` distinguish null from absent, which `Option` alone does not.
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    error: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    /// Determines the kind of the message.
    pub(super) fn classify(self) -> Result<Envelope<'a>, Reason> {
        if self.jsonrpc != Version::Two {
            return Err(Reason::NotJsonRpc);
        }
        match self.method {
            None => classify_answer(self.id, self.result, self.error),
            Some(_) if self.result.is_some() || self.error.is_some() => {
                Err(Reason::Malformed("both a method and a result or an error"))
            }
            Some(Text(method)) => Ok(match self.id {
                IdMember::Id(id) => Envelope::Request { id, method, params: self.params },
                IdMember::Absent | IdMember::Null => Envelope::Notification { method, params: self.params },
            }),
        }
    }
}

/// Determines the kind of a message without a method.
fn classify_answer<'a>(
    id: IdMember,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
) -> Result<Envelope<'a>, Reason> {
    let outcome = match (result, error) {
        (Some(result), None) => Outcome::Result(result),
        (Some(result), Some(error)) if is_null(error) => Outcome::Result(result),
        (None, Some(error)) if !is_null(error) => Outcome::Error(error),
        (Some(result), Some(error)) if is_null(result) => Outcome::Error(error),
        (Some(_), Some(_)) => return Err(Reason::Malformed("both a result and an error")),
        (None, _) => return Err(Reason::Malformed("neither a method nor a result nor an error")),
    };
    match (id, outcome) {
        (IdMember::Id(id), outcome) => Ok(Envelope::Response { id, outcome }),
        (_, Outcome::Error(error)) => Ok(Envelope::Orphan { error }),
        (_, Outcome::Result(_)) => Err(Reason::Malformed("a result without the id of its request")),
    }
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Deserializes a member that is there, even if it is null.
fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// A string, borrowed unless it has escapes. (In an `Option`, serde itself would always copy a `Cow`.)
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The content of the member `jsonrpc`.
#[derive(Default, PartialEq)]
enum Version {
    #[default]
    Other,
    Two,
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(if raw.get() == "\"2.0\"" { Version::Two } else { Version::Other })
    }
}

/// The content of the member `id`.
#[derive(Default)]
enum IdMember {
    #[default]
    Absent,
    Null,
    Id(Id),
}

// Parsed from the raw text: how `serde_json` parses numbers depends on its features, which any crate in the final
// program can switch on.
impl<'de> Deserialize<'de> for IdMember {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        if is_null(raw) {
            return Ok(IdMember::Null);
        }
        salvage::parse_id(raw.get().as_bytes()).map(IdMember::Id).ok_or_else(|| D::Error::custom("not an id"))
    }
}

/// The elements of a batch. Of a batch that is too long, only the first [`MAX_BATCH`] + 1 elements.
pub(super) struct Elements<'a>(pub(super) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&RawValue>()? {
            if elements.len() <= MAX_BATCH {
                elements.push(element);
            }
        }
        Ok(Elements(elements))
    }
}
