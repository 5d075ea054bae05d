//! Conversations with any model, with any MCP tools.
//!
//! [`message`] has the parts of a conversation, and [`model`] has the models: one trait, and the wire formats of the
//! providers behind it. [`turn`] decides which step comes next in a conversation, and [`Agent`] takes that step.
//! [`sampling`] answers servers that ask a model themselves. This crate uses no files, environment, database or
//! terminal: its caller passes keys and addresses as data, and a [`Front`] stores and shows the conversation.
//!
//! The modules: `driver` uses `turn`, and `driver`, `turn` and `sampling` use `model` and `message`.
//!
//! ```text
//!   driver           runs a turn, and has the Front store each step; calls tools only through toolrack-host's Host
//!   turn             decides what comes next, without IO
//!   sampling         answers servers that ask a model
//!   model            the trait Model, and in its folder:
//!     online         models behind HTTP
//!     transport      requests over HTTP, with retries and limits
//!     failure        reads the error responses of providers
//!     openai_chat, openai_responses, anthropic, gemini
//!                    the wires (the API formats of the providers), without IO
//!     draft, body    the shared parts of the wires: draft assembles an answer, body writes a request
//!     provider       the known providers and their models
//!     settings       the settings to reach a model
//!     local          finds model servers on this machine
//!     scripted       a mock model that answers from a script
//!   message          the parts of a conversation
//!
//!   secret_buffer    for programs that show a stream: holds back text that may begin a secret
//! ```

mod driver;
pub mod message;
pub mod model;
pub mod sampling;
mod secret_buffer;
pub mod turn;

pub use driver::{Agent, AgentError, Front, NoopFront, NotStored, SAFETY, TurnEvent};
pub use message::{Message, Role, ToolCallData};
pub use model::{Delta, Model, ModelError, Reply, Request, Stop, Usage};
pub use secret_buffer::{SecretBuffer, TextKind};
pub use toolrack_host::Conceal;
pub use turn::{End, Limits, Turn};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
