//! Defines the routes of the front door: the addresses of a team at which users sign in and OAuth clients get tokens.

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

/// The maximum size of a request's body, in bytes.
const MAX_BODY: usize = 32 * 1024;

impl FrontDoor {
    /// Returns a router for the addresses of the front door, all at the root of the team's address:
    ///
    /// - `/.well-known/oauth-protected-resource`, the same with the path of an [`Endpoint`](crate::Endpoint) behind it
    ///   (RFC 9728), and `/.well-known/oauth-authorization-server` (RFC 8414),
    /// - `/oauth/register` (RFC 7591), `/oauth/authorize` and `/oauth/token` (OAuth 2.1), `/oauth/revoke` (RFC 7009),
    /// - `/sign-in`, `/sign-in/back` and `/sign-out` (OpenID Connect).
    ///
    /// None of them needs a token of the daemon. The body of a request has at most 32 KiB. If no provider signs people
    /// in, the router has only `/sign-in`, with a page that says so. For a team with trusted issuers, it also has the
    /// metadata of the resource.
    pub fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new().route("/sign-in", get(sign_in::begin));
        if !self.authorization_servers().is_empty() {
            let resource = || get(metadata::resource).options(metadata::preflight);
            router = router
                .route("/.well-known/oauth-protected-resource", resource())
                .route("/.well-known/oauth-protected-resource/{*endpoint}", resource());
        }
        if self.signs_in() {
            router = router.merge(sign_in_routes());
        }
        router.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(Arc::clone(self))
    }

    /// Returns whether [`Self::router`] answers at this path. Its routes themselves decide which other origins may read
    /// their answers.
    #[must_use]
    pub fn is_at(path: &str) -> bool {
        ["/.well-known/oauth-", "/oauth/", "/sign-"].iter().any(|prefix| path.starts_with(prefix))
    }
}

/// Returns the routes that exist only if a provider signs people in.
fn sign_in_routes() -> Router<Arc<FrontDoor>> {
    Router::new()
        .route("/.well-known/oauth-authorization-server", get(metadata::server).options(metadata::preflight))
        .route("/oauth/register", post(register::register).options(metadata::preflight))
        .route("/oauth/authorize", get(authorize::show).post(authorize::answer))
        .route("/oauth/token", post(token::token).options(metadata::preflight))
        .route("/oauth/revoke", post(revoke::revoke).options(metadata::preflight))
        .route("/sign-in/back", get(sign_in::callback))
        .route("/sign-out", post(sign_in::sign_out))
}
