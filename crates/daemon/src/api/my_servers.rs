//! Lists, adds and removes servers that a member of a team adds for themselves. The world that answers a request is a
//! host with its configuration, questions and events.

use std::collections::BTreeMap;

use axum::{Extension, Json, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use toolrack_config::OwnServer;
use toolrack_host::{Caller, ServerName};
use url::Url;
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, SentBy, WorldExtension, no_content};
use crate::{
    own_servers::{NotAdded, OwnServers},
    world::World,
};

/// The servers that the caller has added, and how many they may add.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MyServers {
    /// The most servers that the caller may add; 0 when members of the tenant may not add servers.
    most: usize,
    servers: Vec<MyServer>,
}

/// A server that the caller has added.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MyServer {
    name: String,
    url: String,
    /// The names of its headers. Their values are not shown.
    headers: Vec<String>,
}

/// A server to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOwnServer {
    /// Its MCP endpoint. Most teams only let connections go to public addresses, with `https`.
    #[schema(example = "https://mcp.example.com/mcp")]
    url: String,
    /// Headers of its requests. The values are stored encrypted. `${user:NAME}` stands for a value of *My credentials*;
    /// `$$` for a `$`.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// The servers of members, if members may add servers here.
fn require_own_servers(world: &World) -> Result<&OwnServers, ApiError> {
    world.own_servers.as_deref().filter(|own_servers| own_servers.max_per_member() > 0).ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "NO_OWN_SERVERS", "members cannot add servers here")
            .hint("the operator of a team allows it with `own_servers` in the team file")
    })
}

/// The servers that the caller has added. `GET /api/v1/servers` and `GET /api/v1/tools` have their states and tools.
#[utoipa::path(get, path = "/api/v1/me/servers", tag = "me",
    responses((status = 200, body = MyServers), (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, SentBy(caller): SentBy) -> JsonResult<MyServers> {
    let Ok(own_servers) = require_own_servers(&world) else {
        return Ok(Json(MyServers { most: 0, servers: Vec::new() }));
    };
    let servers = own_servers.servers_of(caller.principal()).await.map_err(ApiError::member_data_unavailable)?;
    let listed_servers = servers.into_iter().map(|(name, server)| MyServer {
        name,
        url: server.url,
        headers: server.headers.into_keys().collect(),
    });
    Ok(Json(MyServers { most: own_servers.max_per_member(), servers: listed_servers.collect() }))
}

/// Adds a server that only the caller can use, and replaces an earlier one of this name. The server starts immediately.
#[utoipa::path(put, path = "/api/v1/me/servers/{name}", tag = "me", request_body = NewOwnServer,
    params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 422, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn add(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
    Body(NewOwnServer { url, headers }): Body<NewOwnServer>,
) -> Result<Response, ApiError> {
    let own_servers = require_own_servers(&world)?;
    let bad_server = |message: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_SERVER", message);
    let name = ServerName::new(name).map_err(|error| bad_server(error.to_string()))?;
    if world.loaded().entry(name.as_str()).is_some() {
        let message = format!("the tenant has a server `{name}` already");
        return Err(ApiError::new(StatusCode::CONFLICT, "NAME_TAKEN", message).hint("choose another name"));
    }
    let server = OwnServer { url, headers };
    // Checks the form of the URL and the headers. The result itself is not needed here.
    drop(server.spec(&caller.principal().key(), own_servers.egress()).map_err(|error| bad_server(error.to_string()))?);
    let url = Url::parse(&server.url).map_err(|error| bad_server(error.to_string()))?;
    // `spec` accepts any host, because each connection checks the operator's rules. Check them here as well, so that
    // the member learns at once of an address that the rules forbid.
    own_servers.egress().guard_for_configured().check(&url).map_err(|refused| {
        bad_server(refused.to_string())
            .hint("the operator of the team says where servers of members may be: `own_servers`")
    })?;
    own_servers.add(&name, &server, &caller).await.map_err(|error| match error {
        NotAdded::Full(limit) => {
            let message = format!("you have {limit} servers of your own, and the tenant allows no more");
            ApiError::new(StatusCode::CONFLICT, "TOO_MANY_SERVERS", message).hint("remove one first")
        }
        NotAdded::NotStored(why) => ApiError::member_data_unavailable(why),
    })?;
    reload_world_of(&world, &caller).await;
    Ok(no_content())
}

/// Removes a server that the caller has added. Its connection ends.
#[utoipa::path(delete, path = "/api/v1/me/servers/{name}", tag = "me", params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn remove(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    if !require_own_servers(&world)?.remove(&name, &caller).await.map_err(ApiError::member_data_unavailable)? {
        return Err(ApiError::not_found("you have added no server of this name"));
    }
    reload_world_of(&world, &caller).await;
    Ok(no_content())
}

/// If the caller's world (a host with its configuration) has begun, makes it run the servers that are stored now.
async fn reload_world_of(world: &World, caller: &Caller) {
    if let Some(member_worlds) = world.member_worlds.get() {
        (member_worlds.reload)(caller.principal().key()).await;
    }
}
