//! Replicas: several daemons that serve one team together, on one database, behind any load balancer.
//!
//! Each tenant has a *home*: the one replica that runs its [world](crate::worlds) (a host), with its servers, sessions,
//! questions, quotas and waiting calls. A replica that gets a request of a tenant whose home is elsewhere forwards the
//! request there. The home checks again who sent the request, and never forwards it to a third replica. If the tenant
//! has no home, the replica that got the request becomes its home.
//!
//! The other replicas are the *siblings* of a replica. A *term* of a replica begins when the replica joins its
//! siblings, and ends when the replica ends or its own heartbeat is late.
//!
//! A replica removes a sibling that has written no heartbeat for [`ReplicaOptions::heartbeat_timeout`], measured with
//! the replica's own clock. Then other replicas may become the homes of the sibling's tenants. A replica whose own
//! heartbeat is late serves no tenant: it ends the worlds of all tenants, and joins anew. This happens before its
//! siblings remove it: the replica counts from the moment at which it began to write its last heartbeat. A sibling
//! counts from a later moment, at which it first saw that heartbeat.
//!
//! A replica sends a request again only if the request changes nothing, or if it is certain that no sibling has read
//! it.

mod connection;
mod forward;
mod identity;
mod listener;
mod term;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use toolrack_store::{Replica, TeamStore};
use toolrack_team::random_text;

pub use self::identity::NoIdentity;
pub(crate) use self::listener::SiblingListener;
use self::{
    forward::ForwardOutcome,
    identity::Identity,
    term::{Home, Term},
};
use crate::error::ApiError;

/// How many heartbeats a replica writes within [`ReplicaOptions::heartbeat_timeout`].
const HEARTBEATS_PER_TIMEOUT: u32 = 5;

/// The pause before this replica looks for the home of a tenant again, and sends the request there.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long a replica that ends waits for the database to remove its row. If that fails, its siblings remove the row
/// after [`ReplicaOptions::heartbeat_timeout`].
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a daemon that serves a team as one of several replicas.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The database of the team, through a connection that only heartbeats use, so that no heartbeat waits for a free
    /// connection.
    pub heartbeats: TeamStore,
    /// The address at which this replica listens for its siblings. It refuses the requests of all other programs there.
    pub listen: SocketAddr,
    /// How long a replica may go without a new heartbeat. After this time, the tenants of a replica that has died get
    /// another home, and a replica that cannot reach the database ends all worlds. 5 seconds by default.
    pub heartbeat_timeout: Duration,
    /// How long a request waits until a home of its tenant answers. After this time, it fails. 15 seconds by default.
    pub takeover_timeout: Duration,
}

impl ReplicaOptions {
    /// The options of a replica that listens at `listen` for its siblings, with the default times.
    #[must_use]
    pub fn at(listen: SocketAddr, heartbeats: TeamStore) -> Self {
        Self {
            heartbeats,
            listen,
            heartbeat_timeout: Duration::from_secs(5),
            takeover_timeout: Duration::from_secs(15),
        }
    }
}

/// This daemon among the replicas.
pub(crate) struct Replicas {
    store: TeamStore,
    options: ReplicaOptions,
    identity: Identity,
    /// The largest body of a request, in bytes.
    max_body_bytes: usize,
    /// The `Host` of forwarded requests. It is the host of the team's URL, which every replica accepts.
    host: HeaderValue,
    /// Cancelled when the daemon begins to end.
    ending: CancellationToken,
    /// The current term of this replica. `None` before it has joined, and after its heartbeat was late.
    term: watch::Sender<Option<Arc<Term>>>,
}

/// Ends the worlds of all tenants, and waits until their servers have ended.
pub(crate) type EndWorlds = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What became of a member's request in [`Replicas::route`].
pub(crate) enum RouteOutcome {
    /// This replica is the home of the tenant, and the caller answers the request.
    ServeHere(Request),
    /// The response for the member: the response of the home, or an error that says why no home answered.
    Answered(Response),
}

