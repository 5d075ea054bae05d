//! The views of a text in which secrets are searched.

use std::ops::Range;

use super::{unescaped::Unescaped, unwrapped::Unwrapped};

/// A text in several views: unchanged, without escapes, and without line breaks in possibly encoded parts.
pub(super) struct Views<'t> {
    text: &'t str,
    unescaped: Option<Unescaped>,
    /// The text without escapes and without line breaks.
    unwrapped: Option<Unwrapped>,
}

/// A view of the text.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    /// The text in this view.
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

    /// Returns all ways that differ.
    pub(super) fn each(&self) -> impl Iterator<Item = View<'_>> {
        let (unescaped, unwrapped) = (self.unescaped.as_ref(), self.unwrapped.as_ref());
        let as_it_is = View { text: self.text, unescaped: None, unwrapped: None };
        let without_escapes = unescaped.map(|view| View { text: view.text(), unescaped, unwrapped: None });
        let without_breaks = unwrapped.map(|view| View { text: view.text(), unescaped, unwrapped });
        [Some(as_it_is), without_escapes, without_breaks].into_iter().flatten()
    }

    /// Returns the start of the escape that contains the text's `at`, if there is one.
    pub(super) fn cut_by(&self, at: usize) -> Option<usize> {
        self.unescaped.as_ref()?.cut_by(at)
    }
}

impl View<'_> {
    /// Returns the position in the unchanged text of the character at `at` of [`Self::text`].
    pub(super) fn original(self, at: usize) -> usize {
        let at = self.unwrapped.map_or(at, |view| view.original(at));
        self.unescaped.map_or(at, |view| view.original(at))
    }

    /// Converts a range that is not empty in the same way.
    pub(super) fn original_range(self, range: Range<usize>) -> Range<usize> {
        let range = self.unwrapped.map_or_else(|| range.clone(), |view| view.original_range(&range));
        self.unescaped.map_or_else(|| range.clone(), |view| view.original_range(&range))
    }

    /// Returns the position in [`Self::text`] of the unchanged text's `at`.
    pub(super) fn position(self, at: usize) -> usize {
        let at = self.unescaped.map_or(at, |view| view.position(at));
        self.unwrapped.map_or(at, |view| view.position(at))
    }
}
