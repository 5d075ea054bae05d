//! Remembers the secrets that servers have received, and searches texts for them. A form is the text of a secret,
//! unchanged or in one of the encodings that programs write.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, Range, RangeInclusive},
};

use serde_json::{Map, Value};
use toolrack_host::ServerName;

use super::{
    forms::{MIN_SECRET, forms},
    views::{View, Views},
};
use crate::mask::HIDDEN;

/// The shortest form of a secret to search for in arguments, in bytes; a shorter one could occur by chance.
const MIN_IN_ARGUMENTS: usize = 8;

/// The maximum number of remembered secrets. Beyond it, the oldest are forgotten.
const MAX_SECRETS: usize = 10_000;

/// The maximum number of bytes of all remembered secrets together.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How long a secret is remembered. Secrets of an earlier variant are forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retention {
    /// A token that will be renewed, or the output of a program that runs repeatedly. It is forgotten first.
    Short,
    /// A configured secret, which a process may print at any time. It is kept as long as there is room.
    Long,
}

/// The known secrets, each with the servers that received it.
#[derive(Default)]
pub(super) struct KnownSecrets {
    secrets: BTreeMap<String, Secret>,
    /// All forms of the secrets, by their texts.
    forms: BTreeMap<String, Form>,
    /// The prefixes of all forms.
    prefixes: PrefixFilter,
    /// The length of the longest form, in bytes.
    longest_form: usize,
    /// The length of all secrets together, in bytes.
    total_bytes: usize,
    /// The number of calls of [`Self::add`], which orders the secrets by age.
    clock: u64,
}

struct Secret {
    retention: Retention,
    /// The value of [`KnownSecrets::clock`] when a server last received it.
    last_received: u64,
    /// The servers that received it.
    servers: BTreeSet<ServerName>,
}

/// A form: the encoded or unchanged text of a secret. Several secrets can have the same form.
#[derive(Default)]
struct Form {
    /// The number of secrets that have this form.
    secret_count: usize,
    /// The servers that received one of these secrets.
    servers: BTreeSet<ServerName>,
}

impl KnownSecrets {
    /// Adds `secret`, which `server` received; `None` if no server did. Adds it also without white space at its ends,
    /// such as the line break at the end of a file, because programs cut that off. Ignores a secret of less than 6
    /// bytes, which would be found by chance everywhere.
    pub(super) fn add(&mut self, server: Option<&ServerName>, secret: String, retention: Retention) {
        self.clock += 1;
        let trimmed = secret.trim();
        if trimmed.len() != secret.len() {
            let trimmed = trimmed.to_owned();
            self.add_exactly(server, trimmed, retention);
        }
        self.add_exactly(server, secret, retention);
    }

    fn add_exactly(&mut self, server: Option<&ServerName>, secret: String, retention: Retention) {
        if let Some(known_secret) = self.secrets.get_mut(&secret) {
            known_secret.last_received = self.clock;
            known_secret.retention = known_secret.retention.max(retention);
            // The usual case, because a server receives its headers with each request.
            if server.is_none_or(|server| known_secret.servers.contains(server)) {
                return;
            }
            known_secret.servers.extend(server.cloned());
            for form in forms(&secret) {
                self.forms.entry(form).or_default().servers.extend(server.cloned());
            }
            return;
        }
        if secret.trim().len() < MIN_SECRET {
            return;
        }
        let forms = forms(&secret);
        if self.prefixes.is_too_small(self.forms.len() + forms.len()) {
            // The new filter has room for twice as many forms, so that it is not rebuilt for each secret.
            self.rebuild_prefixes(2 * (self.forms.len() + forms.len()));
        }
        for form in forms {
            self.prefixes.add(&form);
            self.longest_form = self.longest_form.max(form.len());
            let form = self.forms.entry(form).or_default();
            form.secret_count += 1;
            form.servers.extend(server.cloned());
        }
        self.total_bytes += secret.len();
        let servers = server.cloned().into_iter().collect();
        self.secrets.insert(secret, Secret { retention, last_received: self.clock, servers });
        if self.secrets.len() > MAX_SECRETS || self.total_bytes > MAX_BYTES {
            self.forget();
        }
    }

