//! Lists phrases that address a model, in plain English, from known poisoned tools. The list is short, because each
//! phrase can cause a needless warning.

/// The phrases, word by word. `a|b` is either word, `*` is up to three arbitrary words.
///
/// From the published examples of tool poisoning (Invariant Labs, Trail of Bits, the MCPTox and MSB collections).
const PHRASES: &[&str] = &[
    "ignore|disregard|forget|override * previous|prior|earlier|above|preceding * instructions|instruction|prompts|rules",
    "ignore|disregard * your|the|system * instructions|guidelines|rules",
    "do not tell|inform|notify|mention|reveal|show|ask * user|users|human|person",
    "never tell|inform|notify|mention|reveal|show|ask * user|users|human|person",
    "don't tell|inform|notify|mention|reveal|show|ask * user|users|human|person",
    "without telling|informing|asking|notifying|mentioning * user|users|human|person",
    "hide|conceal this|it * from * user|users",
    "before using|calling|invoking this|any|other|another * tool|tools",
    "you must|should first|always call|use|run|read|send|invoke|pass|include",
    "always call|use|invoke this|it before|instead",
    "this tool must be called|used|invoked before|first",
    "instead of calling|using * tool",
    "your|the system prompt",
    "you are now",
    "new instructions",
    "id_rsa",
    "ssh|.ssh|~/.ssh key|keys|id_rsa",
    "read|open|send|include * ~/.ssh|.env|mcp.json|.cursor/mcp.json|/etc/passwd|credentials",
];

/// Marks that imitate another speaker.
const MARKS: &[&str] =
    &["<important>", "<system>", "</system>", "<|im_start|>", "[system]", "[inst]", "<secret>", "system:"];

/// The most words that may be between two words of a phrase.
const MAX_GAP_WORDS: usize = 3;

/// Returns the first phrase in `text`, in lower case and without invisible characters.
pub(super) fn find_phrase(text: &str) -> Option<String> {
    let visible: String = text.chars().filter(|c| !super::is_invisible(*c)).collect();
    let lower = visible.to_lowercase().replace('’', "'");
    if let Some(mark) = MARKS.iter().find(|mark| lower.contains(**mark)) {
        return Some((*mark).to_owned());
    }
    let is_word_char = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '_' | '.' | '/' | '~');
    let words: Vec<&str> = lower
        .split(|c: char| !is_word_char(c))
        .map(|word| word.trim_end_matches('.').trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect();
    PHRASES.iter().find_map(|phrase| {
        let parts: Vec<&str> = phrase.split(' ').collect();
        (0..words.len()).find_map(|start| {
            let end = match_end(&parts, &words, start)?;
            Some(words[start..end].join(" "))
        })
    })
}

/// Returns the position after the match of `parts` that begins at the word `start`; `None` if there is no match.
fn match_end(parts: &[&str], words: &[&str], start: usize) -> Option<usize> {
    let Some((part, rest)) = parts.split_first() else {
        return Some(start);
    };
    if *part == "*" {
        return (0..=MAX_GAP_WORDS).find_map(|skipped| match_end(rest, words, start + skipped));
    }
    let word = words.get(start)?;
    if part.split('|').any(|choice| choice == *word) { match_end(rest, words, start + 1) } else { None }
}
