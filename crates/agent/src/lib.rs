//! Conversations with any model over any MCP tools.
//!
//! [`message`] has the parts of a conversation, and [`model`] has the models: one trait, and the wires of the providers
//! behind it. [`turn`] decides what comes next in a conversation, and [`Agent`] does it. [`sampling`] answers servers
//! that ask a model themselves. None of them knows files, the environment, a database or a terminal: keys and addresses
//! come in as data, and a [`Front`] stores and shows.
//!
//! ```text
//!   driver ──────────────► Host, of toolrack-host: the one door for calls
//!     │ │                  does what a turn says, and has the Front keep each step
//!     │ ▼
//!     │ turn               what comes next, without IO
//!     │ │
//!     │ │     sampling     what servers ask of a model
//!     ▼ ▼        │
//!    model ◄─────┘         the trait Model; in its folder:
//!     │ ├── openai_chat, openai_responses, anthropic, gemini ──► draft, body      the wires, without IO
//!     │ ├── online ──► transport, failure                                         HTTP: tries, bounds
//!     │ └── provider, settings, local, scripted                                   who there is; the mock
//!     ▼
//!    message               what a conversation consists of
//!
//!    held                  for programs that show a stream: an end of text that may begin a secret
//! ```

mod driver;
mod held;
pub mod message;
pub mod model;
pub mod sampling;
pub mod turn;

pub use driver::{Agent, AgentError, Front, NotKept, SAFETY, TurnEvent, Unseen};
pub use held::{Held, Words};
pub use message::{Message, Role, ToolCallData};
pub use model::{Delta, Model, ModelError, Reply, Request, Stop, Usage};
pub use toolrack_host::Conceal;
pub use turn::{End, Limits, Turn};
