//! Answers the requests of one connection from a recording.

use std::{fmt, future::pending, sync::Arc};

use bytes::Bytes;

use super::{SharedRecording, for_each_valid_message, tape};
use crate::link::{
    error::LinkError,
    framing::envelope::{Envelope, peek},
    inbound::{Inbound, MessageSink},
    message::{OutgoingRequest, RawAnswer, into_answer},
};

/// The transport of a connection whose server is a recording.
pub(crate) struct Player {
    recording: SharedRecording,
    inbound: Arc<Inbound>,
    /// Drops the answers to the server's questions, because there is no server.
    sink: Arc<dyn MessageSink>,
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("recording", &self.recording).finish_non_exhaustive()
    }
}

/// A sink that drops all messages.
struct DiscardSink;

impl MessageSink for DiscardSink {
    fn post(&self, _: Bytes) {}
}

impl Player {
    pub(crate) fn new(recording: SharedRecording, inbound: &Arc<Inbound>) -> Self {
        Self { recording, inbound: inbound.clone(), sink: Arc::new(DiscardSink) }
    }

    /// Replays the server's messages for this request, and returns the recorded answer. A subscription never ends: drop
    /// the future to end it.
    pub(crate) async fn exchange(&self, request: &OutgoingRequest) -> RawAnswer {
        self.inbound.observe_sent(&request.body);
        let found_exchange = self.recording.find(&self.inbound.server, request)?;
        if found_exchange.is_first_use {
            for notification in &found_exchange.exchange.notifications {
                let notification = tape::with_request_id(notification, found_exchange.exchange.id, request.id);
                self.inbound.observe_received(&notification);
                for_each_valid_message(&notification, |message| {
                    self.inbound.accept(message, Some(request.id), &self.sink);
                });
            }
        }
        let Some(answer) =
            found_exchange.exchange.answer.as_ref().filter(|_| !found_exchange.exchange.is_subscription())
        else {
            return pending().await;
        };
        let answer = answer.message(request.id);
        self.inbound.observe_received(&answer);
        match peek(&answer) {
            Ok(Envelope::Response { outcome, .. }) => into_answer(&answer, outcome),
            Ok(_) => Err(LinkError::protocol("the recording has a message of another kind where the answer should be")),
            Err(bad_message) => Err(LinkError::unparsable(bad_message.to_string())),
        }
    }

    /// Ignores a notification for the server, but shows it to the observer.
    pub(crate) fn notify(&self, message: &Bytes) {
        self.inbound.observe_sent(message);
    }
}
