//! Conversations with any model, with any MCP tools.
//!
//! [`message`] has the parts of a conversation, and [`model`] has the models: one trait, and the wire formats of the
//! providers behind it. [`turn`] decides what comes next in a conversation, and [`Agent`] does it. [`sampling`] answers
//! servers that ask a model themselves. This crate uses no files, environment, database or terminal: its caller passes
//! keys and addresses as data, and a [`Front`] stores and shows.
//!
//! ```text
//!   driver ──────────────► Host, of toolrack-host: the one way to call tools
//!     │ │                  drives a turn, and has the Front store each step
//!     │ ▼
//!     │ turn               what comes next, without IO
//!     │ │
//!     │ │     sampling     requests of servers to a model
//!     ▼ ▼        │
//!    model ◄─────┘         the trait Model; in its folder:
//!     │ ├── openai_chat, openai_responses, anthropic, gemini ──► draft, body      the wires, without IO
//!     │ ├── online ──► transport, failure                                         HTTP: tries, bounds
//!     │ └── provider, settings, local, scripted                                   known providers; the mock
//!     ▼
//!    message               the parts of a conversation
//!
//!    secret_buffer         for programs that show a stream: holds back text that may begin a secret
//! ```

mod driver;
pub mod message;
pub mod model;
pub mod sampling;
mod secret_buffer;
pub mod turn;

pub use driver::{Agent, AgentError, Front, NoFront, NotStored, SAFETY, TurnEvent};
pub use message::{Message, Role, ToolCallData};
pub use model::{Delta, Model, ModelError, Reply, Request, Stop, Usage};
pub use secret_buffer::{SecretBuffer, TextKind};
pub use toolrack_host::Conceal;
pub use turn::{End, Limits, Turn};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
