//! Ranks tools for a query. Each word of the query adds to the score of the tools that have the word. It adds more to a
//! tool in which its weight is high, and more if few tools have it (its *rarity*).
//!
//! The words of tools are in one index for each server. An index has *stems*: the part that all forms of a word share.
//! A *posting* is a tool that has a stem, with the stem's weight in that tool.

use strsim::osa_distance;

use super::{
    query::{Query, QueryTerm},
    server_index::{Posting, ServerIndex, WordHash},
};

/// The most words of each kind that replace one word of the query: longer words with the same beginning, and similar
/// words.
const MAX_ALTERNATIVES: usize = 64;

// The weights were chosen with the odd lines of `tests/retrieval/tasks.txt`; that test measures a change of them.

/// The weight of the typed word itself.
const TYPED_WEIGHT: f32 = 1.0;
/// The weight of the typed word and the next one, written as one word.
const JOINED_WEIGHT: f32 = 0.8;
/// The weight of a synonym of the typed word.
const RELATED_WEIGHT: f32 = 0.6;
/// The weight of a longer word that begins with the typed word.
const LONGER_WEIGHT: f32 = 0.4;
/// The weight of a word that differs from the typed word by a typing error.
const TYPO_WEIGHT: f32 = 0.5;
/// The weight that a tool gets for the name of its server.
const SERVER_NAME_WEIGHT: f32 = 1.8;
/// The factor for the score of a tool that has next to none of the query's words. It rises to 1 for a tool that has all.
const MIN_SCORE_SHARE: f32 = 0.65;

/// A tool that has some words of the query, and its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedTool {
    pub(super) score: f32,
    /// The position of the server's index among the indexes that [`rank`] got.
    pub(super) index_position: usize,
    /// The position among the tools of that index.
    pub(super) position: usize,
}

/// Returns the tools that have any of the words, the best first. `indexes` has the words of each server's name, and the
/// server's index.
pub(super) fn rank(query: &Query, indexes: &[(&[String], &ServerIndex)]) -> Vec<RankedTool> {
    let mut first_positions = Vec::with_capacity(indexes.len());
    let mut tool_count = 0;
    let mut server_name_words = Vec::with_capacity(indexes.len());
    for (index_position, (words, index)) in indexes.iter().enumerate() {
        first_positions.push(tool_count);
        tool_count += index.tool_count();
        server_name_words.extend(words.iter().map(|word| (WordHash::of(word), word.as_str(), index_position)));
    }
    let zeros = || vec![0.0; tool_count];
    let mut scores = Scores {
        indexes,
        first_positions,
        server_name_words,
        total_scores: zeros(),
        word_scores: zeros(),
        tools_with_word: Vec::new(),
        matched_rarity: zeros(),
        total_rarity: 0.0,
    };
    // Look the stems of all words up at once. The matches come in the order of the stems.
    let matching_stems: Vec<Vec<&str>> = query.terms.iter().map(QueryTerm::matching_stems).collect();
    let mut all_matches = scores.find(matching_stems.iter().flatten().copied()).into_iter();
    for (term, matching_stems) in query.terms.iter().zip(&matching_stems) {
        let term_matches: Vec<_> = all_matches.by_ref().take(matching_stems.len()).collect();
        scores.add(term, &term_matches);
    }
    scores.into_ranked()
}

/// The scores of all tools, by their position among the tools of all servers' indexes.
struct Scores<'a> {
    indexes: &'a [(&'a [String], &'a ServerIndex)],
    /// The position of the first tool of each index.
    first_positions: Vec<usize>,
    /// The words of the servers' names, each with the position of the server's index.
    server_name_words: Vec<(WordHash, &'a str, usize)>,
    /// The scores for all words of the query so far.
    total_scores: Vec<f32>,
    /// The scores for the current word of the query.
    word_scores: Vec<f32>,
    /// The tools that have the current word.
    tools_with_word: Vec<usize>,
    /// The sum of the rarities of the query's words that each tool has.
    matched_rarity: Vec<f32>,
    /// The sum of the rarities of all words of the query that any tool has.
    total_rarity: f32,
}

/// The tools and servers that have a word.
#[derive(Clone, Default)]
struct WordMatches<'a> {
    /// The tools that have it, by the position of their server's index.
    tools: Vec<(usize, &'a [Posting])>,
    /// The positions of the indexes of the servers whose names have it.
    servers: Vec<usize>,
}

