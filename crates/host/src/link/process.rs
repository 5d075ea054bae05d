//! What a connection sees of the child process behind it: its end and the last of its stderr.
//!
//! How the process is started, watched and ended is in `child`, which knows nothing of MCP; `supervisor` is which program
//! watches over it.

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
const STILL_COMING: Duration = Duration::from_millis(200);
/// Lines of stderr that go into an error.
const LAST_LINES: usize = 4;

/// A view of a child process; owns nothing of it.
#[derive(Clone)]
pub(crate) struct Process {
    exited: Shared<BoxFuture<'static, Exit>>,
    stderr: StderrTail,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process")
    }
}

impl Process {
    pub(crate) fn of(handle: &Handle, stderr: StderrTail) -> Self {
        Self { exited: handle.exited().boxed().shared(), stderr }
    }

    /// Waits for the end of the process.
    pub(crate) async fn exited(&self) -> Exit {
        self.exited.clone().await
    }

    /// The last of its stderr so far, as one safe line.
    pub(crate) fn words_so_far(&self) -> String {
        quote(&self.stderr.tail(LAST_LINES).join(" | "))
    }

    /// The last of its stderr after its end, as one safe line: waits a moment for what is still in the pipe.
    pub(crate) async fn last_words(&self) -> String {
        let _ = timeout(STILL_COMING, self.stderr.drained()).await;
        self.words_so_far()
    }
}
