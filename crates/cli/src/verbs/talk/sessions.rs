//! Runs `toolrack sessions list`, `show`, `export`, `rename`, `delete` and `import`. A session is a stored
//! conversation, and a `Journal` continues to store one. `Context` is what a command works with: its configuration,
//! database, screen and servers.

pub(crate) mod args;
mod export;
pub(crate) mod render;

use serde::Serialize;
use toolrack_config::closest;
use toolrack_store::{
    OwnerFilter, Session, SessionQuery, StoreError,
    journal::{Journal, OpenedSession},
    transcript::TranscriptMessage,
};

use crate::{
    context::Context,
    error::{Exit, Failure, with_causes},
    render::count,
};
use args::{
    DeleteSessionsArgs, ImportSessionsArgs, ListSessionsArgs, RenameSessionArgs, SessionsVerb, ShowSessionArgs,
};
use render::{ListDocument, SessionDocument, ShownSession, replay};

/// How many of the newest sessions are searched for one with a similar id or title.
const MAX_SEARCHED_SESSIONS: usize = 500;

/// `sessions rename --json`.
#[derive(Debug, Serialize)]
struct RenameDocument {
    session: ShownSession,
}

/// `sessions delete --json`.
#[derive(Debug, Serialize)]
struct DeleteDocument {
    deleted: Vec<ShownSession>,
}

/// `sessions import --json`.
#[derive(Debug, Serialize)]
struct ImportDocument {
    file: String,
    sessions: u64,
    messages: u64,
    known: u64,
}

pub(crate) async fn run(verb: SessionsVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        SessionsVerb::List(args) => list(args, context).await,
        SessionsVerb::Show(args) => show(args, context).await,
        SessionsVerb::Export(args) => export::run(args, context).await,
        SessionsVerb::Rename(args) => rename(args, context).await,
        SessionsVerb::Delete(args) => delete(args, context).await,
        SessionsVerb::Import(args) => import(args, context).await,
    }
}

/// Returns the session that `typed_id` names: an id, the beginning of one, or `last`.
///
/// # Errors
/// When no session, or more than one, has that id. The failure has suggestions.
pub(crate) async fn find_session(typed_id: &str, context: &Context) -> Result<Session, Failure> {
    let store = context.store()?;
    match store.find_session(typed_id, OwnerFilter::All).await {
        Err(error @ StoreError::UnknownSession { .. }) => {
            Err(with_suggestion(typed_id, session_failure(&error), context).await)
        }
        result => result.map_err(|error| session_failure(&error)),
    }
}

/// Opens the conversation that `typed_id` names, to continue it with this model.
///
/// # Errors
/// As for [`find_session`], and when the conversation cannot be opened.
pub(crate) async fn resume(
    typed_id: &str,
    model: &str,
    context: &Context,
) -> Result<(Journal, OpenedSession), Failure> {
    let session = find_session(typed_id, context).await?;
    Journal::open(context.store()?, session, model, context.conceal()).await.map_err(|error| session_failure(&error))
}

/// Returns the failure for a session that cannot be read or changed.
pub(crate) fn session_failure(error: &StoreError) -> Failure {
    let (exit, code) = match error {
        StoreError::UnknownSession { .. } => (Exit::Usage, "UNKNOWN_SESSION"),
        StoreError::AmbiguousSession { .. } => (Exit::Usage, "AMBIGUOUS_SESSION"),
        StoreError::NoSessions { .. } => (Exit::Usage, "NO_SESSIONS"),
        StoreError::SessionMoved { .. } => (Exit::Other, "SESSION_MOVED"),
        _ => (Exit::Other, "DATABASE"),
    };
    let failure = Failure::new(exit, code, with_causes(error));
    match error {
        StoreError::AmbiguousSession { .. } => failure.hint("give more of the id"),
        _ => failure,
    }
}

