//! The requests of the client, in both eras: the handshake, lists, calls with their rounds, subscriptions.
//!
//! `handshake` detects the era. `listing` reads all pages of a list; `rounds` runs a call to its final answer, with the
//! server's questions in between; `listen` receives changes of lists and `subscribe` changes of resources. All of it is
//! written for a channel, independently of transports.

pub(crate) mod handshake;
mod listen;
mod listing;
pub(crate) mod rounds;
mod subscribe;
