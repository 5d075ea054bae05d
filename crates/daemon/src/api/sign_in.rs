//! Signs the daemon in to a server, with the user's browser. The world that answers a request is a host with its
//! configuration, questions and events.

use axum::{Extension, Json, http::StatusCode, response::Response};
use serde::Deserialize;
use toolrack_host::spec::Transport;
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, WorldExtension, no_content, servers::check_may_run};
use crate::world::{NoSignIn, PasteRefused, SignInStatus};

/// Begins to sign in to a server, and cancels an earlier sign-in. Open the page in the answer in a browser on the
/// daemon's machine: that browser is redirected to an address of the daemon, which waits five minutes. For a browser on
/// another machine, send the address at which it ends up.
#[utoipa::path(post, path = "/api/v1/servers/{name}/sign-in", tag = "servers", params(("name" = String, Path)),
    responses((status = 202, body = SignInStatus), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 502, body = ApiError)))]
pub(super) async fn begin(
    Extension(world): WorldExtension,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<SignInStatus>), ApiError> {
    check_may_run(&world, &name)?;
    let loaded = world.loaded();
    let configured = loaded.desired.get_key_value(name.as_str());
    let (server, spec) = configured.ok_or_else(|| ApiError::no_server(&name))?;
    let no_sign_in = |message: &str, hint: &str| {
        ApiError::new(StatusCode::CONFLICT, "NO_SIGN_IN", message).hint(hint).server(&*name)
    };
    let (Transport::Http(http) | Transport::Sse(http)) = &spec.transport else {
        return Err(no_sign_in("it runs on this machine and needs no sign-in", "give it what it needs in `env`"));
    };
    let sends_authorization = http.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if sends_authorization || http.headers_helper.is_some() {
        return Err(no_sign_in(
            "its entry says which headers are sent",
            "take `Authorization` or `headers_helper` out of it",
        ));
    }
    let sign_in = world.sign_in(server.clone(), http.clone()).await;
    let sign_in = sign_in.map_err(|NoSignIn { code, message, hint }| {
        let error = ApiError::new(StatusCode::BAD_GATEWAY, code, message).server(&*name);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })?;
    Ok((StatusCode::ACCEPTED, Json(sign_in)))
}

/// The state of the last sign-in to a server.
#[utoipa::path(get, path = "/api/v1/servers/{name}/sign-in", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = SignInStatus), (status = 404, body = ApiError)))]
pub(super) async fn get(Extension(world): WorldExtension, Path(name): Path<String>) -> JsonResult<SignInStatus> {
    let sign_in = world.sign_in_status(&name);
    sign_in.map(Json).ok_or_else(|| ApiError::not_found("no sign-in to it has begun").server(name))
}

/// The address at which a browser ended up, if the browser cannot reach the daemon's machine.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowserAddress {
    /// The whole address, as the browser shows it. It contains a code that is valid once.
    address: String,
}

/// Completes a sign-in with the address at which a browser on another machine ended up. It must be the answer to the
/// page of this sign-in.
#[utoipa::path(post, path = "/api/v1/servers/{name}/sign-in/address", tag = "servers", request_body = BrowserAddress,
    params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 422, body = ApiError)))]
pub(super) async fn came_back(
    Extension(world): WorldExtension,
    Path(name): Path<String>,
    Body(BrowserAddress { address }): Body<BrowserAddress>,
) -> Result<Response, ApiError> {
    match world.accept_pasted_address(&name, &address) {
        Ok(()) => Ok(no_content()),
        Err(PasteRefused::NotAwaited) => Err(ApiError::not_found("no sign-in to it waits for an address").server(name)),
        Err(PasteRefused::WrongAddress) => {
            let message = "this is not the redirect address of the sign-in page";
            let refused = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "ANOTHER_ADDRESS", message).server(name);
            Err(refused.hint(
                "copy the whole address that the browser shows at the end, even if it says that it cannot reach it",
            ))
        }
    }
}
