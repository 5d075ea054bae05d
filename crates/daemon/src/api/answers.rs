//! Standing answers: answers of users that let further calls run without a question, always or until the daemon ends.
//! The world that answers a request is a host with its configuration, questions and events.

use std::iter;

use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use toolrack_host::{Caller, Host, Principal, SessionAnswer};
use toolrack_store::{OwnerFilter, StandingAnswer};
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, JsonResult, Query, SentBy, WorldExtension};
use crate::{
    rights::Right,
    shown::answers::{ForgottenAnswers, ShownAnswer},
    world::World,
};

/// All standing answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StandingAnswers {
    answers: Vec<ShownAnswer>,
}

/// The answers to take back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersQuery {
    /// Only answers about this server. Without it, answers about all servers.
    server: Option<String>,
    /// Only answers about this tool, by the server's own name for it.
    tool: Option<String>,
}

/// Whose answers a caller sees and takes back: all answers if the caller operates the servers, and only the caller's
/// own if not. [`Store::answers`](toolrack_store::Store::answers), which reads answers, adds those that cover the calls
/// of all members.
fn owner_filter(caller: &Caller) -> OwnerFilter<'_> {
    if Right::Operate.is_held_by(caller.principal()) { OwnerFilter::All } else { OwnerFilter::Of(caller.principal()) }
}

/// The hosts that remember answers until the daemon ends: the host of this world, and the hosts of the session worlds
/// of its user. A session has such a world for servers that run once for each session.
fn remembering_hosts(world: &World) -> Vec<Host> {
    let session_worlds = world.session_worlds.get().map(|find_running| find_running()).unwrap_or_default();
    let session_hosts = session_worlds.iter().map(|session_world| session_world.host.clone());
    iter::once(world.host.clone()).chain(session_hosts).collect()
}

/// Whether `caller` may see and take back an answer that is valid until the daemon ends.
fn may_take_back(answer: &SessionAnswer, caller: &Caller) -> bool {
    let is_same = |principal: &Principal| principal.is_same(caller.principal());
    Right::Operate.is_held_by(caller.principal()) || answer.principal.as_ref().is_some_and(is_same)
}

/// Whether `principal` may read the answer. If an answer of another member is about a server that the tenant does not
/// have, only that member has the server, and only that member may read the answer.
fn may_read(answer: &StandingAnswer, world: &World, principal: &Principal) -> bool {
    match &answer.owner {
        Some(owner) if owner.is(principal) => true,
        Some(_) if !world.loaded().desired.contains_key(answer.server.as_str()) => false,
        _ => world.may_read_about(&answer.server, principal),
    }
}

/// The tools that run without a question because a user has allowed them, for good or until the daemon ends.
/// Without the right `operate`, only those that cover the caller's own calls.
#[utoipa::path(get, path = "/api/v1/answers", tag = "approvals",
    responses((status = 200, body = StandingAnswers), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn list(Extension(world): WorldExtension, SentBy(caller): SentBy) -> JsonResult<StandingAnswers> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let mut answers = store.answers(owner_filter(&caller)).await?;
    answers.retain(|answer| may_read(answer, &world, caller.principal()));
    let hosts = remembering_hosts(&world);
    let session_answers = hosts.iter().flat_map(Host::session_answers).filter(|answer| may_take_back(answer, &caller));
    let answers = answers.into_iter().map(ShownAnswer::from).chain(session_answers.map(ShownAnswer::from));
    Ok(Json(StandingAnswers { answers: answers.collect() }))
}

/// Takes answers back, so that the user is asked about such calls again. Without the right `operate`, only answers that
/// cover nothing but the caller's own calls.
#[utoipa::path(delete, path = "/api/v1/answers", tag = "approvals", params(AnswersQuery),
    responses((status = 200, body = ForgottenAnswers), (status = 409, body = ApiError),
        (status = 507, body = ApiError)))]
pub(super) async fn forget(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Query(query): Query<AnswersQuery>,
) -> JsonResult<ForgottenAnswers> {
    let store = world.store.as_ref().ok_or_else(ApiError::no_store)?;
    let forgotten =
        store.forget_answers(query.server.as_deref(), query.tool.as_deref(), owner_filter(&caller), &caller).await?;
    let is_selected = |answer: &SessionAnswer| {
        query.server.as_deref().is_none_or(|server| server == answer.server.as_str())
            && query.tool.as_deref().is_none_or(|tool| tool == answer.tool)
            && may_take_back(answer, &caller)
    };
    let hosts = remembering_hosts(&world);
    let forgotten_in_hosts: usize = hosts.iter().map(|host| host.forget_session_answers(is_selected)).sum();
    Ok(Json(ForgottenAnswers { forgotten: forgotten + forgotten_in_hosts }))
}
