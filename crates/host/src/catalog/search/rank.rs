//! Ranks tools by the words of a query that they have, and the weights of those words.

use strsim::osa_distance;

use super::{
    part::{Hashed, Part, Posting},
    query::{Query, QueryTerm},
};

/// The most longer words of one part that a prefix matches, and the most words that one word of the query matches.
const MAX_ALTERNATIVES: usize = 64;

/// The weight of a matching word other than the typed one.
const JOINED: f32 = 0.8;
const RELATED: f32 = 0.6;
const LONGER: f32 = 0.4;
const MISSPELT: f32 = 0.5;
/// The weight that a tool gets for the name of its server.
const SERVER: f32 = 1.8;
/// The share of its score that a tool keeps even if it has none of the other words.
const MIN_SHARE: f32 = 0.65;

/// A tool that has some words of the query, and its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) score: f32,
    pub(super) part: usize,
    /// The position among the tools of its part.
    pub(super) place: usize,
}

/// Returns the tools of all parts that have any of the words, the best first. Each part is given with the words of its
/// server's name.
pub(super) fn rank(query: &Query, parts: &[(&[String], &Part)]) -> Vec<Ranked> {
    let mut bases = Vec::with_capacity(parts.len());
    let mut tools = 0;
    let mut names = Vec::with_capacity(parts.len());
    for (at, (words, part)) in parts.iter().enumerate() {
        bases.push(tools);
        tools += part.tools();
        names.extend(words.iter().map(|word| (Hashed::of(word), word.as_str(), at)));
    }
    let none = || vec![0.0; tools];
    let (total, word, matched_share) = (none(), none(), none());
    let mut scores = Scores { parts, bases, names, total, word, touched: Vec::new(), matched_share, weights: 0.0 };
    let meanings: Vec<Vec<&str>> = query.words.iter().map(QueryTerm::meanings).collect();
    let mut found = scores.find(meanings.iter().flatten().copied()).into_iter();
    for (word, meanings) in query.words.iter().zip(&meanings) {
        let found: Vec<_> = found.by_ref().take(meanings.len()).collect();
        scores.add(word, &found);
    }
    scores.ranked()
}

/// The scores of all tools, by their position among the tools of all parts.
struct Scores<'a> {
    parts: &'a [(&'a [String], &'a Part)],
    /// The position of each part's first tool.
    bases: Vec<usize>,
    /// The words of the servers' names, each with its part.
    names: Vec<(Hashed, &'a str, usize)>,
    total: Vec<f32>,
    /// The scores for the current word.
    word: Vec<f32>,
    /// The tools that have the current word.
    touched: Vec<usize>,
    /// The share of the query that each tool has, weighted by the rarity of the words.
    matched_share: Vec<f32>,
    /// The sum of the weights of the whole query.
    weights: f32,
}

/// The tools and servers that have a word.
#[derive(Clone, Default)]
struct Found<'a> {
    /// The tools that have it, by part.
    tools: Vec<(usize, &'a [Posting])>,
    /// The parts whose servers' names have it.
    servers: Vec<usize>,
}

