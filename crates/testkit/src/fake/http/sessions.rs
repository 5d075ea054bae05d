//! The sessions that clients of the legacy era (2025-11-25 and older) open with `initialize`, and the faults that lose
//! a session.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::super::faults::{Fault, Faults};
use super::super::server::Peer;
use super::connection::{Connection, HttpRequest};
use super::{ConnectionAction, no_valid_session_error, respond_error, respond_plain_text};

const SESSION_HEADER: &str = "mcp-session-id";

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// The client that opened it.
    pub(super) peer: Arc<Peer>,
    /// The number of requests in it so far.
    requests: AtomicU64,
}

/// All sessions of an endpoint.
#[derive(Debug)]
pub(super) struct Sessions {
    open_sessions: HashMap<String, Arc<Session>>,
    /// Whether a request must name a session.
    is_required: bool,
    /// Whether the server opens sessions.
    opens_sessions: bool,
    /// The number of requests after which the first session is lost.
    lost_after: Option<u64>,
    /// Whether a lost session is reported as 400 instead of 404.
    is_reported_as_400: bool,
    has_lost_session: bool,
}

/// The reason why a request is refused because of its session.
#[derive(Clone, Copy, Debug)]
pub(super) enum SessionError {
    /// The request must name a session.
    Missing,
    /// The session does not exist.
    Unknown { is_reported_as_400: bool },
}

impl SessionError {
    /// Writes the refusal to the client. `id` is that of the refused request, `null` for a GET. The errors name no id,
    /// as those of the TypeScript SDK's servers.
    pub(super) async fn write_to(self, connection: &mut Connection, id: &Value) -> io::Result<ConnectionAction> {
        match self {
            Self::Missing => respond_error(connection, 400, &Value::Null, &no_valid_session_error()).await,
            Self::Unknown { is_reported_as_400: true } => {
                respond_error(connection, 400, &Value::Null, &no_valid_session_error()).await
            }
            Self::Unknown { is_reported_as_400: false } if id.is_null() => {
                respond_plain_text(connection, 404, "no such session").await
            }
            Self::Unknown { is_reported_as_400: false } => {
                let mut refusal = no_valid_session_error();
                refusal.message = "Session not found".to_owned();
                respond_error(connection, 404, &Value::Null, &refusal).await
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(faults: &Faults) -> Self {
        let is_reported_as_400 = faults.has(Fault::Http400Session);
        Self {
            open_sessions: HashMap::new(),
            is_required: faults.has(Fault::SessionRequired),
            opens_sessions: !faults.has(Fault::NoSession),
            lost_after: faults.number(Fault::Http404After).or(faults.number(Fault::Http400Session)),
            is_reported_as_400,
            has_lost_session: false,
        }
    }

    /// Opens a session for this peer, unless this server has no sessions.
    pub(super) fn open(&mut self, peer: Arc<Peer>) -> Option<Arc<Session>> {
        if !self.opens_sessions {
            return None;
        }
        let id = format!("session-{:032x}", rand::random::<u128>());
        let session = Arc::new(Session { id: id.clone(), peer, requests: AtomicU64::new(0) });
        self.open_sessions.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// Returns the open session that a request names.
    pub(super) fn find_for_request(&self, request: &HttpRequest) -> Option<Arc<Session>> {
        self.open_sessions.get(request.header(SESSION_HEADER)?).cloned()
    }

    /// Closes the session that a request names. Returns whether it was open.
    pub(super) fn close(&mut self, request: &HttpRequest) -> bool {
        request.header(SESSION_HEADER).is_some_and(|id| self.open_sessions.remove(id).is_some())
    }

    /// Counts a request of a session. Returns the reason if the request must be refused.
    pub(super) fn check(&mut self, request: &HttpRequest, session: Option<&Session>) -> Option<SessionError> {
        let unknown = SessionError::Unknown { is_reported_as_400: self.is_reported_as_400 };
        let Some(session) = session else {
            let names_session = request.header(SESSION_HEADER).is_some();
            return if names_session { Some(unknown) } else { self.is_required.then_some(SessionError::Missing) };
        };
        let limit = self.lost_after?;
        // A GET does not count: it only opens or resumes a stream, which each client does at another time.
        if request.method == "GET" || session.requests.fetch_add(1, Ordering::Relaxed) < limit {
            return None;
        }
        // Only one session is lost, so that a client can continue in a new one.
        if std::mem::replace(&mut self.has_lost_session, true) {
            return None;
        }
        self.open_sessions.remove(&session.id);
        Some(unknown)
    }
}
