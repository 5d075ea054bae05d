//! A query and how it is answered.

use strsim::osa_distance;

use super::{
    part::{Hashed, Part, Posting},
    related::related,
    words,
};

/// Longest query that is read, in bytes.
const QUERY_BYTES: usize = 1_000;
/// Most words of it.
const MOST_WORDS: usize = 32;
/// Most longer words of one part that a beginning stands for.
const MOST_LONGER: usize = 64;

/// What a word counts that is not the one that was asked for.
const JOINED: f32 = 0.8;
const RELATED: f32 = 0.6;
const LONGER: f32 = 0.4;
const MISSPELT: f32 = 0.5;
/// What the name of its server counts for a tool.
const SERVER: f32 = 1.8;
/// How much of its score a tool keeps that has none of the other words.
const KEPT: f32 = 0.65;

/// Each word of it, with those that it stands for.
#[derive(Debug)]
pub(super) struct Query {
    words: Vec<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    /// As it was typed, in lower case.
    typed: String,
    stem: String,
    /// Written as one with the next word.
    joined: Option<String>,
    /// It may go on.
    unfinished: bool,
}

/// A tool that has some of the words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) score: f32,
    pub(super) part: usize,
    /// Among the tools of its part.
    pub(super) place: usize,
}

impl Query {
    pub(super) fn new(query: &str) -> Self {
        let query = &query[..query.floor_char_boundary(QUERY_BYTES)];
        let mut typed = Vec::new();
        for word in words::words(query) {
            words::parts(word, &mut |part| typed.push(part.to_owned()));
        }
        // A query of nothing else is taken at its word.
        if !typed.iter().all(|word| words::is_empty(word)) {
            typed.retain(|word| !words::is_empty(word));
        }
        typed.truncate(MOST_WORDS);
        let goes_on = query.ends_with(char::is_alphanumeric);
        let mut wanted: Vec<Wanted> = Vec::new();
        for (at, word) in typed.iter().enumerate() {
            let stem = words::stem(word);
            if wanted.iter().any(|known| known.stem == stem) {
                continue;
            }
            let joined = typed.get(at + 1).map(|next| words::stem(&format!("{word}{next}")));
            let unfinished = goes_on && at + 1 == typed.len();
            wanted.push(Wanted { typed: word.clone(), stem, joined, unfinished });
        }
        Self { words: wanted }
    }

    /// The tools of all parts that have any of the words, the best first. A part comes with the words of its server's
    /// name.
    pub(super) fn rank(&self, parts: &[(&[String], &Part)]) -> Vec<Ranked> {
        let mut bases = Vec::with_capacity(parts.len());
        let mut tools = 0;
        for (_, part) in parts {
            bases.push(tools);
            tools += part.tools();
        }
        let mut scores = Scores {
            parts,
            bases: &bases,
            tools,
            total: vec![0.0; tools],
            word: vec![0.0; tools],
            touched: Vec::new(),
            had: vec![0.0; tools],
            weights: 0.0,
        };
        for word in &self.words {
            scores.add(word);
        }
        scores.ranked()
    }
}

/// The scores of all tools, by their place among the tools of all parts.
struct Scores<'a> {
    parts: &'a [(&'a [String], &'a Part)],
    /// The place of each part's first tool.
    bases: &'a [usize],
    tools: usize,
    total: Vec<f32>,
    /// What the word that is being looked up gives.
    word: Vec<f32>,
    /// The tools that have it.
    touched: Vec<usize>,
    /// How much of the query each tool has, by the rarity of the words.
    had: Vec<f32>,
    /// And how much there was to have.
    weights: f32,
}