/// Adds a suggestion to `failure`: a session whose id or title is similar to `typed_id`.
async fn with_suggestion(typed_id: &str, failure: Failure, context: &Context) -> Failure {
    let query = SessionQuery { limit: MAX_SEARCHED_SESSIONS, ..SessionQuery::default() };
    let store = match context.store() {
        Ok(store) => store,
        Err(failure) => return failure,
    };
    // Without the list, there is nothing to suggest. `failure` helps the user more than the reason why the list cannot
    // be read.
    let Ok(newest_sessions) = store.sessions(&query).await else { return failure };
    if newest_sessions.is_empty() {
        let failure = Failure { message: "there are no sessions yet".to_owned(), ..failure };
        return failure.hint("`toolrack ask` and `toolrack chat` begin one");
    }
    let by_exact_title = newest_sessions.iter().find(|session| session.title.to_lowercase() == typed_id.to_lowercase());
    let suggested_session = by_exact_title.or_else(|| {
        // Compare with as many characters of each id as the user typed, but at least 8, which lists always show.
        let id_starts = newest_sessions.iter().map(|session| session.id.to_string());
        let id_starts: Vec<_> =
            id_starts.map(|id| id.chars().take(typed_id.len().max(8)).collect::<String>()).collect();
        let similar_start = closest(typed_id, id_starts.iter().map(String::as_str));
        let by_id = similar_start.and_then(|similar_start| id_starts.iter().position(|start| start == similar_start));
        let by_similar_title = || {
            let similar_title = closest(typed_id, newest_sessions.iter().map(|session| session.title.as_str()))?;
            newest_sessions.iter().position(|session| session.title == similar_title)
        };
        by_id.or_else(by_similar_title).and_then(|index| newest_sessions.get(index))
    });
    match suggested_session {
        Some(suggested_session) => {
            let conceal = concealer(context).await;
            let title = conceal(suggested_session.title.trim());
            failure.hint(format!("did you mean `{}` ({title})?", suggested_session.prefix))
        }
        None => failure.hint("`toolrack sessions list` shows them"),
    }
}

async fn list(args: ListSessionsArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.read().await;
    context.forget_old_sessions(&loaded, None).await;
    let after = match &args.after {
        Some(typed_id) => Some(find_session(typed_id, context).await?),
        None => None,
    };
    let store = context.store()?;
    let after = after.map(|session| (session.updated_at, session.id));
    // Ask for one session more than is shown, to know whether there are more.
    let query = SessionQuery {
        search: args.search.clone(),
        after,
        limit: args.limit.saturating_add(1),
        ..SessionQuery::default()
    };
    let mut page_sessions = store.sessions(&query).await.map_err(|error| session_failure(&error))?;
    let has_more = page_sessions.len() > args.limit;
    page_sessions.truncate(args.limit);
    let totals = store.session_totals(OwnerFilter::All).await.map_err(|error| session_failure(&error))?.into();
    let conceal = context.concealer_of_configured(&loaded).await;
    let sessions = page_sessions.into_iter().map(|session| ShownSession::new(session, &conceal)).collect();
    let list = ListDocument { sessions, totals };
    if context.screen.prints_json() {
        context.screen.document(&list).await?;
        return Ok(Exit::Ok);
    }
    if list.sessions.is_empty() {
        let is_narrowed = args.search.is_some() || args.after.is_some() || args.limit == 0;
        context.screen.note(if is_narrowed {
            "no session fits"
        } else {
            "there are no sessions yet; `toolrack ask` and `toolrack chat` begin one"
        });
    }
    context.screen.page(render::list(&list, context.screen.layout())).await?;
    if let (true, Some(last)) = (has_more, list.sessions.last()) {
        context.screen.note(&format!("there are more: toolrack sessions list --after {}", last.session.prefix));
    }
    Ok(Exit::Ok)
}

/// Returns a function that hides the known secrets in a text.
async fn concealer(context: &Context) -> impl Fn(&str) -> String + use<> {
    context.concealer_of_configured(&context.read().await).await
}

