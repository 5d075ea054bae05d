//! Converts bytes into messages: the lines of stdio, event streams, and the JSON-RPC in both. Bounds the memory,
//! tolerates damage, and avoids copies.

pub(crate) mod envelope;
pub(crate) mod lines;
pub mod sse;
