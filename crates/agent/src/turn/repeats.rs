//! Counts repeated calls of the model.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};
use toolrack_host::Canonical;

use crate::message::ToolCallData;

/// The calls of a turn, counted by tool and arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct CallCounts {
    /// The counts, by the hash of the call. Two different calls have the same hash with a chance of 1 in 2^64, and then
    /// count as one.
    counts: BTreeMap<u64, u32>,
}

impl CallCounts {
    /// Counts `call`, and returns how many times the model has requested it, including this time.
    pub(super) fn count(&mut self, call: &ToolCallData) -> u32 {
        // Another version of Rust may hash differently. A stored turn then counts from zero again, which does no harm.
        let mut hasher = DefaultHasher::new();
        // In canonical JSON, the order of the arguments makes no difference.
        let input = serde_json::to_string(&Canonical(&call.input)).unwrap_or_default();
        (&call.name, input).hash(&mut hasher);
        let count = self.counts.entry(hasher.finish()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Returns how many times the model has requested its most frequent call.
    pub(super) fn highest_count(&self) -> u32 {
        self.counts.values().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn the_hash_of_a_call_ignores_the_order_of_arguments_and_is_stable_across_versions() {
        let call = |input: &str| ToolCallData::new("1", "t", serde_json::from_str::<Map<_, _>>(input).unwrap());
        let mut repeats = CallCounts::default();
        assert_eq!(repeats.count(&call(r#"{"b":{"y":1,"x":2},"a":1}"#)), 1);
        assert_eq!(repeats.count(&call(r#"{"a":1,"b":{"x":2,"y":1}}"#)), 2);
        let mut hasher = DefaultHasher::new();
        ("t", r#"{"a":1,"b":{"x":2,"y":1}}"#).hash(&mut hasher);
        assert_eq!(serde_json::to_value(&repeats).unwrap(), json!({ (hasher.finish().to_string()): 2 }));
    }
}
