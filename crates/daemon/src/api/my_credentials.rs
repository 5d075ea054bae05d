//! Lists, stores and deletes the values of `${user:NAME}`, which a user gives to the servers that run only for them.
//! The world that answers a request is a host with its configuration, questions and events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{Extension, Json, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use toolrack_config::{is_stored_secret_name, user_values_in};
use toolrack_host::{Caller, text};
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, SentBy, WorldExtension, no_content};
use crate::{
    credentials::{Credentials, WorldKind},
    shown,
    world::World,
};

/// The maximum size of a value, in bytes.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The maximum length of an unknown value's name in an error.
const MAX_SHOWN_NAME_BYTES: usize = 64;

/// The values that the caller's own servers need.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MyCredentials {
    credentials: Vec<MyCredential>,
}

/// A value that the caller's servers need, or that the caller has given. The value itself is never shown.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MyCredential {
    /// The NAME of `${user:NAME}`.
    #[schema(example = "GITHUB_TOKEN")]
    name: String,
    /// The servers that need it; none if the configuration no longer names it.
    servers: Vec<String>,
    /// Whether the caller has given it.
    given: bool,
    /// When the caller gave it, in RFC 3339.
    given_at: Option<String>,
}

/// A value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCredential {
    /// 1 byte to 64 KiB. A line break at its end is left out.
    value: String,
}

/// The servers that need each value, by the name of the value.
fn servers_by_value(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let mut servers_by_value: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (server, spec) in world.loaded().desired.iter().filter(|(_, spec)| world.kind.runs(spec)) {
        for name in user_values_in(spec) {
            servers_by_value.entry(name).or_default().insert(server.to_string());
        }
    }
    servers_by_value
}

/// The values of the caller, and of no other user.
fn own_credentials(world: &World, caller: &Caller) -> Result<Arc<dyn Credentials>, ApiError> {
    (world.credentials)(caller.principal()).ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "NOT_NEEDED", "no server here needs a value of your own")
            .hint("`${user:NAME}` in the entry of a server asks for one")
    })
}

/// The values that the caller's servers need, and which of them the caller has given. Values are never shown.
#[utoipa::path(get, path = "/api/v1/me/credentials", tag = "me",
    responses((status = 200, body = MyCredentials), (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, SentBy(caller): SentBy) -> JsonResult<MyCredentials> {
    let mut servers_by_value = servers_by_value(&world);
    let given_values = match own_credentials(&world, &caller) {
        Ok(credentials) => credentials.list().await.map_err(ApiError::member_data_unavailable)?,
        // No server here needs a value of a user.
        Err(_) => Vec::new(),
    };
    // On a machine with one user, `given_values` has all stored secrets, and those that no server needs are listed
    // elsewhere.
    let is_listed = |name: &str, servers_by_value: &BTreeMap<_, _>| {
        !matches!(world.kind, WorldKind::Machine) || servers_by_value.contains_key(name)
    };
    let mut credentials: Vec<_> = given_values
        .into_iter()
        .filter(|given| is_listed(&given.name, &servers_by_value))
        .map(|given| (given.name, Some(given.at)))
        .collect();
    let given_names: BTreeSet<_> = credentials.iter().map(|(name, _)| name.clone()).collect();
    credentials
        .extend(servers_by_value.keys().filter(|name| !given_names.contains(*name)).map(|name| (name.clone(), None)));
    credentials.sort();
    let listed = credentials.into_iter().map(|(name, at)| MyCredential {
        servers: servers_by_value.remove(&name).into_iter().flatten().collect(),
        given: at.is_some(),
        given_at: at.map(shown::rfc3339_millis),
        name,
    });
    Ok(Json(MyCredentials { credentials: listed.collect() }))
}

/// Stores a value for the caller's servers, and replaces an earlier one. The servers that need it restart.
#[utoipa::path(put, path = "/api/v1/me/credentials/{name}", tag = "me", request_body = NewCredential,
    params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 422, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn give(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    Body(NewCredential { value }): Body<NewCredential>,
) -> Result<Response, ApiError> {
    let credentials = own_credentials(&world, &caller)?;
    let servers = servers_by_value(&world).remove(&name).ok_or_else(|| not_needed_error(&name))?;
    let value = value.strip_suffix('\n').map_or(&*value, |line| line.strip_suffix('\r').unwrap_or(line));
    if value.is_empty() || value.len() > MAX_VALUE_BYTES || value.contains('\0') || !is_stored_secret_name(&name) {
        let message =
            format!("a value has 1 to {MAX_VALUE_BYTES} bytes, none of them 0, and its name must fit in a placeholder");
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_VALUE", message));
    }
    credentials.give(&name, value, &caller).await.map_err(ApiError::member_data_unavailable)?;
    world.restart_for_values(&servers);
    Ok(no_content())
}

/// Deletes a value that the caller has given. The servers that use it end, and start again once there is a new value.
#[utoipa::path(delete, path = "/api/v1/me/credentials/{name}", tag = "me", params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn take_back(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let credentials = own_credentials(&world, &caller)?;
    let servers = servers_by_value(&world).remove(&name).unwrap_or_default();
    // On a machine with one user, `credentials` has all stored secrets. Only those that servers need are deleted here.
    if matches!(world.kind, WorldKind::Machine) && servers.is_empty() {
        return Err(not_needed_error(&name));
    }
    if !credentials.take_back(&name, &caller).await.map_err(ApiError::member_data_unavailable)? {
        return Err(ApiError::not_found("you have given no value of this name"));
    }
    world.restart_for_values(&servers);
    Ok(no_content())
}

/// The error for a value that no server of the caller needs.
fn not_needed_error(name: &str) -> ApiError {
    let clipped = text::clip(name, MAX_SHOWN_NAME_BYTES);
    let message = format!("no server of yours needs a value `{}`", text::for_line(&clipped));
    ApiError::new(StatusCode::NOT_FOUND, "NOT_NEEDED", message).hint("GET /api/v1/me/credentials lists the names")
}
