//! Searches the tools of a catalog, and ranks the results.
//!
//! The ranking is BM25F: each word of the query adds to the score of the tools that have the word. A rare word adds
//! more than a common word, and a word in a tool's name more than a word in its description. A word matches all its
//! forms, which have the same *stem* ([`words`]). With a lower weight, the word also matches synonyms ([`related`]),
//! itself and the next word written as one, longer words that begin with it, and words with a typing error.
//!
//! Each server has its own index ([`ServerIndex`]), built once and stored with the server's tools: when one server has
//! changed, only the index of that server is built again. The rarity of a word depends on all indexes, so each search
//! computes it anew.

mod document;
mod query;
mod rank;
mod related;
mod server_index;
mod words;

use once_cell::sync::OnceCell;

pub(crate) use server_index::ServerIndex;

use self::{query::Query, rank::rank};
use super::{Catalog, CatalogTool, selection::Selection};
use crate::{catalog::ToolSet, mcp::Tool};

/// A search result.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The tool.
    pub tool: CatalogTool,
    /// The score, above zero. It can be compared only with hits of the same search.
    pub score: f32,
}

/// Hits below this share of the best score are dropped.
const MIN_SCORE_SHARE: f32 = 0.2;

/// The index of one server's tools, made on first use.
#[derive(Debug, Default)]
pub(crate) struct LazyIndex(OnceCell<ServerIndex>);

impl LazyIndex {
    /// Returns the index of `tools`, which must be the same in each call. `None` if `should_stop` returned `true`.
    fn get<'a>(&self, tools: impl Iterator<Item = &'a Tool>, should_stop: &dyn Fn() -> bool) -> Option<&ServerIndex> {
        // While one thread builds the index, others wait instead of building another.
        self.0.get_or_try_init(|| ServerIndex::of(tools, should_stop).ok_or(Stopped)).ok()
    }

    /// Returns the memory of the index, in bytes; 0 until the index is made.
    fn bytes(&self) -> usize {
        self.0.get().map_or(0, ServerIndex::bytes)
    }
}

/// The index was not built, because `should_stop` returned `true`.
struct Stopped;

impl ToolSet {
    /// Returns the index of these tools, and builds it if it is missing. `None` if `should_stop` returned `true`.
    pub(crate) fn search_index(&self, should_stop: &dyn Fn() -> bool) -> Option<&ServerIndex> {
        self.search_index.get(self.tools.iter().map(|listed| listed.shown()), should_stop)
    }
}

impl Catalog {
    /// Returns at most `limit` tools of `selection` that match `query` best, the best first; tools that match far worse
    /// than the best are left out. Tools with equal scores are ordered by the names of their servers, then by tool
    /// name.
    ///
    /// `query` describes a task, or lists some words, the last of which may be incomplete. Only its first 1,000 bytes
    /// and 32 words are used.
    ///
    /// Tools without an index are indexed first, which takes about 30 µs each: for large catalogs and async callers,
    /// use [`Host::search`](crate::Host::search).
    #[must_use]
    pub fn search(&self, query: &str, limit: usize, selection: &Selection) -> Vec<Hit> {
        let never_stop = || false;
        let servers: Vec<_> = self
            .server_tools
            .iter()
            .filter_map(|server| Some((server, server.tool_set.search_index(&never_stop)?)))
            .collect();
        let indexes: Vec<_> = servers.iter().map(|(server, index)| (&*server.words, *index)).collect();
        let ranked_tools = rank(&Query::new(query), &indexes);
        let mut best_score: Option<f32> = None;
        ranked_tools
            .into_iter()
            .filter(|ranked| selection.may_have(&servers[ranked.index_position].0.server))
            .filter_map(|ranked| {
                let (server, index) = servers[ranked.index_position];
                let listed = &server.tool_set.tools[index.list_position(ranked.position)];
                let tool = self.find_pair(&server.server, &listed.tool.name)?;
                selection.has(tool).then(|| Hit { tool: tool.clone(), score: ranked.score })
            })
            .take_while(|hit| hit.score >= *best_score.get_or_insert(hit.score) * MIN_SCORE_SHARE)
            .take(limit)
            .collect()
    }

    /// Indexes all tools that are not indexed yet, so that no search has to build an index. Stops when `should_stop`
    /// returns `true`.
    pub(crate) fn index(&self, should_stop: &dyn Fn() -> bool) {
        for server in &self.server_tools {
            if server.tool_set.search_index(should_stop).is_none() {
                return;
            }
        }
    }

    /// Returns the memory of the search index, in bytes. The indexes of servers are built in the background, and count
    /// once they are built.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.server_tools.iter().map(|server| server.tool_set.search_index.bytes()).sum()
    }
}

/// Returns the stems of the words in a server's name.
pub(super) fn server_words(server: &str) -> Box<[String]> {
    let mut stems = Vec::new();
    for word in words::words(server) {
        words::for_each_part(word, &mut |part| stems.push(words::stem(part)));
    }
    stems.into()
}

#[cfg(test)]
mod tests;
