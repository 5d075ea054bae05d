//! Calls hooks with each message between this host and its servers, for debuggers, recorders and tests.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::spec::ServerName;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this host to the server.
    Sent,
    /// From the server to this host.
    Received,
}

/// A message between this host and a server, exactly as it is sent or received.
///
/// A message may contain secrets, and a server's message is untrusted: hide and escape it before it is shown or
/// written.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireMessage<'a> {
    /// The server at the other end.
    pub server: &'a ServerName,
    /// The direction.
    pub direction: Direction,
    /// The bytes: JSON without a line feed after it. A received message may be any bytes, and need not be an MCP
    /// message. Over stdio, it is a line of stdout; over HTTP, a JSON body or the data of an event.
    pub bytes: &'a [u8],
}

impl fmt::Debug for WireMessage<'_> {
    /// Prints no bytes, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireMessage")
            .field("server", &self.server.as_str())
            .field("direction", &self.direction)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Called for each message, on the task that reads or writes the connection. For each server and direction, the calls
/// have the order of the messages. The hook must return immediately: send work that takes time to another task. A panic
/// in the hook is logged, and has no other effect.
pub type OnMessage = Arc<dyn Fn(WireMessage<'_>) + Send + Sync>;

/// Calls the hooks.
#[derive(Clone, Default)]
pub(crate) struct Observer(Arc<[OnMessage]>);

impl Observer {
    pub(crate) fn new(hooks: impl IntoIterator<Item = OnMessage>) -> Self {
        Self(hooks.into_iter().collect())
    }

    pub(crate) fn sent(&self, server: &ServerName, bytes: &[u8]) {
        self.call_hooks(server, Direction::Sent, bytes);
    }

    pub(crate) fn received(&self, server: &ServerName, bytes: &[u8]) {
        self.call_hooks(server, Direction::Received, bytes);
    }

    fn call_hooks(&self, server: &ServerName, direction: Direction, bytes: &[u8]) {
        for hook in &*self.0 {
            // The hook is the embedder's code on a task of the connection: its panic must not end the connection.
            if catch_unwind(AssertUnwindSafe(|| hook(WireMessage { server, direction, bytes }))).is_err() {
                tracing::warn!("a listener for messages panicked");
            }
        }
    }
}
