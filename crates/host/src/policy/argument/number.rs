//! Compares numbers by value, independently of their notation: `1`, `1.0` and `1e0` are equal. A rule that denies
//! calls, or has the user confirm them, is *careful*: for it, a text that some program would read as the number is
//! equal, too.

use std::borrow::Cow;

use serde_json::Number;

/// The largest power of ten, in either direction, that is written out in plain digits: more than 64-bit floats need.
/// Numbers beyond it are compared, but not written out.
const MAX_PLAIN_EXPONENT: i64 = 1_100;

/// The prefixes of other bases than ten, in JavaScript, Python, Rust and Go.
const BASES: &[(&str, u32)] = &[("0x", 16), ("0o", 8), ("0b", 2)];

/// The zeros of all scripts other than ASCII (Unicode's category Nd). Each is followed by its nine other digits.
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
    0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0,
    0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50,
    0x11d50, 0x11da0, 0x11de0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8,
    0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

/// The number of a rule.
#[derive(Clone, Debug)]
pub(super) struct ExpectedNumber {
    exact: Decimal,
    /// The value as a 64-bit float, rounded as the JSON parser rounds an argument; `None` if it is too large for a
    /// float.
    rounded: Option<f64>,
}

impl ExpectedNumber {
    /// Parses the number; `None` if `written` is not a JSON number.
    pub(super) fn read(written: &str) -> Option<Self> {
        let exact = Decimal::read(written)?;
        Some(Self { exact, rounded: parse_json(written).and_then(|number| number.as_f64()) })
    }

    /// Returns whether `number` equals this one. A careful rule also accepts a number that was rounded to the same
    /// value when it was read.
    pub(super) fn equals(&self, number: &Number, is_careful: bool) -> bool {
        Decimal::read(&number.to_string()).is_some_and(|exact| exact == self.exact)
            || (is_careful && number.is_f64() && self.rounded.is_some() && self.rounded == number.as_f64())
    }
}

/// Parses a text that is exactly a JSON number.
fn parse_json(text: &str) -> Option<Number> {
    Decimal::read(text)?;
    serde_json::from_str(text).ok()
}

/// Parses `text` as the most lenient programs would. They skip white space, and accept a sign `+`, leading zeros, `_`
/// between digits, a point at either end, another base (`0x1`), and digits of every script.
pub(super) fn parse_any_spelling(text: &str) -> Option<Number> {
    // JavaScript counts U+FEFF as white space, Python the separators from U+001C on.
    let is_skipped = |c: char| c.is_whitespace() || matches!(c, '\0' | '\u{1c}'..='\u{1f}' | '\u{feff}');
    let text = with_ascii_digits(text.trim_matches(is_skipped));
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    if let Some(whole) = parse_other_base(unsigned) {
        return parse_json(&format!("{sign}{whole}"));
    }
    let (mantissa, power) = unsigned.find(['e', 'E']).map_or((unsigned, ""), |end| unsigned.split_at(end));
    let [mantissa, power] = [mantissa, power].map(|part| part.replace('_', ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
    let has_no_digits = whole.is_empty() && fraction.is_empty();
    // A second sign makes no number.
    if has_no_digits || whole.starts_with(['+', '-']) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    parse_json(&format!("{sign}{whole}{point}{fraction}{power}"))
}

/// Returns `text` with the digits of all scripts replaced by ASCII digits, as Python reads them.
fn with_ascii_digits(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| digit(c).unwrap_or(c)).collect())
}

/// Returns the ASCII digit for `c`.
fn digit(c: char) -> Option<char> {
    let number = u32::from(c);
    let value = number - ZEROS[..ZEROS.partition_point(|zero| *zero <= number)].last()?;
    if value < 10 { char::from_digit(value, 10) } else { None }
}

/// Returns the whole number after `0x`, `0o` or `0b`; `None` if there is none, or if it has more than 128 bits.
fn parse_other_base(unsigned: &str) -> Option<u128> {
    let (_, base) =
        BASES.iter().find(|(prefix, _)| unsigned.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))?;
    let digits = unsigned[2..].replace('_', "");
    // `from_str_radix` would accept a second sign.
    if digits.starts_with('+') {
        return None;
    }
    u128::from_str_radix(&digits, *base).ok()
}

/// Returns a JSON number without an exponent and without redundant zeros; `None` if it would be very long.
pub(super) fn plain_decimal(json: &str) -> Option<String> {
    Decimal::read(json)?.to_plain()
}

/// A decimal number, exactly: `digits` times ten to the power of `exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads the grammar of RFC 8259, section 6.
    fn read(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
            Some(_) => return None,
            None => (mantissa, ""),
        };
        if !is_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let all_digits = [whole, fraction].concat();
        let without_trailing_zeros = all_digits.trim_end_matches('0');
        let digits = without_trailing_zeros.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits: String::new(), exponent: 0 });
        }
        let trailing_zeros = i64::try_from(all_digits.len() - without_trailing_zeros.len()).ok()?;
        let fraction_digits = i64::try_from(fraction.len()).ok()?;
        let exponent = exponent.checked_add(trailing_zeros)?.checked_sub(fraction_digits)?;
        Some(Self { is_negative, digits: digits.to_owned(), exponent })
    }

    fn to_plain(&self) -> Option<String> {
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        if !(-MAX_PLAIN_EXPONENT..=MAX_PLAIN_EXPONENT).contains(&self.exponent) {
            return None;
        }
        let sign = if self.is_negative { "-" } else { "" };
        let shift = usize::try_from(self.exponent.unsigned_abs()).ok()?;
        if self.exponent >= 0 {
            return Some(format!("{sign}{}{}", self.digits, "0".repeat(shift)));
        }
        let padded = format!("{:0>width$}", self.digits, width = shift + 1);
        let (whole, fraction) = padded.split_at(padded.len() - shift);
        Some(format!("{sign}{whole}.{fraction}"))
    }
}

