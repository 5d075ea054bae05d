//! The end of a connection.

use std::sync::OnceLock;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::link::error::LinkError;

/// The reason for the end of a connection; set once, read by each task that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    token: CancellationToken,
    why: OnceLock<LinkError>,
}

impl Closed {
    /// Ends the connection for all its users. The first reason stays.
    pub(crate) fn close(&self, why: LinkError) {
        let _ = self.why.set(why);
        self.token.cancel();
    }

    /// Ends the connection, without a better reason, when the guard is dropped.
    pub(crate) fn on_drop(&self) -> DropGuard {
        self.token.clone().drop_guard()
    }

    /// Waits for the end and returns the reason.
    pub(crate) async fn wait(&self) -> LinkError {
        self.token.cancelled().await;
        self.why()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) fn why(&self) -> LinkError {
        self.why.get().cloned().unwrap_or(LinkError::Stopped)
    }
}
