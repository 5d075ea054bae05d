//! Hides what could be a secret.
//!
//! Two jobs: [`line()`] hides every value of a line that nobody could parse, so that it can be shown in a message;
//! [`argument`] hides the secret parts of text that is otherwise worth reading, such as a program's argument.

use crate::{placeholder::Bare, redact::literal};

/// What stands for a hidden value.
pub(crate) const HIDDEN: &str = "***";

/// Bare words that are shown: they are grammar, not values.
const WORDS: &[&str] = &["true", "false", "null"];

/// The longest bare word that can be a key.
const MAX_KEY: usize = 32;

/// `line` of a JSON or TOML file with all values replaced by asterisks, character by character, so that columns stay.
///
/// Keys, punctuation, short numbers and the words of the grammar remain. What is neither is taken for a value.
pub(crate) fn line(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    // Whether a key may stand here: at the beginning of the line, after `{`, `[` or `,`.
    let mut key_place = true;
    while let Some(&c) = chars.get(at) {
        match c {
            '"' | '\'' => {
                let end = string_end(&chars, at);
                let shown = key_place && is_followed_by_value(&chars, end);
                extend(&mut out, &chars[at..end], shown);
                key_place = false;
                at = end;
            }
            '#' => return hide_rest(out, &chars, at, 1),
            '/' if matches!(chars.get(at + 1), Some('/' | '*')) => {
                return hide_rest(out, &chars, at, 2);
            }
            '{' | '}' | '[' | ']' | ':' | ',' | '=' | '.' => {
                key_place = matches!(c, '{' | '[' | ',') || (key_place && c == '.');
                out.push(c);
                at += 1;
            }
            c if c.is_whitespace() => {
                out.push(c);
                at += 1;
            }
            _ => {
                let end = word_end(&chars, at);
                let word: String = chars[at..end].iter().collect();
                let is_key = key_place && end - at <= MAX_KEY && is_followed_by_name_end(&chars, end);
                let shown = is_key || WORDS.contains(&&*word) || is_small_number(&word);
                extend(&mut out, &chars[at..end], shown);
                key_place = key_place && is_key;
                at = end;
            }
        }
    }
    out
}

fn extend(out: &mut String, chars: &[char], shown: bool) {
    let last = chars.len().saturating_sub(1);
    out.extend(chars.iter().enumerate().map(|(index, &c)| {
        let is_quote = (index == 0 || index == last) && matches!(c, '"' | '\'');
        if shown || is_quote { c } else { '*' }
    }));
}

fn hide_rest(mut out: String, chars: &[char], at: usize, marker: usize) -> String {
    let (marker, rest) = chars[at..].split_at(marker);
    out.extend(marker);
    out.extend(rest.iter().map(|&c| if c.is_whitespace() { c } else { '*' }));
    out
}

/// Behind the closing quote, or the end of the line.
fn string_end(chars: &[char], start: usize) -> usize {
    let quote = chars[start];
    let mut at = start + 1;
    while let Some(&c) = chars.get(at) {
        at += match c {
            '\\' if quote == '"' => 2,
            c if c == quote => return at + 1,
            _ => 1,
        };
    }
    chars.len()
}

fn word_end(chars: &[char], start: usize) -> usize {
    let is_end = |c: &char| c.is_whitespace() || "{}[]:,=.\"'".contains(*c);
    chars[start..].iter().position(is_end).map_or(chars.len(), |length| start + length)
}

fn next_visible(chars: &[char], at: usize) -> Option<char> {
    chars[at..].iter().copied().find(|c| !c.is_whitespace())
}

fn is_followed_by_value(chars: &[char], at: usize) -> bool {
    matches!(next_visible(chars, at), Some(':' | '='))
}

/// A bare key ends before its value, before the next part of a dotted key, or with a table's header.
fn is_followed_by_name_end(chars: &[char], at: usize) -> bool {
    let header = chars.first() == Some(&'[');
    match next_visible(chars, at) {
        Some(':' | '=') => true,
        Some('.' | ']') => header,
        _ => false,
    }
}

fn is_small_number(word: &str) -> bool {
    word.len() <= 6 && word.parse::<f64>().is_ok()
}

/// Words in the name of a field, an option or a query parameter that say that its value is a secret.
const SECRET_NAMES: &[&str] = &[
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "access_key",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "private-key",
    "private_key",
    "pwd",
    "secret",
    "signature",
    "token",
];