impl Replicas {
    /// This daemon as a replica that has not joined the others yet; [`Self::run`] joins. Forwarded requests carry
    /// `host` in their `Host`, and have at most `max_body_bytes`.
    ///
    /// # Errors
    /// [`NoIdentity`] when the replica cannot make its key.
    pub(crate) fn new(
        store: TeamStore,
        options: ReplicaOptions,
        host: HeaderValue,
        max_body_bytes: usize,
        ending: CancellationToken,
    ) -> Result<Arc<Self>, NoIdentity> {
        let identity = Identity::new()?;
        Ok(Arc::new(Self { store, options, identity, max_body_bytes, host, ending, term: watch::Sender::new(None) }))
    }

    /// Joins the other replicas, and writes heartbeats. After a late heartbeat, ends the worlds of all tenants with
    /// `end_worlds`, and joins anew. Returns after `leaving` is cancelled, when it has given up all homes. Before
    /// cancelling `leaving`, the caller must have ended the worlds of those homes.
    pub(crate) async fn run(self: Arc<Self>, end_worlds: EndWorlds, leaving: CancellationToken) {
        while !leaving.is_cancelled() {
            let new_term = tokio::select! {
                new_term = self.join() => new_term,
                () = leaving.cancelled() => return,
            };
            let Some(term) = new_term else { continue };
            self.term.send_replace(Some(Arc::clone(&term)));
            tokio::select! {
                () = self.write_heartbeats(&term) => {}
                () = leaving.cancelled() => {}
            }
            self.term.send_replace(None);
            if leaving.is_cancelled() {
                self.leave(&term).await;
                return;
            }
            tracing::warn!(
                "this replica could not write its heartbeat in time (heartbeat_timeout): it ends the servers of all tenants \
                 and joins anew"
            );
            end_worlds().await;
        }
    }

    /// Adds the row of this replica to the database, under a new id. `None` if that fails: the caller tries again.
    async fn join(&self) -> Option<Arc<Term>> {
        let began_at = Instant::now();
        let id = match random_text::<16>("") {
            Ok(id) => id.to_string(),
            Err(error) => return self.pause_after_failed_join(&error).await,
        };
        let replica =
            Replica { id, address: self.options.listen.to_string(), public_key: self.identity.public_key().to_vec() };
        match timeout(self.options.heartbeat_timeout, self.options.heartbeats.join_replicas(&replica)).await {
            Ok(Ok(true)) => Some(Arc::new(Term::new(replica.id, self.end_of_term(began_at)))),
            Ok(Err(error)) => self.pause_after_failed_join(&error).await,
            // Another replica has this id already, or the time was up. Neither needs a pause.
            Ok(Ok(false)) | Err(_) => None,
        }
    }

    /// Logs why joining failed, and waits before the next attempt. Always returns `None`.
    async fn pause_after_failed_join<T>(&self, error: &impl fmt::Display) -> Option<T> {
        tracing::warn!("this replica cannot join the others: {error}");
        sleep(self.options.heartbeat_timeout / HEARTBEATS_PER_TIMEOUT).await;
        None
    }

    /// The end of a term whose last heartbeat was begun at `began_at`. The term ends a tenth of
    /// [`ReplicaOptions::heartbeat_timeout`] before the siblings may remove this replica, because the clocks of two
    /// machines may run at different speeds.
    fn end_of_term(&self, began_at: Instant) -> Instant {
        began_at + self.options.heartbeat_timeout * 9 / 10
    }

    /// Writes heartbeats until one is late, or until a sibling has removed this replica.
    async fn write_heartbeats(&self, term: &Term) {
        loop {
            let began_at = Instant::now();
            match timeout_at(term.end(), self.options.heartbeats.beat(&term.id)).await {
                Ok(Ok(true)) => term.extend_to(self.end_of_term(began_at)),
                // A sibling has removed this replica.
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!("the heartbeat of this replica was not written: {error}"),
                // The term is over: `is_active` below returns.
                Err(_) => {}
            }
            // A database that hangs must not keep this replica from ending its worlds in time.
            let _ = timeout_at(term.end(), self.check_siblings(term)).await;
            if !term.is_active() {
                return;
            }
            sleep_until((began_at + self.options.heartbeat_timeout / HEARTBEATS_PER_TIMEOUT).min(term.end())).await;
        }
    }