impl<'a> Scores<'a> {
    /// Returns how many tools an index has.
    fn tool_count(&self, index_position: usize) -> usize {
        self.indexes[index_position].1.tool_count()
    }

    /// Adds the scores for a word of the query. `stem_matches` has the matches of the word's
    /// [stems](QueryTerm::matching_stems), in their order: its own stem, the joined one if there is one, and those of
    /// synonyms.
    fn add(&mut self, term: &'a QueryTerm, stem_matches: &[WordMatches<'a>]) {
        let no_max_rarity = None;
        let typed_rarity = self.score(&stem_matches[0], TYPED_WEIGHT, no_max_rarity);
        // The rarity of the first of these stems that any tool has.
        let mut term_rarity = typed_rarity;
        for (stem_index, matches) in stem_matches.iter().enumerate().skip(1) {
            let is_joined = stem_index == 1 && term.joined_stem.is_some();
            // A rare related word must not count more than the typed common word.
            let (weight, max_rarity) =
                if is_joined { (JOINED_WEIGHT, no_max_rarity) } else { (RELATED_WEIGHT, typed_rarity) };
            let rarity = self.score(matches, weight, max_rarity);
            term_rarity = term_rarity.or(rarity);
        }
        // A very short word is the beginning of too many others. A word that may be unfinished needs a letter less,
        // because it probably is the beginning of another.
        if term.may_be_unfinished && term.typed_word.len() > 1 || term_rarity.is_none() && term.typed_word.len() > 2 {
            let longer_words = self.words_with_prefix(&term.typed_word);
            // The longer words add to the scores also if the rarity is known already.
            let longer_rarity = self.score_all(&longer_words, LONGER_WEIGHT, typed_rarity);
            term_rarity = term_rarity.or(longer_rarity);
        }
        if term_rarity.is_none() {
            let similar_words = self.similar_words(term);
            term_rarity = self.score_all(&similar_words, TYPO_WEIGHT, no_max_rarity);
        }
        let Some(rarity) = term_rarity else { return };
        self.total_rarity += rarity;
        for tool in self.tools_with_word.drain(..) {
            self.total_scores[tool] += std::mem::take(&mut self.word_scores[tool]);
            self.matched_rarity[tool] += rarity;
        }
    }

    /// Finds these exact words. It looks all words up in one index before it goes to the next index: there may be a
    /// thousand indexes, and look-ups in nearby memory are fast.
    fn find<'w>(&self, words: impl Iterator<Item = &'w str>) -> Vec<WordMatches<'a>> {
        let words: Vec<_> = words.map(|word| (word, WordHash::of(word))).collect();
        let mut all_matches = vec![WordMatches::default(); words.len()];
        for (index_position, (_, index)) in self.indexes.iter().enumerate() {
            for ((word, hash), matches) in words.iter().zip(&mut all_matches) {
                let tools = index.find(word, *hash);
                if !tools.is_empty() {
                    matches.tools.push((index_position, tools));
                }
            }
        }
        for (name_hash, name, index_position) in &self.server_name_words {
            for ((word, hash), matches) in words.iter().zip(&mut all_matches) {
                if hash == name_hash && word == name {
                    matches.servers.push(*index_position);
                }
            }
        }
        all_matches
    }

    /// Scores the tools that have a word, or whose server's name has the word. Returns the rarity of the word; `None`
    /// if no tool has it. In the scores, a rarity above `max_rarity` counts as `max_rarity`.
    fn score(&mut self, matches: &WordMatches<'_>, weight: f32, max_rarity: Option<f32>) -> Option<f32> {
        let tools_of_word = matches.tools.iter().map(|(_, tools)| tools.len()).sum::<usize>();
        let tools_of_servers = matches.servers.iter().map(|position| self.tool_count(*position)).sum::<usize>();
        if tools_of_word + tools_of_servers == 0 {
            return None;
        }
        // A tool may be in both groups, so their sum could count it twice.
        let rarity = rarity(tools_of_word.max(tools_of_servers), self.total_scores.len());
        let weighted_rarity = weight * max_rarity.map_or(rarity, |max| max.min(rarity));
        for (index_position, tools) in &matches.tools {
            let first_position = self.first_positions[*index_position];
            for posting in *tools {
                self.raise_score(first_position + posting.position(), posting.weight() * weighted_rarity);
            }
        }
        for index_position in &matches.servers {
            let first_position = self.first_positions[*index_position];
            for position in 0..self.tool_count(*index_position) {
                self.raise_score(first_position + position, SERVER_NAME_WEIGHT * weighted_rarity);
            }
        }
        Some(rarity)
    }

    /// Scores several words as [`Self::score`] does. Returns the highest rarity.
    fn score_all(&mut self, words: &[&str], weight: f32, max_rarity: Option<f32>) -> Option<f32> {
        let all_matches = self.find(words.iter().copied());
        all_matches.iter().filter_map(|matches| self.score(matches, weight, max_rarity)).reduce(f32::max)
    }

    /// Raises the score of a tool for the current word: only its best match counts.
    fn raise_score(&mut self, tool: usize, score: f32) {
        if self.word_scores[tool] == 0.0 {
            self.tools_with_word.push(tool);
        }
        self.word_scores[tool] = self.word_scores[tool].max(score);
    }

    /// Returns the first [`MAX_ALTERNATIVES`] words that begin with `prefix`.
    fn words_with_prefix(&self, prefix: &str) -> Vec<&'a str> {
        // An index has its words in order, so each of the first words of all indexes is among the first of one.
        let mut words: Vec<_> =
            self.indexes.iter().flat_map(|(_, index)| index.with_prefix(prefix).take(MAX_ALTERNATIVES)).collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(MAX_ALTERNATIVES);
        words
    }

    /// Returns the words that begin with the same letter and differ by one letter, or by two if the typed word is long.
    /// Of these words, returns only the nearest.
    fn similar_words(&self, term: &QueryTerm) -> Vec<&'a str> {
        // A long word is mistyped more often. Count the letters of the typed word, because its stem can be much
        // shorter.
        let max_distance = match term.typed_word.chars().count() {
            0..4 => return Vec::new(),
            4..8 => 1,
            _ => 2,
        };
        let stem = term.stem.as_str();
        let first_letter = &stem[..stem.chars().next().map_or(0, char::len_utf8)];
        let letters = letters(stem);
        // A cheap test before the exact distance: one wrong letter changes at most two members of the set of letters.
        let may_be_similar = |word: &&str| {
            word.len().abs_diff(stem.len()) <= max_distance
                && (self::letters(word) ^ letters).count_ones() as usize <= 2 * max_distance
        };
        let mut candidates: Vec<_> =
            self.indexes.iter().flat_map(|(_, index)| index.with_prefix(first_letter)).filter(may_be_similar).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut words_by_distance: Vec<_> = candidates
            .into_iter()
            .map(|word| (osa_distance(word, stem), word))
            .filter(|(distance, _)| *distance <= max_distance)
            .collect();
        words_by_distance.sort_unstable();
        // Use only the nearest words: a user more likely means a word at distance 1 than one at distance 2.
        let min_distance = words_by_distance.first().map_or(0, |(distance, _)| *distance);
        words_by_distance
            .into_iter()
            .filter(|(distance, _)| *distance == min_distance)
            .map(|(_, word)| word)
            .take(MAX_ALTERNATIVES)
            .collect()
    }

    /// Returns the tools with a score, the best first.
    fn into_ranked(self) -> Vec<RankedTool> {
        let mut ranked = Vec::new();
        for (index_position, first_position) in self.first_positions.iter().enumerate() {
            for position in 0..self.tool_count(index_position) {
                let score = self.total_scores[first_position + position];
                if score > 0.0 {
                    let share = self.matched_rarity[first_position + position] / self.total_rarity;
                    ranked.push(RankedTool {
                        score: score * (MIN_SCORE_SHARE + (1.0 - MIN_SCORE_SHARE) * share),
                        index_position,
                        position,
                    });
                }
            }
        }
        // A stable sort keeps tools with equal scores in their order.
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked
    }
}

/// Returns the inverse document frequency of BM25, which is never negative.
fn rarity(tools_with_word: usize, tools: usize) -> f32 {
    (1.0 + (tools as f32 - tools_with_word as f32 + 0.5).max(0.0) / (tools_with_word as f32 + 0.5)).ln()
}

/// Returns a set of the letters of a word, one bit each. Some characters share a bit, so two sets may look more similar
/// than the words are.
fn letters(word: &str) -> u64 {
    word.bytes().fold(0, |letters, byte| letters | 1 << (byte & 63))
}
