//! Notes that a server has reported a change of its list of tools.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A flag that `list_changed` notifications set, and that the task which lists the tools clears.
#[derive(Debug, Default)]
pub(crate) struct ToolsChanged {
    is_set: AtomicBool,
    wake_waiter: Notify,
    /// Whether a listing has begun. A subscription that begins later may have missed a change.
    listing_began: AtomicBool,
    subscription_began: Notify,
}

impl ToolsChanged {
    /// Sets the flag.
    pub(crate) fn raise(&self) {
        self.is_set.store(true, Ordering::Release);
        self.wake_waiter.notify_one();
    }

    /// Notes that a listing of tools begins.
    pub(crate) fn note_listing(&self) {
        self.listing_began.store(true, Ordering::Release);
    }

    /// Notes that a subscription to changes has begun. If a listing began before, sets the flag: the list may have
    /// changed in between.
    pub(super) fn note_subscription(&self) {
        self.subscription_began.notify_one();
        if self.listing_began.load(Ordering::Acquire) {
            self.raise();
        }
    }

    /// Notes that the server has refused a subscription, so that no task waits for its beginning.
    pub(crate) fn note_no_subscription(&self) {
        self.subscription_began.notify_one();
    }

    /// Waits until a subscription begins, or until the server refuses one.
    pub(crate) async fn subscribed(&self) {
        self.subscription_began.notified().await;
    }

    /// Waits until the flag is set, and clears it. So any number of notifications counts as one change.
    pub(crate) async fn wait_and_clear(&self) {
        while !self.is_set.swap(false, Ordering::AcqRel) {
            self.wake_waiter.notified().await;
        }
    }
}
