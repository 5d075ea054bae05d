//! Signing in to MCP servers with OAuth 2.1.
//!
//! [`SignIn`] is the [`Authorizer`](toolrack_host::Authorizer) of a host: it gives requests their `Authorization` header,
//! renews tokens before they expire, and answers a server's challenge. What a person has to do is [`SignIn::login`], which
//! shows a page in a [`Browser`] and waits for where that is sent back to; [`SignIn::logout`] revokes and forgets.
//!
//! What is done on the wire is the authorization chapter of MCP: a 401 names the server's metadata (RFC 9728), that names an
//! authorization server (RFC 8414 or OpenID Connect discovery), a client is the one that was configured, a Client ID Metadata
//! Document or one registered there and then (RFC 7591), and a code is had with PKCE, a resource indicator (RFC 8707) and the
//! issuer's own check (RFC 9207). `rmcp` speaks all that; this crate owns what goes around it: the one HTTP client with its
//! bounds, the addresses that metadata may point to, what is kept and under which key, who refreshes when several
//! want to, and the words.
//!
//! This crate touches no files, no environment, no database and no terminal: tokens are kept by a [`TokenStore`].
//! No token, code or secret stands in an error, a `Debug` or a log line of this crate. (`rmcp` logs codes at `debug`: a
//! program that writes logs should have `rmcp` at `warn`.)

mod authorizer;
mod bound;
mod browser;
mod challenge;
mod credentials;
mod dpop;
mod engine;
mod error;
mod grant;
mod jose;
mod login;
mod loopback;
mod revoke;
mod store;
mod wire;

pub use authorizer::{Account, SignIn, SignInBuilder};
pub use browser::{Browser, BrowserError};
pub use error::AuthError;
pub use login::Signed;
pub use loopback::Loopback;
pub use store::{Lease, MemoryTokens, StoreError, TokenKey, TokenStore};
