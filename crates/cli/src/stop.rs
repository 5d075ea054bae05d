//! Ctrl-C and SIGTERM.

#[cfg(unix)]
use std::io;

use crate::error::{Exit, Failure};

/// Waits for a request to stop. The process no longer ends by itself from the moment one is made.
#[derive(Debug)]
pub(crate) struct Stop {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    /// # Errors
    /// When the system refuses to hand signals over.
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let refused =
            |error: io::Error| Failure::new(Exit::Other, "INTERNAL", format!("cannot receive signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(refused)?,
            terminate: signal(SignalKind::terminate()).map_err(refused)?,
        })
    }

    /// # Errors
    /// None on this system.
    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// The exit code of the signal that came. Can be waited for again.
    #[cfg(unix)]
    pub(crate) async fn requested(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }

    /// The next Ctrl-C.
    #[cfg(unix)]
    pub(crate) async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }

    /// The exit code of a signal that is no Ctrl-C.
    #[cfg(unix)]
    pub(crate) async fn terminated(&mut self) -> Exit {
        self.terminate.recv().await;
        Exit::Terminated
    }

    /// The next Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) async fn interrupted(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }

    /// Never: this system has no such signal.
    #[cfg(not(unix))]
    pub(crate) async fn terminated(&mut self) -> Exit {
        std::future::pending().await
    }

    /// The exit code of Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) async fn requested(&mut self) -> Exit {
        let _ = tokio::signal::ctrl_c().await;
        Exit::Interrupted
    }
}
