//! Where in a catalog a tool is, by either of its names.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

use super::CatalogTool;

/// Finds a tool of a list in constant time: every call does. About nine bytes a tool for each name, since only places
/// are kept and the names stay where they are.
#[derive(Debug, Default)]
pub(super) struct Places {
    hashes: DefaultHashBuilder,
    by_name: HashTable<u32>,
    by_pair: HashTable<u32>,
}

impl Places {
    /// The places of the tools in this list, whose names are all different. Those after the first four thousand million
    /// are not found.
    pub(super) fn of(tools: &[CatalogTool]) -> Self {
        let mut places = Self::default();
        places.by_name = places.table(tools, |tool| tool.name.as_str());
        places.by_pair = places.table(tools, pair);
        places
    }

    fn table<'a, K: Hash>(&self, tools: &'a [CatalogTool], key: impl Fn(&'a CatalogTool) -> K) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(tools.len());
        for (place, tool) in (0..).zip(tools) {
            // There is room for all of them: none is hashed again.
            table.insert_unique(self.hashes.hash_one(key(tool)), place, |_| 0);
        }
        table
    }

    /// The tool of this model-visible name.
    pub(super) fn named<'a>(&self, tools: &'a [CatalogTool], name: &str) -> Option<&'a CatalogTool> {
        let is_it = |place: &u32| at(tools, *place).is_some_and(|tool| tool.name == name);
        at(tools, *self.by_name.find(self.hashes.hash_one(name), is_it)?)
    }

    /// The tool of this server and this name there.
    pub(super) fn paired<'a>(&self, tools: &'a [CatalogTool], wanted: (&str, &str)) -> Option<&'a CatalogTool> {
        let is_it = |place: &u32| at(tools, *place).is_some_and(|tool| pair(tool) == wanted);
        at(tools, *self.by_pair.find(self.hashes.hash_one(wanted), is_it)?)
    }
}

fn at(tools: &[CatalogTool], place: u32) -> Option<&CatalogTool> {
    tools.get(usize::try_from(place).ok()?)
}

/// The pair that identifies a tool, whatever a model calls it.
fn pair(tool: &CatalogTool) -> (&str, &str) {
    (tool.server.as_str(), tool.listed.tool.name.as_str())
}
