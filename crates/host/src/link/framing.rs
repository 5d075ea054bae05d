//! Converts bytes into messages, with bounded memory, with tolerance for damage, and without copies: the lines of
//! stdio, event streams, and the JSON-RPC in them.

pub(crate) mod envelope;
pub(crate) mod lines;
pub mod sse;
