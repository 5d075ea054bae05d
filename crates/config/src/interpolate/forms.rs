//! Lists the forms that a secret may have in the output of other programs: unchanged, and in the encodings that
//! programs use by default.

use std::collections::BTreeSet;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::unescaped::Unescaped;

/// The minimum number of bytes of a secret to search for. A shorter one would be found by chance everywhere.
pub(super) const MIN_SECRET: usize = 6;

/// The minimum number of bytes of a secret to search for in encoded form. A shorter one is searched for only unchanged
/// and in JSON, because its encoded form would be found by chance.
pub(super) const MIN_ENCODED: usize = 8;

/// The maximum number of bytes of a secret to search for in encoded form. A longer one is a document: programs break
/// its encoding into lines, so no form on one line would be found.
const MAX_ENCODED: usize = 8 * 1024;

/// The characters that are encoded in a query: all but the unreserved ones (RFC 3986, 2.3).
const ENCODED_IN_QUERIES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that are encoded in a path, and by Python's `quote`.
const ENCODED_IN_PATHS: &AsciiSet = &ENCODED_IN_QUERIES.remove(b'/');

/// The characters that JavaScript's `encodeURIComponent` encodes.
const ENCODED_IN_SCRIPTS: &AsciiSet =
    &ENCODED_IN_QUERIES.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

/// Returns the forms of `secret`: unchanged, in JSON, and in a text whose escapes (such as `\n`) are decoded. For a
/// secret of [`MIN_ENCODED`] to [`MAX_ENCODED`] bytes also: in base64 at any offset, percent-encoded, in hex, and with
/// every character as `%XX` or `\uXXXX`.
pub(super) fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    // These characters are unchanged in JSON and in URLs.
    let is_plain = secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    if !is_plain {
        for style in JSON_STYLES {
            let json_text = style.write(secret);
            // JSON inside a JSON string, by the same writer or a plain one.
            forms.extend([style.write(&json_text), PLAIN_STYLE.write(&json_text), json_text]);
        }
        add_unescaped(secret, &mut forms);
    }
    if (MIN_ENCODED..=MAX_ENCODED).contains(&secret.len()) {
        add_base64(secret.as_bytes(), &mut forms);
        if !is_plain {
            add_percent_encoded(secret, &mut forms);
        }
        add_character_codes(secret, &mut forms);
    }
    forms
}

/// Adds the forms of `secret` in a text whose escapes are decoded. There are two, because the text before `secret` may
/// end in a backslash, which makes an escape of its first character: `\n` becomes a line break.
fn add_unescaped(secret: &str, forms: &mut BTreeSet<String>) {
    for text in [secret, &format!("\\{secret}")] {
        let may_continue = false; // A secret is a complete text.
        let unescaped = Unescaped::of(text, may_continue);
        let unescaped = unescaped.as_ref().map(Unescaped::text).filter(|text| text.len() >= MIN_SECRET);
        forms.extend(unescaped.map(str::to_owned));
    }
}

/// The way in which a program writes JSON: the characters that it escapes, and the form of the escapes.
#[derive(Clone, Copy)]
struct JsonStyle {
    /// The characters that are written as `\u` and four digits.
    unicode_escaped: &'static str,
    /// Whether all characters outside of ASCII, and DEL, are written as `\u` and four digits too.
    is_ascii_only: bool,
    /// Whether `/` is written with a backslash.
    escapes_slash: bool,
    /// Whether hexadecimal digits are `A` to `F`, not `a` to `f`.
    has_upper_digits: bool,
}

/// The style of JavaScript and Rust.
const PLAIN_STYLE: JsonStyle =
    JsonStyle { unicode_escaped: "", is_ascii_only: false, escapes_slash: false, has_upper_digits: false };

/// The default styles of other languages.
const JSON_STYLES: &[JsonStyle] = &[
    PLAIN_STYLE,
    // Go and Ruby on Rails, then Gson.
    JsonStyle { unicode_escaped: "<>&\u{2028}\u{2029}", ..PLAIN_STYLE },
    JsonStyle { unicode_escaped: "<>&='\u{2028}\u{2029}", ..PLAIN_STYLE },
    // Python, and PHP without escaped slashes.
    JsonStyle { is_ascii_only: true, ..PLAIN_STYLE },
    // PHP: by default, without escaped letters, and with the flags that make JSON safe in HTML.
    JsonStyle { is_ascii_only: true, escapes_slash: true, ..PLAIN_STYLE },
    JsonStyle { escapes_slash: true, ..PLAIN_STYLE },
    JsonStyle { unicode_escaped: "<>&'\"", is_ascii_only: true, escapes_slash: true, has_upper_digits: true },
    // Encoders that write upper-case digits, and .NET.
    JsonStyle { is_ascii_only: true, has_upper_digits: true, ..PLAIN_STYLE },
    JsonStyle { unicode_escaped: "<>&'\"+`", is_ascii_only: true, escapes_slash: false, has_upper_digits: true },
];

