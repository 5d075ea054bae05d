//! Conversations with any model over any MCP tools.
//!
//! [`message`] is what a conversation consists of, [`model`] is who answers: one trait, and the wires of the providers
//! behind it. Neither knows files, the environment, a database or a terminal: keys and addresses come in as data.

pub mod message;
pub mod model;
pub mod turn;

pub use message::{Message, Role, ToolCallData};
pub use model::{Delta, Model, ModelError, Reply, Request, Stop, Usage};