impl Scores<'_> {
    fn add(&mut self, wanted: &Wanted) {
        let rarity = self.look_up(&wanted.stem, 1.0, None);
        let joined = wanted.joined.as_ref().and_then(|joined| self.look_up(joined, JOINED, None));
        let mut rarest = rarity.or(joined);
        for neighbour in related(&wanted.stem) {
            // A rare neighbour of a common word is not worth more than the word.
            let found = self.look_up(neighbour, RELATED, rarity);
            rarest = rarest.or(found);
        }
        if wanted.unfinished && wanted.typed.len() > 1 || rarest.is_none() && wanted.typed.len() > 2 {
            let found = self.longer(&wanted.typed, rarity);
            rarest = rarest.or(found);
        }
        if rarest.is_none() {
            rarest = self.misspelt(wanted);
        }
        let Some(rarity) = rarest else { return };
        self.weights += rarity;
        for at in self.touched.drain(..) {
            let score = std::mem::take(&mut self.word[at]);
            self.total[at] += score;
            self.had[at] += rarity;
        }
    }

    /// Scores the tools that have this very word, or whose server is called so; tells how rare it is.
    fn look_up(&mut self, word: &str, weight: f32, at_most: Option<f32>) -> Option<f32> {
        let (parts, hashed) = (self.parts, Hashed::of(word));
        let found: Vec<(usize, &[Posting])> = parts
            .iter()
            .enumerate()
            .map(|(at, (_, part))| (at, part.find(word, hashed)))
            .filter(|(_, found)| !found.is_empty())
            .collect();
        let servers: Vec<usize> = parts
            .iter()
            .enumerate()
            .filter(|(_, (names, _))| names.iter().any(|name| name == word))
            .map(|(at, _)| at)
            .collect();
        let having = found.iter().map(|(_, found)| found.len()).sum::<usize>();
        let served = servers.iter().map(|at| parts[*at].1.tools()).sum::<usize>();
        if having + served == 0 {
            return None;
        }
        let rarity = rarity(having.max(served), self.tools);
        let counted = at_most.map_or(rarity, |most| most.min(rarity));
        for (part, found) in found {
            for posting in found {
                self.give(self.bases[part] + posting.tool as usize, posting.weight * weight * counted);
            }
        }
        for part in servers {
            for place in 0..parts[part].1.tools() {
                self.give(self.bases[part] + place, SERVER * weight * counted);
            }
        }
        Some(rarity)
    }

    /// The best that the word gives counts, however often it is found.
    fn give(&mut self, at: usize, score: f32) {
        if self.word[at] == 0.0 {
            self.touched.push(at);
        }
        self.word[at] = self.word[at].max(score);
    }

    /// Words that begin so.
    fn longer(&mut self, start: &str, at_most: Option<f32>) -> Option<f32> {
        let parts = self.parts;
        let mut rarest: Option<f32> = None;
        let mut longer: Vec<&str> = parts
            .iter()
            .flat_map(|(_, part)| part.beginning(start, MOST_LONGER).map(|place| part.at(place).0))
            .collect();
        longer.sort_unstable();
        longer.dedup();
        longer.truncate(MOST_LONGER);
        for word in longer {
            let found = self.look_up(word, LONGER, at_most);
            rarest = rarest.into_iter().chain(found).reduce(f32::max);
        }
        rarest
    }

    /// Words that differ by a letter, by two if they are long, and begin with the same one.
    fn misspelt(&mut self, wanted: &Wanted) -> Option<f32> {
        let slips = match wanted.typed.chars().count() {
            0..4 => return None,
            4..8 => 1,
            _ => 2,
        };
        let parts = self.parts;
        let stem = wanted.stem.as_str();
        let first = &stem[..stem.chars().next().map_or(0, char::len_utf8)];
        let letters = letters(stem);
        let mut near: Vec<(usize, &str)> = parts
            .iter()
            .flat_map(|(_, part)| part.beginning(first, usize::MAX).map(|place| part.at(place).0))
            .filter(|word| word.len().abs_diff(stem.len()) <= slips)
            .filter(|word| (self::letters(word) ^ letters).count_ones() as usize <= 2 * slips)
            .map(|word| (osa_distance(word, stem), word))
            .filter(|(distance, _)| *distance <= slips)
            .collect();
        near.sort_unstable();
        near.dedup();
        let nearest = near.first()?.0;
        near.retain(|(distance, _)| *distance == nearest);
        let mut rarest: Option<f32> = None;
        for (_, word) in near.into_iter().take(MOST_LONGER) {
            let found = self.look_up(word, MISSPELT, None);
            rarest = rarest.into_iter().chain(found).reduce(f32::max);
        }
        rarest
    }

    fn ranked(self) -> Vec<Ranked> {
        let mut ranked = Vec::new();
        for (part, base) in self.bases.iter().enumerate() {
            for place in 0..self.parts[part].1.tools() {
                let score = self.total[base + place];
                if score > 0.0 {
                    let share = self.had[base + place] / self.weights;
                    ranked.push(Ranked { score: score * (KEPT + (1.0 - KEPT) * share), part, place });
                }
            }
        }
        // Stable: equal ones stay in their order.
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked
    }
}

/// The inverse document frequency of BM25, which is never negative.
fn rarity(having: usize, tools: usize) -> f32 {
    (1.0 + (tools as f32 - having as f32 + 0.5).max(0.0) / (having as f32 + 0.5)).ln()
}

/// Which letters a word has, a bit each.
fn letters(word: &str) -> u64 {
    word.bytes().fold(0, |letters, b| letters | 1 << (b & 63))
}
