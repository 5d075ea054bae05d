//! The addresses of the front door.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use crate::{
    authorization::{authorize, metadata, register, revoke, token},
    door::FrontDoor,
    sign_in,
};

/// The most bytes of a request's body.
const MAX_BODY: usize = 32 * 1024;

impl FrontDoor {
    /// Answers at the addresses of the front door, all at the root of the team's address:
    ///
    /// - `/.well-known/oauth-protected-resource`, the same with `/mcp` behind it (RFC 9728), and
    ///   `/.well-known/oauth-authorization-server` (RFC 8414),
    /// - `/oauth/register` (RFC 7591), `/oauth/authorize` and `/oauth/token` (OAuth 2.1), `/oauth/revoke` (RFC 7009),
    /// - `/sign-in`, `/sign-in/back` and `/sign-out` (OpenID Connect).
    ///
    /// None of them needs a token of the daemon. Bodies have at most 32 KiB.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/.well-known/oauth-protected-resource", get(metadata::resource).options(metadata::preflight))
            .route("/.well-known/oauth-protected-resource/mcp", get(metadata::resource).options(metadata::preflight))
            .route("/.well-known/oauth-authorization-server", get(metadata::server).options(metadata::preflight))
            .route("/oauth/register", post(register::register).options(metadata::preflight))
            .route("/oauth/authorize", get(authorize::show).post(authorize::answer))
            .route("/oauth/token", post(token::token).options(metadata::preflight))
            .route("/oauth/revoke", post(revoke::revoke).options(metadata::preflight))
            .route("/sign-in", get(sign_in::begin))
            .route("/sign-in/back", get(sign_in::back))
            .route("/sign-out", post(sign_in::sign_out))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::clone(self))
    }
}
