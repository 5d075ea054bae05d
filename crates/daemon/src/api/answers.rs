//! Standing answers: calls that run without a question because a user has allowed them permanently.

use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, ApiError, By, Query, State};
use crate::shown::answers::{Forgotten, Shown};

/// All standing answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Standing {
    answers: Vec<Shown>,
}

/// The answers to take back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// About this server; without it, all of them.
    server: Option<String>,
    /// About this tool of it, by its own name.
    tool: Option<String>,
}

/// The tools that run without a question because a user has allowed them permanently.
#[utoipa::path(get, path = "/api/v1/answers", tag = "approvals",
    responses((status = 200, body = Standing), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): State, By(caller): By) -> Answer<Standing> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let mut answers = store.answers().await?;
    answers.retain(|answer| world.shows(&answer.server, caller.principal()));
    Ok(Json(Standing { answers: answers.into_iter().map(Shown::from).collect() }))
}

/// Takes answers back: the user is asked about such calls again.
#[utoipa::path(delete, path = "/api/v1/answers", tag = "approvals", params(Which),
    responses((status = 200, body = Forgotten), (status = 409, body = ApiError), (status = 507, body = ApiError)))]
pub(super) async fn forget(Extension(world): State, By(caller): By, Query(which): Query<Which>) -> Answer<Forgotten> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let forgotten = store.forget_answers(which.server.as_deref(), which.tool.as_deref(), &caller).await?;
    Ok(Json(Forgotten { forgotten }))
}
