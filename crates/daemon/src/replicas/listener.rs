//! The address at which the siblings of a replica reach it.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    middleware::{Next, from_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    FromSibling, NoIdentity, Replicas,
    connection::{CONNECTION_WINDOW, STREAM_WINDOW},
    not_here,
};

/// The most connections at once. A sibling has one or two.
const MAX_CONNECTIONS: usize = 512;

/// The most requests under way on a connection. Each event stream is one.
const MAX_REQUESTS: u32 = 100_000;

/// How long the TLS handshake of a connection may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection is checked for a key of a sibling.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens for the siblings of a replica.
pub(crate) struct SiblingListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    replicas: Arc<Replicas>,
}

impl SiblingListener {
    /// # Errors
    /// [`NoIdentity`]
    pub(crate) fn new(listener: TcpListener, replicas: &Arc<Replicas>) -> Result<Self, NoIdentity> {
        // The handshake accepts every key, and each request is checked: this replica may not know a sibling yet that
        // has just joined. TLS 1.3 refuses a key only after the first request, which the sibling would take for lost.
        let acceptor = TlsAcceptor::from(Arc::new(replicas.identity.server()?));
        Ok(Self { listener, acceptor, replicas: Arc::clone(replicas) })
    }

    /// Answers with `router` until `ending` is cancelled, then finishes the answers under way. Dropping the future ends
    /// all connections.
    pub(crate) async fn serve(self, router: Router, ending: CancellationToken) {
        let router = router.layer(Extension(FromSibling));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = ending.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let (acceptor, replicas) = (self.acceptor.clone(), Arc::clone(&self.replicas));
                        connections.spawn(serve_connection(stream, acceptor, replicas, router.clone(), ending.clone()));
                    }
                    Err(error) => {
                        tracing::warn!("a connection of another replica could not be accepted: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// Serves one connection to its end. While its key is not that of a sibling, no request gets through, and the
/// connection soon ends.
async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    replicas: Arc<Replicas>,
    router: Router,
    ending: CancellationToken,
) {
    // Without this, Nagle's algorithm delays small answers.
    let _ = stream.set_nodelay(true);
    let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!("the TLS handshake of a connection failed: {error}"),
    };
    let Some(key) = key_of(&stream) else { return };
    let is_sibling = move || replicas.has_key(&key);
    let router = router.layer(from_fn({
        let is_sibling = is_sibling.clone();
        move |request: Request, next: Next| {
            let may_ask = is_sibling();
            async move { if may_ask { next.run(request).await } else { not_here() } }
        }
    }));
    let mut builder = Builder::new(TokioExecutor::new()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_REQUESTS)
        // Members give up requests as often as they like, and that must not end the connection for all others.
        .max_pending_accept_reset_streams(None)
        .max_local_error_reset_streams(None);
    let service = TowerToHyperService::new(router);
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = http.as_mut() => ended,
        () = until_unknown(is_sibling) => return tracing::debug!("ended a connection whose key belongs to no replica"),
        () = ending.cancelled() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection of another replica has ended: {error}");
    }
}

/// The public key of the other side, which has proved that it has the private key.
fn key_of(stream: &TlsStream<TcpStream>) -> Option<Arc<[u8]>> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates()?.first().map(|key| key.as_ref().into())
}

/// Returns once the key of a connection is not that of a sibling, after [`KEY_CHECK_INTERVAL`] at the earliest.
async fn until_unknown(is_sibling: impl Fn() -> bool) {
    loop {
        sleep(KEY_CHECK_INTERVAL).await;
        if !is_sibling() {
            return;
        }
    }
}
