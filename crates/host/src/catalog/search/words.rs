//! Splits text into searchable words: identifiers are split into their words (`getPage`, `get_page`), and each word is
//! put into lower case and reduced to its stem.

use std::{collections::HashSet, sync::LazyLock};

/// The longest word in bytes; a longer one is left out.
const MAX_WORD_BYTES: usize = 40;

/// Noise words, which say nothing about a task. Among them are the parts of `what's` and `don't` after the apostrophe.
const NOISE: &str = "\
    a about again ago already also always am an and any anything are as at be because been being both but by can \
    could d did do does doesn don each ever every everything few for from going gonna got had has have having he her \
    here hers hey hi him his how however i id if im in into is isn it its just lately later let like ll m many may \
    maybe me more most much must my need no not nothing now of off often ok on one only onto or other others ought \
    our out own please quite rather re really right s same seem shall she should so some something soon still stuff \
    such t tell than that the their them then there these they thing things this those though through thus to too \
    until upon us ve very via want wants was way we well went were what which while whole whom whose why will with \
    without won would yes yet you your";

/// Returns whether this word, in lower case, is a noise word.
pub(super) fn is_noise(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| NOISE.split(' ').collect());
    WORDS.contains(word)
}

/// Returns the words of a text: runs of letters and digits, unchanged. In a script without spaces, a word may be a
/// whole sentence.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |word: &&str| !word.is_empty() && (word.len() <= MAX_WORD_BYTES || word.chars().any(is_unspaced));
    text.split(|c: char| !c.is_alphanumeric()).filter(is_word)
}

/// Calls `visit` with the parts of one word, in lower case: split where a capital begins another word and where letters
/// and digits meet (`getHTMLPage2` is `get`, `html`, `page` and `2`). Scripts without spaces are split into pairs of
/// characters. If there are several parts, the whole word follows them.
pub(super) fn for_each_part(word: &str, visit: &mut dyn FnMut(&str)) {
    if word.bytes().all(|b| b.is_ascii_lowercase()) {
        visit(word);
        return;
    }
    if word.chars().any(is_unspaced) {
        let chars: Vec<char> = word.chars().collect();
        let mut pair = String::new();
        for window in chars.windows(2.min(chars.len())) {
            pair.clear();
            pair.extend(window.iter().flat_map(|c| c.to_lowercase()));
            visit(&pair);
        }
        return;
    }
    let mut rest = word;
    while !rest.is_empty() {
        let (part, tail) = rest.split_at(first_part_end(rest));
        rest = tail;
        // Skip a part of a single letter, unless it is the whole word.
        if part.len() > 1 || part.bytes().all(|b| b.is_ascii_digit()) {
            visit(&part.to_lowercase());
        }
    }
    if first_part_end(word) < word.len() || word.len() == 1 && !word.bytes().all(|b| b.is_ascii_digit()) {
        visit(&word.to_lowercase());
    }
}

/// Returns the end of the first part of a word.
fn first_part_end(word: &str) -> usize {
    let mut chars = word.char_indices().peekable();
    let Some((_, mut previous_char)) = chars.next() else { return 0 };
    while let Some((offset, c)) = chars.next() {
        let begins_word = c.is_uppercase()
            && (!previous_char.is_uppercase() || chars.peek().is_some_and(|(_, next_char)| next_char.is_lowercase()));
        if begins_word || c.is_numeric() != previous_char.is_numeric() {
            return offset;
        }
        previous_char = c;
    }
    word.len()
}

