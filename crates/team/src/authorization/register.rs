//! Lets clients register themselves (RFC 7591): only public clients, with a few redirect addresses. The store later
//! removes clients that no user has allowed, and no flood of registrations can exclude another client.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use toolrack_store::RegisteredClient;

use super::failure::{Failure, respond};
use crate::{
    clients::{MAX_REDIRECT_URIS, check_redirect_uri, shown_name},
    door::{FrontDoor, SCOPE},
    random::random_text,
};

/// The maximum size of a registration, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// A client's description of itself. Other members are ignored (RFC 7591, 2).
#[derive(Deserialize)]
struct Registration {
    #[serde(default)]
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
}

/// `POST /oauth/register`.
pub(crate) async fn register(State(door): State<Arc<FrontDoor>>, body: Bytes) -> Response {
    respond(&door, "register", register_client(&door, &body).await).await
}

async fn register_client(door: &FrontDoor, body: &[u8]) -> Result<Response, Failure> {
    let invalid = |why: &str| Failure::new("invalid_client_metadata", why);
    if body.len() > MAX_BYTES {
        return Err(invalid("the registration is longer than 16 KiB"));
    }
    let registration: Registration = serde_json::from_slice(body)
        .map_err(|_| invalid("the registration is not JSON with the members of RFC 7591"))?;
    let name = shown_name(registration.client_name.as_deref());
    check_registration(&registration).map_err(|failure| failure.with_client(Some(&name)))?;
    let client = create_client(door, name, registration.redirect_uris).await?;
    let body = json!({
        "client_id": client.id,
        "client_id_issued_at": chrono::Utc::now().timestamp(),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": SCOPE,
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Creates the client, and stores it. If very many clients register at the same time, the store does not keep the
/// client: its id then contains its description and a seal.
async fn create_client(
    door: &FrontDoor,
    name: String,
    redirect_uris: Vec<String>,
) -> Result<RegisteredClient, Failure> {
    if door.registration_limit.check().is_err() {
        let too_many = || Failure::too_many("too many clients register at once, and this registration is too long");
        return door.clients.create_sealed(&name, &redirect_uris)?.ok_or_else(too_many);
    }
    let client = RegisteredClient { id: random_text::<16>("trc_")?.to_string(), name, redirect_uris };
    door.store.put_client(&client).await?;
    Ok(client)
}

/// Checks a registration. A client that asks for a secret gets none; the answer says so, as RFC 7591 (3.2.1) allows.
fn check_registration(registration: &Registration) -> Result<(), Failure> {
    let wrong_uri = |why: String| Err(Failure::new("invalid_redirect_uri", why));
    if registration.redirect_uris.is_empty() {
        return wrong_uri("a client needs a redirect URI in redirect_uris".to_owned());
    }
    if registration.redirect_uris.len() > MAX_REDIRECT_URIS {
        return wrong_uri(format!("a client has at most {MAX_REDIRECT_URIS} redirect URIs"));
    }
    if let Some(why) = registration.redirect_uris.iter().find_map(|uri| check_redirect_uri(uri).err()) {
        return wrong_uri(why.to_owned());
    }
    // A list that is left out means the default of RFC 7591, which this server supports.
    let excludes = |list: &Option<Vec<String>>, word: &str| {
        list.as_ref().is_some_and(|all| !all.iter().any(|listed| listed == word))
    };
    if excludes(&registration.grant_types, "authorization_code") || excludes(&registration.response_types, "code") {
        let why = "only the grant authorization_code with the response type code is served here";
        return Err(Failure::new("invalid_client_metadata", why));
    }
    Ok(())
}
