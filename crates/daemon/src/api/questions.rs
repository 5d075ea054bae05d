//! Questions that wait for somebody.

use axum::{Json, extract::State as Extract, http::StatusCode, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ApiError, Body, Path, State, done};
use crate::{
    event_log::conceal,
    questions::{Answer, Question, Untaken},
};

/// Everything that is asked.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Open {
    #[schema(value_type = Vec<Question>)]
    approvals: Vec<serde_json::Value>,
}

/// Questions that wait: calls that need an approval, and what servers ask.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", responses((status = 200, body = Open)))]
pub(super) async fn list(Extract(world): State) -> Json<Open> {
    let open = world.questions.open().into_iter().map(|question: Question| {
        let mut shown = serde_json::to_value(question).unwrap_or_default();
        conceal(&mut shown, &world.secrets);
        shown
    });
    Json(Open { approvals: open.collect() })
}

/// Answers a question. Each is answered once.
#[utoipa::path(post, path = "/api/v1/approvals/{id}", tag = "approvals", request_body = Answer,
    params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError), (status = 422, body = ApiError)))]
pub(super) async fn answer(
    Extract(world): State,
    Path(id): Path<String>,
    Body(answer): Body<Answer>,
) -> Result<Response, ApiError> {
    match world.questions.answer(&id, answer).await {
        Ok(()) => Ok(done()),
        Err(Untaken::Over) => Err(ApiError::not_found("the question was answered, or is over")),
        Err(Untaken::Arguments(problem)) => {
            let refused = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_ARGUMENTS", problem);
            Err(refused.hint("change them, or answer without `arguments` to run the call as it was asked"))
        }
        Err(Untaken::Unfit) => {
            let message = "this is an answer to another kind of question";
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "WRONG_ANSWER", message).hint(
                "approvals take once, session, always_tool, always_server and deny; forms and URLs accept, decline and cancel",
            ))
        }
    }
}
