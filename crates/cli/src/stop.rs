//! Ctrl-C and SIGTERM.

use std::io;

use crate::error::Exit;

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
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// # Errors
    /// None on this system.
    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
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

    /// The exit code of Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) async fn requested(&mut self) -> Exit {
        let _ = tokio::signal::ctrl_c().await;
        Exit::Interrupted
    }
}
