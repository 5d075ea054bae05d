//! Serves HTTP connections, and limits how many there may be, and how long they may be silent.
//!
//! A connection is *known* from its first request with a valid token on. Other connections are limited to a small
//! number: beyond that number, a new connection replaces the one that was silent for the longest time. So programs
//! without a token displace only each other.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinSet, yield_now},
    time::{Instant, sleep},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

use super::ACCEPT_PAUSE;
use crate::{
    fair_limit::FairLimit,
    guard::{Connection, Registration, UnauthenticatedConnections},
};

/// The maximum number of connections that are served at once while the daemon waits for the calls under way to end.
/// Only the health checks of load balancers need an answer then.
const MAX_HEALTH_CHECKS: usize = 64;

/// The minimum time between two warnings about connections that were ended to make room.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The maximum number of connections at once.
    pub(super) max: usize,
    /// The maximum number of connections that have shown valid tokens of one member of a team.
    pub(super) max_per_member: usize,
    /// The maximum number of connections that have not shown a valid token.
    pub(super) unauthenticated: usize,
    /// How long a connection that is not known may take to send the head of each request.
    pub(super) head_timeout: Duration,
    /// How long a known connection may take to send the head of each request.
    pub(super) idle_timeout: Duration,
}

/// The routers that answer the requests.
pub(super) struct Routers {
    /// Answers until the daemon ends.
    pub(super) router: Router,
    /// Answers new connections while the daemon waits for the calls under way to end. Without it, new connections are
    /// refused.
    pub(super) ending_router: Option<Router>,
}

