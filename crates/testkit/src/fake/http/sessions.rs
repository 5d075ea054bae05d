//! Sessions of the legacy era, and the ways to lose one.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::super::faults::{Fault, Faults};
use super::super::server::Peer;
use super::exchange::{Exchange, HttpRequest};
use super::{After, no_valid_session, plain_text, refuse};

const HEADER: &str = "mcp-session-id";

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) peer: Arc<Peer>,
    requests: AtomicU64,
}

/// All sessions of an endpoint.
#[derive(Debug)]
pub(super) struct Sessions {
    open: HashMap<String, Arc<Session>>,
    required: bool,
    given: bool,
    /// Requests after which the first session is lost.
    lost_after: Option<u64>,
    /// Whether a lost session is reported as 400 instead of 404.
    told_as_400: bool,
    lost_one: bool,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// There must be a session.
    Missing,
    /// There is no such session.
    Unknown { told_as_400: bool },
}

impl Trouble {
    /// Writes it to the client.
    pub(super) async fn tell(self, exchange: &mut Exchange, id: &Value) -> io::Result<After> {
        match self {
            Self::Missing => refuse(exchange, 400, &Value::Null, &no_valid_session()).await,
            Self::Unknown { told_as_400: true } => refuse(exchange, 400, &Value::Null, &no_valid_session()).await,
            Self::Unknown { told_as_400: false } if id.is_null() => plain_text(exchange, 404, "no such session").await,
            Self::Unknown { told_as_400: false } => {
                let mut refusal = no_valid_session();
                refusal.message = "Session not found".to_owned();
                refuse(exchange, 404, &Value::Null, &refusal).await
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(faults: &Faults) -> Self {
        let told_as_400 = faults.has(Fault::Http400Session);
        Self {
            open: HashMap::new(),
            required: faults.has(Fault::SessionRequired),
            given: !faults.has(Fault::NoSession),
            lost_after: faults.number(Fault::Http404After).or(faults.number(Fault::Http400Session)),
            told_as_400,
            lost_one: false,
        }
    }

    /// Opens a session for this peer, unless this server has none.
    pub(super) fn open(&mut self, peer: Arc<Peer>) -> Option<Arc<Session>> {
        if !self.given {
            return None;
        }
        let id = format!("session-{:032x}", rand::random::<u128>());
        let session = Arc::new(Session { id: id.clone(), peer, requests: AtomicU64::new(0) });
        self.open.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// The open session that a request names.
    pub(super) fn of(&self, asked: &HttpRequest) -> Option<Arc<Session>> {
        self.open.get(asked.header(HEADER)?).cloned()
    }

    /// Closes the session that a request names; whether there was one.
    pub(super) fn close(&mut self, asked: &HttpRequest) -> bool {
        asked.header(HEADER).is_some_and(|id| self.open.remove(id).is_some())
    }

    /// Why this request cannot be served; it counts as one of the session's.
    pub(super) fn trouble(&mut self, asked: &HttpRequest, session: Option<&Session>) -> Option<Trouble> {
        let unknown = Trouble::Unknown { told_as_400: self.told_as_400 };
        let Some(session) = session else {
            let named = asked.header(HEADER).is_some();
            return if named { Some(unknown) } else { self.required.then_some(Trouble::Missing) };
        };
        let limit = self.lost_after?;
        if asked.method == "GET" || session.requests.fetch_add(1, Ordering::Relaxed) < limit {
            return None;
        }
        if std::mem::replace(&mut self.lost_one, true) {
            return None;
        }
        self.open.remove(&session.id);
        Some(unknown)
    }
}
