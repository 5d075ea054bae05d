//! Makes the views of a text in which secrets are searched. A view is the text in one form, such as without escapes,
//! with the position of each part in the unchanged text.

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
    /// Creates the views of a complete text.
    pub(super) fn of_whole_text(text: &'t str) -> Self {
        Self::of(text, false)
    }

    /// Creates the views of the beginning of a text, after which more text may follow.
    pub(super) fn of_beginning(text: &'t str) -> Self {
        Self::of(text, true)
    }

    fn of(text: &'t str, may_continue: bool) -> Self {
        let unescaped = Unescaped::of(text, may_continue);
        let unwrapped = Unwrapped::of(unescaped.as_ref().map_or(text, Unescaped::text), may_continue);
        Self { text, unescaped, unwrapped }
    }

    /// Returns the unchanged text, and each other view that differs from it.
    pub(super) fn iter(&self) -> impl Iterator<Item = View<'_>> {
        let (unescaped, unwrapped) = (self.unescaped.as_ref(), self.unwrapped.as_ref());
        let unchanged = View { text: self.text, unescaped: None, unwrapped: None };
        let without_escapes = unescaped.map(|view| View { text: view.text(), unescaped, unwrapped: None });
        let without_breaks = unwrapped.map(|view| View { text: view.text(), unescaped, unwrapped });
        [Some(unchanged), without_escapes, without_breaks].into_iter().flatten()
    }

    /// Returns the start of the escape that contains the byte `offset` of the unchanged text, if there is one.
    pub(super) fn escape_around(&self, offset: usize) -> Option<usize> {
        self.unescaped.as_ref()?.escape_around(offset)
    }
}

impl View<'_> {
    /// Returns the position in the unchanged text of the character at `offset` of [`Self::text`].
    pub(super) fn original_position(self, offset: usize) -> usize {
        let offset = self.unwrapped.map_or(offset, |view| view.original_position(offset));
        self.unescaped.map_or(offset, |view| view.original_position(offset))
    }

    /// Like [`Self::original_position`], for a range that is not empty.
    pub(super) fn original_range(self, range: Range<usize>) -> Range<usize> {
        let range = self.unwrapped.map_or_else(|| range.clone(), |view| view.original_range(&range));
        self.unescaped.map_or_else(|| range.clone(), |view| view.original_range(&range))
    }

    /// Returns the position in [`Self::text`] of the byte `offset` of the unchanged text.
    pub(super) fn position(self, offset: usize) -> usize {
        let offset = self.unescaped.map_or(offset, |view| view.position(offset));
        self.unwrapped.map_or(offset, |view| view.position(offset))
    }
}
