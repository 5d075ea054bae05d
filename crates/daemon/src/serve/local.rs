//! Serves programs on this machine over a Unix socket, without HTTP.

use std::sync::Arc;

use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{ACCEPT_PAUSE, Admit};
use crate::{gateway::Gateway, session_worlds::SessionWorlds};

/// The maximum number of local programs that are served at once.
const MAX_LOCAL: usize = 256;

/// Serves local programs, one connection each, until the daemon ends.
pub(super) async fn serve(
    socket: UnixListener,
    admit: Admit,
    clients: Clients,
    tasks: TaskTracker,
    ending: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_LOCAL));
    loop {
        let accept_result = tokio::select! {
            () = ending.cancelled() => return,
            accept_result = socket.accept() => accept_result,
        };
        match (accept_result, Arc::clone(&permits).try_acquire_owned()) {
            (Ok((stream, _)), Ok(permit)) => {
                let (clients, admission) = (clients.clone(), admit(stream));
                tasks.spawn(async move {
                    if let Some(stream) = admission.await {
                        clients.serve(stream).await;
                    }
                    drop(permit);
                });
            }
            (Ok(_), Err(_)) => tracing::warn!("refused a local program: {MAX_LOCAL} are connected already"),
            (Err(error), _) => {
                tracing::warn!("a local program could not connect: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves the clients of the socket. Each connection is a session.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) gateway: Gateway,
    pub(super) sessions: Option<Arc<SessionWorlds>>,
}

impl Clients {
    /// Serves one client until it disconnects. It gets a session world if servers need one.
    async fn serve(&self, stream: UnixStream) {
        let (reader, writer) = stream.into_split();
        let session = match &self.sessions {
            Some(sessions) => sessions.begin_for_connection().await,
            None => Ok(None),
        };
        let result = match session {
            Ok(Some(session)) => session.gateway().serve_stdio(reader, writer).await,
            Ok(None) => self.gateway.serve_stdio(reader, writer).await,
            Err(refused) => return tracing::warn!("refused a local program: {}", refused.message()),
        };
        if let Err(error) = result {
            tracing::info!("{error}");
        }
    }
}
