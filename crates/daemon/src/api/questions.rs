//! Lists and answers the questions of a world (a host with its configuration) that wait for a user.

use std::sync::Weak;

use axum::{Extension, Json, http::StatusCode, response::Response};
use serde::Serialize;
use toolrack_host::Principal;
use utoipa::ToSchema;

use super::{
    ApiError, Body, Path, WorldExtension,
    agents::{AgentsExtension, agent_worlds},
    no_content,
};
use crate::{
    agents::Agents,
    event_log::conceal,
    questions::{Answer, AnswerRefused, Question, split_prefixed_id},
    world::World,
};

/// All open questions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Questions)]
pub(super) struct OpenQuestions {
    #[schema(value_type = Vec<Question>)]
    approvals: Vec<serde_json::Value>,
}

/// Open questions: calls that need an approval, and questions of servers. Questions from the worlds of agents are
/// included and have `agent`; they are answered in the same way.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", responses((status = 200, body = OpenQuestions)))]
pub(super) async fn list(
    Extension(world): WorldExtension,
    Extension(agents): AgentsExtension,
    Extension(principal): Extension<Principal>,
) -> Json<OpenQuestions> {
    let mut approvals: Vec<_> =
        world.questions.open(&principal).into_iter().map(|question| to_concealed_json(question, &world)).collect();
    for (agent, world) in agent_worlds(&agents) {
        let open_questions = world.questions.open(&principal).into_iter();
        approvals.extend(open_questions.map(|question| to_concealed_json(question.for_agent(&agent), &world)));
    }
    Json(OpenQuestions { approvals })
}

/// The number of open questions that `reader` may answer, including questions from the worlds of agents.
pub(super) fn count(world: &World, agents: &Weak<Agents>, reader: &Principal) -> usize {
    let agent_counts = agent_worlds(agents).into_iter().map(|(_, world)| world.questions.count_for(reader));
    world.questions.count_for(reader) + agent_counts.sum::<usize>()
}

/// A question with secrets hidden.
fn to_concealed_json(question: Question, world: &World) -> serde_json::Value {
    // Cannot fail, because a question has only texts as keys.
    let mut value = serde_json::to_value(question).unwrap_or_default();
    conceal(&mut value, &world.secrets);
    value
}

/// Answers a question. A question can be answered once. Only a person can approve a call. Only the caller can change
/// the arguments of a call, and answer forms and pages of servers.
#[utoipa::path(post, path = "/api/v1/approvals/{id}", tag = "approvals", request_body = Answer,
    params(("id" = String, Path)),
    responses((status = 204), (status = 403, body = ApiError), (status = 404, body = ApiError),
        (status = 422, body = ApiError)))]
pub(super) async fn answer(
    Extension(world): WorldExtension,
    Extension(agents): AgentsExtension,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(answer): Body<Answer>,
) -> Result<Response, ApiError> {
    // The id of a question from an agent's world begins with the agent's id.
    let agent_question = split_prefixed_id(&id).and_then(|(agent, id)| Some((agents.upgrade()?.world(agent)?, id)));
    let (asking_world, id) = agent_question.as_ref().map_or((&world, &*id), |(world, id)| (world, *id));
    match asking_world.questions.answer(id, &principal, answer).await {
        Ok(()) => Ok(no_content()),
        Err(AnswerRefused::NotOpen) => Err(ApiError::not_found("the question was answered, or is over")),
        Err(AnswerRefused::BadArguments(problem)) => {
            let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_ARGUMENTS", problem);
            Err(error.hint("change them, or answer without `arguments` to run the call as it was asked"))
        }
        Err(AnswerRefused::NotAPerson) => {
            let message = "only a person approves a call, and this token is a service's";
            Err(ApiError::new(StatusCode::FORBIDDEN, "NOT_A_PERSON", message).hint("a person answers on the dashboard"))
        }
        Err(AnswerRefused::NotTheCaller) => {
            let message = "only the member who made the call may change its arguments";
            let error = ApiError::new(StatusCode::FORBIDDEN, "NOT_THE_CALLER", message);
            Err(error.hint("answer without `arguments`, or deny and say why"))
        }
        Err(AnswerRefused::OtherKind) => {
            let message = "this is an answer to another kind of question";
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "WRONG_ANSWER", message).hint(
                "approvals take once, session, always_tool, always_server and deny; forms and URLs accept, decline and cancel",
            ))
        }
    }
}
