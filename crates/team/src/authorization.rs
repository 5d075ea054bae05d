//! Implements the team's authorization server: OAuth 2.1 for public clients, which get tokens for the team's MCP
//! endpoints.
//!
//! - `authorize` answers a client that asks for a code. `request` reads the parameters of the client, and `consent`
//!   makes the page on which the user answers.
//! - `token`, `revoke`, `register` and `metadata` are the other endpoints for clients.
//! - `failure` makes the errors of OAuth.

pub(crate) mod authorize;
mod consent;
mod failure;
pub(crate) mod metadata;
pub(crate) mod register;
mod request;
pub(crate) mod revoke;
pub(crate) mod token;