/// How the tokens of well-known services begin.
const TOKEN_STARTS: &[&str] = &[
    "AIza",
    "AKIA",
    "ASIA",
    "SG.",
    "dop_v1_",
    "eyJ",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "lin_api_",
    "npm_",
    "ntn_",
    "pk_live_",
    "pypi-",
    "rk_live_",
    "shpat_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "xapp-",
    "xoxb-",
    "xoxp-",
];

/// A shorter word is no token, whatever it begins with.
const MIN_TOKEN: usize = 16;

/// Whether the name of a field or option says that its value is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// The arguments of a program, or other readable texts, with their secret parts hidden: the value of an option such as
/// `--api-key`, passwords and secret query parameters in URLs, tokens of well-known services.
pub(crate) fn arguments<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut value_is_secret = false;
    arguments
        .into_iter()
        .map(|text| {
            let hide = value_is_secret && !text.starts_with('-');
            value_is_secret = text.starts_with('-') && !text.contains('=') && is_secret_name(text);
            if hide { literal(text, Bare::Nothing) } else { argument(text) }
        })
        .collect()
}

/// One such text on its own.
pub(crate) fn argument(text: &str) -> String {
    if let Some((name, value)) = text.split_once('=')
        && !name.contains("://")
        && is_secret_name(name)
    {
        return format!("{name}={}", literal(value, Bare::Nothing));
    }
    tokens(&url(text))
}

/// `text` with the passwords and secret query parameters of its URL hidden.
pub(crate) fn url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = match user.split_once(':') {
                Some((name, password)) => format!("{name}:{}", literal(password, Bare::Nothing)),
                None => literal(user, Bare::Nothing),
            };
            format!("{user}@{host}")
        }
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{}", query(path))
}

fn query(path: &str) -> String {
    let Some((path, parameters)) = path.split_once('?') else {
        return path.to_owned();
    };
    let parameters: Vec<_> = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, value)) if is_secret_name(name) || name.eq_ignore_ascii_case("key") => {
                format!("{name}={}", literal(value, Bare::Nothing))
            }
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{path}?{}", parameters.join("&"))
}

/// `text` with the tokens of well-known services hidden.
fn tokens(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let is_token = word.len() >= MIN_TOKEN && TOKEN_STARTS.iter().any(|start| word.starts_with(start));
        out.push_str(if is_token { HIDDEN } else { word });
        let next = tail.find(is_word).unwrap_or(tail.len());
        out.push_str(&tail[..next]);
        rest = &tail[next..];
    }
    out
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
            assert_eq!(line(given), shown);
        }
    }

    #[test]
    fn secrets_in_arguments_are_hidden_and_the_rest_can_be_read() {
        let shown = arguments([
            "-y",
            "server-postgres",
            "postgresql://ada:canary@db/shop?sslmode=on&token=canary",
            "--api-key",
            "canary",
            "--token=canary",
            "--root",
            "/home/ada",
            "ghp_canarycanarycanary",
            "x=sk-canarycanarycanary!",
        ]);
        assert_eq!(
            shown,
            [
                "-y",
                "server-postgres",
                "postgresql://ada:***@db/shop?sslmode=on&token=***",
                "--api-key",
                "***",
                "--token=***",
                "--root",
                "/home/ada",
                "***",
                "x=***!",
            ]
        );
    }

    #[test]
    fn placeholders_stay_readable() {
        assert_eq!(arguments(["--token", "${TOKEN}"]), ["--token", "${TOKEN}"]);
        assert_eq!(url("https://x:${PASS}@h/?key=${KEY}"), "https://x:${PASS}@h/?key=${KEY}");
    }

    proptest! {
        #[test]
        fn masking_keeps_every_column(text in "[^\n]{0,80}") {
            prop_assert_eq!(line(&text).chars().count(), text.chars().count());
        }

        #[test]
        fn a_quoted_value_never_shows(value in "[a-zA-Z0-9+/_-]{8,40}") {
            let shown = line(&format!(r#""k": "{value}", x"#));
            prop_assert!(!shown.contains(&value));
            let shown = line(&format!(r#""k": "{value}"#));
            prop_assert!(!shown.contains(&value));
        }
    }
}
