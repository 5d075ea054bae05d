//! Hides values that could be secrets.
//!
//! [`hide_in_argument`] hides only the secret parts of a text, such as a program's argument. [`hide_literals`] hides a
//! whole text except its placeholders. [`secrets_of`] returns the parts that [`hide_in_argument`] hides. Toolrack hides
//! these parts in the configuration that it shows, and also in the output of servers.

use std::{borrow::Cow, ops::Range};

use percent_encoding::percent_decode_str;

use crate::{
    dialect::json,
    document::Document,
    node::{Node, Value},
    placeholder::{BareName, Piece, pieces},
};

/// The text that is shown in place of a hidden value.
pub(crate) const HIDDEN: &str = "***";

/// The authentication schemes that precede a credential in a header (RFC 9110, 11.1).
const AUTH_SCHEMES: &[&str] = &["Bearer ", "Basic ", "Token "];

/// Splits the authentication scheme, such as `Bearer `, from the credential after it.
pub(crate) fn split_scheme(text: &str) -> (&str, &str) {
    let is_scheme = |scheme: &&&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    text.split_at(AUTH_SCHEMES.iter().find(is_scheme).map_or(0, |scheme| scheme.len()))
}

/// Returns `text` with everything hidden except its placeholders and an authentication scheme before them.
pub(crate) fn hide_literals(text: &str, bare_name: BareName) -> String {
    let (scheme, rest) = split_scheme(text);
    let Ok(pieces) = pieces(rest, bare_name) else {
        return format!("{scheme}{HIDDEN}");
    };
    let mut masked = scheme.to_owned();
    for piece in pieces {
        match piece {
            Piece::Literal(_) if masked.ends_with(HIDDEN) => {}
            Piece::Literal(_) => masked.push_str(HIDDEN),
            Piece::Secret(name) => masked.push_str(&format!("${{secret:{name}}}")),
            Piece::UserValue(name) => masked.push_str(&format!("${{user:{name}}}")),
            Piece::Input(name) => masked.push_str(&format!("${{input:{name}}}")),
            Piece::Variable { name, default } => masked.push_str(&match default {
                None => format!("${{{name}}}"),
                Some("") => format!("${{{name}:-}}"),
                Some(_) => format!("${{{name}:-{HIDDEN}}}"),
            }),
        }
    }
    masked
}

/// If the name of a field, an option or a query parameter contains one of these words, its value is a secret.
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

/// The prefixes of tokens of well-known services.
const TOKEN_PREFIXES: &[&str] = &[
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

/// The minimum length of a token, in bytes.
const MIN_TOKEN: usize = 16;

/// Like [`SECRET_NAMES`], but only as the last word of a name, because they occur inside other words (`MONKEY`,
/// `COMPASS`).
const SECRET_LAST_WORDS: &[&str] = &["key", "pass", "pat", "passcode", "pgpass", "sshpass", "jwt", "creds"];

/// If the last word of a name is `key` and the word before it is one of these, the key is harmless, such as
/// `primary_key`.
const HARMLESS_KEYS: &[&str] = &["foreign", "group", "partition", "primary", "public", "sort"];

/// If the last word of a name is one of these, its value is not the secret itself, as in `TOKEN_FILE`.
const HARMLESS_ENDINGS: &[&str] = &["author", "dir", "file", "method", "mode", "sock", "type"];

/// Returns whether the name of a field, a variable or an option says that its value is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let words = words_of_name(name);
    let lower_name = name.to_ascii_lowercase();
    !is_harmless_name(name, &words)
        && (SECRET_NAMES.iter().any(|word| lower_name.contains(word)) || ends_in_secret_word(&words))
}

/// Returns whether a name with these words says that its value is no secret: names of folders, authors and numbers.
/// Such values occur in ordinary output, which must stay readable.
fn is_harmless_name(name: &str, words: &[String]) -> bool {
    let lower_name = name.to_ascii_lowercase();
    matches!(name, "PWD" | "OLDPWD" | "XAUTHORITY")
        || lower_name.contains("author_")
        || lower_name.contains("author-")
        || words.ends_with(&["max".to_owned(), "tokens".to_owned()])
        || words.last().is_some_and(|word| HARMLESS_ENDINGS.contains(&&**word))
}

/// Returns whether `value` is a secret, because `name` is the [name of a secret](is_secret_name). The path of a key
/// file under a name that ends in `key` is none. Its last segment has a dot; base64 has none.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let begins_as_path = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    let is_path = begins_as_path && value.rsplit('/').next().is_some_and(|last| last.contains('.'));
    is_secret_name(name) && !(is_path && words_of_name(name).last().is_some_and(|last| last == "key"))
}

