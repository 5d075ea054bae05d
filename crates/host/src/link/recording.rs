//! Records the messages of servers in a file, and replays them. A [`Recorder`] records every message of a host. A host
//! with a [`Recording`] starts no server and contacts no server, because the recording answers instead.
//!
//! A recording is JSON Lines: a [header](VERSION_MEMBER), then one message on each line. The messages of a server have
//! the order in which they were sent and received.

mod player;
mod recorder;
mod tape;

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use player::Player;
pub use recorder::{Recorder, RecordingTooLarge};

use self::tape::{FoundExchange, MissingReason, Tape};
use crate::{
    link::{
        error::LinkError,
        framing::envelope::{Envelope, peek},
        message::{OutgoingRequest, for_each_message},
    },
    spec::{Protocol, ServerName},
    text::{Conceal, quote},
};

/// The member of the first line that contains the version of the format.
const VERSION_MEMBER: &str = "toolrack_recording";
/// The version of the format.
const FORMAT_VERSION: u64 = 1;

/// The answers of servers, read from the output of a [`Recorder`].
///
/// A request gets the answer that the server gave to the same request: the same server, method and parameters,
/// regardless of `_meta`. Equal requests get their answers in the recorded order; the last one is repeated.
pub struct Recording {
    /// Names the recording in errors.
    name: String,
    /// The recorded requests of each server, with their outcomes.
    tapes: BTreeMap<ServerName, Tape>,
    /// Hides the values in a request that are hidden in the recording.
    conceal: Option<Conceal>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers().map(ServerName::as_str).collect();
        f.debug_struct("Recording").field("name", &self.name).field("servers", &servers).finish_non_exhaustive()
    }
}

/// The reason why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadRecording {
    /// The line, from 1.
    pub line: usize,
    /// The problem, safe to print.
    pub why: String,
}

/// The error for a request without an answer in the recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the recording {file} has no answer of `{server}` to {request}{}",
    if *.has_similar { "; a similar request in it has other parameters, or no answer" } else { "" }
)]
pub struct NotRecorded {
    /// The server.
    pub server: String,
    /// The method, and the tool, prompt or resource; safe to print.
    pub request: String,
    /// Whether a request of this method, for this tool, prompt or resource, was recorded. Always `false` for a request
    /// that names none.
    pub has_similar: bool,
    /// The recording, safe to print.
    pub file: String,
}

/// A line after the header.
#[derive(Deserialize)]
struct Line<'a> {
    server: String,
    direction: Direction,
    #[serde(borrow)]
    message: &'a RawValue,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Sent,
    Received,
}

impl Recording {
    /// Reads a recording; `name`, such as the path of its file, identifies it in errors.
    ///
    /// # Errors
    /// When a line has another form, or the first line is not the header of a known version.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, BadRecording> {
        let mut lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
        let bad_recording = |index: usize, why: &str| BadRecording { line: index + 1, why: quote(why) };
        let header = lines.next().and_then(|(_, line)| serde_json::from_slice::<serde_json::Value>(line).ok());
        match header.as_ref().and_then(|header| header[VERSION_MEMBER].as_u64()) {
            Some(version) if version == FORMAT_VERSION => {}
            Some(_) => return Err(bad_recording(0, "another version of Toolrack wrote this recording")),
            None => return Err(bad_recording(0, "this is not a recording: `toolrack_recording` is missing")),
        }
        let mut tapes = BTreeMap::<ServerName, Tape>::new();
        for (index, line) in lines {
            let line: Line<'_> = serde_json::from_slice(line).map_err(|error| {
                // Remove the position in this line: its line number would contradict that of the file.
                let why = error.to_string();
                bad_recording(index, why.rsplit_once(" at line ").map_or(&why, |(why, _)| why))
            })?;
            let server = ServerName::new(&*line.server).map_err(|error| bad_recording(index, &error.to_string()))?;
            let tape = tapes.entry(server).or_default();
            let message = Bytes::copy_from_slice(line.message.get().as_bytes());
            match line.direction {
                Direction::Sent => tape.record_sent(&message),
                Direction::Received => tape.record_received(&message),
            }
        }
        Ok(Self { name: quote(name), tapes, conceal: None })
    }

    /// Passes each request through `conceal` before it is looked up. The recording has hidden values: a request with
    /// such a value matches only if the value is hidden in the same way.
    #[must_use]
    pub fn concealing(self, conceal: Conceal) -> Self {
        Self { conceal: Some(conceal), ..self }
    }

    /// Returns the servers whose messages the recording contains.
    pub fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.tapes.keys()
    }

    /// Returns the era (generation of MCP) that `server` spoke when it was recorded; the legacy era if it was not
    /// recorded.
    pub(crate) fn protocol(&self, server: &ServerName) -> Protocol {
        self.tapes.get(server).map_or(Protocol::Legacy, Tape::protocol)
    }

    /// Returns the server's answer to this request.
    fn find(&self, server: &ServerName, request: &OutgoingRequest) -> Result<FoundExchange<'_>, LinkError> {
        let concealed_body = self.conceal.as_ref().and_then(|conceal| {
            let text = conceal(str::from_utf8(&request.body).ok()?);
            // If hiding values broke the JSON, the text cannot be looked up, and the request is used unchanged.
            matches!(peek(text.as_bytes()), Ok(Envelope::Request { .. })).then(|| Bytes::from(text))
        });
        let body = concealed_body.as_ref().unwrap_or(&request.body);
        let not_recorded = |has_similar: bool| {
            let request = match &request.name {
                Some(name) => format!("{} of `{}`", request.method, quote(name)),
                None => request.method.to_owned(),
            };
            let (server, file) = (server.to_string(), self.name.clone());
            LinkError::NotRecorded(Box::new(NotRecorded { server, request, has_similar, file }))
        };
        let tape = self.tapes.get(server).ok_or_else(|| not_recorded(false))?;
        // Without a name, every request of the method counts as similar, which tells the user nothing.
        tape.find(body).map_err(|why| not_recorded(why == MissingReason::Similar && request.name.is_some()))
    }
}

/// Calls `handle` with each message in `bytes`, and skips invalid ones.
fn for_each_valid_message(bytes: &Bytes, mut handle: impl FnMut(Envelope<'_>)) {
    for_each_message(bytes, |message| {
        if let Ok(message) = message {
            handle(message);
        }
    });
}

/// A recording that a host shares with its connections.
pub(crate) type SharedRecording = Arc<Recording>;
