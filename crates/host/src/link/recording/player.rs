//! Answers the requests of one connection from a recording.

use std::{fmt, future::pending, sync::Arc};

use bytes::Bytes;

use super::{SharedRecording, each_message, tape};
use crate::link::{
    error::LinkError,
    framing::envelope::{Envelope, peek},
    inbound::{Inbound, Outlet},
    message::{Outgoing, RawAnswer, into_answer},
};

/// The transport of a connection whose server is a recording.
pub(crate) struct Player {
    recording: SharedRecording,
    inbound: Arc<Inbound>,
    /// Drops the answers to the server's questions, because there is no server.
    nowhere: Arc<dyn Outlet>,
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("recording", &self.recording).finish_non_exhaustive()
    }
}

/// An outlet that drops all messages.
struct Nowhere;

impl Outlet for Nowhere {
    fn post(&self, _: Bytes) {}
}

impl Player {
    pub(crate) fn new(recording: SharedRecording, inbound: &Arc<Inbound>) -> Self {
        Self { recording, inbound: inbound.clone(), nowhere: Arc::new(Nowhere) }
    }

    /// Replays the server's messages for this request, and returns the recorded answer. A subscription never ends: drop
    /// the future to end it.
    pub(crate) async fn exchange(&self, request: &Outgoing) -> RawAnswer {
        self.inbound.sent(&request.body);
        let found = self.recording.find(&self.inbound.server, request)?;
        if found.is_first {
            for notification in &found.exchange.notifications {
                let notification = tape::with_request_id(notification, found.exchange.id, request.id);
                self.inbound.received(&notification);
                each_message(&notification, |message| {
                    self.inbound.accept(message, Some(request.id), &self.nowhere);
                });
            }
        }
        let Some(answer) = found.exchange.answer.as_ref().filter(|_| !found.exchange.is_subscription()) else {
            return pending().await;
        };
        let answer = answer.message(request.id);
        self.inbound.received(&answer);
        match peek(&answer) {
            Ok(Envelope::Response { outcome, .. }) => into_answer(&answer, outcome),
            Ok(_) => Err(LinkError::protocol("the recording has a message of another kind where the answer should be")),
            Err(bad) => Err(LinkError::unparsable(bad.to_string())),
        }
    }

    /// Ignores a notification for the server, but shows it to the observer.
    pub(crate) fn notify(&self, message: &Bytes) {
        self.inbound.sent(message);
    }
}