/// Returns whether the last of `words` is in [`SECRET_LAST_WORDS`], unless the word before makes it harmless.
fn ends_in_secret_word(words: &[String]) -> bool {
    let Some((last_word, words_before)) = words.split_last() else {
        return false;
    };
    let is_secret_key = |word: &String| !HARMLESS_KEYS.contains(&&**word);
    SECRET_LAST_WORDS.contains(&&**last_word) && (last_word != "key" || words_before.last().is_none_or(is_secret_key))
}

/// Splits a name into its words, in lower case and without numbers: `OPENAI_KEY_2`, `--openai-key` and `openaiKey` are
/// `openai`, `key`.
fn words_of_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphabetic() || (was_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if c.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The byte ranges of the secrets in a text, in order.
type Spans = Vec<Range<usize>>;

/// Returns the arguments of a program, or other readable texts, with their secret parts hidden: the value of an option
/// such as `--api-key`, passwords and secret query parameters in URLs, tokens of well-known services.
pub(crate) fn hide_in_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    spans_of_arguments(arguments).map(|(text, spans)| hide(text, spans)).collect()
}

/// Like [`hide_in_arguments`], for one text.
pub(crate) fn hide_in_argument(text: &str) -> String {
    hide(text, spans(text))
}

/// Returns the secret parts of the arguments of a program, without placeholders: exactly what [`hide_in_arguments`]
/// hides.
pub(crate) fn secrets_of_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    spans_of_arguments(arguments).flat_map(|(text, spans)| secret_texts(text, spans)).collect()
}

/// Returns the secrets in the value of `name`: the whole value, or parts of it.
pub(crate) fn secrets_in_value_of(name: &str, value: &str) -> Vec<String> {
    if is_secret(name, value) { vec![value.to_owned()] } else { secrets_of(value) }
}

/// Returns the secret parts of one text: exactly what [`hide_in_argument`] hides.
pub(crate) fn secrets_of(text: &str) -> Vec<String> {
    secret_texts(text, spans(text))
}

/// Returns `text` with `spans` hidden, except the placeholders in them.
fn hide(text: &str, spans: Spans) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut copied_end = 0;
    for span in spans {
        masked.push_str(&text[copied_end..span.start]);
        masked.push_str(&hide_literals(&text[span.clone()], BareName::Literal));
        copied_end = span.end;
    }
    masked + &text[copied_end..]
}

/// Returns the texts of `spans`, both as they are written and as a URL or JSON parser decodes them.
fn secret_texts(text: &str, spans: Spans) -> Vec<String> {
    let mut texts = Vec::new();
    for span in spans {
        let (_, part) = split_scheme(&text[span]);
        let decoded = percent_decode_str(part).decode_utf8().ok().filter(|decoded| decoded != part);
        texts.extend(decoded.map(Cow::into_owned));
        if part.contains('\\') {
            texts.extend(serde_json::from_str(&format!("\"{part}\"")).ok().filter(|unescaped| unescaped != part));
        }
        texts.push(part.to_owned());
    }
    texts
}

/// Returns each of the arguments of a program with the ranges of the secrets in it. The argument after an option such
/// as `--api-key` is a secret as a whole.
pub(crate) fn spans_of_arguments<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (&'a str, Spans)> {
    let mut option: Option<&str> = None;
    arguments.into_iter().map(move |text| {
        let option_before = option.take();
        let is_value = option_before.is_some_and(|name| !is_option(text) && is_secret(name, text));
        option = (!is_value && text.starts_with('-') && !text.contains('=')).then_some(text);
        let spans = if is_value {
            std::iter::once(0..text.len()).collect()
        } else if option_before.is_some_and(is_header_option) {
            let is_header = true;
            spans_of_value(text, is_header)
        } else {
            spans(text)
        };
        (text, spans)
    })
}

/// Returns whether `text` is an option, and not a value that begins with a dash. The name of an option has only letters
/// and dashes; after two dashes it may also have digits and `_`.
fn is_option(text: &str) -> bool {
    let Some(name) = text.strip_prefix('-') else {
        return false;
    };
    let name = name.split('=').next().unwrap_or_default();
    let is_long = name.starts_with('-');
    let is_in_name = |c: char| c.is_ascii_alphabetic() || c == '-' || (is_long && (c.is_ascii_digit() || c == '_'));
    name.chars().count() <= 1 || name.chars().all(is_in_name)
}

