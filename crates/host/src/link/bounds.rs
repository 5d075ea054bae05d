//! Bounds the size of a message. The bound depends on the request that the message answers.

use crate::{
    link::error::LinkError,
    spec::{Limits, Setting},
};

/// The bounds of a connection, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    message: usize,
    /// The bound of one page of a list.
    list: usize,
}

/// The bound of one message, and the setting that contains the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: usize,
    pub(crate) setting: Setting,
}

impl Bounds {
    pub(crate) fn of(limits: &Limits) -> Self {
        // One page of a list may be as large as any message; see `Bound::of_whole_list` for all pages together.
        Self { message: limits.message_bytes, list: limits.listing_bytes.max(limits.message_bytes) }
    }

    /// Returns the bound for any message except the answer to a list request.
    pub(crate) fn message(self) -> Bound {
        Bound { bytes: self.message, setting: Setting::MaxMessageBytes }
    }

    /// Returns the bound for the answer to a list request.
    pub(crate) fn list(self) -> Bound {
        Bound { bytes: self.list, setting: Setting::MaxListBytes }
    }

    /// Returns the bound for the answer to a request of this method.
    pub(crate) fn answer_to(self, method: &str) -> Bound {
        if is_list(method) { self.list() } else { self.message() }
    }
}

impl Bound {
    /// Returns the bound for all pages of a list together, which may be less than that for one message.
    pub(crate) fn of_whole_list(limits: &Limits) -> Self {
        Self { bytes: limits.listing_bytes, setting: Setting::MaxListBytes }
    }

    /// Returns the error for a larger message, of which `size` bytes were counted. `what` names it.
    pub(crate) fn too_large(self, code: &'static str, what: &'static str, size: u64) -> LinkError {
        LinkError::TooLarge { code, what, limit: self.bytes, seen: size, setting: self.setting }
    }
}

/// Returns whether the answer to this method is a list, whose items are read one by one.
pub(crate) fn is_list(method: &str) -> bool {
    method.ends_with("/list")
}
