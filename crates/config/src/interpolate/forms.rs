//! How a secret looks in what other programs write: as it is, and in the encodings that they use without being asked
//! to.

use std::collections::BTreeSet;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::unescaped::Unescaped;

/// A shorter value is not looked for in texts: it would be found everywhere.
pub(super) const MIN_SECRET: usize = 6;

/// A shorter secret is looked for as it is, and in JSON: encoded, a short text is found in other texts by chance.
pub(super) const MIN_ENCODED: usize = 8;

/// A longer one is a document; programs that encode it break it into lines.
const MAX_ENCODED: usize = 8 * 1024;

/// What stays as it is in a query (RFC 3986, 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in a path, and where Python quotes.
const IN_PATHS: &AsciiSet = &UNRESERVED.remove(b'/');

/// The same for JavaScript's `encodeURIComponent`.
const IN_SCRIPTS: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

/// `secret` as it is, as JSON has it, and without escapes; from [`MIN_ENCODED`] bytes on also in base64, wherever in the encoded text it
/// begins, percent-encoded, in hex, and with every character as `%XX` or `\\uXXXX`.
pub(super) fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    // Letters and digits are themselves in JSON and in URLs.
    let is_plain = secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    for style in STYLES.iter().filter(|_| !is_plain) {
        let once = style.write(secret);
        // What is JSON inside of a text of JSON, of the same writer or of a plain one.
        forms.extend([style.write(&once), PLAIN.write(&once), once]);
    }
    if !is_plain {
        unescaped(secret, &mut forms);
    }
    if (MIN_ENCODED..=MAX_ENCODED).contains(&secret.len()) {
        base64(secret.as_bytes(), &mut forms);
        if !is_plain {
            percent(secret, &mut forms);
        }
        every_character(secret, &mut forms);
    }
    forms
}

/// How `secret` looks where the escapes of its text are undone, also behind a backslash, which makes another character of `n`.
fn unescaped(secret: &str, forms: &mut BTreeSet<String>) {
    for text in [secret, &format!("\\{secret}")] {
        let unescaped = Unescaped::of(text, false);
        let unescaped = unescaped.as_ref().map(Unescaped::text).filter(|text| text.len() >= MIN_SECRET);
        forms.extend(unescaped.map(str::to_owned));
    }
}

/// What a writer of JSON escapes although it need not.
#[derive(Clone, Copy)]
struct Style {
    /// As `\u` and four digits.
    in_digits: &'static str,
    /// The same for all that is not ASCII, and for DEL.
    is_ascii: bool,
    /// With a backslash before `/`.
    slash: bool,
    /// With `A` to `F` as digits.
    is_upper: bool,
}

/// JavaScript's, and Rust's.
const PLAIN: Style = Style { in_digits: "", is_ascii: false, slash: false, is_upper: false };

/// How other languages write JSON by default.
const STYLES: &[Style] = &[
    PLAIN,
    // Go, Ruby on Rails, and Gson.
    Style { in_digits: "<>&\u{2028}\u{2029}", ..PLAIN },
    Style { in_digits: "<>&='\u{2028}\u{2029}", ..PLAIN },
    // Python; PHP, also with its slashes or its letters left alone, or made safe for HTML.
    Style { is_ascii: true, ..PLAIN },
    Style { is_ascii: true, slash: true, ..PLAIN },
    Style { slash: true, ..PLAIN },
    Style { in_digits: "<>&'\"", is_ascii: true, slash: true, is_upper: true },
    // Encoders that write upper-case digits; .NET.
    Style { is_ascii: true, is_upper: true, ..PLAIN },
    Style { in_digits: "<>&'\"+`", is_ascii: true, slash: false, is_upper: true },
];

impl Style {
    /// `text` as it stands between quotes.
    fn write(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if self.in_digits.contains(c) || (self.is_ascii && (!c.is_ascii() || c == '\u{7f}')) {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&self.digits(*unit)));
                continue;
            }
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '/' if self.slash => out.push_str("\\/"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..' ' => out.push_str(&self.digits(c as u16)),
                c => out.push(c),
            }
        }
        out
    }

    fn digits(self, unit: u16) -> String {
        if self.is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") }
    }
}

