//! What a model says, held back as far as it may be the beginning of a secret.

use std::mem;

/// Whom words of a model are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// For the person.
    Text,
    /// What the model thinks.
    Thinking,
}

/// A stream of pieces, in which secrets are cut anywhere, as pieces that have none cut: for a [`Front`](crate::Front) that hides
/// secrets in what it shows. Does no IO.
#[derive(Debug, Default)]
pub struct Held {
    words: String,
    kind: Option<Words>,
}

impl Held {
    /// What can be shown once `piece` has come, in order. `whole` says how many bytes of a text can be shown whatever comes
    /// next.
    pub fn push(&mut self, kind: Words, piece: &str, whole: impl Fn(&str) -> usize) -> Vec<(Words, String)> {
        // What is said next to each other is read next to each other.
        let before = if self.kind == Some(kind) { None } else { self.take() };
        self.kind = Some(kind);
        self.words.push_str(piece);
        let shown: String = self.words.drain(..whole(&self.words)).collect();
        before.into_iter().chain((!shown.is_empty()).then_some((kind, shown))).collect()
    }

    /// What is left, when nothing more comes.
    pub fn take(&mut self) -> Option<(Words, String)> {
        let words = mem::take(&mut self.words);
        self.kind.take().filter(|_| !words.is_empty()).map(|kind| (kind, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_shown_as_far_as_they_are_whole_and_never_mixed() {
        // Everything after an `x` may go on.
        let whole = |text: &str| text.find('x').unwrap_or(text.len());
        let mut held = Held::default();
        assert_eq!(held.push(Words::Thinking, "hm ax", whole), [(Words::Thinking, "hm a".into())]);
        assert_eq!(held.push(Words::Thinking, "b", whole), []);
        assert_eq!(
            held.push(Words::Text, "well", whole),
            [(Words::Thinking, "xb".into()), (Words::Text, "well".into())]
        );
        assert_eq!(held.take(), None);
        assert_eq!(held.push(Words::Text, "x", whole), []);
        assert_eq!(held.take(), Some((Words::Text, "x".into())));
        assert_eq!(held.take(), None);
    }
}
