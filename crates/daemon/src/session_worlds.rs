//! The sessions of MCP clients that have servers of their own (`share = "session"`).
//!
//! Each such session has a [world](crate::worlds) for these servers (a host with its configuration, questions and
//! events), which borrows all other servers from the world of its user. A session begins with `initialize` (2025-11-25
//! and older), or with a connection to the socket of the daemon. Some requests belong to no session, such as all
//! requests of MCP 2026-07-28 over HTTP. They reach the world of the user, which runs
//! one more instance of each of these servers for them.
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
    error::ApiError,
    gateway::{Bounds, Gateway, SESSION_HEADER, begins_session, has_sessions},
    rights::Right,
    world::World,
    worlds::{CommonParts, WorldLimit, WorldUse, Worlds},
};

/// Separates the id of a world from the id of a session in this world.
const SEPARATOR: char = '.';

/// The worlds of the sessions of one user.
pub(crate) struct SessionWorlds {
    user_world: Arc<World>,
    worlds: Arc<Worlds>,
}

/// The maximum number of worlds for the sessions of one user.
pub(crate) fn world_limit(max_worlds: usize) -> WorldLimit {
    let make_error = |max| {
        let message = format!("{max} sessions with servers of their own are open already (session_worlds)");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_WORLDS", message)
            .hint("end sessions that are not needed, or raise `session_worlds` in `[serve]`")
    };
    WorldLimit { max_worlds, make_error }
}

/// The world of a session. Dropping this value ends the world if `must_end` is set.
struct EndOnDrop {
    id: String,
    worlds: Arc<Worlds>,
    /// Cleared once a session over HTTP has begun, because that session outlives its first request. Always set for the
    /// session of a connection.
    must_end: bool,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if self.must_end {
            self.worlds.stop(&self.id);
        }
    }
}

/// A connection to the socket, which is a session: its world ends with it.
pub(crate) struct ConnectionSession {
    gateway: Gateway,
    end_on_drop: EndOnDrop,
    _world_use: WorldUse,
}

impl ConnectionSession {
    /// The gateway to the servers of the session.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }
}

impl fmt::Debug for ConnectionSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSession").field("id", &self.end_on_drop.id).finish_non_exhaustive()
    }
}

impl SessionWorlds {
    /// The sessions of the user whose world is `user_world`.
    pub(crate) fn new(user_world: Arc<World>, common: CommonParts) -> Arc<Self> {
        Arc::new(Self { user_world, worlds: Worlds::new(common) })
    }

    /// The worlds that run now.
    pub(crate) fn running(&self) -> Vec<Arc<World>> {
        self.worlds.running_worlds().into_iter().map(|(_, world)| world).collect()
    }

    /// Begins the session of a connection; `None` when no server runs once for each session.
    ///
    /// # Errors
    /// The reason why its world cannot begin.
    pub(crate) async fn begin_for_connection(&self) -> Result<Option<ConnectionSession>, ApiError> {
        if !self.has_session_servers() {
            return Ok(None);
        }
        let end_on_drop = self.new_world();
        // The user of the machine owns the socket, so the world is for no member.
        let member = None;
        let world_use = self.worlds.enter(&end_on_drop.id, member)?;
        let gateway = world_use.gateway().await?;
        Ok(Some(ConnectionSession { gateway, end_on_drop, _world_use: world_use }))
    }

    /// Returns a new id for a world. Dropping the returned value ends the world of a session that could not begin.
    fn new_world(&self) -> EndOnDrop {
        let id = format!("{:016x}", rand::rng().random::<u64>());
        EndOnDrop { id, worlds: Arc::clone(&self.worlds), must_end: true }
    }

    /// Whether a server of the user runs once for each session.
    fn has_session_servers(&self) -> bool {
        let loaded = self.user_world.loaded();
        let runs_for_each_session = |spec: &_| share_of(spec) == Share::Session && self.user_world.kind.runs(spec);
        loaded.desired.values().any(|spec| spec.enabled && runs_for_each_session(spec))
    }