/// Returns whether the script of this character is written without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{edf}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Reduces an English word, in lower case, to the part that its forms share: `files` and `file`, `created`, `creating`,
/// `creation` and `create`. Simpler than Porter's stemmer: unknown forms stay unchanged.
pub(super) fn stem(word: &str) -> String {
    let mut stem = word.to_owned();
    if stem.len() < 4 || !stem.is_ascii() || stem.bytes().any(|b| b.is_ascii_digit()) {
        // The plural of a short word, such as `ids`.
        if stem.len() == 3 && stem.ends_with('s') && !stem.ends_with("ss") && !stem.ends_with("us") && stem != "was" {
            stem.pop();
        }
        return stem;
    }
    make_singular(&mut stem);
    // The suffix, the minimum length of the rest, and the replacement of the suffix.
    for (suffix, min_length, replacement) in [
        ("ization", 3, "ize"),
        ("isation", 3, "ise"),
        ("ation", 4, "ate"),
        ("ion", 4, ""),
        ("ing", 3, ""),
        ("ed", 3, ""),
        ("ment", 5, ""),
        ("ly", 4, ""),
    ] {
        let Some(rest) = stem.strip_suffix(suffix) else { continue };
        let is_stem = rest.len() >= min_length && rest.bytes().any(|b| b"aeiouy".contains(&b));
        if is_stem && (suffix != "ion" || rest.ends_with(['s', 't'])) {
            stem.truncate(rest.len());
            stem.push_str(replacement);
            break;
        }
    }
    undouble_end(&mut stem);
    // British spelling: `summarise`, `organising`.
    if let Some(rest) = stem.strip_suffix("ise").or_else(|| stem.strip_suffix("is"))
        && rest.len() > 4
    {
        stem = format!("{rest}iz");
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    if stem.len() > 2 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    stem
}

/// Turns a plural into a singular: `queries` becomes `query`.
fn make_singular(word: &mut String) {
    if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ["sses", "shes", "ches", "xes", "zes"].iter().any(|end| word.ends_with(end)) {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
}

/// Removes a doubled final consonant: `runn` becomes `run`, but `call` stays.
fn undouble_end(word: &mut String) {
    let [.., before, last] = word.as_bytes() else { return };
    if before == last && !b"aeiouslz".contains(last) && word.len() > 3 {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts_of(word: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_part(word, &mut |part| found.push(part.to_owned()));
        found
    }

    #[test]
    fn names_are_split_at_slash_and_dot() {
        assert_eq!(words("list_issues-v2.read/file").collect::<Vec<_>>(), ["list", "issues", "v2", "read", "file"]);
        assert_eq!(parts_of("createIssue"), ["create", "issue", "createissue"]);
        assert_eq!(parts_of("getHTMLPage2"), ["get", "html", "page", "2", "gethtmlpage2"]);
        assert_eq!(parts_of("XMLHttpRequest"), ["xml", "http", "request", "xmlhttprequest"]);
        assert_eq!(parts_of("s3"), ["3", "s3"]);
        assert_eq!(parts_of("I"), ["i"]);
        assert_eq!(parts_of("ÜberFluß"), ["über", "fluß", "überfluß"]);
        assert_eq!(parts_of("文件系统"), ["文件", "件系", "系统"]);
        assert_eq!(parts_of("时"), ["时"]);
    }

    #[test]
    fn the_forms_of_a_word_have_one_stem() {
        for forms in [
            ["file", "files", "filing"].as_slice(),
            &["create", "creates", "created", "creating", "creation"],
            &["query", "queries", "querying", "queried"],
            &["delete", "deletion", "deletes", "deleting"],
            &["run", "runs", "running"],
            &["search", "searches", "searching", "searched"],
            &["repository", "repositories"],
            &["branch", "branches"],
            &["issue", "issues"],
            &["directory", "directories"],
            &["call", "calls", "called", "calling"],
            &["message", "messages", "messaging"],
            &["navigate", "navigation", "navigating"],
            &["url", "urls"],
            &["pr", "prs"],
            &["assign", "assignment", "assigned"],
            &["organize", "organise", "organization", "organisation", "organising"],
        ] {
            let stems: Vec<_> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    #[test]
    fn different_words_keep_different_stems() {
        for (one, other) in
            [("use", "us"), ("status", "state"), ("process", "proceed"), ("class", "clay"), ("bus", "bu")]
        {
            assert_ne!(stem(one), stem(other), "{one}, {other}");
        }
    }

    #[test]
    fn words_without_meaning_are_in_order() {
        assert!(NOISE.split(' ').is_sorted(), "so that a person finds them");
        assert!(is_noise("the") && is_noise("a") && !is_noise("file") && !is_noise(""));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            for word in words(&text) {
                for_each_part(word, &mut |part| assert!(!part.is_empty() && !stem(part).is_empty()));
            }
        }
    }
}
