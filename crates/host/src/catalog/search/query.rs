//! A query: the words of a task, and what each of them stands for.

use super::{related::related, words};

/// Longest query that is read, in bytes.
const QUERY_BYTES: usize = 1_000;
/// Most words of it.
const MOST_WORDS: usize = 32;

/// A query, as words to find.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) words: Vec<QueryTerm>,
}

/// One word of it.
#[derive(Debug)]
pub(super) struct QueryTerm {
    /// As it was typed, in lower case.
    pub(super) typed: String,
    pub(super) stem: String,
    /// Written as one with the next word.
    pub(super) joined: Option<String>,
    /// The person may still be typing it.
    pub(super) unfinished: bool,
}

impl Query {
    pub(super) fn new(query: &str) -> Self {
        let query = &query[..query.floor_char_boundary(QUERY_BYTES)];
        let mut typed = Vec::new();
        for word in words::words(query) {
            words::parts(word, &mut |part| typed.push(part.to_owned()));
        }
        // A query of empty words alone is searched as it is.
        if !typed.iter().all(|word| words::is_empty(word)) {
            typed.retain(|word| !words::is_empty(word));
        }
        typed.truncate(MOST_WORDS);
        let goes_on = query.ends_with(char::is_alphanumeric);
        let mut terms: Vec<QueryTerm> = Vec::new();
        for (at, word) in typed.iter().enumerate() {
            let stem = words::stem(word);
            if terms.iter().any(|known| known.stem == stem) {
                continue;
            }
            let joined = typed.get(at + 1).map(|next| words::stem(&format!("{word}{next}")));
            let unfinished = goes_on && at + 1 == typed.len();
            terms.push(QueryTerm { typed: word.clone(), stem, joined, unfinished });
        }
        Self { words: terms }
    }
}

impl QueryTerm {
    /// The words that it stands for: itself, itself and the next one written as one, and related words.
    pub(super) fn meant(&self) -> Vec<&str> {
        let others = related(&self.stem).iter().map(String::as_str);
        [self.stem.as_str()].into_iter().chain(self.joined.as_deref()).chain(others).collect()
    }
}