    /// Lets a new world answer `request` if the request begins a session. If not, the user's world answers.
    async fn begin(&self, request: Request, next: Next) -> Response {
        let (parts, body) = request.into_parts();
        let max_bytes = Bounds::default().body_bytes;
        let Ok(body) = to_bytes(body, max_bytes).await else { return ApiError::too_large(max_bytes).into_response() };
        let request = Request::from_parts(parts, Body::from(Bytes::clone(&body)));
        if !begins_session(&body) {
            return next.run(request).await;
        }
        let mut end_on_drop = self.new_world();
        let mut response = self.worlds.answer(&end_on_drop.id, request).await;
        let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        // Without an id, the world has refused the session.
        if let Some(mut id) =
            id.and_then(|id| HeaderValue::from_str(&format!("{}{SEPARATOR}{id}", end_on_drop.id)).ok())
        {
            id.set_sensitive(true);
            response.headers_mut().insert(SESSION_HEADER, id);
            end_on_drop.must_end = false;
        }
        response
    }

    /// Lets the world `world_id` answer a request of its session.
    async fn continue_session(&self, world_id: &str, world_use: WorldUse, request: Request) -> Response {
        let is_delete = request.method() == Method::DELETE;
        let response = Worlds::answer_in(world_use, request).await;
        if is_delete && response.status().is_success() {
            self.worlds.stop(world_id);
        }
        response
    }
}

/// Returns the id of the world, and the id of the session in that world, from the id that the client has; `None` for a
/// session without a world.
fn split_session_id(id: &HeaderValue) -> Option<(String, HeaderValue)> {
    let (world_id, session_id) = id.to_str().ok()?.split_once(SEPARATOR)?;
    let mut session_id = HeaderValue::from_str(session_id).ok()?;
    session_id.set_sensitive(true);
    Some((world_id.to_owned(), session_id))
}

/// Passes a request to an MCP endpoint on to the world of its session, or begins that world if the request begins a
/// session that needs one. All other requests go to the world of the user. The [`SessionWorlds`] of the user's world
/// are in the extensions of each request.
pub(crate) async fn to_session_world(mut request: Request, next: Next) -> Response {
    let sessions = request.extensions().get::<Arc<SessionWorlds>>().cloned();
    let Some(sessions) = sessions else { return next.run(request).await };
    if let Some(id) = request.headers().get(SESSION_HEADER) {
        let session_world = split_session_id(id)
            .and_then(|(world_id, id)| Some((sessions.worlds.enter_running(&world_id)?, world_id, id)));
        let Some((world_use, world_id, session_id)) = session_world else {
            // The user's world has this session, or says that there is no such session.
            return next.run(request).await;
        };
        request.headers_mut().insert(SESSION_HEADER, session_id);
        return sessions.continue_session(&world_id, world_use, request).await;
    }
    if may_begin_session(&request) && sessions.has_session_servers() {
        return sessions.begin(request, next).await;
    }
    next.run(request).await
}

/// Whether a session may begin with `request`, judged by its head.
fn may_begin_session(request: &Request) -> bool {
    let may_use = request.extensions().get().is_none_or(|principal: &Principal| Right::Use.is_held_by(principal));
    request.method() == Method::POST && has_sessions(request.headers()) && may_use
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(id: &str) -> Option<(String, String)> {
        let (world, session) = split_session_id(&HeaderValue::from_bytes(id.as_bytes()).unwrap())?;
        assert!(session.is_sensitive(), "an id of a session is a secret");
        Some((world, session.to_str().unwrap().to_owned()))
    }

    #[test]
    fn an_id_names_its_world_in_front_of_the_first_separator() {
        let parts = |world: &str, session: &str| Some((world.to_owned(), session.to_owned()));
        assert_eq!(split("0011.s-1"), parts("0011", "s-1"));
        assert_eq!(split("0011.s.1"), parts("0011", "s.1"), "the rest is the id in that world, whatever it has in it");
        assert_eq!(split("s-1"), None);
        assert_eq!(split(""), None);
        assert_eq!(split("0011.ä"), None, "the header is no text");
    }
}