/// Returns whether the value of this option is a header, as with `-H`.
fn is_header_option(option: &str) -> bool {
    option == "-H" || words_of_name(option).last().is_some_and(|last| last == "header" || last == "headers")
}

/// Returns the secrets in one argument, or in another readable text.
fn spans(text: &str) -> Spans {
    // The value in `--option=value` is searched like a separate argument.
    match text.split_once('=') {
        Some((option, value)) if is_option(option) && !is_secret(option, value) => {
            let start = option.len() + 1;
            shift_spans(spans_of_value(value, is_header_option(option)), start).collect()
        }
        _ => {
            let is_header = false; // No option says that the text is a header.
            spans_of_value(text, is_header)
        }
    }
}

/// Moves all spans by `offset` bytes.
fn shift_spans(spans: Spans, offset: usize) -> impl Iterator<Item = Range<usize>> {
    spans.into_iter().map(move |span| span.start + offset..span.end + offset)
}

/// Returns the secrets in a text that is not an option: in JSON by the names of its members, in any other text as
/// [`spans_of_plain_text`] does. With `is_header`, the text is known to be a header.
fn spans_of_value(text: &str, is_header: bool) -> Spans {
    spans_of_json(text).unwrap_or_else(|| spans_of_plain_text(text, is_header))
}

/// Returns the secrets in a text that is not JSON: the value of a single `name=value` or header, or if the text is
/// neither, the secrets in URLs and pairs, and tokens.
fn spans_of_plain_text(text: &str, is_header: bool) -> Spans {
    if let Some(value) = named_value(text, is_header) {
        return std::iter::once(value).collect();
    }
    let mut spans = spans_of_urls(text);
    spans.extend(spans_of_pairs(text));
    spans.extend(spans_of_tokens(text));
    spans.sort_by_key(|span| span.start);
    let mut merged = Spans::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// Returns the secrets in a JSON object or list; `None` when the text is neither.
fn spans_of_json(text: &str) -> Option<Spans> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let root = json::parse(&Document::new(None, text)).ok()??;
    let mut spans = Spans::new();
    collect_json_secrets(&root, "", text, &mut spans);
    Some(spans)
}

/// Adds the secrets in `node`, which is the value of the key `name`. If a key above `node` is the name of a secret,
/// `name` is that key.
fn collect_json_secrets(node: &Node, name: &str, text: &str, spans: &mut Spans) {
    match &node.value {
        Value::Text(value) => {
            // The text without its quotes.
            let text_range = node.span.start + 1..node.span.end - 1;
            if is_secret(name, value) {
                spans.push(text_range);
            } else {
                let (start, is_header) = (text_range.start, false);
                spans.extend(shift_spans(spans_of_plain_text(&text[text_range], is_header), start));
            }
        }
        Value::Number(_) if is_secret_name(name) => spans.push(node.span.clone()),
        Value::List(nodes) => nodes.iter().for_each(|node| collect_json_secrets(node, name, text, spans)),
        Value::Map(members) => {
            let is_below_secret = is_secret_name(name);
            for member in members {
                // Below the name of a secret, a member is treated as if it had that name. A member whose own name says
                // more is not: the type in `"auth": { "type": "oauth2" }` is no secret.
                let is_text = matches!(member.node.value, Value::Text(_));
                let keeps_own_name = is_secret_name(&member.name)
                    || (is_text && is_harmless_name(&member.name, &words_of_name(&member.name)));
                let name = if is_below_secret && !keeps_own_name { name } else { member.name.as_str() };
                collect_json_secrets(&member.node, name, text, spans);
            }
        }
        _ => {}
    }
}

/// Returns the secret value of `name=value` or of a header `Name: value`. With `is_header`, the text is known to be a
/// header, which may have no space after the colon.
fn named_value(text: &str, is_header: bool) -> Option<Range<usize>> {
    let header_parts = text.split_once(':').filter(|(name, value)| {
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        is_word && (is_header || value.starts_with(' ') || !split_scheme(value).0.is_empty())
    });
    let assignment = text.split_once('=').filter(|(name, _)| !name.contains("://"));
    let (name, value) = header_parts.or(assignment)?;
    let value = value.trim_start_matches(' ');
    is_secret(name, value).then(|| text.len() - value.len()..text.len())
}

