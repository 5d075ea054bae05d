//! Makes the requests of the client, in both eras (generations of MCP): the handshake, lists, calls with their rounds,
//! and subscriptions.
//!
//! `handshake` detects the era. `listing` reads all pages of a list; `rounds` runs a call to its final answer, with the
//! server's questions in between; `listen` receives changes of lists and `subscribe` changes of resources. All requests
//! go through a channel, so this code does not depend on the transport.

pub(crate) mod handshake;
mod listen;
mod listing;
pub(crate) mod rounds;
mod subscribe;
