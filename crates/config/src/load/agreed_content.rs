//! Determines the content of an entry (the configuration of one server) to which the user agrees. The content does not
//! include `enabled` and `disabled`, because they only switch the server on or off.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toolrack_host::ServerSpec;

use crate::{
    entry::canonical,
    node::{Node, Value},
    redact::proposal,
    trust::hash,
};

/// Returns the hash of an entry without `enabled` and `disabled`.
pub(super) fn hash_unswitched(mut entry: Node) -> String {
    if let Value::Map(fields) = &mut entry.value {
        fields.retain(|field| !["enabled", "disabled"].contains(&&*canonical(&field.name)));
    }
    hash(&entry)
}

/// Sets `enabled` in the view of an entry. `true` is the default, and left out.
pub(super) fn set_shown_enabled(view: &mut Json, enabled: bool) {
    if let Json::Object(fields) = view {
        fields.shift_remove("enabled");
        if !enabled {
            fields.insert("enabled".to_owned(), false.into());
        }
    }
}

/// Returns the proposal for the user: the entry, and the fingerprints of the files that it runs.
pub(super) fn proposal_with_files(spec: &ServerSpec, files: &BTreeMap<String, String>) -> Json {
    let mut proposal = proposal(spec);
    if let (Json::Object(fields), false) = (&mut proposal, files.is_empty()) {
        fields.insert(
            "files".to_owned(),
            files.iter().map(|(name, fingerprint)| (name.clone(), Json::from(&**fingerprint))).collect(),
        );
    }
    proposal
}
