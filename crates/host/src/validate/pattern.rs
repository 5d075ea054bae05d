//! Estimates the cost of a regular expression from its text.

/// Estimates, rather too high, the number of states of the automaton for this expression: the sum for all characters
/// and classes, with counted repetitions multiplied out. An invalid expression also gets a number; the compiler refuses
/// it later.
pub(super) fn states(pattern: &str) -> u64 {
    let mut chars = pattern.chars().peekable();
    // The sums of the open groups, and the size of the last element, which a repetition would repeat.
    let mut group_sums = vec![0_u64];
    let mut element_size = 0_u64;
    while let Some(c) = chars.next() {
        let added_size = match c {
            '(' => {
                group_sums.push(0);
                continue;
            }
            ')' => {
                element_size = if group_sums.len() > 1 { group_sums.pop().unwrap_or_default() } else { 0 };
                element_size
            }
            '{' => {
                let bounds: String = std::iter::from_fn(|| chars.next_if(|&c| c != '}')).collect();
                let times = bounds.split(',').filter_map(|n| n.trim().parse::<u64>().ok()).max().unwrap_or(1);
                let repeated_size = element_size.saturating_mul(times.saturating_sub(1));
                element_size = element_size.saturating_add(repeated_size);
                repeated_size
            }
            '[' => {
                element_size = class_size(&mut chars);
                element_size
            }
            '\\' => {
                element_size = escape_size(&mut chars);
                element_size
            }
            '*' | '+' | '?' | '|' | '^' | '$' | '}' => 1,
            '.' => {
                element_size = CLASS_STATES;
                element_size
            }
            _ => {
                element_size = c.len_utf8() as u64;
                element_size
            }
        };
        if let Some(sum) = group_sums.last_mut() {
            *sum = sum.saturating_add(added_size);
        }
    }
    group_sums.into_iter().fold(1, u64::saturating_add)
}

/// Returns whether the expression may need an engine that backtracks: look-around, back-references, atomic groups.
/// Returns `true` in uncertain cases.
pub(super) fn may_backtrack(pattern: &str) -> bool {
    let has_special_group = pattern.split("(?").skip(1).any(|rest| !rest.starts_with(':'));
    let has_reference = pattern
        .split('\\')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, 'k' | 'g' | 'G' | 'K')));
    let has_possessive_quantifier = ["*+", "++", "?+", "}+"].iter().any(|quantifier| pattern.contains(quantifier));
    has_special_group || has_reference || has_possessive_quantifier
}

/// The states of a class whose members are not all ASCII, such as `.`, which takes a few bytes of UTF-8.
const CLASS_STATES: u64 = 8;

/// The states of a Unicode property such as `\p{L}`.
const PROPERTY_STATES: u64 = 400;

/// Skips to the end of a `[…]` and returns its size: 1 for ASCII members.
fn class_size(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> u64 {
    let mut size = if chars.next_if_eq(&'^').is_some() { CLASS_STATES } else { 1 };
    // A `]` at the start is a member, in the Rust dialect.
    chars.next_if_eq(&']');
    while let Some(c) = chars.next() {
        size += match c {
            ']' => break,
            '\\' => escape_size(chars) - 1,
            c if c.is_ascii() => 0,
            _ => CLASS_STATES,
        };
    }
    size
}

/// Returns the size of an escape whose backslash has been read.
fn escape_size(chars: &mut impl Iterator<Item = char>) -> u64 {
    match chars.next() {
        Some('p' | 'P') => PROPERTY_STATES,
        Some('W' | 'D' | 's' | 'S') => CLASS_STATES,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(pattern in any::<String>(), knotty in r"([a(){}\[\]\\?*+,9|.p]){0,40}") {
            states(&pattern);
            may_backtrack(&pattern);
            prop_assert!(states(&knotty) > 0);
            may_backtrack(&knotty);
        }
    }

    #[test]
    fn repetitions_are_multiplied_out() {
        assert!(states("^[a-z]+$") < 30);
        assert!((36..60).contains(&states("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")));
        assert!(states("(a{100}){100}") >= 10_000);
        assert!(states("((a{1000}){1000}){1000}") >= 1_000_000_000);
        assert!(states("(((((((a{99999999}){99999999}){99999999}){99999999}){99999999})))") > u64::MAX / 2);
        assert!(states(r"\p{L}{2,5}") >= 2_000);
        assert!(states(r"a{,500}") >= 500);
    }

    #[test]
    fn patterns_that_need_backtracking_are_recognized() {
        for pattern in [r"^(?!\.)a", r"(a)\1", r"a(?<=b)", r"(?<n>a)\k<n>", r"a++", r"(?>a)"] {
            assert!(may_backtrack(pattern), "{pattern}");
        }
        for pattern in ["^[a-z]+$", r"(?:a|b)+\.\w", "a+b+", r"\d{4}-\d{2}"] {
            assert!(!may_backtrack(pattern), "{pattern}");
        }
    }
}
