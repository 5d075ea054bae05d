//! The sessions of MCP clients that have servers of their own (`share = "session"`).
//!
//! Each has a [world](crate::worlds) for these servers, which borrows all other servers from the world of its user. A
//! session begins with `initialize` of the older eras, or with a connection to the socket of the daemon. Requests that
//! belong to no session, such as those of MCP 2026-07-28 over HTTP, reach the world of the user, which has one more of
//! each of these servers.
//!
//! The client gets the id of the session with the id of its world in front, so that its next request finds the world.

use std::{fmt, sync::Arc};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderValue, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use rand::Rng as _;
use toolrack_config::share_of;
use toolrack_host::{Principal, spec::Share};

use crate::{
    endpoint,
    error::ApiError,
    gateway::{Bounds, Gateway, SESSION_HEADER, begins_session, has_sessions},
    rights::Right,
    tenant_members::is_below,
    world::World,
    worlds::{Common, InUse, Most, Worlds},
};

/// The paths at which sessions begin and go on.
const SESSION_PATHS: [&str; 2] = [endpoint::ALL, "/p"];

/// Between the id of a world and the id of a session in it.
const SEPARATOR: char = '.';

/// The worlds of the sessions of one user.
pub(crate) struct SessionWorlds {
    user: Arc<World>,
    worlds: Arc<Worlds>,
}

/// The bound of the sessions with a world, for one user.
pub(crate) fn most(worlds: usize) -> Most {
    let refusal = |most| {
        let message = format!("{most} sessions with servers of their own are open already (session_worlds)");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_WORLDS", message)
            .hint("end sessions that are not needed, or raise `session_worlds` in `[serve]`")
    };
    Most { worlds, refusal }
}

/// Ends a world when it is dropped.
struct End {
    id: String,
    worlds: Arc<Worlds>,
    is_due: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_due {
            self.worlds.stop(&self.id);
        }
    }
}

/// A connection to the socket, which is a session: its world ends with it.
pub(crate) struct OfConnection {
    gateway: Gateway,
    end: End,
    _in_use: InUse,
}

impl OfConnection {
    /// The gateway to the servers of the session.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }
}

impl fmt::Debug for OfConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfConnection").field("id", &self.end.id).finish_non_exhaustive()
    }
}

impl SessionWorlds {
    pub(crate) fn new(user: Arc<World>, common: Common) -> Arc<Self> {
        Arc::new(Self { user, worlds: Worlds::new(common) })
    }

    /// The worlds that run now.
    pub(crate) fn running(&self) -> Vec<Arc<World>> {
        self.worlds.all().into_iter().map(|(_, world)| world).collect()
    }

    /// Begins the session of a connection; `None` when no server runs once for each session.
    ///
    /// # Errors
    /// Why its world cannot begin.
    pub(crate) async fn of_connection(&self) -> Result<Option<OfConnection>, ApiError> {
        if !self.are_needed() {
            return Ok(None);
        }
        let end = self.new_world();
        let in_use = self.worlds.enter(&end.id, None)?;
        let gateway = in_use.gateway().await?;
        Ok(Some(OfConnection { gateway, end, _in_use: in_use }))
    }

    /// An id for a new world, which ends when the answer is dropped: when the session does not begin after all.
    fn new_world(&self) -> End {
        let id = format!("{:016x}", rand::rng().random::<u64>());
        End { id, worlds: Arc::clone(&self.worlds), is_due: true }
    }

    /// Whether a server of the user runs once for each session.
    fn are_needed(&self) -> bool {
        let loaded = self.user.loaded();
        let is_needed = |spec: &_| share_of(spec) == Share::Session && self.user.of.runs(spec);
        loaded.desired.values().any(|spec| spec.enabled && is_needed(spec))
    }

    /// Lets the user's world answer `request`, or a new world if a session begins with it.
    async fn begin(&self, request: Request, next: Next) -> Response {
        let (parts, body) = request.into_parts();
        let most = Bounds::default().body_bytes;
        let Ok(body) = to_bytes(body, most).await else { return too_large(most).into_response() };
        let request = Request::from_parts(parts, Body::from(Bytes::clone(&body)));
        if !begins_session(&body) {
            return next.run(request).await;
        }
        let mut end = self.new_world();
        let mut response = self.worlds.answer(&end.id, request).await;
        let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        // Without an id, the world has refused the session.
        if let Some(mut id) = id.and_then(|id| HeaderValue::from_str(&format!("{}{SEPARATOR}{id}", end.id)).ok()) {
            id.set_sensitive(true);
            response.headers_mut().insert(SESSION_HEADER, id);
            end.is_due = false;
        }
        response
    }

    /// Lets the world `world` answer a request of its session.
    async fn go_on(&self, world: &str, in_use: InUse, request: Request) -> Response {
        let ends = request.method() == Method::DELETE;
        let response = Worlds::answer_in(in_use, request).await;
        if ends && response.status().is_success() {
            self.worlds.stop(world);
        }
        response
    }
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the message was cut off, or is larger than {most} bytes (body_bytes)");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message)
}

/// Returns the id of the world, and the id of the session in that world, from the id that the client has; `None` for a
/// session without a world.
fn parts_of(id: &HeaderValue) -> Option<(String, HeaderValue)> {
    let (world, session) = id.to_str().ok()?.split_once(SEPARATOR)?;
    let mut session = HeaderValue::from_str(session).ok()?;
    session.set_sensitive(true);
    Some((world.to_owned(), session))
}

/// Passes a request of a session with a world on to that world, and begins one for a new session if it needs one. The
/// world of a user has its [`SessionWorlds`] in the extensions of each request.
pub(crate) async fn to_session_world(mut request: Request, next: Next) -> Response {
    let sessions = request.extensions().get::<Arc<SessionWorlds>>().cloned();
    let Some(sessions) = sessions.filter(|_| is_below(request.uri().path(), &SESSION_PATHS)) else {
        return next.run(request).await;
    };
    if let Some(id) = request.headers().get(SESSION_HEADER) {
        let known = parts_of(id).and_then(|(world, id)| Some((sessions.worlds.enter_running(&world)?, world, id)));
        let Some((in_use, world, id)) = known else {
            // The user's world has this session, or says that there is no such session.
            return next.run(request).await;
        };
        request.headers_mut().insert(SESSION_HEADER, id);
        return sessions.go_on(&world, in_use, request).await;
    }
    if may_begin(&request) && sessions.are_needed() {
        return sessions.begin(request, next).await;
    }
    next.run(request).await
}

/// Whether a session may begin with `request`, as far as its head tells.
fn may_begin(request: &Request) -> bool {
    let may_use = request.extensions().get().is_none_or(|principal: &Principal| Right::Use.is_of(principal));
    request.method() == Method::POST && has_sessions(request.headers()) && may_use
}
