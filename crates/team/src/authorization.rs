//! The authorization server: OAuth 2.1 for public clients, with the MCP endpoints of the team as resources.
//!
//! ```text
//!   authorize ──► consent ──► request            the person is asked; what is asked for
//!   token, revoke, register, metadata
//!        │
//!        ▼
//!     failure                                    exact errors
//! ```

pub(crate) mod authorize;
mod consent;
mod failure;
pub(crate) mod metadata;
pub(crate) mod register;
mod request;
pub(crate) mod revoke;
pub(crate) mod token;
