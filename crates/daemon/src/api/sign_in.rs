//! Signing in to a server, with the browser of whoever asks.

use axum::{Json, extract::State as Extract, http::StatusCode};
use toolrack_host::spec::Transport;

use super::{Answer, ApiError, Path, State, servers::runnable};
use crate::world::{NoSignIn, SigningIn};

/// Begins to sign in to a server; who began before gives up. The page in the answer is to be opened in a browser of the machine
/// that the daemon runs on, which comes back to an address of the daemon's own; it waits five minutes.
#[utoipa::path(post, path = "/api/v1/servers/{name}/sign-in", tag = "servers", params(("name" = String, Path)),
    responses((status = 202, body = SigningIn), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 502, body = ApiError)))]
pub(super) async fn begin(
    Extract(world): State,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<SigningIn>), ApiError> {
    runnable(&world, &name)?;
    let loaded = world.loaded();
    let found = loaded.desired.get_key_value(name.as_str());
    let (server, spec) = found.ok_or_else(|| ApiError::no_server(&name))?;
    let refused = |message: &str, hint: &str| {
        ApiError::new(StatusCode::CONFLICT, "NO_SIGN_IN", message).hint(hint).server(&*name)
    };
    let (Transport::Http(http) | Transport::Sse(http)) = &spec.transport else {
        return Err(refused(
            "it runs on this machine, and is signed in to by nobody",
            "give it what it needs in `env`",
        ));
    };
    let has_header = http.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if has_header || http.headers_helper.is_some() {
        return Err(refused(
            "its entry says which headers are sent",
            "take `Authorization` or `headers_helper` out of it",
        ));
    }
    let signing = world.sign_in(server.clone(), http.clone()).await;
    let signing = signing.map_err(|NoSignIn { code, message, hint }| {
        let error = ApiError::new(StatusCode::BAD_GATEWAY, code, message).server(&*name);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })?;
    Ok((StatusCode::ACCEPTED, Json(signing)))
}

/// How far the last sign-in to a server is.
#[utoipa::path(get, path = "/api/v1/servers/{name}/sign-in", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = SigningIn), (status = 404, body = ApiError)))]
pub(super) async fn get(Extract(world): State, Path(name): Path<String>) -> Answer<SigningIn> {
    let signing = world.signing_in(&name);
    signing.map(Json).ok_or_else(|| ApiError::not_found("nobody has begun to sign in to it").server(name))
}
