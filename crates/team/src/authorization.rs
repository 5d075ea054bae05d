//! The authorization server: OAuth 2.1 for public clients, with the MCP endpoints of the team as resources.
//!
//! ```text
//!   authorize ──► consent ──► request            the page that asks the person; what the client asks for
//!   token, revoke, register, metadata
//!        │
//!        ▼
//!     failure                                    the errors of OAuth
//! ```

pub(crate) mod authorize;
mod consent;
mod failure;
pub(crate) mod metadata;
pub(crate) mod register;
mod request;
pub(crate) mod revoke;
pub(crate) mod token;
