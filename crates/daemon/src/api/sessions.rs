//! Lists, shows, exports and deletes stored conversations. The world that answers a request is a host with its
//! configuration, questions and events.

use axum::{
    Extension, Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use toolrack_host::Caller;
use toolrack_store::{
    OwnerFilter, Session, SessionQuery, Store, StoreError, Uuid,
    transcript::{TranscriptMessage, markdown},
};
use utoipa::{IntoParams, ToSchema};

use super::{ApiError, JsonResult, Path, Query, SentBy, WorldExtension, no_content};
use crate::{rights::Right, routes::check_right, shown::sessions::Conversation, world::World};

/// The default and the maximum number of sessions in one answer.
const DEFAULT_SESSIONS: usize = 50;
const MAX_SESSIONS: usize = 500;

/// The maximum number of messages in one answer.
const MAX_MESSAGES: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionsQuery {
    /// `me` (the default), or `all` for the conversations of all members, which only an administrator may list.
    #[serde(default)]
    #[param(inline)]
    of: ConversationsOf,
    /// Words that the title contains.
    q: Option<String>,
    /// The id of the last session of the page before this one.
    after: Option<String>,
    /// The most sessions: 50 by default, at most 500.
    limit: Option<usize>,
}

/// Whose conversations to list.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ConversationsOf {
    #[default]
    Me,
    All,
}

/// Conversations, the most recently used first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Conversation>,
    /// The number of all these conversations.
    total: u64,
}

fn require_store(world: &World) -> Result<&Store, ApiError> {
    world.store.as_ref().ok_or_else(ApiError::no_store)
}

/// Finds the conversation of the caller that `reference` names: an id, the beginning of an id, or `last`. An
/// administrator can also find conversations of other members, by the full id.
async fn find_session(store: &Store, caller: &Caller, reference: &str) -> Result<(Session, Owner), ApiError> {
    let principal = caller.principal();
    let own_session = store.find_session(reference, OwnerFilter::Of(principal)).await;
    let id = Uuid::try_parse(reference).ok().filter(|_| Right::Administer.is_held_by(principal));
    match (own_session, id) {
        (Err(StoreError::UnknownSession { .. }), Some(id)) => Ok((store.session(id).await?, Owner::OtherMember)),
        (own_session, _) => Ok((own_session?, Owner::Caller)),
    }
}

/// The owner of a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Caller,
    OtherMember,
}

/// Finds a conversation to read. If an administrator reads a conversation of another member, the audit log records
/// that.
async fn find_session_to_read(store: &Store, caller: &Caller, reference: &str) -> Result<Session, ApiError> {
    let (session, owner) = find_session(store, caller, reference).await?;
    if owner == Owner::OtherMember {
        store.record_reading(&session, caller).await?;
    }
    Ok(session)
}

/// The stored conversations of the caller.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, body = Sessions), (status = 403, body = ApiError), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn list(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Query(params): Query<SessionsQuery>,
) -> JsonResult<Sessions> {
    let store = require_store(&world)?;
    let owner_filter = match params.of {
        ConversationsOf::Me => OwnerFilter::Of(caller.principal()),
        ConversationsOf::All => {
            check_right(Right::Administer, caller.principal())?;
            OwnerFilter::All
        }
    };
    let previous_session = match &params.after {
        Some(id) => Some(store.find_session(id, owner_filter).await?),
        None => None,
    };
    let query = SessionQuery {
        whose: owner_filter,
        search: params.q,
        after: previous_session.map(|session| (session.updated_at, session.id)),
        limit: params.limit.unwrap_or(DEFAULT_SESSIONS).min(MAX_SESSIONS),
    };
    let sessions = store.sessions(&query).await?;
    let total = store.session_totals(owner_filter).await?.sessions;
    Ok(Json(Sessions { sessions: sessions.iter().map(Conversation::from).collect(), total }))
}

/// Which messages of a conversation to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Only messages after this position: `next` of the page before.
    after: Option<u64>,
    /// The most messages: 10,000 by default, and never more.
    limit: Option<usize>,
}