/// Answers requests until `ending` is cancelled, and then finishes the answers under way. [`Routers`] says what answers
/// new connections meanwhile. When [`Bounds::max`] connections are known, a new connection waits, unanswered, until one
/// of them ends. Dropping the future ends all connections.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routers: Routers,
    bounds: Bounds,
    ending: CancellationToken,
) {
    let Routers { router, ending_router } = routers;
    let permits = Arc::new(Semaphore::new(bounds.max));
    let shared = Arc::new(SharedState { tls, router, bounds, permits, ending: ending.clone() });
    let mut unauthenticated = UnauthenticatedConnections::new(FairLimit::new(bounds.max, bounds.max_per_member));
    let mut connections = JoinSet::new();
    let mut evictions = EvictionCounter::default();
    loop {
        tokio::select! {
            () = ending.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    evictions.make_room(&mut unauthenticated, bounds.unauthenticated);
                    let permit = tokio::select! {
                        () = ending.cancelled() => break,
                        permit = shared.acquire_permit(&mut unauthenticated) => permit,
                    };
                    // Cannot fail, because the semaphore is never closed.
                    let Ok(permit) = permit else { break };
                    let registration = unauthenticated.register();
                    connections.spawn(serve_connection(stream, permit, registration, Arc::clone(&shared)));
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    // File descriptors have probably run out, so end a connection that has shown no token.
                    unauthenticated.end_longest_idle();
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    if let Some(router) = ending_router {
        // Load balancers still get answers until the calls under way have ended.
        let bounds = Bounds { max: MAX_HEALTH_CHECKS, ..bounds };
        let (permits, ending) = (Arc::new(Semaphore::new(bounds.max)), CancellationToken::new());
        let shared = Arc::new(SharedState { tls: shared.tls.clone(), router, bounds, permits, ending });
        let mut health_checks = JoinSet::new();
        loop {
            tokio::select! {
                ended = connections.join_next() => if ended.is_none() { break },
                Some(_) = health_checks.join_next() => {}
                Ok((stream, _)) = listener.accept(), if health_checks.len() < MAX_HEALTH_CHECKS => {
                    evictions.make_room(&mut unauthenticated, bounds.unauthenticated);
                    // Cannot fail, because there is a permit for each health check.
                    let Ok(permit) = Arc::clone(&shared.permits).try_acquire_owned() else { continue };
                    let registration = unauthenticated.register();
                    health_checks.spawn(serve_connection(stream, permit, registration, Arc::clone(&shared)));
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// State that all connections share.
struct SharedState {
    /// `None` for connections without TLS.
    tls: Option<TlsAcceptor>,
    router: Router,
    bounds: Bounds,
    /// Has a permit for each connection that may still be accepted.
    permits: Arc<Semaphore>,
    /// Cancelled when connections must end after the answer that is under way.
    ending: CancellationToken,
}

impl SharedState {
    /// Returns a permit for a connection. If none is free, ends a connection that has not shown a valid token, and
    /// waits for a permit.
    async fn acquire_permit(
        &self,
        unauthenticated: &mut UnauthenticatedConnections,
    ) -> io::Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        unauthenticated.end_longest_idle();
        Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)
    }
}

/// Counts the connections that were ended to make room, for the log.
#[derive(Default)]
struct EvictionCounter {
    /// The number of these connections since the last warning.
    count: usize,
    /// When the last warning was written.
    last_report: Option<Instant>,
}

impl EvictionCounter {
    /// Ends connections that have not shown a valid token, until there is room for one more within the limit `bound`.
    fn make_room(&mut self, unauthenticated: &mut UnauthenticatedConnections, bound: usize) {
        while unauthenticated.len() >= bound.max(1) && unauthenticated.end_longest_idle() {
            self.report(bound);
        }
    }

    /// Counts one more ended connection, and writes a warning unless there was one within [`REPORT_INTERVAL`].
    fn report(&mut self, bound: usize) {
        self.count += 1;
        if self.last_report.is_none_or(|last_report| last_report.elapsed() >= REPORT_INTERVAL) {
            let count = std::mem::take(&mut self.count);
            self.last_report = Some(Instant::now());
            tracing::warn!(
                "connections that had shown no token were ended to make room for others: {count}; there may be {bound} at \
                 once (`unauthenticated_connections` in `[serve]`)"
            );
        }
    }
}

/// Returns whether an error of accepting concerns only one connection, whose client has disconnected.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves one connection to its end, and holds its permit and its registration until then.
async fn serve_connection(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    connection: Registration,
    shared: Arc<SharedState>,
) {
    match &shared.tls {
        None => serve_http(stream, &connection, &shared).await,
        Some(tls) => {
            // The handshake may take as long as the head of a request.
            let handshake = tokio::select! {
                handshake = tls.accept(stream) => handshake,
                () = connection.until_must_end(shared.bounds.head_timeout) => return,
                () = shared.ending.cancelled() => return,
            };
            match handshake {
                // Boxed, because it is much larger than a connection without TLS.
                Ok(stream) => Box::pin(serve_http(stream, &connection, &shared)).await,
                Err(error) => tracing::debug!("a connection without valid TLS has ended: {error}"),
            }
        }
    }
}

/// Serves HTTP on a connection to its end.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    connection: &Arc<Connection>,
    shared: &SharedState,
) {
    // Only HTTP/1: to distinguish it from HTTP/2, the daemon would have to wait for the first byte without a bound.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(shared.bounds.idle_timeout);
    // The handlers of requests find the connection in the extensions.
    let service = Extension(Arc::clone(connection)).layer(shared.router.clone());
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let must_end = async {
        connection.until_must_end(shared.bounds.head_timeout).await;
        // The client may already have sent a token. So the daemon reads what has arrived first: with a valid token, the
        // connection stays.
        yield_now().await;
        connection.until_must_end(shared.bounds.head_timeout).await;
    };
    let result = tokio::select! {
        biased;
        result = http.as_mut() => result,
        () = must_end => Ok(()),
        () = shared.ending.cancelled() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection has ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use toolrack_testkit::Certificate;

    use super::*;
    use crate::{
        guard::{Guard, Token, check},
        tls::Tls,
    };

    const BOUNDS: Bounds = Bounds {
        max: 8,
        max_per_member: 8,
        unauthenticated: 1,
        head_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
    };

    #[tokio::test]
    async fn a_token_that_was_sent_is_read_before_its_connection_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard = Arc::new(Guard::new(Token::from_secret("t0ken"), address, false, &[], Box::new(|_, _| false)));
        let router = Router::new().layer(axum::middleware::from_fn_with_state(guard, check));
        // The task that serves shares this thread and begins only after these lines, so it finds all of these
        // connections at the same time.
        let mut known = std::net::TcpStream::connect(address).unwrap();
        write!(known, "GET / HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer t0ken\r\n\r\n").unwrap();
        let silent: Vec<_> = (0..4).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let ending = CancellationToken::new();
        let mut served = JoinSet::new();
        let routers = Routers { router, ending_router: None };
        served.spawn(serve(listener, None, routers, BOUNDS, ending.clone()));
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = [0; 12];
            known.read_exact(&mut answer).map(|()| answer)
        });
        assert_eq!(&answer.await.unwrap().unwrap(), b"HTTP/1.1 404");
        drop(silent);
        ending.cancel();
        served.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_is_silent_during_the_handshake_leaves_the_table() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let made = Certificate::new();
        let tls = Tls::new(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).try_acquire_owned().unwrap();
        let shared = Arc::new(SharedState {
            tls: Some(tls.acceptor()),
            router: Router::new(),
            bounds: Bounds { head_timeout: Duration::ZERO, ..BOUNDS },
            permits,
            ending: CancellationToken::new(),
        });
        let mut unauthenticated = UnauthenticatedConnections::new(FairLimit::new(1, 1));
        Box::pin(serve_connection(stream, permit, unauthenticated.register(), shared)).await;
        assert_eq!(unauthenticated.len(), 0);
        drop(silent);
    }
}