/// Three bytes are four characters, so where `secret` begins decides which: each of the three ways, without the characters
/// that hold bits of what stands beside it (at most four bits of `secret` are in those). The whole of it, with and
/// without its padding, too.
fn base64(secret: &[u8], forms: &mut BTreeSet<String>) {
    for (whole, bare) in [(STANDARD, STANDARD_NO_PAD), (URL_SAFE, URL_SAFE_NO_PAD)] {
        forms.insert(whole.encode(secret));
        forms.insert(bare.encode(secret));
        for before in 0..3 {
            let encoded = bare.encode([&[0; 2][..before], secret].concat());
            let (start, end) = ((before * 8).div_ceil(6), (before + secret.len()) * 8 / 6);
            forms.insert(encoded[start..end].to_owned());
        }
    }
}

fn percent(secret: &str, forms: &mut BTreeSet<String>) {
    for kept in [UNRESERVED, IN_PATHS, IN_SCRIPTS] {
        let upper = utf8_percent_encode(secret, kept).to_string();
        // Forms have `+` for a space.
        for encoded in [upper.replace("%20", "+"), upper] {
            forms.insert(lower(&encoded));
            forms.insert(encoded);
        }
    }
}

/// With each byte, or each unit of UTF-16, written as its number: as `%XX`, as `\uXXXX`, and in hex, in small and large digits.
fn every_character(secret: &str, forms: &mut BTreeSet<String>) {
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

/// The same with small letters behind each `%`.
fn lower(encoded: &str) -> String {
    let mut out = String::with_capacity(encoded.len());
    let mut left = 0_u8;
    for c in encoded.chars() {
        out.push(if left > 0 { c.to_ascii_lowercase() } else { c });
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_found(secret: &str, text: &str) -> bool {
        forms(secret).iter().any(|form| text.contains(form.as_str()))
    }

    #[test]
    fn what_programs_make_of_a_secret_is_known() {
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
        assert!(!is_found("short", "c2hvcnQ"), "it would be found everywhere");
        assert!(forms("abcdefgh").len() < 18, "what is plain has few forms: {:?}", forms("abcdefgh"));
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
    fn what_is_long_is_not_encoded_over_and_over() {
        assert!(forms(&"x".repeat(MAX_ENCODED + 1)).len() <= 2);
    }

    proptest! {
        #[test]
        fn every_style_means_the_same(text in any::<String>()) {
            for style in STYLES {
                let written = format!("\"{}\"", style.write(&text));
                prop_assert_eq!(&serde_json::from_str::<String>(&written).unwrap(), &text, "{}", written);
            }
            prop_assert_eq!(format!("\"{}\"", PLAIN.write(&text)), serde_json::Value::from(&*text).to_string());
        }

        #[test]
        fn in_every_style_and_at_every_depth_a_text_is_the_same_without_escapes(
            text in r#"[aunbt0164cd8é🔑"\\/<&\n\t\x01]{0,12}"#, styles in prop::collection::vec(0..STYLES.len(), 1..5),
        ) {
            let unescaped = |text: &str| Unescaped::of(text, false).map_or_else(|| text.to_owned(), |it| it.text().to_owned());
            let written = styles.iter().fold(text.clone(), |text, style| STYLES[*style].write(&text));
            prop_assert_eq!(unescaped(&written), unescaped(&text), "{}", written);
        }

        #[test]
        fn in_base64_it_is_found_wherever_it_begins(
            before in "\\PC{0,9}", secret in "[ -~]{8,40}", after in "\\PC{0,9}",
        ) {
            let text = format!("{before}{secret}{after}");
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text), STANDARD_NO_PAD.encode(&text)] {
                prop_assert!(is_found(&secret, &encoded), "{encoded}");
            }
        }
    }
}