    /// Forgets secrets until a tenth of the room is free. It forgets many at once, because each call goes through all
    /// secrets. Secrets of [`Retention::Short`] are forgotten before all others, and older secrets before newer
    /// secrets; the newest secret stays.
    fn forget(&mut self) {
        let mut oldest: Vec<_> =
            self.secrets.iter().map(|(text, secret)| (secret.retention, secret.last_received, text.clone())).collect();
        oldest.sort_unstable();
        oldest.retain(|(_, last_received, _)| *last_received != self.clock);
        for (_, _, secret) in oldest {
            if self.secrets.len() <= MAX_SECRETS / 10 * 9 && self.total_bytes <= MAX_BYTES / 10 * 9 {
                break;
            }
            self.secrets.remove(&secret);
            self.total_bytes -= secret.len();
            for form in forms(&secret) {
                if let Some(known_form) = self.forms.get_mut(&form) {
                    known_form.secret_count -= 1;
                    if known_form.secret_count == 0 {
                        self.forms.remove(&form);
                    }
                }
            }
        }
        self.rebuild_prefixes(self.forms.len());
        self.longest_form = self.forms.keys().map(String::len).max().unwrap_or(0);
    }

    /// Rebuilds the filter of prefixes, with room for `form_count` forms.
    fn rebuild_prefixes(&mut self, form_count: usize) {
        self.prefixes = PrefixFilter::for_forms(form_count);
        self.forms.keys().for_each(|form| self.prefixes.add(form));
    }

    /// Returns `text` with `***` in place of each secret; overlapping secrets become one `***`.
    pub(super) fn conceal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.forms.is_empty() {
            return Cow::Borrowed(text);
        }
        let views = Views::of_whole_text(text);
        let in_view =
            |view: View<'_>| self.secrets_in(view.text).map(|range| view.original_range(range)).collect::<Vec<_>>();
        let mut secret_ranges: Vec<_> = views.iter().flat_map(in_view).collect();
        secret_ranges.sort_unstable_by_key(|range| range.start);
        let mut concealed = String::new();
        let mut hidden_end = 0;
        for Range { start, end } in secret_ranges {
            if start >= hidden_end {
                concealed.push_str(&text[hidden_end..start]);
                concealed.push_str(HIDDEN);
            }
            hidden_end = hidden_end.max(end);
        }
        if hidden_end == 0 { Cow::Borrowed(text) } else { Cow::Owned(concealed + &text[hidden_end..]) }
    }

    /// Returns the ranges of secrets in `text`, in order: the longest form at each position. They may overlap.
    fn secrets_in(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        self.candidate_starts(text)
            .filter_map(|start| self.forms_at(&text[start..]).next().map(|(form, _)| start..start + form.len()))
    }

    /// Returns the length of the longest beginning of `text` that does not end inside a secret, whatever text follows.
    pub(super) fn safe_len(&self, text: &str) -> usize {
        if self.forms.is_empty() {
            return text.len();
        }
        let views = Views::of_beginning(text);
        let unfinished_starts = views.iter().map(|view| view.original_position(self.unfinished_start(view.text)));
        let mut safe_end = unfinished_starts.min().unwrap_or(text.len());
        // That position may be in another secret, or in an escape. If it is, move to the beginning of that secret or
        // escape, and check again.
        let start_of_enclosing = |offset: usize| {
            let in_view = |view: View<'_>| {
                Some(view.original_position(self.start_of_secret_across(view.text, view.position(offset))?))
            };
            views.escape_around(offset).or_else(|| views.iter().find_map(in_view))
        };
        while let Some(start) = start_of_enclosing(safe_end) {
            safe_end = start;
        }
        safe_end
    }

    /// Returns the position of the first unfinished form: one that begins in `text` and may continue in the text that
    /// follows. Without such a form, returns the length of `text`.
    fn unfinished_start(&self, text: &str) -> usize {
        let search_start = text.floor_char_boundary(text.len().saturating_sub(self.longest_form));
        let is_unfinished = |start: &usize| {
            let text_end = &text[*start..];
            let next_form = self.forms.range::<str, _>((Bound::Excluded(text_end), Bound::Unbounded)).next();
            next_form.is_some_and(|(form, _)| form.starts_with(text_end))
        };
        text[search_start..]
            .char_indices()
            .map(|(start, _)| search_start + start)
            .find(is_unfinished)
            .unwrap_or(text.len())
    }

    /// Returns the start of the first secret in `text` that begins before `offset` and ends after it.
    fn start_of_secret_across(&self, text: &str, offset: usize) -> Option<usize> {
        let search_start = text.floor_char_boundary(offset.saturating_sub(self.longest_form));
        let ends_after =
            |start: usize| self.forms_at(&text[start..]).next().is_some_and(|(form, _)| start + form.len() > offset);
        self.candidate_starts(&text[search_start..])
            .map(|start| search_start + start)
            .take_while(|start| *start < offset)
            .find(|start| ends_after(*start))
    }

    /// Returns whether `arguments`, including the names of members, contain a secret that `server` did not receive.
    pub(super) fn has_foreign_secret(&self, arguments: &Map<String, Value>, server: &ServerName) -> bool {
        arguments.iter().any(|(name, value)| {
            self.text_has_foreign_secret(name, server) || self.value_has_foreign_secret(value, server)
        })
    }

    fn text_has_foreign_secret(&self, text: &str, server: &ServerName) -> bool {
        let is_foreign =
            |(form, known_form): (&str, &Form)| form.len() >= MIN_IN_ARGUMENTS && !known_form.servers.contains(server);
        let contains_foreign =
            |text: &str| self.candidate_starts(text).any(|start| self.forms_at(&text[start..]).any(is_foreign));
        Views::of_whole_text(text).iter().any(|view| contains_foreign(view.text))
    }

    fn value_has_foreign_secret(&self, value: &Value, server: &ServerName) -> bool {
        match value {
            Value::String(text) => self.text_has_foreign_secret(text, server),
            Value::Array(items) => items.iter().any(|item| self.value_has_foreign_secret(item, server)),
            Value::Object(members) => self.has_foreign_secret(members, server),
            _ => false,
        }
    }

    /// Returns the positions in `text` where a form may begin, in one pass for any number of forms.
    fn candidate_starts<'t>(&self, text: &'t str) -> impl Iterator<Item = usize> + use<'_, 't> {
        // Without forms, there are no positions to try.
        let windows =
            if self.forms.is_empty() { [].windows(PREFIX_LENGTH) } else { text.as_bytes().windows(PREFIX_LENGTH) };
        windows
            .enumerate()
            .filter(|(_, prefix)| self.prefixes.has(prefix))
            .map(|(start, _)| start)
            .filter(|start| text.is_char_boundary(*start))
    }

    /// Returns the forms that `text` begins with, the longest first.
    fn forms_at<'k>(&'k self, text: &str) -> impl Iterator<Item = (&'k str, &'k Form)> {
        // `forms` is sorted, and each form that `rest` begins with sorts before `rest` or equals it. So look at the
        // greatest form up to `rest`. If `rest` does not begin with it, the forms that are still possible are
        // beginnings of the part that the two have in common: continue with that part.
        let mut rest = text;
        std::iter::from_fn(move || {
            while !rest.is_empty() {
                let (form_text, form) =
                    self.forms.range::<str, _>((Bound::Unbounded, Bound::Included(rest))).next_back()?;
                let common_length = form_text.bytes().zip(rest.bytes()).take_while(|(one, other)| one == other).count();
                if common_length == form_text.len() {
                    rest = &rest[..rest.floor_char_boundary(common_length - 1)];
                    return Some((&**form_text, form));
                }
                rest = &rest[..rest.floor_char_boundary(common_length)];
            }
            None
        })
    }
}