/// Returns the passwords in the user info of URLs.
fn spans_of_urls(text: &str) -> Spans {
    let mut spans = Spans::new();
    for (scheme_end, mark) in text.match_indices("://") {
        let start = scheme_end + mark.len();
        let rest = &text[start..];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let Some((user, _)) = authority.rsplit_once('@') else {
            continue;
        };
        // In an HTTP URL, user info without a password is usually a token. In other URLs, such as the URL of a
        // database, it is usually a user name, and counts only if it is as long as a token.
        let scheme = &text.as_bytes()[..scheme_end];
        let ends_with =
            |name: &[u8]| scheme.len() >= name.len() && scheme[scheme.len() - name.len()..].eq_ignore_ascii_case(name);
        let is_web = ends_with(b"http") || ends_with(b"https");
        let is_token = is_web || user.len() >= MIN_TOKEN;
        match user.find(':') {
            Some(colon) => spans.push(start + colon + 1..start + user.len()),
            None if is_token => spans.push(start..start + user.len()),
            None => {}
        }
    }
    spans
}

/// The characters, besides white space, after which the name of a `name=value` pair can begin.
const NAME_SEPARATORS: &[char] = &[';', '&', '?', '#', '=', '/', ':', ',', '|', '(', '{', '<', '>', '"', '\'', '`'];

/// Returns the secret values of `name=value` pairs that white space, `;` or `&` separates: URL parameters, database
/// connection strings, variables before a command.
fn spans_of_pairs(text: &str) -> Spans {
    let mut spans = Spans::new();
    let mut search_start = 0;
    for (equals_sign, _) in text.match_indices('=') {
        if equals_sign < search_start {
            continue;
        }
        let is_separator = |c: char| c.is_whitespace() || NAME_SEPARATORS.contains(&c);
        let name = text[search_start..equals_sign].rsplit(is_separator).next().unwrap_or_default();
        search_start = equals_sign + 1;
        if !is_secret_name(name) {
            continue;
        }
        let is_parameter = text[..equals_sign - name.len()].ends_with(['?', '&', '#']);
        let value = value_of_pair(&text[search_start..], is_parameter);
        if !value.is_empty() && is_secret(name, &text[search_start + value.start..search_start + value.end]) {
            spans.push(search_start + value.start..search_start + value.end);
            search_start += value.end;
        }
    }
    spans
}

/// Returns the range of the value at the beginning of `rest`: in quotes, or up to the next separator.
fn value_of_pair(rest: &str, is_parameter: bool) -> Range<usize> {
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\''))
        && let Some(length) = rest[1..].find(quote)
    {
        return 1..1 + length;
    }
    let is_end = |c: char| c.is_whitespace() || c == '&' || (c == ';' && !is_parameter);
    let value = &rest[..rest.find(is_end).unwrap_or(rest.len())];
    0..value.trim_end_matches(['"', '\'', '`']).len()
}

