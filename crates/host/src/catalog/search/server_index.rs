//! Indexes one server's tools. The index is immutable and inverted: it leads from words to tools. A word in it is a
//! *stem*, the part that all forms of a word share. A *posting* is a tool that has a word.

use super::document::{MAX_WEIGHT, Reader};
use crate::mcp::Tool;

/// The words of several tools, and which tools have them.
///
/// One buffer holds all words in order, for a binary search, and so that words with the same beginning are neighbours.
/// The index takes about 20 bytes for each different word, and 4 bytes for each tool that has the word.
#[derive(Debug)]
pub(crate) struct ServerIndex {
    words: String,
    /// For each word, where it ends in `words`, and where its tools end in `postings`.
    ends: Vec<(u32, u32)>,
    postings: Vec<Posting>,
    /// The positions of the tools in their server's list, in the order of the tools' names.
    list_positions: Vec<u32>,
    /// A Bloom filter of the words, which quickly excludes most absent words. A catalog may have a thousand indexes,
    /// and a query asks each of them for dozens of words.
    bloom_filter: Vec<u64>,
}

/// A tool that has a word (24 bits), and the weight of the word in the tool (8 bits). Both are packed into one number,
/// because there are very many postings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting(u32);

impl Posting {
    /// Returns `None` for the tools after the first 16 million.
    fn new(position: u32, weight: f32) -> Option<Self> {
        // At least one step, so that no posting has the weight 0.
        let steps = (weight / MAX_WEIGHT * f32::from(u8::MAX)).round().clamp(1.0, f32::from(u8::MAX));
        (position < 1 << 24).then_some(Self(position << 8 | steps as u32))
    }

    /// Returns the tool's position among the tools of the index, which are ordered by name.
    pub(super) fn position(self) -> usize {
        (self.0 >> 8) as usize
    }

    /// Returns the weight of the word in the tool.
    pub(super) fn weight(self) -> f32 {
        (self.0 & 0xff) as f32 * (MAX_WEIGHT / f32::from(u8::MAX))
    }
}

/// The number of bits in the filter for each word. With 16 bits, one in sixteen absent words passes the filter.
const BLOOM_BITS_PER_WORD: usize = 16;

/// The hash of a word (FNV-1a), computed once to look the word up in all indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordHash(u32);

impl WordHash {
    pub(super) fn of(word: &str) -> Self {
        // The offset basis and the prime of FNV-1a with 32 bits.
        Self(word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }
}

impl ServerIndex {
    /// Returns the index of `tools`; `None` if `should_stop` returned `true`.
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool>, should_stop: &dyn Fn() -> bool) -> Option<Self> {
        let mut tools: Vec<_> = (0_u32..).zip(tools).collect();
        tools.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let mut reader = Reader::default();
        let mut postings_by_stem: Vec<Vec<Posting>> = Vec::new();
        for (position, (_, tool)) in (0_u32..).zip(&tools) {
            if should_stop() {
                return None;
            }
            for (stem, weight) in reader.read(tool) {
                let stem = stem as usize;
                if postings_by_stem.len() <= stem {
                    postings_by_stem.resize_with(stem + 1, Vec::new);
                }
                postings_by_stem[stem].extend(Posting::new(position, weight));
            }
        }
        let mut stems: Vec<_> = reader.into_stems().collect();
        stems.sort_unstable();
        let mut index = Self {
            words: String::with_capacity(stems.iter().map(|(word, _)| word.len()).sum()),
            ends: Vec::with_capacity(stems.len()),
            postings: Vec::with_capacity(postings_by_stem.iter().map(Vec::len).sum()),
            list_positions: tools.iter().map(|(list_position, _)| *list_position).collect(),
            bloom_filter: vec![0; (stems.len() * BLOOM_BITS_PER_WORD).div_ceil(64).next_power_of_two()],
        };
        for (word, stem) in stems {
            let (group, bit) = index.bloom_bit(WordHash::of(&word));
            index.bloom_filter[group] |= bit;
            index.words.push_str(&word);
            index.postings.append(&mut postings_by_stem[stem as usize]);
            index.ends.push((to_u32(index.words.len())?, to_u32(index.postings.len())?));
        }
        Some(index)
    }

    /// Returns how many tools the index has.
    pub(super) fn tool_count(&self) -> usize {
        self.list_positions.len()
    }

    /// Converts the position of a tool in this index into its position in the server's list.
    pub(super) fn list_position(&self, position: usize) -> usize {
        self.list_positions[position] as usize
    }

    /// Returns how many words the index has.
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the word at a position, and the tools that have it.
    fn entry(&self, position: usize) -> (&str, &[Posting]) {
        let (word_start, postings_start) = if position == 0 { (0, 0) } else { self.ends[position - 1] };
        let (word_end, postings_end) = self.ends[position];
        let postings = &self.postings[postings_start as usize..postings_end as usize];
        (&self.words[word_start as usize..word_end as usize], postings)
    }

    /// Returns the tools that have this word.
    pub(super) fn find(&self, word: &str, hash: WordHash) -> &[Posting] {
        let (group, bit) = self.bloom_bit(hash);
        if self.bloom_filter[group] & bit == 0 {
            return &[];
        }
        let position = self.lower_bound(word);
        if position < self.len() {
            let (indexed_word, postings) = self.entry(position);
            if indexed_word == word {
                return postings;
            }
        }
        &[]
    }

    /// Returns the words that begin with `prefix`, in order.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = &str> {
        (self.lower_bound(prefix)..self.len())
            .map(|position| self.entry(position).0)
            .take_while(move |word| word.starts_with(prefix))
    }

    /// Returns the position of `word`, or of the first word after it if the index does not have it.
    fn lower_bound(&self, word: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.entry(middle).0 < word { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the word's bit in the Bloom filter: the position of its 64-bit group, and its mask in that group.
    fn bloom_bit(&self, WordHash(hash): WordHash) -> (usize, u64) {
        // The number of groups is a power of two, so the mask is a cheap remainder.
        (usize::try_from(hash >> 6).unwrap_or_default() & (self.bloom_filter.len() - 1), 1 << (hash & 63))
    }

    /// Returns the memory of the index, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.words.capacity()
            + self.ends.capacity() * size_of::<(u32, u32)>()
            + self.postings.capacity() * size_of::<Posting>()
            + self.list_positions.capacity() * size_of::<u32>()
            + self.bloom_filter.capacity() * size_of::<u64>()
    }
}

/// Converts a length; a bounded list of tools never has 2^32 bytes of words.
fn to_u32(length: usize) -> Option<u32> {
    u32::try_from(length).ok()
}
