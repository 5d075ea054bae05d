//! Tells all tasks of a connection that it has ended, and why.

use std::sync::OnceLock;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::link::error::LinkError;

/// Whether a connection has ended, and why. The first task that notices the end sets it; all others can wait for it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEnd {
    token: CancellationToken,
    reason: OnceLock<LinkError>,
}

impl ConnectionEnd {
    /// Ends the connection for all its users. The first reason stays.
    pub(crate) fn close(&self, reason: LinkError) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Returns a guard that ends the connection when it is dropped. If no reason was given before, the reason is
    /// [`LinkError::Stopped`].
    pub(crate) fn close_on_drop(&self) -> DropGuard {
        self.token.clone().drop_guard()
    }

    /// Waits for the end and returns the reason.
    pub(crate) async fn wait(&self) -> LinkError {
        self.token.cancelled().await;
        self.reason()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) fn reason(&self) -> LinkError {
        self.reason.get().cloned().unwrap_or(LinkError::Stopped)
    }
}
