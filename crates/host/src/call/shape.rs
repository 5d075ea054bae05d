//! Cuts the text of a result to a size that a model can use.

use std::borrow::Cow;

/// The result of [`fit`]: the part of a text that a model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted<'a> {
    /// The whole text, or its beginning and the marker line; at most as many bytes as the caller allows.
    pub(crate) text: Cow<'a, str>,
    /// The number of bytes of the original that are missing; 0 if none are.
    pub(crate) omitted_bytes: usize,
}

/// Fits a text into `max_bytes` bytes.
///
/// Cuts a longer text between two characters, and appends a marker line for the model. The marker has the shown size
/// and the total size. If the whole text is stored as an artifact, `handle` names it in the marker. The marker counts
/// towards `max_bytes`. If it does not fit, a shorter marker replaces it, or none.
pub(crate) fn fit<'a>(text: &'a str, max_bytes: usize, handle: Option<&str>) -> Fitted<'a> {
    if text.len() <= max_bytes {
        return Fitted { text: Cow::Borrowed(text), omitted_bytes: 0 };
    }
    // Try the marker with the handle first, then the shorter one without it.
    for shown_handle in [handle, None] {
        if let Some(fitted) = cut_and_mark(text, max_bytes, shown_handle) {
            return fitted;
        }
    }
    let head = &text[..text.floor_char_boundary(max_bytes)];
    Fitted { text: Cow::Borrowed(head), omitted_bytes: text.len() - head.len() }
}

/// Returns the beginning of the text and the marker; `None` if the marker alone is longer than `max_bytes`.
fn cut_and_mark<'a>(text: &'a str, max_bytes: usize, handle: Option<&str>) -> Option<Fitted<'a>> {
    // The number of bytes shown depends on the marker's length, so reserve as many digits as the total has.
    let longest_marker = marker(text.len(), text.len(), handle);
    let head = &text[..text.floor_char_boundary(max_bytes.checked_sub(longest_marker.len())?)];
    let text_and_marker = [head, &marker(head.len(), text.len(), handle)].concat();
    Some(Fitted { text: Cow::Owned(text_and_marker), omitted_bytes: text.len() - head.len() })
}

/// Returns the line that says how much of the text is shown.
fn marker(shown_bytes: usize, total_bytes: usize, handle: Option<&str>) -> String {
    let place = handle.map_or(String::new(), |handle| format!("; the whole result is kept as {handle}"));
    format!("\n[truncated: the first {shown_bytes} of {total_bytes} bytes are shown{place}]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_budget_holds_and_every_byte_is_accounted_for(
            text in "[aé漢👩\n]{0,300}",
            max in 0_usize..400,
            handle in prop::option::of("[a-zé]{0,60}"),
        ) {
            let fitted = fit(&text, max, handle.as_deref());
            prop_assert!(fitted.text.len() <= max);
            let is_cut = fitted.omitted_bytes > 0;
            prop_assert_eq!(is_cut, text.len() > max);
            let shown = text.len() - fitted.omitted_bytes;
            prop_assert!(fitted.text.starts_with(&text[..shown]));
            if is_cut && max >= 160 {
                prop_assert!(fitted.text.ends_with(']'));
                prop_assert!(max - fitted.text.len() <= 8, "a character and the digits at most are wasted");
            }
        }

        #[test]
        fn text_within_the_limit_is_borrowed(text in ".{0,80}", spare in 0_usize..10) {
            let fitted = fit(&text, text.len() + spare, Some("x"));
            prop_assert!(matches!(fitted.text, Cow::Borrowed(whole) if whole == text));
        }
    }

    #[test]
    fn a_long_text_ends_in_a_line_that_explains() {
        let text = "x".repeat(300_000);
        let fitted = fit(&text, 200_000, Some("artifact 7"));
        assert_eq!(fitted.text.len(), 200_000);
        let (_, line) = fitted.text.rsplit_once('\n').unwrap();
        assert_eq!(
            line,
            "[truncated: the first 199904 of 300000 bytes are shown; the whole result is kept as artifact 7]"
        );
        assert_eq!(fitted.omitted_bytes, 300_000 - 199_904);
    }

    #[test]
    fn the_cut_is_between_characters() {
        let text = "é".repeat(100);
        assert_eq!(fit(&text, 7, None).text, "ééé");
        let fitted = fit(&text, 80, None);
        assert_eq!(fitted.text, "ééééééééééééééé\n[truncated: the first 30 of 200 bytes are shown]");
    }

    #[test]
    fn a_handle_too_long_for_the_budget_is_left_out() {
        let text = "x".repeat(100);
        let fitted = fit(&text, 70, Some(&"h".repeat(500)));
        assert!(fitted.text.ends_with("of 100 bytes are shown]"));
    }
}
