//! Calls that run without a question because a person allowed them for good.

use axum::{Json, extract::State as Extract};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use toolrack_host::Way;
use toolrack_store::StandingAnswer;
use utoipa::{IntoParams, ToSchema};

use super::{Answer, ApiError, Query, State};
use crate::shown;

/// Every answer that stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Standing {
    answers: Vec<Shown>,
}

/// Calls of this tool run without a question, as long as it does not change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "StandingAnswer")]
struct Shown {
    server: String,
    /// The tool's own name; untrusted.
    tool: String,
    /// The hash of the definition that it is for.
    definition: String,
    /// `tool`, or `server` when it was given for all that the server had.
    given_for: String,
    /// How the call came in that was asked about: `cli`, `daemon`, `gateway`, `agent`, `program`.
    way: String,
    /// In RFC 3339.
    at: Option<String>,
}

impl From<StandingAnswer> for Shown {
    fn from(answer: StandingAnswer) -> Self {
        let at = DateTime::from_timestamp(answer.answered_at, 0);
        Self {
            server: answer.server,
            tool: answer.tool,
            definition: answer.definition.to_string(),
            given_for: if answer.of_server { "server" } else { "tool" }.to_owned(),
            way: answer.way,
            at: at.map(shown::seconds),
        }
    }
}

/// Which answers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// About this server; without it, all of them.
    server: Option<String>,
    /// About this tool of it, by its own name.
    tool: Option<String>,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Forgotten {
    /// How many answers stand no more.
    forgotten: usize,
}

/// The tools that run without a question because a person allowed them for good.
#[utoipa::path(get, path = "/api/v1/answers", tag = "approvals",
    responses((status = 200, body = Standing), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn list(Extract(world): State) -> Answer<Standing> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let answers = store.answers().await?;
    Ok(Json(Standing { answers: answers.into_iter().map(Shown::from).collect() }))
}

/// Takes answers back: such calls are asked about again.
#[utoipa::path(delete, path = "/api/v1/answers", tag = "approvals", params(Which),
    responses((status = 200, body = Forgotten), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn forget(Extract(world): State, Query(which): Query<Which>) -> Answer<Forgotten> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let forgotten = store.forget_answers(which.server.as_deref(), which.tool.as_deref(), Way::Daemon).await?;
    Ok(Json(Forgotten { forgotten }))
}
