//! Decides whether a call is sent or abandoned: one task may be about to send the call while another task ends the
//! turn.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

// The states of a call.
/// No task watches the call, so it may have been sent.
const UNKNOWN: u8 = 0;
/// A task will send the call, and has not done so yet.
const WAITING: u8 = 1;
const SENT: u8 = 2;
const ABANDONED: u8 = 3;

/// Records whether a call was sent to its server. Both the task that makes the call and the task that abandons it
/// report here, and the first report wins. A call that is not [watched](Self::watch) may have been sent. A clone starts
/// with the same state, but does not share later reports with the original.
#[derive(Debug, Default)]
pub struct SendState(Arc<AtomicU8>);

impl SendState {
    /// Returns a handle for the task that makes the call. The task reports with [`Self::begin`] that it sends the call.
    #[must_use]
    pub fn watch(&self) -> Self {
        // For a call that is watched already, the exchange fails and the state stays the same, which is right.
        let _ = self.0.compare_exchange(UNKNOWN, WAITING, Ordering::AcqRel, Ordering::Acquire);
        Self(Arc::clone(&self.0))
    }

    /// Reports that the call is about to be sent. Returns `false` if it must not be sent, because it was abandoned
    /// before or is not [watched](Self::watch).
    #[must_use]
    pub fn begin(&self) -> bool {
        // `Err` holds the state that prevented the change. A call that was sent may be sent again.
        let change = self.0.compare_exchange(WAITING, SENT, Ordering::AcqRel, Ordering::Acquire);
        change.is_ok() || change == Err(SENT)
    }

    /// Abandons the call. Returns whether the call may already have been sent.
    pub(crate) fn abandon(&self) -> bool {
        let change = self.0.compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
        !matches!(change, Ok(_) | Err(ABANDONED))
    }

    fn state(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

impl Clone for SendState {
    fn clone(&self) -> Self {
        Self(Arc::new(AtomicU8::new(self.state())))
    }
}

impl PartialEq for SendState {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_sent_or_given_up_and_never_both() {
        let sent = SendState::default();
        assert!(sent.watch().begin() && sent.begin() && sent.abandon());
        let given_up = SendState::default();
        let maker = given_up.watch();
        assert!(!given_up.abandon() && !maker.begin() && !given_up.abandon());
        assert!(given_up.clone() == given_up && given_up != sent);
    }

    #[test]
    fn a_copy_of_a_turn_that_is_given_up_stops_no_call_of_the_other() {
        let one = SendState::default();
        let maker = one.watch();
        assert!(!one.clone().abandon());
        assert!(maker.begin());
    }

    #[test]
    fn a_call_that_is_not_watched_may_have_been_sent() {
        assert!(SendState::default().abandon());
    }
}