/// The length of the prefixes in the filter, in bytes. Every form is at least as long.
const PREFIX_LENGTH: usize = 4;

/// The minimum and maximum size of the filter: the filter has two to the power of this number of bits. Even with the
/// maximum number of secrets, only one position in eight matches by chance.
const SIZE_EXPONENTS: RangeInclusive<u32> = 12..=20;

/// The number of bits of the filter for each form, until the filter has its greatest size.
const BITS_PER_FORM: usize = 64;

/// A Bloom filter of the prefixes of all forms: it may report a prefix that no form has, but misses none. Its size
/// depends on the number of forms, because there may be one filter for each member of a team.
#[derive(Default)]
struct PrefixFilter {
    bits: Vec<u64>,
    /// The filter has two to the power of this number of bits.
    size_exponent: u32,
}

impl PrefixFilter {
    /// Creates an empty filter with room for `form_count` forms.
    fn for_forms(form_count: usize) -> Self {
        let min_exponent = (form_count * BITS_PER_FORM).next_power_of_two().ilog2();
        let size_exponent = min_exponent.clamp(*SIZE_EXPONENTS.start(), *SIZE_EXPONENTS.end());
        Self { bits: vec![0; (1 << size_exponent) / 64], size_exponent }
    }

    /// Returns whether `form_count` forms need a larger filter, and a larger one is allowed.
    fn is_too_small(&self, form_count: usize) -> bool {
        self.bits.is_empty()
            || (self.size_exponent < *SIZE_EXPONENTS.end() && form_count * BITS_PER_FORM > 1 << self.size_exponent)
    }