    /// Reads the heartbeats of all replicas, and removes the siblings whose heartbeat is late.
    async fn check_siblings(&self, term: &Term) {
        let known_before = term.sibling_ids();
        let heartbeats = match self.options.heartbeats.heartbeats().await {
            Ok(heartbeats) => heartbeats,
            Err(error) => return tracing::debug!("this replica cannot read the heartbeats of the others: {error}"),
        };
        for late_heartbeat in
            term.update_siblings(&heartbeats, &known_before, &self.identity, self.options.heartbeat_timeout)
        {
            match self.options.heartbeats.remove_silent(&late_heartbeat).await {
                Ok(true) => {
                    tracing::warn!("removed the replica at {}: its heartbeat is late", late_heartbeat.replica.address);
                }
                Ok(false) => {}
                Err(error) => tracing::warn!("a replica whose heartbeat is late could not be removed: {error}"),
            }
        }
    }

    /// Removes the row of this replica, so that its siblings may become the homes of its tenants at once.
    async fn leave(&self, term: &Term) {
        let failure = match timeout(LEAVE_TIMEOUT, self.options.heartbeats.leave_replicas(&term.id)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the database did not answer within {} s", LEAVE_TIMEOUT.as_secs()),
        };
        tracing::warn!(
            "this replica could not tell the others that it has ended; they take over its tenants after \
             heartbeat_timeout: {failure}"
        );
    }

    /// Gives up the home of `tenant`, whose world has ended because this daemon ends.
    pub(crate) async fn leave_home(&self, tenant: &str) {
        let Some(term) = self.active_term() else { return };
        // If this fails, the home becomes free when the row of this replica is removed.
        let _ = timeout(LEAVE_TIMEOUT, self.store.leave_home(tenant, &term.id)).await;
    }

    /// Whether a sibling that this replica knows has this public key. A sibling that has just joined may be unknown
    /// yet.
    fn is_sibling_key(&self, public_key: &[u8]) -> bool {
        self.term.borrow().as_ref().is_some_and(|term| term.is_sibling_key(public_key))
    }

    /// Whether this replica may serve tenants.
    pub(crate) fn has_joined(&self) -> bool {
        self.active_term().is_some()
    }

    /// The term of this replica, unless it is over or there is none.
    fn active_term(&self) -> Option<Arc<Term>> {
        self.term.borrow().clone().filter(|term| term.is_active())
    }

    /// The term of this replica. If there is none, waits until `deadline` for this replica to join.
    async fn wait_for_term(&self, deadline: Instant) -> Option<Arc<Term>> {
        if let Some(term) = self.active_term() {
            return Some(term);
        }
        let mut terms = self.term.subscribe();
        let joined = terms.wait_for(|term| term.as_ref().is_some_and(|term| term.is_active()));
        timeout_at(deadline, joined).await.ok()?.ok()?.clone()
    }

    /// Whether this replica is the home of `tenant`. If the tenant has no home, this replica becomes its home. `false`
    /// as well if the database cannot be read.
    pub(crate) async fn is_home_of(&self, tenant: &str) -> bool {
        match self.active_term() {
            Some(term) => matches!(self.home_of(tenant, &term).await, Ok(Home::ThisReplica)),
            None => false,
        }
    }

    /// The home of `tenant`, from the memory of this replica or else from the database. If the tenant has no home, this
    /// replica becomes its home. An error if the database cannot be read.
    async fn home_of(&self, tenant: &str, term: &Term) -> Result<Home, ApiError> {
        if let Some(home) = term.remembered_home(tenant) {
            return Ok(home);
        }
        match self.store.home_or_take(tenant, &term.id).await {
            Ok(home) => Ok(term.remember_home(tenant, &home.replica, &self.identity)),
            Err(error) => {
                // At the level `debug`, because many requests can fail like this, and `run` reports the late heartbeat.
                tracing::debug!("the home of the tenant `{tenant}` cannot be read: {error}");
                Err(no_home(tenant))
            }
        }
    }

