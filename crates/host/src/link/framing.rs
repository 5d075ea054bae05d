//! Converts bytes into messages: bounded and tolerant, without a copy. Lines of stdio, event streams, and the JSON-RPC
//! in them.

pub(crate) mod envelope;
pub(crate) mod lines;
pub mod sse;