    fn add(&mut self, form: &str) {
        if let Some(prefix) = form.as_bytes().get(..PREFIX_LENGTH) {
            let bit = self.bit(prefix);
            self.bits[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn has(&self, prefix: &[u8]) -> bool {
        let bit = self.bit(prefix);
        self.bits.get(bit / 64).is_some_and(|bits| bits & (1 << (bit % 64)) != 0)
    }

    /// Returns the bit of a prefix: its bytes as a number, spread by a multiplication (Fibonacci hashing).
    fn bit(&self, prefix: &[u8]) -> usize {
        let number = prefix.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        // The exponent of an unused filter is 0, and a shift by 32 bits would overflow.
        (number.wrapping_mul(0x9e37_79b1) >> (32 - self.size_exponent.max(1))) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(number: usize) -> String {
        format!("token-{number:05}-{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn known(secrets: impl IntoIterator<Item = String>) -> KnownSecrets {
        let mut known = KnownSecrets::default();
        secrets.into_iter().for_each(|secret| known.add(None, secret, Retention::Short));
        known
    }

    #[test]
    fn the_newest_of_many_renewed_tokens_and_all_configured_secrets_are_concealed() {
        let mut known = KnownSecrets::default();
        known.add(None, "configured once".to_owned(), Retention::Long);
        for number in 0..20_000 {
            known.add(None, token(number), Retention::Short);
            assert!(known.secrets.len() <= MAX_SECRETS);
            if number % 1_000 == 999 {
                assert_eq!(known.conceal(&token(number)), HIDDEN, "{number}");
            }
        }
        assert_eq!(known.conceal(&format!("configured once, {}.", token(19_000))), "***, ***.");
        assert_eq!(known.conceal(&token(0)), token(0), "it was forgotten");
        let forms: BTreeSet<_> = known.secrets.keys().flat_map(|secret| forms(secret)).collect();
        assert!(known.forms.keys().eq(&forms), "no form of a forgotten secret is left");
        assert_eq!(known.total_bytes, known.secrets.keys().map(String::len).sum::<usize>());
    }

    #[test]
    fn a_secret_that_a_server_receives_again_counts_as_new() {
        let mut known = known((0..MAX_SECRETS).map(token));
        known.add(None, token(0), Retention::Short);
        known.add(None, "one more".to_owned(), Retention::Short);
        assert_eq!(known.conceal(&token(0)), HIDDEN);
        assert_eq!(known.conceal(&token(1)), token(1));
    }

    #[test]
    fn a_secret_is_concealed_also_without_the_white_space_at_its_ends() {
        let known = known([" tr1m-secret\r\n".to_owned(), "12345\n".to_owned()]);
        assert_eq!(known.conceal("it is tr1m-secret."), "it is ***.");
        assert_eq!(known.conceal("[ tr1m-secret\r\n]"), "[***]");
        assert_eq!(known.conceal("it is 12345."), "it is 12345.", "too short");
    }

    #[test]
    fn more_secrets_do_not_mean_more_comparisons_with_a_text() {
        let text = "the quick brown fox jumps over the lazy dog; ".repeat(1_000);
        let compared = |secrets: usize| {
            let known = known((0..secrets).map(token));
            assert!(matches!(known.conceal(&text), Cow::Borrowed(_)));
            known.candidate_starts(&text).count()
        };
        let (few, many) = (compared(10), compared(5_000));
        assert!(many <= few + text.len() / 8, "{few} {many} of {}", text.len());
    }

    proptest! {
        #[test]
        fn the_search_finds_every_known_secret(
            secrets in prop::collection::btree_set("[abé]{6,9}", 0..8), text in "[abé]{0,40}",
        ) {
            let known = known(secrets.iter().cloned());
            // The same by trying every form at every position.
            let mut hidden = vec![false; text.len()];
            for (at, _) in text.char_indices() {
                for form in known.forms.keys().filter(|form| text[at..].starts_with(form.as_str())) {
                    hidden[at..at + form.len()].fill(true);
                }
            }
            let left = |text: &str| text.replace('*', "");
            let shown: String = text.char_indices().filter(|(at, _)| !hidden[*at]).map(|(_, c)| c).collect();
            prop_assert_eq!(left(&known.conceal(&text)), shown);
            let longest_first: Vec<_> = known.forms_at(&text).map(|(form, _)| form).collect();
            let mut all: Vec<_> = known.forms.keys().filter(|form| text.starts_with(form.as_str())).collect();
            all.sort_by_key(|form| std::cmp::Reverse(form.len()));
            prop_assert_eq!(longest_first, all);
        }
    }
}
