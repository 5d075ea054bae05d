//! Ranked search through the tools of a catalog.
//!
//! BM25F: a tool scores for each word of the query that it has, more for rare words than for common ones, more for its
//! name than for its description. A word stands for all its forms ([`words`]), and for less it finds the words that
//! people say instead ([`related`]), two words that are written as one, longer words that begin with it, and words with
//! a slip of the finger.
//!
//! Each server's tools have an index of their own ([`Part`]), made once and kept with them: a catalog in which one
//! server has changed makes one part anew. Only how rare a word is depends on all of them; each search counts that.

mod document;
mod part;
mod query;
mod rank;
mod related;
mod words;

use once_cell::sync::OnceCell;

pub(crate) use part::Part;

use self::{query::Query, rank::rank};
use super::{Catalog, CatalogTool, selection::Selection};
use crate::{catalog::ToolSet, mcp::Tool};

/// A tool that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The tool.
    pub tool: CatalogTool,
    /// How well it fits, above zero. Only good for comparing hits of one search.
    pub score: f32,
}

/// Hits below this share of the best one's score are noise.
const FLOOR: f32 = 0.2;

/// The index of one server's tools, made on first use.
#[derive(Debug, Default)]
pub(crate) struct Indexed(OnceCell<Part>);

impl Indexed {
    /// The index of `tools`, always the same ones. `None` when `stop` said to give up.
    fn get<'a>(&self, tools: impl Iterator<Item = &'a Tool>, stop: &dyn Fn() -> bool) -> Option<&Part> {
        // While one thread makes it, others wait instead of making another.
        self.0.get_or_try_init(|| Part::of(tools, stop).ok_or(GaveUp)).ok()
    }

    /// Its memory, in bytes; 0 until it is made.
    fn bytes(&self) -> usize {
        self.0.get().map_or(0, Part::bytes)
    }
}

/// The index is still missing: `stop` said so.
struct GaveUp;

impl ToolSet {
    /// The index of these tools; made now if it is missing. `None` when `stop` said to give up.
    pub(crate) fn part(&self, stop: &dyn Fn() -> bool) -> Option<&Part> {
        self.indexed.get(self.tools.iter().map(|listed| listed.shown()), stop)
    }
}

impl Catalog {
    /// The tools of `selection` that fit `query` best, the best first, at most `limit`; tools that fit far worse than
    /// the best are left out. Equal ones are in the order of their servers' names, then their own.
    ///
    /// `query` is a task in a person's words, or some words, the last of which may be incomplete. At most its first
    /// 1,000 bytes and 32 words count.
    ///
    /// Tools without an index are indexed first, which takes about 30 µs each: for large catalogs and async callers
    /// there is [`Host::search`](crate::Host::search).
    #[must_use]
    pub fn search(&self, query: &str, limit: usize, selection: &Selection) -> Vec<Hit> {
        let parts: Vec<_> = self.shelves.iter().filter_map(|shelf| Some((shelf, shelf.set.part(&|| false)?))).collect();
        let indexes: Vec<_> = parts.iter().map(|(shelf, part)| (&*shelf.words, *part)).collect();
        let ranked = rank(&Query::new(query), &indexes);
        let mut best: Option<f32> = None;
        ranked
            .into_iter()
            .filter(|ranked| selection.may_have(&parts[ranked.part].0.server))
            .filter_map(|ranked| {
                let (shelf, part) = parts[ranked.part];
                let listed = &shelf.set.tools[part.listed_at(ranked.place)];
                let tool = self.of_pair(&shelf.server, &listed.tool.name)?;
                selection.has(tool).then(|| Hit { tool: tool.clone(), score: ranked.score })
            })
            .take_while(|hit| hit.score >= *best.get_or_insert(hit.score) * FLOOR)
            .take(limit)
            .collect()
    }

    /// Indexes all tools that are not indexed yet, so that no search has to; gives up when `stop` says so.
    pub(crate) fn index(&self, stop: &dyn Fn() -> bool) {
        for shelf in &self.shelves {
            if shelf.set.part(stop).is_none() {
                return;
            }
        }
    }

    /// The memory of the search index, in bytes. Parts are made in the background and count from then on.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.set.indexed.bytes()).sum()
    }
}

/// The words of a server's name, as they are looked up.
pub(super) fn server_words(server: &str) -> Box<[String]> {
    let mut stems = Vec::new();
    for word in words::words(server) {
        words::parts(word, &mut |part| stems.push(words::stem(part)));
    }
    stems.into()
}

#[cfg(test)]
mod tests;
