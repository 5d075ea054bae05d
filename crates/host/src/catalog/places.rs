//! An index of a catalog's tools by both of their names.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

use super::CatalogTool;

/// Finds a tool of a list in constant time, as every call needs. Takes about nine bytes for each tool and name, because
/// it stores only positions, not names.
#[derive(Debug, Default)]
pub(super) struct Places {
    hashes: DefaultHashBuilder,
    by_name: HashTable<u32>,
    by_pair: HashTable<u32>,
}

impl Places {
    /// Indexes the tools of this list, whose names are all different. Tools after the first 2^32 are not found.
    pub(super) fn of(tools: &[CatalogTool]) -> Self {
        let mut places = Self::default();
        places.by_name = places.table(tools, |tool| tool.name.as_str());
        places.by_pair = places.table(tools, pair);
        places
    }

    fn table<'a, K: Hash>(&self, tools: &'a [CatalogTool], key: impl Fn(&'a CatalogTool) -> K) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(tools.len());
        for (place, tool) in (0..).zip(tools) {
            // The table has room for all tools: none is hashed again.
            table.insert_unique(self.hashes.hash_one(key(tool)), place, |_| 0);
        }
        table
    }

    /// Returns the tool with this model-visible name.
    pub(super) fn named<'a>(&self, tools: &'a [CatalogTool], name: &str) -> Option<&'a CatalogTool> {
        let is_it = |place: &u32| at(tools, *place).is_some_and(|tool| tool.name == name);
        at(tools, *self.by_name.find(self.hashes.hash_one(name), is_it)?)
    }

    /// Returns the tool of this server with this name.
    pub(super) fn paired<'a>(&self, tools: &'a [CatalogTool], server: &str, tool: &str) -> Option<&'a CatalogTool> {
        let wanted = (server, tool);
        let is_it = |place: &u32| at(tools, *place).is_some_and(|tool| pair(tool) == wanted);
        at(tools, *self.by_pair.find(self.hashes.hash_one(wanted), is_it)?)
    }
}

fn at(tools: &[CatalogTool], place: u32) -> Option<&CatalogTool> {
    tools.get(usize::try_from(place).ok()?)
}

/// Returns the pair that identifies a tool independently of its model-visible name.
fn pair(tool: &CatalogTool) -> (&str, &str) {
    (tool.server.as_str(), tool.listed.tool.name.as_str())
}
