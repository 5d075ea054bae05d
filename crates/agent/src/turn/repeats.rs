//! How often the model wants the same.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::message::ToolCallData;

/// The calls of a turn, counted by tool and arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Repeats {
    /// By a hash: two calls that share one are counted as the same, which costs a model one remark in 2^64.
    counts: BTreeMap<u64, u32>,
}

impl Repeats {
    /// Counts `call`, and says how often it was wanted, with this time.
    pub(super) fn count(&mut self, call: &ToolCallData) -> u32 {
        let mut hasher = DefaultHasher::new();
        // The members of an object are in the order of their names.
        (&call.name, call.input.to_string()).hash(&mut hasher);
        let count = self.counts.entry(hasher.finish()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// How often the most frequent one was wanted.
    pub(super) fn most(&self) -> u32 {
        self.counts.values().copied().max().unwrap_or_default()
    }
}
