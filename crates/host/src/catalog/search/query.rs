//! Splits a query into words, and returns the stems that each of them matches. A *stem* is the part that all forms of a
//! word share; the index of tools has only stems.

use super::{related::related, words};

/// The longest part of a query that is read, in bytes.
const MAX_QUERY_BYTES: usize = 1_000;
/// The most words of a query.
const MAX_WORDS: usize = 32;

/// A query, as words to find.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) terms: Vec<QueryTerm>,
}

/// A word of a query.
#[derive(Debug)]
pub(super) struct QueryTerm {
    /// The word as it was typed, in lower case.
    pub(super) typed_word: String,
    pub(super) stem: String,
    /// The stem of the word and the next one, written as one word.
    pub(super) joined_stem: Option<String>,
    /// Whether the user may still be typing the word.
    pub(super) may_be_unfinished: bool,
}

impl Query {
    pub(super) fn new(query: &str) -> Self {
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        let mut typed_words = Vec::new();
        for word in words::words(query) {
            words::for_each_part(word, &mut |part| typed_words.push(part.to_owned()));
        }
        // Noise words say nothing about a task. They are left out, unless the query has no other words.
        if !typed_words.iter().all(|word| words::is_noise(word)) {
            typed_words.retain(|word| !words::is_noise(word));
        }
        typed_words.truncate(MAX_WORDS);
        let may_continue = query.ends_with(char::is_alphanumeric);
        let mut terms: Vec<QueryTerm> = Vec::new();
        for (position, word) in typed_words.iter().enumerate() {
            let stem = words::stem(word);
            if terms.iter().any(|term| term.stem == stem) {
                continue;
            }
            let joined_stem = typed_words.get(position + 1).map(|next| words::stem(&format!("{word}{next}")));
            let may_be_unfinished = may_continue && position + 1 == typed_words.len();
            terms.push(QueryTerm { typed_word: word.clone(), stem, joined_stem, may_be_unfinished });
        }
        Self { terms }
    }
}

impl QueryTerm {
    /// Returns the stems that the word matches: its own, that of the word joined with the next one, and related ones.
    pub(super) fn matching_stems(&self) -> Vec<&str> {
        let related_stems = related(&self.stem).iter().map(String::as_str);
        [self.stem.as_str()].into_iter().chain(self.joined_stem.as_deref()).chain(related_stems).collect()
    }
}