impl JsonStyle {
    /// Returns `text` as this style writes it between the quotes of a JSON string.
    fn write(self, text: &str) -> String {
        let mut json_text = String::with_capacity(text.len());
        for c in text.chars() {
            if self.unicode_escaped.contains(c) || (self.is_ascii_only && (!c.is_ascii() || c == '\u{7f}')) {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| json_text.push_str(&self.unicode_escape(*unit)));
                continue;
            }
            match c {
                '"' | '\\' => json_text.extend(['\\', c]),
                '/' if self.escapes_slash => json_text.push_str("\\/"),
                '\n' => json_text.push_str("\\n"),
                '\r' => json_text.push_str("\\r"),
                '\t' => json_text.push_str("\\t"),
                '\u{8}' => json_text.push_str("\\b"),
                '\u{c}' => json_text.push_str("\\f"),
                '\0'..' ' => json_text.push_str(&self.unicode_escape(c as u16)),
                c => json_text.push(c),
            }
        }
        json_text
    }

    /// Returns `\u` and the digits of a unit of UTF-16.
    fn unicode_escape(self, unit: u16) -> String {
        if self.has_upper_digits { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") }
    }
}

/// Adds the base64 forms: the complete encoding, with and without padding, and the forms of `secret` within a longer
/// text. Base64 makes four characters of three bytes, so there are three forms within a longer text, depending on the
/// offset of `secret`. These forms leave out the characters at both ends that also contain bits of the neighbours: each
/// has at most four bits of `secret`.
fn add_base64(secret: &[u8], forms: &mut BTreeSet<String>) {
    for (padded, unpadded) in [(STANDARD, STANDARD_NO_PAD), (URL_SAFE, URL_SAFE_NO_PAD)] {
        forms.insert(padded.encode(secret));
        forms.insert(unpadded.encode(secret));
        for offset in 0..3 {
            let encoded = unpadded.encode([&[0; 2][..offset], secret].concat());
            let (start, end) = ((offset * 8).div_ceil(6), (offset + secret.len()) * 8 / 6);
            forms.insert(encoded[start..end].to_owned());
        }
    }
}

/// Adds the percent-encoded forms, one for each set of characters that programs encode.
fn add_percent_encoded(secret: &str, forms: &mut BTreeSet<String>) {
    for encoded_characters in [ENCODED_IN_QUERIES, ENCODED_IN_PATHS, ENCODED_IN_SCRIPTS] {
        let upper = utf8_percent_encode(secret, encoded_characters).to_string();
        // HTML forms have `+` for a space.
        for encoded in [upper.replace("%20", "+"), upper] {
            forms.insert(with_lower_digits(&encoded));
            forms.insert(encoded);
        }
    }
}

/// Adds the forms in which each byte, or each unit of UTF-16, is written as its number: as `%XX`, as `\uXXXX`, and in
/// hex, in lower and upper case.
fn add_character_codes(secret: &str, forms: &mut BTreeSet<String>) {
    let bytes = |write: fn(u8) -> String| secret.bytes().map(write).collect::<String>();
    let units = |write: fn(u16) -> String| secret.encode_utf16().map(write).collect::<String>();
    forms.extend([
        bytes(|byte| format!("{byte:02x}")),
        bytes(|byte| format!("{byte:02X}")),
        bytes(|byte| format!("%{byte:02x}")),
        bytes(|byte| format!("%{byte:02X}")),
        units(|unit| format!("\\u{unit:04x}")),
        units(|unit| format!("\\u{unit:04X}")),
    ]);
}

