//! Listens for the other replicas (the siblings of this replica), and answers the requests that they forward.

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
    misdirected_request,
};

/// The maximum number of connections at once. A sibling opens one or two.
const MAX_CONNECTIONS: usize = 512;

/// The maximum number of requests under way on one connection. An event stream counts as a request for as long as it is
/// open.
const MAX_REQUESTS: u32 = 100_000;

/// How long the TLS handshake of a connection may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the listener checks that the key of a connection still belongs to a sibling.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The pause after the system could not accept a connection, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens for the siblings of a replica.
pub(crate) struct SiblingListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    replicas: Arc<Replicas>,
}

impl SiblingListener {
    /// Prepares TLS with the key of this replica. [`Self::serve`] accepts connections.
    ///
    /// # Errors
    /// [`NoIdentity`] when rustls cannot use TLS 1.3.
    pub(crate) fn new(listener: TcpListener, replicas: &Arc<Replicas>) -> Result<Self, NoIdentity> {
        // The handshake accepts every key. `serve_connection` instead checks the key of the connection at each request.
        // The reason is a sibling that has just joined, and that this replica does not know yet. In TLS 1.3, a client
        // may send its first request before it learns that the server has refused its key. It then cannot know whether
        // the request was read, and must treat it as lost. The answer `misdirected_request` tells it that the request
        // was not read, so that it can send it again.
        let acceptor = TlsAcceptor::from(Arc::new(replicas.identity.server_config()?));
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

/// Serves one connection to its end. While the key of its other side belongs to no sibling, each request is answered
/// with [`misdirected_request`], and the connection ends after [`KEY_CHECK_INTERVAL`].
async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    replicas: Arc<Replicas>,
    router: Router,
    ending: CancellationToken,
) {
    // Without this, Nagle's algorithm delays small answers.
    let _ = stream.set_nodelay(true);
    let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream = match handshake {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!("the TLS handshake of a connection failed: {error}"),
    };
    let Some(key) = key_of(&stream) else { return };
    let is_sibling = move || replicas.is_sibling_key(&key);
    let router = router.layer(from_fn({
        let is_sibling = is_sibling.clone();
        move |request: Request, next: Next| {
            let is_allowed = is_sibling();
            async move { if is_allowed { next.run(request).await } else { misdirected_request() } }
        }
    }));
    let mut builder = Builder::new(TokioExecutor::new()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_REQUESTS)
        // Without these two lines, hyper ends a connection on which many requests are cancelled. The requests of all
        // members share this connection, so no number of requests that one member cancels may end it.
        .max_pending_accept_reset_streams(None)
        .max_local_error_reset_streams(None);
    let service = TowerToHyperService::new(router);
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let result = tokio::select! {
        biased;
        result = http.as_mut() => result,
        () = until_unknown(is_sibling) => return tracing::debug!("ended a connection whose key belongs to no replica"),
        () = ending.cancelled() => {
            http.as_mut().graceful_shutdown();
            http.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection of another replica has ended: {error}");
    }
}

/// The public key of the other side, which has proved that it has the private key. Replicas have raw public keys (RFC
/// 7250) and no certificates, so the first "certificate" is the public key itself.
fn key_of(stream: &TlsStream<TcpStream>) -> Option<Arc<[u8]>> {
    let (_, connection) = stream.get_ref();
    connection.peer_certificates()?.first().map(|key| key.as_ref().into())
}

/// Returns when the key of a connection belongs to no sibling. Checks every [`KEY_CHECK_INTERVAL`], for the first time
/// after one interval.
async fn until_unknown(is_sibling: impl Fn() -> bool) {
    loop {
        sleep(KEY_CHECK_INTERVAL).await;
        if !is_sibling() {
            return;
        }
    }
}
