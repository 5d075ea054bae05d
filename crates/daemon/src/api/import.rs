//! Lists the servers that other programs on this machine have configured, and adds chosen ones to the configuration.
//! The world that answers a request is a host with its configuration, questions and events.

use std::collections::BTreeMap;

use axum::{Extension, Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_config::import::{self, Client, Found, Offer};
use utoipa::ToSchema;

use super::{
    ApiError, Body, JsonResult, SentBy, WorldExtension,
    server_edits::{FileChange, NewScope, add_all},
};
use crate::{
    shown::Problem,
    world::{NewEntries, World},
};

/// Servers that other programs have.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OfferedServers {
    offers: Vec<OfferedServer>,
    /// Files and entries that cannot be used, and likely mistakes.
    problems: Vec<Problem>,
}

/// A server of another program.
#[derive(Debug, Serialize, ToSchema)]
struct OfferedServer {
    /// The other program, such as `cursor`.
    client: String,
    /// The program's file.
    path: String,
    /// The line of the entry in that file, from 1.
    line: Option<usize>,
    /// The name that the server would have here.
    name: String,
    /// The hash of the entry: a request to add it names exactly this content.
    hash: String,
    /// The entry that would be added, with secrets hidden.
    #[schema(value_type = Object)]
    config: Value,
    /// The differences from the other program's entry.
    notes: Vec<String>,
    /// Whether a server of this name is configured here.
    known: bool,
}

/// Finds the servers that other programs on this machine have configured.
async fn find_offers(world: &World) -> Result<Found, ApiError> {
    let (environment, folder) = (world.environment.clone(), world.load_request.cwd.clone());
    // Some of these files are large, and a home folder may be on a slow network drive.
    let search_task = tokio::task::spawn_blocking(move || import::look(&environment, &folder, Client::ALL));
    search_task.await.map_err(|_| ApiError::internal("the files of other programs were not read"))
}

/// The servers that other programs have configured and that can be added here.
#[utoipa::path(get, path = "/api/v1/import", tag = "servers", responses((status = 200, body = OfferedServers)))]
pub(super) async fn list(Extension(world): WorldExtension) -> JsonResult<OfferedServers> {
    let (search_result, loaded) = (find_offers(&world).await?, world.loaded());
    let offered_servers = search_result.offers.iter().map(|offer| OfferedServer {
        client: offer.client.to_string(),
        path: offer.path.display().to_string(),
        line: offer.line,
        name: offer.name.clone(),
        hash: offer.hash.clone(),
        config: offer.view.clone(),
        notes: offer.notes.clone(),
        known: loaded.entry(&offer.name).is_some(),
    });
    Ok(Json(OfferedServers {
        offers: offered_servers.collect(),
        problems: search_result.problems.iter().map(Problem::from).collect(),
    }))
}

/// The servers to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServersToImport {
    offers: Vec<ChosenOffer>,
    #[serde(default)]
    scope: NewScope,
    /// Write secrets into the file as they are, instead of keeping them among the stored secrets.
    #[serde(default)]
    plain: bool,
}

/// An offer as it was shown.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChosenOffer {
    client: String,
    name: String,
    hash: String,
}

/// The changes of files that added the servers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportedServers {
    edited: Vec<FileChange>,
}

/// Adds servers of other programs, exactly as they were shown: all of them, or none. Keeps their secrets among the
/// stored secrets, unless `plain` is set.
#[utoipa::path(post, path = "/api/v1/import", tag = "servers", request_body = ServersToImport,
    responses((status = 200, body = ImportedServers),
        (status = 404, body = ApiError, description = "An offer was removed or changed"),
        (status = 409, body = ApiError, description = "A name exists, or the file or a secret cannot be changed"),
        (status = 422, body = ApiError, description = "An entry is invalid"),
        (status = 507, body = ApiError, description = "The file or the database cannot be written")))]
pub(super) async fn take(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Body(request): Body<ServersToImport>,
) -> JsonResult<ImportedServers> {
    let search_result = find_offers(&world).await?;
    let mut chosen_entries = BTreeMap::new();
    for ChosenOffer { client, name, hash } in &request.offers {
        let is_chosen =
            |offer: &&Offer| offer.client.to_string() == *client && offer.name == *name && offer.hash == *hash;
        let offer = search_result.offers.iter().find(is_chosen);
        let offer = offer.ok_or_else(|| {
            ApiError::not_found("the other program has removed or changed this entry").server(name.as_str())
        })?;
        if chosen_entries.insert(name.clone(), offer.entry.clone()).is_some() {
            let error = ApiError::new(StatusCode::CONFLICT, "EXISTS", "two of the offers have this name");
            return Err(error.hint("choose one of them").server(name.as_str()));
        }
    }
    let additions =
        NewEntries { scope: request.scope.into(), entries: chosen_entries, replace: false, plain: request.plain };
    let dry_run = false;
    Ok(Json(ImportedServers { edited: add_all(&world, additions, dry_run, &caller).await? }))
}
