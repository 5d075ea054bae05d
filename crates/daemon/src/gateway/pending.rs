//! A call under way: a future, its progress and its questions. Its poller drives it; dropping it cancels it.

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolrack_host::mcp::Progress;

use super::refusal::Refusal;

/// How many progress reports wait for a slow client; further ones are dropped.
const MAX_WAITING_REPORTS: usize = 1_024;

/// A result object, or why there is none.
pub(super) type Outcome = Result<Bytes, Refusal>;

/// Something that only the client can answer.
#[derive(Debug)]
pub(super) struct Question {
    /// Its name at the server, if it has one.
    pub(super) name: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// The result object of the client, or why there is none.
    pub(super) reply: oneshot::Sender<Result<Value, String>>,
}

/// A message while a call runs.
#[derive(Debug)]
pub(super) enum Update {
    Progress(Progress),
    Question(Question),
    /// The user is done with the page of this elicitation. Only for clients of 2025-11-25.
    Completed(String),
}

/// The next event of a call.
#[derive(Debug)]
pub(super) enum Step {
    Update(Update),
    Ended(Outcome),
}

/// A call under way.
pub(super) struct PendingCall {
    work: BoxFuture<'static, Outcome>,
    inbox: mpsc::Receiver<Update>,
    ended: Option<Outcome>,
}

impl PendingCall {
    /// Creates a pending call; `begin` makes the call, and its messages go to the task that polls [`Self::next`].
    pub(super) fn new(begin: impl FnOnce(mpsc::Sender<Update>) -> BoxFuture<'static, Outcome>) -> Self {
        let (say, inbox) = mpsc::channel(MAX_WAITING_REPORTS);
        Self { work: begin(say), inbox, ended: None }
    }

    /// Runs the call until there is progress, a question, or its end; everything sent before the end is returned before
    /// it. Cancel-safe.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            if let Some(update) = self.try_next() {
                return Step::Update(update);
            }
            if let Some(outcome) = self.ended.take() {
                return Step::Ended(outcome);
            }
            tokio::select! {
                // Poll the call first, so that all its concurrent questions are in the inbox before that is read.
                biased;
                outcome = &mut self.work => self.ended = Some(outcome),
                Some(update) = self.inbox.recv() => return Step::Update(update),
            }
        }
    }

    /// Returns the next message that was already sent, without questions whose asker was dropped.
    pub(super) fn try_next(&mut self) -> Option<Update> {
        loop {
            match self.inbox.try_recv().ok()? {
                Update::Question(question) if question.reply.is_closed() => {}
                update => return Some(update),
            }
        }
    }
}
