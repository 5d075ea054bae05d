//! HTTP connections: bounded in number and in silence.
//!
//! A connection is *known* from its first request with a valid token on. The number of other connections is small: if
//! there are too many, a new one replaces the one that was silent for longest. Thus programs without a token displace
//! only each other.

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
    guard::{Connection, Unauthenticated},
    shares::Shares,
};

/// The most connections that are answered at once while the daemon only waits for the calls under way.
const MOST_CHECKS: usize = 64;

/// How often at most the log reports connections that were ended to make room.
const REPORT_EVERY: Duration = Duration::from_mins(1);

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most connections at once.
    pub(super) most: usize,
    /// The most of them that have shown valid tokens of one member of a team.
    pub(super) of_member: usize,
    /// The most of them that have not shown a valid token.
    pub(super) unauthenticated: usize,
    /// How long such a connection may take to send the head of each request.
    pub(super) head_timeout: Duration,
    /// How long a known one may take.
    pub(super) idle_timeout: Duration,
}

/// What answers the requests.
pub(super) struct Routers {
    /// Answers until the daemon ends.
    pub(super) router: Router,
    /// Answers new connections while the daemon waits for the last answers; without it, they are refused.
    pub(super) at_the_end: Option<Router>,
}

/// Answers requests until `ending` is cancelled, and then finishes running answers ([`Routers::at_the_end`]). When [`Bounds::most`] connections are known, a new one waits,
/// unanswered, until one of them ends. Dropping the future ends all connections.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routers: Routers,
    bounds: Bounds,
    ending: CancellationToken,
) {
    let Routers { router, at_the_end } = routers;
    let places = Arc::new(Semaphore::new(bounds.most));
    let shared = Arc::new(Shared { tls, router, bounds, places, ending: ending.clone() });
    let mut unauthenticated = Unauthenticated::new(Shares::new(bounds.most, bounds.of_member));
    let mut connections = JoinSet::new();
    let mut evicted = Evicted::default();
    loop {
        tokio::select! {
            () = ending.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    evicted.make_room(&mut unauthenticated, bounds.unauthenticated);
                    let place = tokio::select! {
                        () = ending.cancelled() => break,
                        place = shared.place(&mut unauthenticated) => place,
                    };
                    let Ok(place) = place else { break };
                    connections.spawn(one(stream, place, unauthenticated.enter(), Arc::clone(&shared)));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    // File descriptors have probably run out: close connections without a token first.
                    unauthenticated.end_one();
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    if let Some(router) = at_the_end {
        let bounds = Bounds { most: MOST_CHECKS, ..bounds };
        let (places, ending) = (Arc::new(Semaphore::new(bounds.most)), CancellationToken::new());
        let shared = Arc::new(Shared { tls: shared.tls.clone(), router, bounds, places, ending });
        let mut checks = JoinSet::new();
        loop {
            tokio::select! {
                left = connections.join_next() => if left.is_none() { break },
                Some(_) = checks.join_next() => {}
                Ok((stream, _)) = listener.accept(), if checks.len() < MOST_CHECKS => {
                    evicted.make_room(&mut unauthenticated, bounds.unauthenticated);
                    let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() else { continue };
                    checks.spawn(one(stream, place, unauthenticated.enter(), Arc::clone(&shared)));
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// State that all connections share.
struct Shared {
    /// `None` for connections without TLS.
    tls: Option<TlsAcceptor>,
    router: Router,
    bounds: Bounds,
    places: Arc<Semaphore>,
    ending: CancellationToken,
}

impl Shared {
    /// Returns a place for a connection. If no place is free, ends a connection that has not shown a valid token.
    async fn place(&self, unauthenticated: &mut Unauthenticated) -> io::Result<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        unauthenticated.end_one();
        Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)
    }
}

/// Connections that were ended to make room, for the log.
#[derive(Default)]
struct Evicted {
    number: usize,
    reported: Option<Instant>,
}

impl Evicted {
    /// Ends connections that have not shown a valid token until there is room for one more of them, if at most `bound`
    /// are allowed.
    fn make_room(&mut self, unauthenticated: &mut Unauthenticated, bound: usize) {
        while unauthenticated.len() >= bound.max(1) && unauthenticated.end_one() {
            self.tell(bound);
        }
    }

    fn tell(&mut self, bound: usize) {
        self.number += 1;
        if self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            let number = std::mem::take(&mut self.number);
            self.reported = Some(Instant::now());
            tracing::warn!(
                "connections that had shown no token were ended to make room for others: {number}; there may be {bound} at \
                 once (`unauthenticated_connections` in `[serve]`)"
            );
        }
    }
}

/// Returns whether the error concerns only one connection, whose client has disconnected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves one connection to its end, and holds its place until then.
async fn one(stream: TcpStream, _place: OwnedSemaphorePermit, connection: Arc<Connection>, shared: Arc<Shared>) {
    match &shared.tls {
        None => http(stream, &connection, &shared).await,
        Some(tls) => {
            // The handshake has the same time as the head of a request.
            let greeted = tokio::select! {
                greeted = tls.accept(stream) => greeted,
                () = connection.must_close(shared.bounds.head_timeout) => return,
                () = shared.ending.cancelled() => return,
            };
            match greeted {
                // Boxed, because it is much larger than a connection without TLS.
                Ok(stream) => Box::pin(http(stream, &connection, &shared)).await,
                Err(error) => tracing::debug!("a connection without valid TLS has ended: {error}"),
            }
        }
    }
    connection.leaves();
}

/// Serves HTTP on a connection to its end.
async fn http(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    connection: &Arc<Connection>,
    shared: &Shared,
) {
    // Only HTTP/1: to distinguish it from HTTP/2, the daemon would have to wait for the first byte without a bound.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(shared.bounds.idle_timeout);
    // The handlers of requests find the connection in the extensions.
    let service = Extension(Arc::clone(connection)).layer(shared.router.clone());
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let over = async {
        connection.must_close(shared.bounds.head_timeout).await;
        // The connection may have sent a token already, so read its input first: with a valid token it stays.
        yield_now().await;
        connection.must_close(shared.bounds.head_timeout).await;
    };
    let ended = tokio::select! {
        biased;
        ended = http.as_mut() => ended,
        () = over => Ok(()),
        () = shared.ending.cancelled() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::guard::{Guard, Token, check};

    const BOUNDS: Bounds = Bounds {
        most: 8,
        of_member: 8,
        unauthenticated: 1,
        head_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
    };

    #[tokio::test]
    async fn a_token_that_was_sent_is_read_before_its_connection_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard = Arc::new(Guard::new(Token::given("t0ken"), address, &[], Box::new(|_, _| false)));
        let router = Router::new().layer(axum::middleware::from_fn_with_state(guard, check));
        // The daemon shares this thread and runs only afterwards, so it finds all of these connections at the same
        // time.
        let mut known = std::net::TcpStream::connect(address).unwrap();
        write!(known, "GET / HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer t0ken\r\n\r\n").unwrap();
        let silent: Vec<_> = (0..4).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let ending = CancellationToken::new();
        let mut served = JoinSet::new();
        served.spawn(serve(listener, None, (router, None), BOUNDS, ending.clone()));
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = [0; 12];
            known.read_exact(&mut answer).map(|()| answer)
        });
        assert_eq!(&answer.await.unwrap().unwrap(), b"HTTP/1.1 404");
        drop(silent);
        ending.cancel();
        served.join_next().await.unwrap().unwrap();
    }
}
