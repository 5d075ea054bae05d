//! Signing in to MCP servers with OAuth 2.1.
//!
//! [`SignIn`] is the [`Authorizer`](toolrack_host::Authorizer) of a host: it signs requests, renews tokens before they
//! expire, and answers a server's challenge. A user signs in with [`SignIn::login`], which shows a page in a
//! [`Browser`] and waits for the redirect; [`SignIn::logout`] revokes and deletes the tokens.
//!
//! It follows the authorization chapter of MCP. A 401 names the server's metadata (RFC 9728), and the metadata name an
//! authorization server (RFC 8414 or OpenID Connect discovery). The client is the configured one, a Client ID Metadata
//! Document or one registered on the spot (RFC 7591). The code flow has PKCE, a resource indicator (RFC 8707) and the
//! issuer check (RFC 9207). `rmcp` implements that protocol. This crate owns the rest: the HTTP client with its bounds,
//! the addresses that metadata may point to, the stored credentials and their keys, the choice of the task that renews
//! tokens, and the error messages.
//!
//! The modules:
//!
//! - `authorizer` answers the host; `challenge` reads the `WWW-Authenticate` headers for it.
//! - `login` signs a user in and out; `browser` shows the page, and `loopback` receives the redirect.
//! - `sign_in` has the state that `authorizer` and `login` share: `slot` is one sign-in in this process, `store` keeps
//!   the tokens, and `credentials` is the stored form of one sign-in.
//! - `engine` signs in with a user, `grant` without one, and `revoke` revokes tokens.
//! - `guarded_http` sends the requests of these three modules. `token_request` adds client assertions and proofs to
//!   requests for tokens; `jose` signs the assertions, and `dpop` the proofs.
//! - `clock` tells the time in seconds since 1970, and `error` has the errors.
//!
//! This crate touches no files, no environment, no database and no terminal: a [`TokenStore`] keeps the tokens. No
//! token, code or secret appears in an error, a `Debug` or a log line of this crate. (`rmcp` logs codes at `debug`: set
//! its level to `warn` in a program that writes logs.)

mod authorizer;
mod browser;
mod challenge;
mod clock;
mod credentials;
mod dpop;
mod engine;
mod error;
mod grant;
mod guarded_http;
mod jose;
mod login;
mod loopback;
mod revoke;
mod sign_in;
mod slot;
mod store;
mod token_request;

pub use browser::{Browser, BrowserError};
pub use error::AuthError;
pub use login::{SignedIn, SignedOut};
pub use loopback::Loopback;
pub use sign_in::{Account, SignIn, SignInBuilder};
pub use store::{MemoryTokens, TokenKey, TokenLease, TokenStore, TokenStoreError};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