    /// Returns a request of a member of `tenant` to the caller if this replica is the home of the tenant. If not,
    /// forwards the request to the home, and returns the home's response. Dropping the future cancels the forwarded
    /// request.
    pub(crate) async fn route(&self, tenant: &str, request: Request) -> RouteOutcome {
        if let Some(term) = self.active_term()
            && let Some(Home::ThisReplica) = term.remembered_home(tenant)
        {
            return RouteOutcome::ServeHere(request);
        }
        let deadline = Instant::now() + self.options.takeover_timeout;
        let outcome = match request.extensions().get::<FromSibling>() {
            Some(FromSibling) => self.accept_forwarded(tenant, request).await,
            None => self.forward(tenant, request, deadline).await,
        };
        outcome.unwrap_or_else(|error| RouteOutcome::Answered(error.into_response()))
    }

    /// Takes a request that a sibling has forwarded. If this replica is not the home, the answer says so, and the
    /// sibling looks for the home again: a request that was forwarded twice could go round in a circle.
    async fn accept_forwarded(&self, tenant: &str, request: Request) -> Result<RouteOutcome, ApiError> {
        let Some(term) = self.active_term() else { return Ok(RouteOutcome::Answered(misdirected_request())) };
        match self.home_of(tenant, &term).await? {
            Home::ThisReplica => Ok(RouteOutcome::ServeHere(request)),
            Home::Sibling(_) => Ok(RouteOutcome::Answered(misdirected_request())),
        }
    }

    /// Forwards a request to the home of `tenant`. Until `deadline`, tries again when there is no home, or when the
    /// home has certainly not read the request. An error when the body is too large, when the time is up, or when the
    /// home may have read the request and does not answer.
    async fn forward(&self, tenant: &str, request: Request, deadline: Instant) -> Result<RouteOutcome, ApiError> {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, self.max_body_bytes).await.map_err(|_| ApiError::too_large(self.max_body_bytes))?;
        loop {
            let term = self.wait_for_term(deadline).await.ok_or_else(|| no_home(tenant))?;
            let sibling = match self.home_of(tenant, &term).await {
                Ok(Home::ThisReplica) => {
                    return Ok(RouteOutcome::ServeHere(Request::from_parts(head, Body::from(body))));
                }
                Ok(Home::Sibling(sibling)) => sibling,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => {
                    sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            match sibling.forward(&head, Bytes::clone(&body), &self.host, &self.ending).await {
                ForwardOutcome::Answered(response) => return Ok(RouteOutcome::Answered(response)),
                ForwardOutcome::Lost => return Err(outcome_unknown()),
                ForwardOutcome::SendAgain => term.forget_home(tenant, &sibling),
            }
            if Instant::now() >= deadline {
                return Err(no_home(tenant));
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}

/// Marks a request that a sibling has forwarded. The sibling has checked its `Host` and its `Origin`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromSibling;

/// The answer that tells a sibling that this replica is not the home of the tenant, and has not read the request.
pub(crate) fn misdirected_request() -> Response {
    StatusCode::MISDIRECTED_REQUEST.into_response()
}

/// The error for a request that no replica could answer in time. The request was not carried out.
fn no_home(tenant: &str) -> ApiError {
    let message = format!("no replica serves the tenant `{tenant}` now");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NO_HOME", message)
        .hint("the request was not carried out: send it again in a few seconds")
        .retry_after(Duration::from_secs(1))
}

/// The error for a request that may or may not have been carried out.
fn outcome_unknown() -> ApiError {
    let message = "the connection to the replica that had this request broke: it is not known whether the request was carried out";
    ApiError::new(StatusCode::BAD_GATEWAY, "OUTCOME_UNKNOWN", message)
        .hint("check whether it took effect before you send it again")
}

#[cfg(test)]
mod tests;
