//! Finds a catalog's tools by their model-visible names, and by the pairs of server and tool.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

use super::CatalogTool;

/// Finds a tool of a list in constant time, as every call needs. Takes about nine bytes for each tool and name, because
/// it stores only positions, not names.
#[derive(Debug, Default)]
pub(super) struct ToolIndex {
    hasher: DefaultHashBuilder,
    by_name: HashTable<u32>,
    by_pair: HashTable<u32>,
}

impl ToolIndex {
    /// Indexes the tools of this list, whose names are all different. Tools after the first 2^32 are not found.
    pub(super) fn new(tools: &[CatalogTool]) -> Self {
        let mut index = Self::default();
        index.by_name = index.build_table(tools, |tool| tool.name.as_str());
        index.by_pair = index.build_table(tools, pair);
        index
    }

    fn build_table<'a, K: Hash>(&self, tools: &'a [CatalogTool], key: impl Fn(&'a CatalogTool) -> K) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(tools.len());
        for (position, tool) in (0..).zip(tools) {
            // The table has room for all tools, so the closure that would hash a tool again is never called.
            table.insert_unique(self.hasher.hash_one(key(tool)), position, |_| 0);
        }
        table
    }

    /// Returns the tool with this model-visible name.
    pub(super) fn get<'a>(&self, tools: &'a [CatalogTool], name: &str) -> Option<&'a CatalogTool> {
        let is_wanted = |position: &u32| tool_at(tools, *position).is_some_and(|tool| tool.name == name);
        tool_at(tools, *self.by_name.find(self.hasher.hash_one(name), is_wanted)?)
    }

    /// Returns the tool of this server with this name.
    pub(super) fn get_pair<'a>(&self, tools: &'a [CatalogTool], server: &str, tool: &str) -> Option<&'a CatalogTool> {
        let key = (server, tool);
        let is_wanted = |position: &u32| tool_at(tools, *position).is_some_and(|tool| pair(tool) == key);
        tool_at(tools, *self.by_pair.find(self.hasher.hash_one(key), is_wanted)?)
    }
}

fn tool_at(tools: &[CatalogTool], position: u32) -> Option<&CatalogTool> {
    tools.get(usize::try_from(position).ok()?)
}

/// Returns the pair that identifies a tool independently of its model-visible name.
fn pair(tool: &CatalogTool) -> (&str, &str) {
    (tool.server.as_str(), tool.listed.tool.name.as_str())
}
