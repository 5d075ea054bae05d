//! Holds back the end of a streamed text as long as it may be the beginning of a secret.

use std::mem;

/// The kinds of text that a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// Text for the user.
    Text,
    /// Thinking.
    Thinking,
}

/// Regroups the pieces of a stream so that no secret is split between two pieces. It is meant for a
/// [`Front`](crate::Front) that hides secrets in the text that it shows. Does no IO.
#[derive(Debug, Default)]
pub struct SecretBuffer {
    /// The end of the text so far, which may be the beginning of a secret.
    withheld_text: String,
    /// The kind of that text; `None` before the first piece and after [`Self::take`].
    kind: Option<TextKind>,
}

impl SecretBuffer {
    /// Takes the next piece of the stream, and returns the texts that can be shown now, in order. `safe_bytes` returns
    /// how many bytes at the start of a text can be shown, whatever text follows.
    pub fn push(&mut self, kind: TextKind, piece: &str, safe_bytes: impl Fn(&str) -> usize) -> Vec<(TextKind, String)> {
        // Consecutive pieces of one kind are one text.
        let previous_text = if self.kind == Some(kind) { None } else { self.take() };
        self.kind = Some(kind);
        self.withheld_text.push_str(piece);
        let safe_text: String = self.withheld_text.drain(..safe_bytes(&self.withheld_text)).collect();
        previous_text.into_iter().chain((!safe_text.is_empty()).then_some((kind, safe_text))).collect()
    }

    /// Returns the text that is still held back. Call it at the end of the stream.
    pub fn take(&mut self) -> Option<(TextKind, String)> {
        let withheld_text = mem::take(&mut self.withheld_text);
        self.kind.take().filter(|_| !withheld_text.is_empty()).map(|kind| (kind, withheld_text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_text_is_shown_in_complete_characters_and_in_order() {
        // The text from the first `x` on may be the beginning of a secret.
        let safe_bytes = |text: &str| text.find('x').unwrap_or(text.len());
        let mut buffer = SecretBuffer::default();
        assert_eq!(buffer.push(TextKind::Thinking, "hm ax", safe_bytes), [(TextKind::Thinking, "hm a".into())]);
        assert_eq!(buffer.push(TextKind::Thinking, "b", safe_bytes), []);
        assert_eq!(
            buffer.push(TextKind::Text, "well", safe_bytes),
            [(TextKind::Thinking, "xb".into()), (TextKind::Text, "well".into())]
        );
        assert_eq!(buffer.take(), None);
        assert_eq!(buffer.push(TextKind::Text, "x", safe_bytes), []);
        assert_eq!(buffer.take(), Some((TextKind::Text, "x".into())));
        assert_eq!(buffer.take(), None);
    }
}