/// Returns `session` and its messages from the position `start` on. Known secrets are hidden in both.
async fn transcript(
    session: &Session,
    start: u64,
    context: &Context,
) -> Result<(ShownSession, Vec<TranscriptMessage>), Failure> {
    let limit = usize::MAX;
    let messages =
        context.store()?.messages(session.id, start, limit).await.map_err(|error| session_failure(&error))?;
    let conceal = concealer(context).await;
    let messages = messages.into_iter().map(|message| TranscriptMessage::new(message, &conceal)).collect();
    Ok((ShownSession::new(session.clone(), &conceal), messages))
}

async fn show(args: ShowSessionArgs, context: &Context) -> Result<Exit, Failure> {
    let session = find_session(&args.session, context).await?;
    let limit = args.limit.map_or(u64::MAX, |limit| limit as u64);
    let (shown_session, messages) = transcript(&session, session.messages.saturating_sub(limit), context).await?;
    if context.screen.prints_json() {
        context.screen.document(&SessionDocument { session: &shown_session, messages: &messages }).await?;
    } else {
        context.screen.page(replay::page(&shown_session, &messages, args.full, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

async fn rename(args: RenameSessionArgs, context: &Context) -> Result<Exit, Failure> {
    let title = args.title.trim();
    if title.is_empty() {
        return Err(Failure::usage("a title cannot be empty"));
    }
    let session = find_session(&args.session, context).await?;
    let store = context.store()?;
    store.rename_session(session.id, title).await.map_err(|error| session_failure(&error))?;
    let session = store.session(session.id).await.map_err(|error| session_failure(&error))?;
    let conceal = concealer(context).await;
    let shown_session = ShownSession::new(session, &conceal);
    if context.screen.prints_json() {
        context.screen.document(&RenameDocument { session: shown_session }).await?;
    } else {
        context.screen.page(format!("renamed {} to {}", shown_session.session.prefix, shown_session.name())).await?;
    }
    Ok(Exit::Ok)
}

async fn delete(args: DeleteSessionsArgs, context: &Context) -> Result<Exit, Failure> {
    let mut sessions_to_delete: Vec<Session> = Vec::new();
    for typed_id in &args.sessions {
        let session = find_session(typed_id, context).await?;
        if !sessions_to_delete.contains(&session) {
            sessions_to_delete.push(session);
        }
    }
    let ids: Vec<_> = sessions_to_delete.iter().map(|session| session.id).collect();
    let conceal = concealer(context).await;
    let shown_sessions: Vec<_> =
        sessions_to_delete.into_iter().map(|session| ShownSession::new(session, &conceal)).collect();
    if !args.yes {
        context.require_askable_user("deleted conversations cannot be restored")?;
        context.screen.message(&render::rows(&shown_sessions).join("\n"));
        if !context.confirm(&format!("Delete {} for good?", count(shown_sessions.len(), "session"))).await {
            return Err(Failure::new(Exit::Denied, "DENIED", "nothing was deleted"));
        }
    }
    for id in ids {
        match context.store()?.delete_session(id).await {
            // Another process may have deleted it meanwhile.
            Ok(()) | Err(StoreError::UnknownSession { .. }) => {}
            Err(error) => return Err(session_failure(&error)),
        }
    }
    if context.screen.prints_json() {
        context.screen.document(&DeleteDocument { deleted: shown_sessions }).await?;
    } else {
        let lines: Vec<_> = shown_sessions
            .iter()
            .map(|shown_session| format!("deleted {} {}", shown_session.session.prefix, shown_session.name()))
            .collect();
        context.screen.page(lines.join("\n")).await?;
    }
    Ok(Exit::Ok)
}

async fn import(args: ImportSessionsArgs, context: &Context) -> Result<Exit, Failure> {
    let report = context.store()?.import_sessions(&args.file).await.map_err(|error| session_failure(&error))?;
    if context.screen.prints_json() {
        let file = args.file.display().to_string();
        let (sessions, messages, known) = (report.sessions, report.messages, report.already_present);
        context.screen.document(&ImportDocument { file, sessions, messages, known }).await?;
    } else {
        context.screen.page(render::import_outcome(report)).await?;
        if report.sessions > 0 {
            context.screen.note("`toolrack sessions list` shows them");
        }
    }
    Ok(Exit::Ok)
}
