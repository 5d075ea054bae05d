//! Opens the connection to another replica: HTTP/2 over TLS 1.3, with the public keys of both.
//!
//! A replica opens the connection when it has a first request, and sends the request only once the connection is open.
//! So the replica knows that a request was not sent if connecting fails.

use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http_body_util::Full;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::{net::TcpStream, sync::watch, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long connecting to a sibling may take, with the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// After this time without a byte from the sibling, this replica pings it (HTTP/2 PING). If no answer comes within the
/// same time again, the connection is lost.
const PING_AFTER: Duration = Duration::from_secs(2);

/// The maximum number of bytes of one request or answer that one replica has sent and the other one has not read yet.
/// This is a bound for each stream, and not for their connection, so that a client that reads its answer slowly holds
/// up no other client.
pub(super) const STREAM_WINDOW: u32 = 256 * 1024;

/// The largest window of a connection that HTTP/2 allows, in bytes (RFC 9113, section 6.9.1): in effect no bound.
pub(super) const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The maximum number of cancelled requests that HTTP/2 remembers, so that it ignores the rest of their answers.
const MAX_REMEMBERED_RESETS: usize = 1_000;

/// The sender of requests over a connection.
pub(super) type RequestSender = SendRequest<Full<Bytes>>;

/// An attempt to open a connection, whose outcome several requests can await. `None` if it failed.
type ConnectionAttempt = Shared<BoxFuture<'static, Option<RequestSender>>>;

/// Opens the connection to one sibling, and a new one when that connection has ended.
pub(super) struct Connector {
    address: String,
    /// `None` if this replica cannot use the key of the sibling. Then it never connects.
    tls: Option<TlsConnector>,
    /// The latest attempt to open a connection. The watch channel serves as a lock: no task waits for a change. Unlike
    /// a `Mutex`, it changes its value only in a closure, so that no lock is held across an await.
    last_attempt: watch::Sender<Option<ConnectionAttempt>>,
    /// Cancelled when the sibling is gone: ends the connection.
    sibling_gone: CancellationToken,
    tasks: TaskTracker,
}

impl Connector {
    pub(super) fn new(address: String, tls: Option<ClientConfig>, sibling_gone: CancellationToken) -> Self {
        let tls = tls.map(|tls| TlsConnector::from(Arc::new(tls)));
        Self { address, tls, last_attempt: watch::Sender::new(None), sibling_gone, tasks: TaskTracker::new() }
    }

    /// The open connection, or a new one if there is none. Requests that wait for it at the same time share one
    /// attempt. `None` if the attempt fails, or takes longer than [`CONNECT_TIMEOUT`].
    pub(super) async fn request_sender(&self) -> Option<RequestSender> {
        let mut attempt = None;
        self.last_attempt.send_if_modified(|last_attempt| {
            let is_over = last_attempt.as_ref().is_none_or(|last_attempt| {
                last_attempt.peek().is_some_and(|opened| opened.as_ref().is_none_or(SendRequest::is_closed))
            });
            if is_over {
                *last_attempt = Some(self.open());
            }
            attempt.clone_from(last_attempt);
            is_over
        });
        attempt?.await
    }

    /// Begins an attempt to open a connection.
    fn open(&self) -> ConnectionAttempt {
        let (address, tls) = (self.address.clone(), self.tls.clone());
        let (sibling_gone, tasks) = (self.sibling_gone.clone(), self.tasks.clone());
        async move {
            let connect_result = timeout(CONNECT_TIMEOUT, connect(&address, tls?)).await;
            let stream = match connect_result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!("the replica at {address} cannot be reached: {error}");
                    return None;
                }
            };
            start_http(stream, sibling_gone, &tasks).await
        }
        .boxed()
        .shared()
    }
}

/// Connects to the sibling at `address`, and does the TLS handshake.
async fn connect(address: &str, tls: TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    tls.connect(address.ip().into(), stream).await
}

/// Starts HTTP/2 on a connection. A task of `tasks` drives it until the connection ends or `sibling_gone` is cancelled.
/// `None` if HTTP/2 cannot start.
async fn start_http(
    stream: TlsStream<TcpStream>,
    sibling_gone: CancellationToken,
    tasks: &TaskTracker,
) -> Option<RequestSender> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_AFTER)
        .max_concurrent_reset_streams(MAX_REMEMBERED_RESETS)
        // Without this, hyper ends a connection on which many requests are cancelled. The requests of all members share
        // this connection, so no number of requests that one member cancels may end it.
        .max_local_error_reset_streams(None);
    let (requests, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
    tasks.spawn(async move {
        if let Some(Err(error)) = sibling_gone.run_until_cancelled(connection).await {
            tracing::debug!("the connection to another replica has ended: {error}");
        }
    });
    Some(requests)
}

/// Whether `error` says that the sibling has not processed the request that failed (RFC 9113, sections 6.8 and 8.7).
pub(super) fn was_not_processed(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        let is_ended = cause.is_go_away() && cause.reason() == Some(h2::Reason::NO_ERROR);
        let is_refused = cause.is_reset() && cause.reason() == Some(h2::Reason::REFUSED_STREAM);
        cause.is_remote() && (is_ended || is_refused)
    })
}
