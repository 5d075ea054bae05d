//! Gives a connection a view of its child process: how the process ended, and the last lines of its stderr.
//!
//! `child` starts, watches and ends the process, and knows nothing of MCP; `supervisor` chooses the program that
//! supervises the process.

pub mod child;
pub mod supervisor;

use std::{fmt, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::time::timeout;

use crate::{
    link::process::child::{Exit, Handle, StderrTail},
    text::quote,
};

/// How long to wait for the stderr of an ended process; a process that it started may hold it open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);
/// The number of lines of stderr in an error.
const LAST_LINES: usize = 4;

/// A view of a child process that does not own the process.
#[derive(Clone)]
pub(crate) struct Process {
    exit: Shared<BoxFuture<'static, Exit>>,
    stderr: StderrTail,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process")
    }
}

impl Process {
    pub(crate) fn new(handle: &Handle, stderr: StderrTail) -> Self {
        Self { exit: handle.exited().boxed().shared(), stderr }
    }

    /// Waits for the end of the process, and returns how it ended.
    pub(crate) async fn exited(&self) -> Exit {
        self.exit.clone().await
    }

    /// Returns the last lines of the process's stderr so far, as one safe line.
    pub(crate) fn stderr_so_far(&self) -> String {
        quote(&self.stderr.tail(LAST_LINES).join(" | "))
    }

    /// Returns the last lines of the process's stderr after the process has ended, as one safe line. Waits a moment for
    /// the content of the pipe.
    pub(crate) async fn last_stderr(&self) -> String {
        let _ = timeout(STDERR_TIMEOUT, self.stderr.drained()).await;
        self.stderr_so_far()
    }
}
