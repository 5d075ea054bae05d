//! Checks the user's agreement to run entries (configured servers) of a project's file.
//!
//! An entry in a repository is only a proposal: it waits until the user agrees. The agreement is for one project, one
//! name and one content. If the content changes, the entry waits again. The content includes the project's files that
//! the entry runs. It does not include comments and the order of fields. A ledger is the record of the agreements.

mod files;

use std::{collections::BTreeMap, path::Path};

use data_encoding::HEXLOWER;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::node::{Node, Value};
pub(crate) use files::files_of;

/// An entry that needs the user's agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The folder that holds the project's file, with symbolic links resolved.
    pub project: &'a Path,
    /// The entry's name.
    pub name: &'a str,
    /// The [`content_hash`] of the entry. If the entry runs files, the hash of that hash together with those of the
    /// files.
    pub hash: &'a str,
}

/// The record of the user's agreements.
pub trait Ledger {
    /// Returns whether the user has agreed to run exactly this entry.
    fn approves(&self, candidate: &Candidate<'_>) -> bool;
}

impl<F: Fn(&Candidate<'_>) -> bool> Ledger for F {
    fn approves(&self, candidate: &Candidate<'_>) -> bool {
        self(candidate)
    }
}

/// A ledger without any agreement.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn approves(&self, _: &Candidate<'_>) -> bool {
        false
    }
}

/// Returns the hash of an entry's content: SHA-256 over all of its fields, known or not, in a canonical order; 64 hex
/// digits.
#[must_use]
pub fn content_hash(entry: &Json) -> String {
    hash(&Node::from_json(entry))
}

/// Returns the hash of an agreement: of the entry's `hash`, and of `files` with their fingerprints.
pub(crate) fn agreement_hash(hash: &str, files: &BTreeMap<String, String>) -> String {
    if files.is_empty() {
        return hash.to_owned();
    }
    let content = serde_json::json!({ "entry": hash, "files": files });
    let hash = Sha256::digest(format!("toolrack entry with files 1\n{content}"));
    HEXLOWER.encode(&hash)
}

/// Returns the [`content_hash`] of an entry as it is written in a file. It covers all members, even those with the same
/// name. Such an entry has an error, but an agreement must not depend on the check for it.
pub(crate) fn hash(entry: &Node) -> String {
    let mut canonical = String::from("toolrack entry 1\n");
    write_canonical(entry, &mut canonical);
    let hash = Sha256::digest(canonical);
    HEXLOWER.encode(&hash)
}

/// Appends `node` to `canonical_text`, with the members of each object sorted by name.
fn write_canonical(node: &Node, canonical_text: &mut String) {
    match &node.value {
        Value::List(nodes) => {
            canonical_text.push('[');
            for node in nodes {
                write_canonical(node, canonical_text);
                canonical_text.push(',');
            }
            canonical_text.push(']');
        }
        Value::Map(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|member| &*member.name);
            canonical_text.push('{');
            for member in members {
                canonical_text.push_str(&Json::from(&*member.name).to_string());
                canonical_text.push(':');
                write_canonical(&member.node, canonical_text);
                canonical_text.push(',');
            }
            canonical_text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
            canonical_text.push_str(&node.to_json().to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_of_meaning_not_of_order() {
        let one: Json = serde_json::from_str(r#"{"command":"x","env":{"A":"1","B":"2"}}"#).unwrap();
        let two: Json = serde_json::from_str(r#"{ "env": {"B":"2", "A":"1"}, "command": "x" }"#).unwrap();
        assert_eq!(content_hash(&one), content_hash(&two));
        assert_eq!(content_hash(&one).len(), 64);
    }

    #[test]
    fn every_change_of_meaning_changes_the_hash() {
        let base = json!({ "command": "x", "args": ["a", "b"] });
        for other in [
            json!({ "command": "y", "args": ["a", "b"] }),
            json!({ "command": "x", "args": ["b", "a"] }),
            json!({ "command": "x", "args": ["a,b"] }),
            json!({ "command": "x", "args": ["a", "b"], "unknown": 1 }),
            json!({ "command": "x", "args": [["a", "b"]] }),
        ] {
            assert_ne!(content_hash(&base), content_hash(&other), "{other}");
        }
    }

    #[test]
    fn the_hash_never_changes_between_versions() {
        assert_eq!(
            content_hash(&json!({ "env": { "A": "1" }, "command": "x", "args": ["a"] })),
            "1c34a35dcdb8dc289d275cf31750302c9eb1f3cd0653e139d74ca84f3299f03d"
        );
    }
}
