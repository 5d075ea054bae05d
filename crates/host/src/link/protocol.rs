//! The requests of the client, in both eras: which era the server speaks, lists, calls with their rounds, subscriptions.

pub(crate) mod handshake;
mod listen;
mod listing;
pub(crate) mod rounds;
mod subscribe;
