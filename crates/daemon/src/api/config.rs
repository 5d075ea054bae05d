//! Shows the configuration files and their problems, reloads them, and checks new ones. The world that answers a
//! request is a host with its configuration, questions and events.

use axum::{Extension, Json, response::Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolrack_config::edit;
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, WorldExtension, no_content};
use crate::shown::Problem;

/// The configuration.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Config {
    /// The files that apply, existing or not, from the weakest to the strongest.
    files: Vec<File>,
    problems: Vec<Problem>,
    #[schema(value_type = Object)]
    settings: Value,
    /// Agents that have servers of their own.
    agents: Vec<String>,
    /// The project's root.
    project: String,
}

/// A configuration file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigFile)]
struct File {
    scope: &'static str,
    path: String,
    exists: bool,
    /// Its content, with secrets hidden; `null` when the file is missing or cannot be read.
    text: Option<String>,
}

/// The configuration files with secrets hidden, and their problems.
#[utoipa::path(get, path = "/api/v1/config", tag = "config", responses((status = 200, body = Config)))]
pub(super) async fn get(Extension(world): WorldExtension) -> JsonResult<Config> {
    let loaded = world.loaded();
    let files: Vec<_> = loaded.files.iter().map(|file| (file.scope, file.path.clone())).collect();
    let read_task = tokio::task::spawn_blocking(move || {
        let shown_files = files.into_iter().map(|(scope, path)| {
            let shown_text = toolrack_config::show(&path);
            let exists = !matches!(shown_text, Ok(None));
            File { scope: scope.as_str(), path: path.display().to_string(), exists, text: shown_text.ok().flatten() }
        });
        shown_files.collect()
    });
    let retention = loaded.settings.sessions;
    Ok(Json(Config {
        files: read_task.await.map_err(|_| ApiError::internal("the files were not read"))?,
        problems: world.problems().iter().map(Problem::from).collect(),
        settings: json!({ "sessions": { "keep_days": retention.days, "keep": retention.number } }),
        agents: loaded.agents.clone(),
        project: loaded.project.display().to_string(),
    }))
}

/// Reads the configuration again, and applies it. Not needed where the system can watch files: there, the daemon
/// notices changes.
#[utoipa::path(post, path = "/api/v1/config/reload", tag = "config",
    responses((status = 204), (status = 409, body = ApiError)))]
pub(super) async fn reload(Extension(world): WorldExtension) -> Result<Response, ApiError> {
    world.reload().await?;
    Ok(no_content())
}

/// The text of a possible configuration file.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ConfigText)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    /// Which dialect it is written in.
    #[serde(default)]
    kind: Dialect,
    text: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[schema(as = ConfigDialect)]
#[serde(rename_all = "snake_case")]
enum Dialect {
    #[default]
    Json,
    Toml,
}

/// The problems of a text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ConfigProblems {
    ok: bool,
    /// The servers that it has.
    servers: Vec<String>,
    problems: Vec<Problem>,
}

/// Reports the problems of a text as if it were a configuration file. Starts and stores nothing.
#[utoipa::path(post, path = "/api/v1/config/validate", tag = "config", request_body = Text,
    responses((status = 200, body = ConfigProblems)))]
pub(super) async fn validate(Body(text): Body<Text>) -> Json<ConfigProblems> {
    // `edit::validate` knows the dialect by the name of the file.
    let file_name = match text.kind {
        Dialect::Json => "mcp.json",
        Dialect::Toml => "toolrack.toml",
    };
    let (servers, problems) = edit::validate(file_name, &text.text);
    let ok = !problems.iter().any(toolrack_config::Problem::is_error);
    Json(ConfigProblems { ok, servers, problems: problems.iter().map(Problem::from).collect() })
}