impl<'a> Scores<'a> {
    /// Adds the scores for a word of the query whose [meanings](QueryTerm::meanings) were `found`.
    fn add(&mut self, term: &'a QueryTerm, found: &[Found<'a>]) {
        let own = self.score(&found[0], 1.0, None);
        let mut rarest = own;
        for (at, found) in found.iter().enumerate().skip(1) {
            let is_joined = at == 1 && term.joined.is_some();
            // A rare related word must not count more than the typed common word.
            let (weight, at_most) = if is_joined { (JOINED, None) } else { (RELATED, own) };
            let rarity = self.score(found, weight, at_most);
            rarest = rarest.or(rarity);
        }
        if term.unfinished && term.typed.len() > 1 || rarest.is_none() && term.typed.len() > 2 {
            let longer = self.longer(&term.typed);
            rarest = rarest.or(self.score_all(&longer, LONGER, own));
        }
        if rarest.is_none() {
            let near = self.misspelt(term);
            rarest = self.score_all(&near, MISSPELT, None);
        }
        let Some(rarity) = rarest else { return };
        self.weights += rarity;
        for at in self.touched.drain(..) {
            self.total[at] += std::mem::take(&mut self.word[at]);
            self.matched_share[at] += rarity;
        }
    }

    /// Finds these exact words. It looks all words up in one part before it goes to the next part: there may be a thousand
    /// parts, and look-ups in nearby memory are fast.
    fn find<'w>(&self, words: impl Iterator<Item = &'w str>) -> Vec<Found<'a>> {
        let words: Vec<_> = words.map(|word| (word, Hashed::of(word))).collect();
        let mut found = vec![Found::default(); words.len()];
        for (at, (_, part)) in self.parts.iter().enumerate() {
            for ((word, hashed), found) in words.iter().zip(&mut found) {
                let tools = part.find(word, *hashed);
                if !tools.is_empty() {
                    found.tools.push((at, tools));
                }
            }
        }
        for (of_name, name, at) in &self.names {
            for ((word, hashed), found) in words.iter().zip(&mut found) {
                if hashed == of_name && word == name {
                    found.servers.push(*at);
                }
            }
        }
        found
    }

    /// Scores the tools that have a word, or whose server's name has it; returns the rarity of the word.
    fn score(&mut self, found: &Found<'_>, weight: f32, at_most: Option<f32>) -> Option<f32> {
        let tools_with_word = found.tools.iter().map(|(_, tools)| tools.len()).sum::<usize>();
        let tools_of_servers = found.servers.iter().map(|at| self.parts[*at].1.tools()).sum::<usize>();
        if tools_with_word + tools_of_servers == 0 {
            return None;
        }
        let rarity = rarity(tools_with_word.max(tools_of_servers), self.total.len());
        let counted = weight * at_most.map_or(rarity, |most| most.min(rarity));
        for (part, tools) in &found.tools {
            for posting in *tools {
                self.raise_score(self.bases[*part] + posting.place(), posting.weight() * counted);
            }
        }
        for part in &found.servers {
            for place in 0..self.parts[*part].1.tools() {
                self.raise_score(self.bases[*part] + place, SERVER * counted);
            }
        }
        Some(rarity)
    }

    fn score_all(&mut self, words: &[&str], weight: f32, at_most: Option<f32>) -> Option<f32> {
        let found = self.find(words.iter().copied());
        found.iter().filter_map(|found| self.score(found, weight, at_most)).reduce(f32::max)
    }

    /// Raises the score of a tool for the current word: only its best match counts.
    fn raise_score(&mut self, at: usize, score: f32) {
        if self.word[at] == 0.0 {
            self.touched.push(at);
        }
        self.word[at] = self.word[at].max(score);
    }

    /// Returns longer words that begin with `start`.
    fn longer(&self, start: &str) -> Vec<&'a str> {
        let mut longer: Vec<_> =
            self.parts.iter().flat_map(|(_, part)| part.beginning(start).take(MAX_ALTERNATIVES)).collect();
        longer.sort_unstable();
        longer.dedup();
        longer.truncate(MAX_ALTERNATIVES);
        longer
    }

    /// Returns the words that differ by one letter, or by two if they are long, and begin with the same letter.
    fn misspelt(&self, term: &QueryTerm) -> Vec<&'a str> {
        let max_distance = match term.typed.chars().count() {
            0..4 => return Vec::new(),
            4..8 => 1,
            _ => 2,
        };
        let stem = term.stem.as_str();
        let first = &stem[..stem.chars().next().map_or(0, char::len_utf8)];
        let letters = letters(stem);
        let may_be_near = |word: &&str| {
            word.len().abs_diff(stem.len()) <= max_distance
                && (self::letters(word) ^ letters).count_ones() as usize <= 2 * max_distance
        };
        let mut near: Vec<_> =
            self.parts.iter().flat_map(|(_, part)| part.beginning(first)).filter(may_be_near).collect();
        near.sort_unstable();
        near.dedup();
        let far = |word: &str| osa_distance(word, stem);
        let mut near: Vec<_> =
            near.into_iter().map(|word| (far(word), word)).filter(|(distance, _)| *distance <= max_distance).collect();
        near.sort_unstable();
        let nearest = near.first().map_or(0, |(distance, _)| *distance);
        near.into_iter()
            .filter(|(distance, _)| *distance == nearest)
            .map(|(_, word)| word)
            .take(MAX_ALTERNATIVES)
            .collect()
    }

    fn ranked(self) -> Vec<Ranked> {
        let mut ranked = Vec::new();
        for (part, base) in self.bases.iter().enumerate() {
            for place in 0..self.parts[part].1.tools() {
                let score = self.total[base + place];
                if score > 0.0 {
                    let share = self.matched_share[base + place] / self.weights;
                    ranked.push(Ranked { score: score * (MIN_SHARE + (1.0 - MIN_SHARE) * share), part, place });
                }
            }
        }
        // A stable sort keeps tools with equal scores in their order.
        ranked.sort_by(|one, other| other.score.total_cmp(&one.score));
        ranked
    }
}

/// Returns the inverse document frequency of BM25, which is never negative.
fn rarity(tools_with_word: usize, tools: usize) -> f32 {
    (1.0 + (tools as f32 - tools_with_word as f32 + 0.5).max(0.0) / (tools_with_word as f32 + 0.5)).ln()
}

/// Returns a set of the letters of a word, one bit each.
fn letters(word: &str) -> u64 {
    word.bytes().fold(0, |letters, byte| letters | 1 << (byte & 63))
}
