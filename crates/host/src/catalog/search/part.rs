//! The index of one server's tools: an immutable inverted list.

use super::document::{MOST_WEIGHT, Reader};
use crate::mcp::Tool;

/// The words of several tools, and which tools have them.
///
/// One buffer holds all words in order, for a binary search, and so that words with the same beginning are neighbours.
/// It takes about 20 bytes for each different word and 4 for each tool that has it.
#[derive(Debug)]
pub(crate) struct Part {
    words: String,
    /// The end of each word, and the end of its list of tools.
    ends: Vec<(u32, u32)>,
    found: Vec<Posting>,
    /// The position of each tool in its server's list, by name.
    order: Vec<u32>,
    /// A Bloom filter of the words, which quickly excludes most absent words. A catalog may have a thousand parts, and
    /// a query asks each of them for dozens of words.
    bits: Vec<u64>,
}

/// A tool that has a word (24 bits), and the word's weight in it (8 bits), packed because there are very many of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting(u32);

impl Posting {
    /// Returns `None` for the tools after the first 16 million.
    fn new(place: u32, weight: f32) -> Option<Self> {
        let steps = (weight / MOST_WEIGHT * f32::from(u8::MAX)).round().clamp(1.0, f32::from(u8::MAX));
        (place < 1 << 24).then_some(Self(place << 8 | steps as u32))
    }

    /// Returns the tool's place among the tools of the part, which are ordered by name.
    pub(super) fn place(self) -> usize {
        (self.0 >> 8) as usize
    }

    /// Returns the weight of the word in the tool.
    pub(super) fn weight(self) -> f32 {
        (self.0 & 0xff) as f32 * (MOST_WEIGHT / f32::from(u8::MAX))
    }
}

/// The bits of the filter for each word: one in sixteen absent words passes it.
const BITS_FOR_EACH: usize = 16;

/// The hash of a word (FNV-1a), made once for all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashed(u32);

impl Hashed {
    pub(super) fn of(word: &str) -> Self {
        Self(word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}

impl Part {
    /// Returns the index of `tools`; `None` if `stop` returned `true`.
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>, stop: &dyn Fn() -> bool) -> Option<Self> {
        let mut tools: Vec<_> = (0_u32..).zip(tools).collect();
        tools.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let mut reader = Reader::default();
        let mut lists: Vec<Vec<Posting>> = Vec::new();
        for (place, (_, tool)) in (0_u32..).zip(&tools) {
            if stop() {
                return None;
            }
            for (stem, weight) in reader.read(tool) {
                let stem = stem as usize;
                if lists.len() <= stem {
                    lists.resize_with(stem + 1, Vec::new);
                }
                lists[stem].extend(Posting::new(place, weight));
            }
        }
        let mut stems: Vec<_> = reader.into_stems().collect();
        stems.sort_unstable();
        let mut part = Self {
            words: String::with_capacity(stems.iter().map(|(word, _)| word.len()).sum()),
            ends: Vec::with_capacity(stems.len()),
            found: Vec::with_capacity(lists.iter().map(Vec::len).sum()),
            order: tools.iter().map(|(at, _)| *at).collect(),
            bits: vec![0; (stems.len() * BITS_FOR_EACH).div_ceil(64).next_power_of_two()],
        };
        for (word, stem) in stems {
            let (at, bit) = part.bit(Hashed::of(&word));
            part.bits[at] |= bit;
            part.words.push_str(&word);
            part.found.append(&mut lists[stem as usize]);
            part.ends.push((fit(part.words.len())?, fit(part.found.len())?));
        }
        Some(part)
    }

    /// Returns how many tools it has.
    pub(super) fn tools(&self) -> usize {
        self.order.len()
    }

    /// Returns the position in the server's list of the tool at `place` in this part.
    pub(super) fn listed_at(&self, place: usize) -> usize {
        self.order[place] as usize
    }

    /// Returns how many words it has.
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the word at a place, and the tools that have it.
    fn at(&self, place: usize) -> (&str, &[Posting]) {
        let (words, found) = if place == 0 { (0, 0) } else { self.ends[place - 1] };
        let (words_end, found_end) = self.ends[place];
        (&self.words[words as usize..words_end as usize], &self.found[found as usize..found_end as usize])
    }

    /// Returns the tools that have this word.
    pub(super) fn find(&self, word: &str, hashed: Hashed) -> &[Posting] {
        let (at, bit) = self.bit(hashed);
        if self.bits[at] & bit == 0 {
            return &[];
        }
        let place = self.first_from(word);
        if place < self.len() {
            let (found, postings) = self.at(place);
            if found == word {
                return postings;
            }
        }
        &[]
    }

    /// Returns the words that begin with `start`, in order.
    pub(super) fn beginning(&self, start: &str) -> impl Iterator<Item = &str> {
        (self.first_from(start)..self.len())
            .map(|place| self.at(place).0)
            .take_while(move |word| word.starts_with(start))
    }

    /// Returns the place of the first word that is not before `word`.
    fn first_from(&self, word: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.at(middle).0 < word { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the position of a word's bit.
    fn bit(&self, Hashed(hash): Hashed) -> (usize, u64) {
        (usize::try_from(hash >> 6).unwrap_or_default() & (self.bits.len() - 1), 1 << (hash & 63))
    }

    /// Returns its memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.words.capacity()
            + self.ends.capacity() * size_of::<(u32, u32)>()
            + self.found.capacity() * size_of::<Posting>()
            + self.order.capacity() * size_of::<u32>()
            + self.bits.capacity() * size_of::<u64>()
    }
}

/// Converts a length; a bounded list of tools never has 2^32 bytes of words.
fn fit(length: usize) -> Option<u32> {
    u32::try_from(length).ok()
}
