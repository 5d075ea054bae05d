//! The ways to read a text in which secrets are looked for.

use std::ops::Range;

use super::{unescaped::Unescaped, unwrapped::Unwrapped};

/// A text as it is, without escapes, and without line breaks in what could be encoded.
pub(super) struct Views<'t> {
    text: &'t str,
    unescaped: Option<Unescaped>,
    /// Of the text without escapes.
    unwrapped: Option<Unwrapped>,
}

/// One way to read it.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    /// The text when it is read this way.
    pub(super) text: &'v str,
    unescaped: Option<&'v Unescaped>,
    unwrapped: Option<&'v Unwrapped>,
}

impl<'t> Views<'t> {
    /// When `goes_on`, more text may follow.
    pub(super) fn of(text: &'t str, goes_on: bool) -> Self {
        let unescaped = Unescaped::of(text, goes_on);
        let unwrapped = Unwrapped::of(unescaped.as_ref().map_or(text, Unescaped::text), goes_on);
        Self { text, unescaped, unwrapped }
    }

    /// All ways that differ.
    pub(super) fn each(&self) -> impl Iterator<Item = View<'_>> {
        let (unescaped, unwrapped) = (self.unescaped.as_ref(), self.unwrapped.as_ref());
        let as_it_is = View { text: self.text, unescaped: None, unwrapped: None };
        let without_escapes = unescaped.map(|view| View { text: view.text(), unescaped, unwrapped: None });
        let without_breaks = unwrapped.map(|view| View { text: view.text(), unescaped, unwrapped });
        [Some(as_it_is), without_escapes, without_breaks].into_iter().flatten()
    }

    /// Where the escape begins that the text's `at` is inside of, if it is.
    pub(super) fn cut_by(&self, at: usize) -> Option<usize> {
        self.unescaped.as_ref()?.cut_by(at)
    }
}

impl View<'_> {
    /// Where the character at `at` of [`Self::text`] stands in the text as it is.
    pub(super) fn original(self, at: usize) -> usize {
        let at = self.unwrapped.map_or(at, |view| view.original(at));
        self.unescaped.map_or(at, |view| view.original(at))
    }

    /// The same for a range that is not empty.
    pub(super) fn original_range(self, range: Range<usize>) -> Range<usize> {
        let range = self.unwrapped.map_or_else(|| range.clone(), |view| view.original_range(&range));
        self.unescaped.map_or_else(|| range.clone(), |view| view.original_range(&range))
    }

    /// Where in [`Self::text`] the `at` of the text as it is stands.
    pub(super) fn position(self, at: usize) -> usize {
        let at = self.unescaped.map_or(at, |view| view.position(at));
        self.unwrapped.map_or(at, |view| view.position(at))
    }
}
