//! What a connection sees of the child process behind it: its end and its last words.

use std::fmt;

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};

use super::{
    child::{Exit, Handle, StderrTail},
    error::quote,
};

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
        Self {
            exited: handle.exited().boxed().shared(),
            stderr,
        }
    }

    /// Waits for the end of the process.
    pub(crate) async fn exited(&self) -> Exit {
        self.exited.clone().await
    }

    /// The last of its stderr as one safe line.
    pub(crate) fn last_words(&self) -> String {
        quote(&self.stderr.tail(LAST_LINES).join(" | "))
    }
}