/// Returns `encoded` with lower-case digits after each `%`.
fn with_lower_digits(encoded: &str) -> String {
    let mut lowered = String::with_capacity(encoded.len());
    let mut digits_left = 0_u8;
    for c in encoded.chars() {
        lowered.push(if digits_left > 0 { c.to_ascii_lowercase() } else { c });
        digits_left = if c == '%' { 2 } else { digits_left.saturating_sub(1) };
    }
    lowered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_found(secret: &str, text: &str) -> bool {
        forms(secret).iter().any(|form| text.contains(form.as_str()))
    }

    #[test]
    fn encoded_forms_of_a_secret_are_known() {
        let secret = "p/ä s+w:\"ord!\n'~";
        for made in [
            secret,
            r#"p/ä s+w:\"ord!\n'~"#,
            r#"p/ä s+w:\\\"ord!\\n'~"#,
            "p%2F%C3%A4%20s%2Bw%3A%22ord%21%0A%27~",
            "p%2f%c3%a4%20s%2bw%3a%22ord%21%0a%27~",
            "p/%C3%A4%20s%2Bw%3A%22ord%21%0A%27~",
            "p%2F%C3%A4%20s%2Bw%3A%22ord!%0A'~",
            "p%2F%C3%A4+s%2Bw%3A%22ord%21%0A%27~",
        ] {
            assert!(is_found(secret, made), "{made}");
        }
        let secret = "p/ä<&+'=\"\u{1f511}";
        for made in [
            // Go, Gson, Python, PHP, PHP with `JSON_HEX_TAG` and its like, .NET; JSON inside of JSON.
            r#"p/ä\u003c\u0026+'=\"🔑"#,
            r#"p/ä\u003c\u0026+\u0027\u003d\"🔑"#,
            r#"p/\u00e4<&+'=\"\ud83d\udd11"#,
            r#"p\/\u00e4<&+'=\"\ud83d\udd11"#,
            r#"p\/ä<&+'=\"🔑"#,
            r#"p\/\u00E4\u003C\u0026+\u0027=\u0022\uD83D\uDD11"#,
            r#"p/\u00E4\u003C\u0026\u002B\u0027=\u0022\uD83D\uDD11"#,
            r#"p/ä\\u003c\\u0026+'=\\\"🔑"#,
            r#"p\\\/\\u00e4<&+'=\\\"\\ud83d\\udd11"#,
            r#"p\\/\\u00e4<&+'=\\\"\\ud83d\\udd11"#,
        ] {
            assert!(is_found(secret, made), "{made}");
        }
        assert!(!is_found("short", "c2hvcnQ"), "the form of a short secret would be found everywhere");
        assert!(
            forms("abcdefgh").len() < 18,
            "a secret without special characters has few forms: {:?}",
            forms("abcdefgh")
        );
    }

    #[test]
    fn a_secret_with_every_character_as_a_number_is_known() {
        for (made, secret) in [
            ("%63%61%6e%61%72%79%2d%31", "canary-1"),
            ("%63%61%6E%61%72%79%2D%31", "canary-1"),
            (r"\u0063\u0061\u006e\u0061\u0072\u0079\u002d\u0031", "canary-1"),
            (r"\u0063\u0061\u006E\u0061\u0072\u0079\u002D\u0031", "canary-1"),
            ("63616e6172792d31", "canary-1"),
            ("63616E6172792D31", "canary-1"),
        ] {
            assert!(is_found(secret, &format!("x{made}y")), "{made}");
        }
    }

    #[test]
    fn a_long_secret_is_not_encoded_repeatedly() {
        assert!(forms(&"x".repeat(MAX_ENCODED + 1)).len() <= 2);
    }

    proptest! {
        #[test]
        fn json_of_every_style_has_the_same_meaning(text in any::<String>()) {
            for style in JSON_STYLES {
                let written = format!("\"{}\"", style.write(&text));
                prop_assert_eq!(&serde_json::from_str::<String>(&written).unwrap(), &text, "{}", written);
            }
            prop_assert_eq!(format!("\"{}\"", PLAIN_STYLE.write(&text)), serde_json::Value::from(&*text).to_string());
        }

        #[test]
        fn a_text_that_was_escaped_in_any_styles_is_the_same_once_unescaped(
            text in r#"[aunbt0164cd8é🔑"\\/<&\n\t\x01]{0,12}"#,
            styles in prop::collection::vec(0..JSON_STYLES.len(), 1..5),
        ) {
            let unescaped = |text: &str| Unescaped::of(text, false).map_or_else(|| text.to_owned(), |it| it.text().to_owned());
            let written = styles.iter().fold(text.clone(), |text, style| JSON_STYLES[*style].write(&text));
            prop_assert_eq!(unescaped(&written), unescaped(&text), "{}", written);
        }

        #[test]
        fn a_secret_is_found_in_base64_wherever_it_begins(
            before in "\\PC{0,9}", secret in "[ -~]{8,40}", after in "\\PC{0,9}",
        ) {
            let text = format!("{before}{secret}{after}");
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text), STANDARD_NO_PAD.encode(&text)] {
                prop_assert!(is_found(&secret, &encoded), "{encoded}");
            }
        }
    }
}
