//! A pending call: a future that runs a call at the host, with its progress and its questions to the client. It has no
//! task of its own: the task that waits for it polls it, and dropping it cancels the call at the server.

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolrack_host::mcp::Progress;

use super::refusal::Refusal;

/// The maximum number of updates of a call that wait for a slow client. Beyond this number, progress is dropped,
/// and questions wait for room.
const MAX_WAITING_UPDATES: usize = 1_024;

/// The result object of a request, or why there is none.
pub(super) type Outcome = Result<Bytes, Refusal>;

/// Something that only the client can answer.
#[derive(Debug)]
pub(super) struct Question {
    /// The name that the server gave to the question, if it gave one.
    pub(super) name: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// Takes the result object of the client, or the reason why there is no result.
    pub(super) reply: oneshot::Sender<Result<Value, String>>,
}

/// A message while a call runs.
#[derive(Debug)]
pub(super) enum Update {
    Progress(Progress),
    Question(Question),
    /// The user is done with the page of the elicitation with this id. Only clients of the legacy era (2025-11-25 and
    /// older) are told.
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
    updates_receiver: mpsc::Receiver<Update>,
    /// The outcome of `work`, while updates that came before it are still in the channel.
    outcome: Option<Outcome>,
}

impl PendingCall {
    /// Creates a pending call. `begin` makes the future of the call, and gets the sender of its updates, which
    /// [`Self::next`] returns.
    pub(super) fn new(begin: impl FnOnce(mpsc::Sender<Update>) -> BoxFuture<'static, Outcome>) -> Self {
        let (updates, updates_receiver) = mpsc::channel(MAX_WAITING_UPDATES);
        Self { work: begin(updates), updates_receiver, outcome: None }
    }

    /// Runs the call until there is an update, or until it ends. Returns all updates before the outcome. Cancel-safe:
    /// if the future is dropped, nothing is lost, and the next one continues.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            if let Some(update) = self.try_next() {
                return Step::Update(update);
            }
            if let Some(outcome) = self.outcome.take() {
                return Step::Ended(outcome);
            }
            tokio::select! {
                // Poll the call first, so that all its concurrent questions are in the channel before the channel is
                // read.
                biased;
                outcome = &mut self.work => self.outcome = Some(outcome),
                Some(update) = self.updates_receiver.recv() => return Step::Update(update),
            }
        }
    }

    /// Returns the next update that was already sent. Skips questions that no code waits for any more.
    pub(super) fn try_next(&mut self) -> Option<Update> {
        loop {
            match self.updates_receiver.try_recv().ok()? {
                Update::Question(question) if question.reply.is_closed() => {}
                update => return Some(update),
            }
        }
    }
}
