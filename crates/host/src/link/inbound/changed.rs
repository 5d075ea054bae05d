//! Notes that a server has reported a change of its list of tools.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A flag that `list_changed` notifications set, and that the task which lists the tools clears.
#[derive(Debug, Default)]
pub(crate) struct ToolsChanged {
    tools: AtomicBool,
    wake: Notify,
    /// Whether a listing has begun. A subscription that begins after the listing may have missed a change.
    listed: AtomicBool,
    subscribed: Notify,
}

impl ToolsChanged {
    /// Sets the flag.
    pub(crate) fn raise(&self) {
        self.tools.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Notes that a listing of tools begins.
    pub(crate) fn note_listing(&self) {
        self.listed.store(true, Ordering::Release);
    }

    /// Notes that a subscription to changes has begun.
    pub(super) fn note_subscription(&self) {
        self.subscribed.notify_one();
        if self.listed.load(Ordering::Acquire) {
            self.raise();
        }
    }

    /// Waits until a subscription begins.
    pub(crate) async fn subscribed(&self) {
        self.subscribed.notified().await;
    }

    /// Waits until the flag is set, and clears it. So any number of notifications counts as one change.
    pub(crate) async fn tools_changed(&self) {
        while !self.tools.swap(false, Ordering::AcqRel) {
            self.wake.notified().await;
        }
    }
}