/// A conversation with its messages.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Transcript {
    session: Conversation,
    #[schema(value_type = Vec<Object>)]
    messages: Vec<TranscriptMessage>,
    /// The position after which the next page begins; `null` when there is none.
    next: Option<u64>,
}

/// Returns at most `limit` messages of a session from the position `from` on, with secrets hidden. If more messages
/// follow, also returns the position of the last returned message.
async fn messages_from(
    world: &World,
    session: &Session,
    from: u64,
    limit: usize,
) -> Result<(Vec<TranscriptMessage>, Option<u64>), ApiError> {
    // One message more than `limit` shows whether any follow.
    let mut messages = require_store(world)?.messages(session.id, from, limit + 1).await?;
    let has_more = messages.len() > limit;
    messages.truncate(limit);
    let next = messages.last().map(|last| last.position).filter(|_| has_more);
    let conceal = |text: &str| world.secrets.conceal(text).into_owned();
    Ok((messages.into_iter().map(|message| TranscriptMessage::new(message, &conceal)).collect(), next))
}

/// A conversation, by its id, the beginning of its id, or `last`.
#[utoipa::path(get, path = "/api/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path), PageQuery),
    responses((status = 200, body = Transcript), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn get(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(id): Path<String>,
    Query(page): Query<PageQuery>,
) -> JsonResult<Transcript> {
    let session = find_session_to_read(require_store(&world)?, &caller, &id).await?;
    let from = page.after.map_or(0, |after| after.saturating_add(1));
    let limit = page.limit.unwrap_or(MAX_MESSAGES).clamp(1, MAX_MESSAGES);
    let (messages, next) = messages_from(&world, &session, from, limit).await?;
    Ok(Json(Transcript { session: Conversation::from(&session), messages, next }))
}

/// Deletes a conversation permanently. Needs the full id, because `last` or the beginning of an id could mean another
/// conversation by now.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn delete(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let store = require_store(&world)?;
    let (session, owner) = find_session(store, &caller, &id).await?;
    if session.id.to_string() != id {
        let error = ApiError::new(StatusCode::NOT_FOUND, "UNKNOWN_SESSION", "no conversation has this id");
        return Err(error.hint("give the full id, as GET /api/v1/sessions lists it"));
    }
    if owner == Owner::OtherMember {
        store.record_deletion(&session, &caller).await?;
    }
    store.delete_session(session.id).await?;
    Ok(no_content())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportQuery {
    /// `md` (the default) or `json`.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ExportFormat {
    #[default]
    Md,
    Json,
}

/// A conversation as a file.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/export", tag = "sessions", params(("id" = String, Path), ExportQuery),
    responses((status = 200, content_type = "text/markdown", body = String), (status = 404, body = ApiError),
        (status = 409, body = ApiError)))]
pub(super) async fn export(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let mut session = find_session_to_read(require_store(&world)?, &caller, &id).await?;
    // The API conceals secrets only in JSON answers, and this answer is a file.
    session.title = world.secrets.conceal(&session.title).into_owned();
    let (mut messages, mut next) = messages_from(&world, &session, 0, MAX_MESSAGES).await?;
    while let Some(last) = next {
        let (next_messages, following_page) = messages_from(&world, &session, last + 1, MAX_MESSAGES).await?;
        messages.extend(next_messages);
        next = following_page;
    }
    let (content_type, extension, text) = match query.format {
        ExportFormat::Md => ("text/markdown; charset=utf-8", "md", markdown::document(&session, &messages)),
        ExportFormat::Json => {
            // Cannot fail to become JSON, because it has only texts as keys.
            let document = Transcript { session: Conversation::from(&session), messages, next };
            ("application/json", "json", serde_json::to_string_pretty(&document).unwrap_or_default())
        }
    };
    let attachment = format!("attachment; filename=\"session-{}.{extension}\"", session.prefix);
    Ok(([(header::CONTENT_TYPE, content_type.to_owned()), (header::CONTENT_DISPOSITION, attachment)], text)
        .into_response())
}
