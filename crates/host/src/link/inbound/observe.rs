//! Each message on the wire, for programs that want to see them: a debugger, a recorder, a test.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::spec::ServerName;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From here to the server.
    Sent,
    /// From the server.
    Received,
}

/// A message between this host and a server, as it is on the wire.
///
/// It may hold secrets, and what a server sends is untrusted: hide and escape it before it is shown or written.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireMessage<'a> {
    /// The server at the other end.
    pub server: &'a ServerName,
    /// Which way it goes.
    pub direction: Direction,
    /// The bytes: JSON without a line feed after it. A received message may be anything, even something that is not
    /// MCP; over stdio it is a line of stdout, over HTTP a JSON body or the data of an event.
    pub bytes: &'a [u8],
}

impl fmt::Debug for WireMessage<'_> {
    /// Without the bytes, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireMessage")
            .field("server", &self.server.as_str())
            .field("direction", &self.direction)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Called for each message, in the order of the wire for each server and direction, on the task that reads or writes the
/// connection. It must return at once: what takes time belongs behind a channel. A panic in it is logged and costs nothing else.
pub type OnMessage = Arc<dyn Fn(WireMessage<'_>) + Send + Sync>;

/// Calls the hooks.
#[derive(Clone, Default)]
pub(crate) struct Observer(Arc<[OnMessage]>);

impl Observer {
    pub(crate) fn new(hooks: impl IntoIterator<Item = OnMessage>) -> Self {
        Self(hooks.into_iter().collect())
    }

    pub(crate) fn sent(&self, server: &ServerName, bytes: &[u8]) {
        self.tell(server, Direction::Sent, bytes);
    }

    pub(crate) fn received(&self, server: &ServerName, bytes: &[u8]) {
        self.tell(server, Direction::Received, bytes);
    }

    fn tell(&self, server: &ServerName, direction: Direction, bytes: &[u8]) {
        for hook in &*self.0 {
            // Foreign code on a task of the connection: its panic must not end that.
            if catch_unwind(AssertUnwindSafe(|| hook(WireMessage { server, direction, bytes }))).is_err() {
                tracing::warn!("a listener for messages panicked");
            }
        }
    }
}