/// Returns the words of at least [`MIN_TOKEN`] bytes that begin as the tokens of well-known services do.
fn spans_of_tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut next_start = 0;
    let words = text.split_inclusive(move |c| !is_word(c)).map(move |word| {
        let start = next_start;
        next_start += word.len();
        start..start + word.trim_end_matches(|c| !is_word(c)).len()
    });
    words.filter(|word| {
        word.len() >= MIN_TOKEN && TOKEN_PREFIXES.iter().any(|start| text[word.clone()].starts_with(start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_hidden_and_placeholders_are_not() {
        for (text, shown) in [
            ("canary", "***"),
            ("", ""),
            ("${TOKEN}", "${TOKEN}"),
            ("Bearer canary", "Bearer ***"),
            ("Bearer ${TOKEN}", "Bearer ${TOKEN}"),
            ("bearer x${TOKEN}canary", "bearer ***${TOKEN}***"),
            ("${TOKEN:-canary}", "${TOKEN:-***}"),
            ("$TOKEN", "${TOKEN}"),
            ("${secret:x}", "${secret:x}"),
            ("canary ${", "***"),
            ("${canary%x}", "***"),
        ] {
            assert_eq!(hide_literals(text, BareName::Placeholder), shown);
        }
        assert_eq!(hide_literals("$ecret", BareName::Literal), "***");
    }

    #[test]
    fn secrets_in_arguments_are_hidden_and_the_rest_can_be_read() {
        let shown = hide_in_arguments([
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
    fn a_name_marks_a_secret_by_its_words_unless_the_last_ones_are_harmless() {
        for name in ["DB_PASS", "OPENAI_KEY", "openaiKey", "--api-key", "GITHUB_PAT", "KEY", "PGPASS", "OPENAI_KEY_2"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "KEYBOARD",
            "MONKEY",
            "COMPASS",
            "KEY_ID",
            "PASSIVE",
            "PWD",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "--token-file",
            "--sort-key",
            "PUBLIC_KEY",
            "MAX_TOKENS",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(is_secret("TLS_KEY", "/q1+/x9aa==") && !is_secret("TLS_KEY", "/etc/tls/server.key"));
        assert!(is_secret("PASSWORD", "/etc/tls/server.key"));
    }

    #[test]
    fn the_view_hides_exactly_the_values_that_are_found_as_secrets() {
        for (text, found) in [
            ("--password=argpw-1", &["argpw-1"][..]),
            ("postgres://u:p%40ss@h/db?key=abc&x=1", &["p@ss", "p%40ss", "abc"]),
            ("https://tok@h/", &["tok"]),
            ("postgres://postgres@h/db", &[]),
            ("Authorization: Bearer abc", &["abc"]),
            ("Authorization:Bearer abc", &["abc"]),
            ("token-proxy:latest", &[]),
            ("é ghp_canarycanarycanary!", &["ghp_canarycanarycanary"]),
            ("plain text", &[]),
            ("--header=Authorization: Bearer abc", &["abc"]),
            ("--header=X-Api-Key:abc", &["abc"]),
            ("--env=API_KEY=abc", &["abc"]),
            (
                r#"{"braveApiKey":"abc","n":{"tokens":["qrs"],"pin_code":1,"url":"https://u:efg@h"},"x":"y"}"#,
                &["abc", "qrs", "efg"],
            ),
            (r#"--config={"password": 12345678}"#, &["12345678"]),
            (r#"{"password":"a\u0026b"}"#, &["a&b", r"a\u0026b"]),
            (
                r#"{"credentials":{"value":"abc","more":[{"x":"def"}],"pin":1234},"apiKeys":[["ghi"]],"x":"y"}"#,
                &["abc", "def", "1234", "ghi"],
            ),
            (r#"{"auth":{"type":"oauth2","method":"basic-auth","mode":{"x":"def"},"value":"abc"}}"#, &["def", "abc"]),
            ("--dsn=host=db user=ada password=abc sslmode=on", &["abc"]),
            ("Server=db;User Id=ada;Password=abc;Encrypt=yes", &["abc"]),
            ("host=db password='a b' user=ada", &["a b"]),
            ("jdbc:sqlserver://h:1433;user=sa;password=abc;encrypt=true", &["abc"]),
            ("https://a/ postgresql://ada:abc@db/x redis://:def@r", &["abc", "def"]),
            ("https://h/mcp#token=abc", &["abc"]),
            ("https://h/mcp?mode=x#a=b&access_token=abc;d&x=1", &["abc;d"]),
            ("https://token.example/a=1?mode=x", &[]),
            ("exec env MODE=x API_TOKEN=\"abc\" npx -y server", &["abc"]),
            ("{ not json", &[]),
        ] {
            let secrets = secrets_of(text);
            assert_eq!(secrets, found, "{text}");
            let shown = hide_in_argument(text);
            assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
            assert_eq!(shown == text, secrets.is_empty(), "{shown}");
        }
        let found = secrets_of_arguments(["s.py", "--api-key", "argkey-1", "--verbose", "word", "--key", "/a/b.pem"]);
        assert_eq!(found, ["argkey-1"]);
        for (arguments, found) in [
            (&["--header", "X-API-Key:abc"][..], &["abc"][..]),
            (&["-H", "Authorization:abc", "x:y"], &["abc"]),
            (&["--config", r#"{"braveApiKey":"abc"}"#], &["abc"]),
            (&["--password", "-canary-1", "--verbose"], &["-canary-1"]),
            (&["--use-auth", "--api-key", "abc", "-y"], &["abc"]),
            (&["--no-auth", "-v", "-jar", "x.jar"], &[]),
        ] {
            assert_eq!(secrets_of_arguments(arguments.iter().copied()), found, "{arguments:?}");
        }
    }

    #[test]
    fn placeholders_stay_readable() {
        assert_eq!(hide_in_arguments(["--token", "${TOKEN}"]), ["--token", "${TOKEN}"]);
        assert_eq!(hide_in_argument("https://x:${PASS}@h/?key=${KEY}"), "https://x:${PASS}@h/?key=${KEY}");
        let config = r#"{"apiKey": "${KEY}", "port": 1}"#;
        assert_eq!(hide_in_arguments(["--config", config]), ["--config", config]);
    }

    #[test]
    fn a_long_argument_takes_time_in_proportion_to_its_length() {
        for piece in ["a://", "a=", "-a=", "token=", "a://?", "token='", "[", "{\"a\":", "://b@"] {
            assert!(!hide_in_argument(&piece.repeat(100_000)).is_empty(), "{piece}");
        }
    }
}
