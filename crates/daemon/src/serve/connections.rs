//! Connections of HTTP: so many at once, and none that stays without a word. Both hold before anybody's token is looked at.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::REFUSED;

/// What bounds them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Connections at once.
    pub(super) most: usize,
    /// How long one may take to send the head of its first request, or of another one.
    pub(super) silence: Duration,
}

/// Answers with `router` until `ending` is cancelled, and then what is being answered to its end. Whoever comes when
/// [`Bounds::most`] are connected waits, unanswered, until one of them has gone. Connections end when this is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, bounds: Bounds, ending: CancellationToken) {
    let places = Arc::new(Semaphore::new(bounds.most));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = ending.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = next(&listener, &places) => match accepted {
                Ok((stream, place)) => {
                    connections.spawn(one(stream, place, router.clone(), bounds.silence, ending.clone()));
                }
                Err(error) if is_of_one(&error) => {}
                Err(error) => {
                    tracing::warn!("a connection could not be taken: {error}");
                    sleep(REFUSED).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// The next connection, once there is a place for it.
async fn next(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Whether it failed only for the one that wanted to connect, which has gone away.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection, to its end. It has its place until then.
async fn one(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    router: Router,
    silence: Duration,
    ending: CancellationToken,
) {
    // HTTP/1 alone: telling it from HTTP/2 would be waiting for a first byte without a bound.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(silence);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection has ended: {error}");
    }
}
