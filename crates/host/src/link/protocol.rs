//! The requests of the client, in both eras: which era the server speaks, lists, calls with their rounds, subscriptions.
//!
//! `handshake` finds the era. `listing` reads all pages of a list; `rounds` goes from a call to its final answer, whatever the
//! server asks for in between; `listen` hears of changed lists and `subscribe` of changed resources. All of it is written
//! against a channel, and knows no transport.

pub(crate) mod handshake;
mod listen;
mod listing;
pub(crate) mod rounds;
mod subscribe;
