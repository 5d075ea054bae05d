//! Masks the values in a line that cannot be parsed. A message can then show the line, but no secret in it.

/// Words without quotes that are shown, because they reveal nothing.
const GRAMMAR_WORDS: &[&str] = &["true", "false", "null"];

/// The maximum number of characters of a key without quotes. A longer word may be a token, and is hidden.
const MAX_KEY_LENGTH: usize = 32;

/// Returns `line` of a JSON or TOML file with all values replaced by asterisks, character by character, so that columns
/// stay the same.
///
/// Keys, punctuation, short numbers and [`GRAMMAR_WORDS`] remain; all other text counts as a value.
pub(crate) fn mask_line(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut masked = String::with_capacity(line.len());
    let mut index = 0;
    // Whether the next word may be a key: at the beginning of the line, after `{`, `[` or `,`, and after the dot in a
    // dotted key.
    let mut key_may_follow = true;
    while let Some(&c) = chars.get(index) {
        match c {
            '"' | '\'' => {
                let end = string_end(&chars, index);
                let is_shown = key_may_follow && is_followed_by_value(&chars, end);
                push_masked(&mut masked, &chars[index..end], is_shown);
                key_may_follow = false;
                index = end;
            }
            '#' => return with_hidden_comment(masked, &chars, index, 1),
            '/' if matches!(chars.get(index + 1), Some('/' | '*')) => {
                return with_hidden_comment(masked, &chars, index, 2);
            }
            '{' | '}' | '[' | ']' | ':' | ',' | '=' | '.' => {
                key_may_follow = matches!(c, '{' | '[' | ',') || (key_may_follow && c == '.');
                masked.push(c);
                index += 1;
            }
            c if c.is_whitespace() => {
                masked.push(c);
                index += 1;
            }
            _ => {
                let end = word_end(&chars, index);
                let word: String = chars[index..end].iter().collect();
                let is_key = key_may_follow && end - index <= MAX_KEY_LENGTH && is_followed_by_name_end(&chars, end);
                let is_shown = is_key || GRAMMAR_WORDS.contains(&&*word) || is_small_number(&word);
                push_masked(&mut masked, &chars[index..end], is_shown);
                // After a part of a dotted key, the next part may follow.
                key_may_follow = is_key;
                index = end;
            }
        }
    }
    masked
}

/// Appends `chars` to `masked`: unchanged if `is_shown`, otherwise as asterisks between the quotes.
fn push_masked(masked: &mut String, chars: &[char], is_shown: bool) {
    let last_index = chars.len().saturating_sub(1);
    masked.extend(chars.iter().enumerate().map(|(index, &c)| {
        let is_quote = (index == 0 || index == last_index) && matches!(c, '"' | '\'');
        if is_shown || is_quote { c } else { '*' }
    }));
}

/// Appends to `masked` the comment that begins at `comment_start`, and returns the result. Only the comment marker, of
/// `marker_length` characters, stays visible.
fn with_hidden_comment(mut masked: String, chars: &[char], comment_start: usize, marker_length: usize) -> String {
    let (marker, rest) = chars[comment_start..].split_at(marker_length);
    masked.extend(marker);
    masked.extend(rest.iter().map(|&c| if c.is_whitespace() { c } else { '*' }));
    masked
}

/// Returns the position after the closing quote, or the end of the line.
fn string_end(chars: &[char], start: usize) -> usize {
    let quote = chars[start];
    let mut index = start + 1;
    while let Some(&c) = chars.get(index) {
        index += match c {
            '\\' if quote == '"' => 2,
            c if c == quote => return index + 1,
            _ => 1,
        };
    }
    chars.len()
}

fn word_end(chars: &[char], start: usize) -> usize {
    let is_end = |c: &char| c.is_whitespace() || "{}[]:,=.\"'".contains(*c);
    chars[start..].iter().position(is_end).map_or(chars.len(), |length| start + length)
}

fn next_visible(chars: &[char], start: usize) -> Option<char> {
    chars[start..].iter().copied().find(|c| !c.is_whitespace())
}

fn is_followed_by_value(chars: &[char], index: usize) -> bool {
    matches!(next_visible(chars, index), Some(':' | '='))
}

/// Returns whether a bare key can end at `index`: before its value. In the header of a TOML table, also before the next
/// part of a dotted name, and before the closing bracket.
fn is_followed_by_name_end(chars: &[char], index: usize) -> bool {
    let is_header = chars.first() == Some(&'[');
    match next_visible(chars, index) {
        Some(':' | '=') => true,
        Some('.' | ']') => is_header,
        _ => false,
    }
}

/// Returns whether `word` is a number that is too short to be a secret.
fn is_small_number(word: &str) -> bool {
    word.len() <= 6 && word.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_and_grammar_remain_and_values_do_not() {
        for (given, shown) in [
            (r#"  "env": { "TOKEN": "canary" },"#, r#"  "env": { "TOKEN": "******" },"#),
            (r#"  "TOKEN": "canary"#, r#"  "TOKEN": "******"#),
            (r#"  TOKEN": "canary""#, r#"  *****"**"******""#),
            (r#""a": true, "port": 8080, "n": 1234567"#, r#""a": true, "port": 8080, "n": *******"#),
            (r#"headers = { Authorization = "canary" }"#, r#"headers = { Authorization = "******" }"#),
            ("[mcp_servers.github.env]", "[mcp_servers.github.env]"),
            ("  // token: canary", "  // ****** ******"),
            ("TOKEN = canary", "TOKEN = ******"),
            (r#""a\"b": "canary""#, r#""a\"b": "******""#),
            ("canary canary", "****** ******"),
        ] {
            assert_eq!(mask_line(given), shown);
        }
    }

    proptest! {
        #[test]
        fn masking_keeps_every_column(text in "[^\n]{0,80}") {
            prop_assert_eq!(mask_line(&text).chars().count(), text.chars().count());
        }

        #[test]
        fn a_quoted_value_never_shows(value in "[a-zA-Z0-9+/_-]{8,40}") {
            let shown = mask_line(&format!(r#""k": "{value}", x"#));
            prop_assert!(!shown.contains(&value));
            let shown = mask_line(&format!(r#""k": "{value}"#));
            prop_assert!(!shown.contains(&value));
        }
    }
}
