//! Records the messages of a host.

use std::{fmt, sync::Arc};

use chrono::{SecondsFormat, Utc};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{json, value::RawValue, value::to_raw_value};

use super::{FORMAT_VERSION, VERSION_MEMBER};
use crate::{
    link::inbound::observe::{Direction, OnMessage, WireMessage},
    text::Conceal,
};

/// Records every message between a host and its servers, with secrets hidden, for [`Recording`](super::Recording). Give
/// the recorder to [`HostBuilder::record`](crate::HostBuilder::record), and take the bytes when the host has shut down.
/// HTTP headers are not recorded.
pub struct Recorder {
    buffer: Mutex<Buffer>,
    max_bytes: usize,
    conceal: Conceal,
}

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    is_too_large: bool,
}

/// The messages have more bytes than the recorder may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the messages have more than the {max_bytes} bytes that the recording may have")]
pub struct RecordingTooLarge {
    /// The limit.
    pub max_bytes: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    server: &'a str,
    direction: &'static str,
    message: Box<RawValue>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Creates a recorder that stores at most `max_bytes` bytes and hides secrets with `conceal`.
    #[must_use]
    pub fn new(max_bytes: usize, conceal: Conceal) -> Self {
        let header =
            json!({ VERSION_MEMBER: FORMAT_VERSION, "written_by": concat!("toolrack ", env!("CARGO_PKG_VERSION")) });
        let buffer = Buffer { bytes: format!("{header}\n").into_bytes(), is_too_large: false };
        Self { buffer: Mutex::new(buffer), max_bytes, conceal }
    }

    /// Returns the recording so far.
    ///
    /// # Errors
    /// When there were more bytes than the recorder may keep; a recording without its end would be useless.
    pub fn bytes(&self) -> Result<Vec<u8>, RecordingTooLarge> {
        let buffer = self.buffer.lock();
        if buffer.is_too_large {
            Err(RecordingTooLarge { max_bytes: self.max_bytes })
        } else {
            Ok(buffer.bytes.clone())
        }
    }

    /// Returns the hook that records messages.
    pub(crate) fn hook(self: Arc<Self>) -> OnMessage {
        Arc::new(move |message| self.record_message(message))
    }

    fn record_message(&self, WireMessage { server, direction, bytes }: WireMessage<'_>) {
        let direction = match direction {
            Direction::Sent => "sent",
            Direction::Received => "received",
        };
        let utc_as_z = true;
        let at = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, utc_as_z);
        let Some(message) = self.concealed(bytes) else { return };
        let line = Line { at, server: server.as_str(), direction, message };
        let Ok(mut line) = serde_json::to_vec(&line) else { return };
        line.push(b'\n');
        let mut buffer = self.buffer.lock();
        if buffer.is_too_large || buffer.bytes.len() + line.len() > self.max_bytes {
            *buffer = Buffer { bytes: Vec::new(), is_too_large: true };
            return;
        }
        buffer.bytes.extend_from_slice(&line);
    }

    /// Returns the message without secrets. If the message is not JSON, or removing the secrets makes it invalid, the
    /// result is a JSON string with its text.
    fn concealed(&self, bytes: &[u8]) -> Option<Box<RawValue>> {
        let text = (self.conceal)(&String::from_utf8_lossy(bytes));
        match serde_json::from_str::<Box<RawValue>>(&text) {
            Ok(message) if !message.get().contains('\n') => Some(message),
            // A body may have line ends between its members, so write it anew, in one line.
            Ok(message) => {
                serde_json::from_str::<serde_json::Value>(message.get()).and_then(|value| to_raw_value(&value)).ok()
            }
            Err(_) => to_raw_value(&text).ok(),
        }
    }
}
