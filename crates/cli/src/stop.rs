//! Waits for the signals that ask the program to stop: Ctrl-C, SIGTERM, and SIGHUP, which comes when the terminal is
//! closed.

#[cfg(unix)]
use std::io;

use crate::error::{Exit, Failure};

/// Waits for signals that ask the program to stop. Once a value of this type was created, these signals no longer end
/// the process by themselves.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` if this process was started to outlive its terminal, as with `nohup`.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl StopSignals {
    /// Starts to receive the signals.
    ///
    /// # Errors
    /// When the system refuses that.
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let signal_error =
            |error: io::Error| Failure::new(Exit::Other, "INTERNAL", format!("cannot receive signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(signal_error)?,
            terminate: signal(SignalKind::terminate()).map_err(signal_error)?,
            hang_up: match is_hang_up_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup()).map_err(signal_error)?),
            },
        })
    }

    /// # Errors
    /// None: this system has no such signals.
    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Waits for the next signal, and returns its exit code.
    #[cfg(unix)]
    pub(crate) async fn requested(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            exit = Self::terminated_or_hung_up(&mut self.terminate, &mut self.hang_up) => exit,
        }
    }

    /// Waits for the next Ctrl-C.
    #[cfg(unix)]
    pub(crate) async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }

    /// Waits for a signal other than Ctrl-C, and returns its exit code.
    #[cfg(unix)]
    pub(crate) async fn terminated(&mut self) -> Exit {
        Self::terminated_or_hung_up(&mut self.terminate, &mut self.hang_up).await
    }

    #[cfg(unix)]
    async fn terminated_or_hung_up(
        terminate: &mut tokio::signal::unix::Signal,
        hang_up: &mut Option<tokio::signal::unix::Signal>,
    ) -> Exit {
        let hung_up = async {
            match hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => Exit::Terminated,
            _ = hung_up => Exit::HungUp,
        }
    }

    /// Waits for the next Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) async fn interrupted(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }

    /// Never resolves: this system has no such signal.
    #[cfg(not(unix))]
    pub(crate) async fn terminated(&mut self) -> Exit {
        std::future::pending().await
    }

    /// Waits for the next Ctrl-C, and returns its exit code.
    #[cfg(not(unix))]
    pub(crate) async fn requested(&mut self) -> Exit {
        let _ = tokio::signal::ctrl_c().await;
        Exit::Interrupted
    }
}

/// Returns whether this program was started with SIGHUP ignored, as by `nohup`. Where the system does not tell, returns
/// `true`, so that SIGHUP is left alone.
#[cfg(target_os = "linux")]
fn is_hang_up_ignored() -> bool {
    // Read once, at the first call: afterwards it would show a handler of this program.
    static IGNORED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        // Bit 0 is signal 1, SIGHUP.
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
    });
    *IGNORED
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_hang_up_ignored() -> bool {
    true
}