/// Returns the exponent after the `e`.
fn parse_exponent(written: &str) -> Option<i64> {
    let (is_negative, digits) = match written.as_bytes().first()? {
        b'-' => (true, &written[1..]),
        b'+' => (false, &written[1..]),
        _ => (false, written),
    };
    if !is_digits(digits) {
        return None;
    }
    let power: i64 = digits.parse().ok()?;
    Some(if is_negative { -power } else { power })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_equal_in_every_notation() {
        for (written, expected) in [
            ("1", "1"),
            ("1.0", "1"),
            ("1e0", "1"),
            ("10E-1", "1"),
            ("0.1e+1", "1"),
            ("-0", "0"),
            ("-0.0e9", "0"),
            ("100", "100"),
            ("1e2", "100"),
            ("-0.50", "-0.5"),
            ("5e-3", "0.005"),
            ("12.5e-1", "1.25"),
            ("9007199254740993", "9007199254740993"),
        ] {
            assert_eq!(plain_decimal(written).as_deref(), Some(expected), "{written}");
        }
        for other in ["", "-", "01", "1.", ".5", "+1", "1e", "0x1", "1 ", "NaN", "1e99999999999999999999", "1_0"] {
            assert_eq!(Decimal::read(other), None, "{other}");
        }
        assert_eq!(plain_decimal("1e400"), Some(format!("1{}", "0".repeat(400))));
        assert_eq!(plain_decimal("1e4000000000"), None);
    }

    #[test]
    fn a_text_spells_the_number_that_a_program_would_take_it_for() {
        for text in [
            "1",
            "1.0",
            " 1",
            "1\n",
            "\u{a0}1\0",
            "+1",
            "01",
            "0_1",
            "1.",
            "1_0e-1",
            "00.1e1",
            "+.1E+1",
            "0x1",
            "0X0_1",
            "0b1",
            "+0B01",
            "0o1",
            "\u{feff}1",
            "1\u{1f}",
            "\u{ff11}",
            "\u{661}",
            "\u{1d7d9}",
            "\u{6f1}.\u{ff10}",
        ] {
            let number = parse_any_spelling(text).unwrap_or_else(|| panic!("{text:?}"));
            assert_eq!(plain_decimal(&number.to_string()).as_deref(), Some("1"), "{text:?}");
        }
        let decimal = |text: &str| parse_any_spelling(text).map(|number| number.to_string());
        assert_eq!(decimal("-0xFf").as_deref(), Some("-255"));
        assert_eq!(decimal(&format!("0x{}10", "0".repeat(100))).as_deref(), Some("16"));
        for text in [
            "", " ", "+", "-", ".", "e1", "0x", "0x+1", "0xg", "0b2", "0o8", "x1", "\u{b9}", "1 2", "1x", "--1", "+-1",
            "1.2.3", "one", "1e",
        ] {
            assert_eq!(parse_any_spelling(text), None, "{text:?}");
        }
    }

    /// Compares the handwritten table [`ZEROS`] with Unicode's own property.
    #[test]
    fn every_decimal_digit_of_unicode_is_read() {
        use icu_properties::{CodePointMapData, props::GeneralCategory};
        let categories = CodePointMapData::<GeneralCategory>::new();
        let is_digit = |c: &char| categories.get(*c) == GeneralCategory::DecimalNumber;
        for (number, c) in ('\u{80}'..=char::MAX).filter(is_digit).enumerate() {
            assert_eq!(digit(c), char::from_digit(u32::try_from(number % 10).unwrap(), 10), "U+{:04X}", u32::from(c));
        }
        for zero in ZEROS {
            assert!(char::from_u32(*zero).as_ref().is_some_and(is_digit), "U+{zero:04X}");
        }
        assert_eq!(digit('1'), None);
    }

    #[test]
    fn numbers_that_differ_are_not_taken_for_one_another() {
        let is = |wanted: &str, given: &str| {
            let (wanted, given) =
                (ExpectedNumber::read(wanted).unwrap(), serde_json::from_str::<Number>(given).unwrap());
            (wanted.equals(&given, false), wanted.equals(&given, true))
        };
        for same in ["1", "1.0", "1e0", "10e-1"] {
            assert_eq!(is("1", same), (true, true), "{same}");
            assert_eq!(is(same, "1"), (true, true), "{same}");
        }
        assert_eq!(is("0", "-0"), (true, true));
        assert_eq!(is("0", "-0.0"), (true, true));
        assert_eq!(is("9007199254740992", "9007199254740993"), (false, false));
        assert_eq!(is("9007199254740993", "9007199254740993.0"), (false, true), "it was rounded when it was read");
        assert_eq!(is("18446744073709551617", "18446744073709551617"), (false, true), "it was rounded, too");
        assert_eq!(is("1e400", "1e308"), (false, false));
        assert_eq!(is("0.1", "0.10"), (true, true));
    }
}
