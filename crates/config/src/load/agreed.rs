//! The part of an entry that the user agrees to, without what only switches it.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toolrack_host::ServerSpec;

use crate::{
    entry::canonical,
    node::{Node, Value},
    redact::proposal,
    trust::hash,
};

/// Returns the hash of an entry without what only switches it.
pub(super) fn hash_unswitched(mut entry: Node) -> String {
    if let Value::Map(fields) = &mut entry.value {
        fields.retain(|field| !["enabled", "disabled"].contains(&&*canonical(&field.name)));
    }
    hash(&entry)
}

/// Shows whether an entry is switched on, which is the default.
pub(super) fn show_switched(shown: &mut Json, enabled: bool) {
    if let Json::Object(fields) = shown {
        fields.shift_remove("enabled");
        if !enabled {
            fields.insert("enabled".to_owned(), false.into());
        }
    }
}

/// Returns the proposal for the user: the entry, and the fingerprints of the files that it runs.
pub(super) fn proposed(spec: &ServerSpec, files: &BTreeMap<String, String>) -> Json {
    let mut proposed = proposal(spec);
    if let (Json::Object(fields), false) = (&mut proposed, files.is_empty()) {
        fields.insert(
            "files".to_owned(),
            files.iter().map(|(name, known_by)| (name.clone(), Json::from(&**known_by))).collect(),
        );
    }
    proposed
}
