//! Lists the profiles of `toolrack.toml`. Each has its own MCP endpoint. The world that answers a request is a host
//! with its configuration, questions and events.

use axum::{Extension, Json};
use serde::Serialize;
use toolrack_team::Endpoint;
use utoipa::ToSchema;

use super::{JsonResult, WorldExtension};

/// All profiles.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Profiles {
    profiles: Vec<ProfileView>,
}

/// A profile.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Profile)]
struct ProfileView {
    name: String,
    /// The address at which MCP clients find its tools.
    mcp: String,
    /// The names of its tools, as models see them.
    tools: Vec<String>,
}

/// All profiles, by name.
#[utoipa::path(get, path = "/api/v1/profiles", tag = "profiles", responses((status = 200, body = Profiles)))]
pub(super) async fn list(Extension(world): WorldExtension) -> JsonResult<Profiles> {
    let (profiles, catalog) = (&world.loaded().settings.profiles, world.host.catalog());
    let profiles = profiles.iter().map(|(name, profile)| ProfileView {
        name: name.to_string(),
        mcp: Endpoint::of(Some(name)).to_string(),
        tools: catalog.tools().filter(|tool| profile.has(tool)).map(|tool| profile.name_of(tool).to_owned()).collect(),
    });
    Ok(Json(Profiles { profiles: profiles.collect() }))
}
