//! Handles messages of clients that need no answer (notifications, and the clients' own answers), and takes batches
//! apart. A batch is an array of messages, which only MCP 2025-03-26 has.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    message::{self, Id, Incoming},
    refusal::Refusal,
    session::{RunningRequest, Session},
};

/// The maximum length of a client's error message that the gateway passes on.
const MAX_CLIENT_ERROR_BYTES: usize = 500;

/// A request of a batch.
pub(super) struct BatchedRequest {
    pub(super) id: Id,
    /// The whole message.
    pub(super) message: Bytes,
    pub(super) running_request: RunningRequest,
}

/// The messages of a batch that get answers.
pub(super) struct Batch {
    /// The requests to run, in the order of the client.
    pub(super) requests: Vec<BatchedRequest>,
    /// The errors for the other messages.
    pub(super) errors: Vec<Bytes>,
}

impl Batch {
    /// Takes the messages of a batch in their order. Notifications and the client's answers take effect at once.
    ///
    /// # Errors
    /// When `body` is no batch that the gateway accepts.
    pub(super) fn receive(session: &Arc<Session>, body: &Bytes) -> Result<Self, Refusal> {
        let mut batch = Self { requests: Vec::new(), errors: Vec::new() };
        for message in message::split_batch(body)? {
            if let Err((id, refusal)) = batch.receive_message(session, &message) {
                batch.errors.push(message::error(id.as_ref(), &refusal));
            }
        }
        Ok(batch)
    }

    /// Takes one message of the batch. The error is the answer to the message.
    fn receive_message(&mut self, session: &Arc<Session>, message: &Bytes) -> Result<(), (Option<Id>, Refusal)> {
        match message::read(message)? {
            Incoming::Request { id, method, .. } if method == "initialize" => {
                return Err((Some(id), Refusal::invalid_request("initialize cannot be a part of a batch")));
            }
            Incoming::Request { id, .. } => match session.start_request(&id) {
                Ok(running_request) => {
                    self.requests.push(BatchedRequest { id, message: message.clone(), running_request });
                }
                Err(refusal) => return Err((Some(id), refusal)),
            },
            Incoming::Notification { method, params } => handle_notification(session, &method, params.text()),
            Incoming::Response { id, outcome } => session.accept_answer(&id, client_answer(outcome)),
        }
        Ok(())
    }
}

/// Handles a notification of a client that has a session. Notifications other than a cancellation have no effect.
pub(super) fn handle_notification(session: &Session, method: &str, params: &str) {
    #[derive(Deserialize)]
    struct Cancelled {
        #[serde(rename = "requestId")]
        id: Box<RawValue>,
    }
    if method == "notifications/cancelled"
        && let Ok(Cancelled { id }) = serde_json::from_str(params)
        && let Some(id) = Id::read(&id)
    {
        session.cancel(&id);
    }
}

/// The answer of a client to a question: its result, or its error message, cut to [`MAX_CLIENT_ERROR_BYTES`].
pub(super) fn client_answer(outcome: Result<&RawValue, &RawValue>) -> Result<Value, String> {
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    outcome.map(value).map_err(|error| {
        let error: Value = value(error);
        let message = error["message"].as_str().unwrap_or("the client refused");
        toolrack_host::text::clip(message, MAX_CLIENT_ERROR_BYTES).into_owned()
    })
}
