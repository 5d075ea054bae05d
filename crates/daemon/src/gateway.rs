//! One MCP endpoint in front of all servers of a host, over HTTP and stdio. It serves clients of both eras: modern
//! (2026-07-28) and legacy (2025-11-25 and older).
//!
//! A request passes through these modules: `http` or `stdio` receives it, `message` parses it, and `methods` answers
//! it. For a list, `methods` reads `view` (tools) or `directory` (prompts and resources). For a call, `methods` makes a
//! `pending` future that runs the call at the host. An `exchange` drives that future, and sends its progress and
//! questions to the client.
//!
//! A call is a future that only its `exchange` drives. When the future is dropped, the call is cancelled at the server.
//! That happens when the client goes away, cancels the call, or does not come back with an answer. Nothing here sends a
//! call twice. A client of 2026-07-28 answers a question by repeating its request with the answer; the repeated request
//! then continues the call that waits for it (`parked`).
//!
//! Further modules:
//!
//! - `incoming` takes notifications, answers of the client, and batches.
//! - `memory` keeps the `session`s and the parked calls, and `background` ends the idle ones.
//! - `news` and `subscriptions` send changes to clients.
//! - `any_client` takes the questions of the host. `relay`, `approval` and `value_requests` ask the user behind a
//!   client.
//! - `tools` and `cursor` make lists, and `tool_call` runs a call of a tool at the host.
//! - `refusal` makes errors, `options` has the settings, and `protocol_names` the versions and names of MCP.

mod any_client;
mod approval;
mod background;
mod cursor;
mod directory;
mod exchange;
mod http;
mod incoming;
mod memory;
mod message;
mod methods;
mod news;
mod options;
mod parked;
mod pending;
mod protocol_names;
mod refusal;
mod relay;
mod session;
mod stdio;
mod subscriptions;
mod tool_call;
mod tools;
mod value_requests;
mod view;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_host::Host;

pub use crate::profiles::Profiles;

pub use self::{
    any_client::AnyClient,
    options::{Bounds, GatewayOptions},
    stdio::StdioError,
};
use self::{
    directory::{Directory, ItemIndex},
    memory::Memory,
    news::NewsSender,
    protocol_names::META_SERVER,
    view::Views,
};
use crate::fair_limit::FairLimit;

pub(crate) use self::http::{SESSION_HEADER, begins_session, has_sessions};

/// How long a request for a list waits for servers that have just started, because many clients list once and never
/// again.
pub const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long [`Gateway::shutdown`] waits for running work to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// All servers of a [`Host`] as one MCP server.
///
/// Cheap to clone. Create it inside a tokio runtime. It does not own the host: end the gateway first, then the host.
/// Build the host with [`AnyClient`] as its asker, the part that puts questions to users. Without an asker, the host
/// tells servers of the legacy era at their handshake that it answers no questions, and they send none.
///
/// It serves MCP 2026-07-28 without state, and 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05 with sessions,
/// independently of the eras of the servers behind it. Tools have the names of the host's catalog, prompts are named
/// the same way, and a resource that several servers have under one URI is `toolrack://SERVER/URI` for each of them.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    host: Host,
    options: GatewayOptions,
    /// The JSON field `_meta` of results, which names the gateway.
    identity: String,
    views: Views,
    directory: Directory,
    memory: Memory,
    news: NewsSender,
    /// Limits the requests under way, of all clients together and of each member (a user of a team).
    call_limit: FairLimit,
    /// Limits the streams that stay open for notifications, of all clients together and of each member.
    stream_limit: FairLimit,
    tasks: TaskTracker,
    stop: CancellationToken,
    created_at: Instant,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("host", &self.0.host).finish_non_exhaustive()
    }
}

impl Inner {
    /// Waits for servers that have just started, or that were restarted because a value they need has changed.
    async fn wait_for_starting_servers(&self) {
        self.host.settled_within(FIRST_LIST_TIMEOUT).await;
    }

    /// Waits for the server that may have the tool `name`, at most until the gateway is [`FIRST_LIST_TIMEOUT`] old.
    async fn wait_for_tool(&self, name: &str) {
        // Later, the tools of servers that start again are still in the catalog.
        if self.created_at.elapsed() < FIRST_LIST_TIMEOUT {
            // After the time limit, the gateway answers with the tools that the catalog has by then.
            let _ = timeout_at(self.created_at + FIRST_LIST_TIMEOUT, self.host.wait_for_tool(name)).await;
        }
    }

    /// Returns what `find` finds among the prompts and resources of the servers.
    async fn find_offered<T>(&self, find: impl Fn(&ItemIndex) -> Option<T>) -> Option<T> {
        self.wait_for_starting_servers().await;
        self.directory.find(&self.host, find).await
    }

    /// Returns the message with secrets hidden, because a server can repeat secrets that it received.
    fn concealed(&self, message: Bytes) -> Bytes {
        let Some(secrets) = &self.options.secrets else { return message };
        // A message is JSON, and therefore always UTF-8.
        let concealed = str::from_utf8(&message).ok().map(|text| secrets.conceal(text));
        match concealed {
            Some(Cow::Owned(concealed)) => concealed.into(),
            _ => message,
        }
    }
}

impl Gateway {
    /// Creates a gateway to the servers of `host`.
    ///
    /// # Panics
    /// If it is called outside of a tokio runtime.
    #[must_use]
    pub fn new(host: Host, options: GatewayOptions) -> Self {
        let bounds = &options.bounds;
        let gateway = Self(Arc::new(Inner {
            identity: format!(r#""_meta":{{"{META_SERVER}":{}}}"#, options.info()),
            views: Views::new(&options),
            directory: Directory::default(),
            memory: Memory::new(bounds),
            news: NewsSender::default(),
            call_limit: bounds.fair_limit(bounds.calls),
            stream_limit: bounds.fair_limit(bounds.streams),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            created_at: Instant::now(),
            host,
            options,
        }));
        gateway.0.tasks.spawn(background::run(Arc::downgrade(&gateway.0), gateway.0.stop.clone()));
        gateway
    }

    /// Returns a router that serves Streamable HTTP of both eras at `/`: nest it at `/mcp`.
    ///
    /// The query selects what a client sees: `?tools=github/*,read_*` (only these tools), `?servers=github,fs` (only
    /// these servers), `?profile=NAME` (one of [`GatewayOptions::profiles`]; the status for an unknown one is 404). A
    /// tool must match all that are given.
    ///
    /// A header `Host` or `Origin` may name only a loopback address or one of [`GatewayOptions::hosts`]; the status for
    /// others is 403. Authentication is for a layer in front.
    pub fn router(&self) -> axum::Router {
        Self::shared_router().layer(axum::Extension(self.clone()))
    }

    /// Returns the same router for many gateways: each request carries its gateway in its extensions.
    pub(crate) fn shared_router() -> axum::Router {
        http::router()
    }

    /// Serves one client over newline-delimited JSON, until it closes `reader` or the gateway is shut down. Calls that
    /// are under way then have half a second to end before they are cancelled. Dropping the future cancels them at
    /// once, and may cut the message that is being written.
    ///
    /// # Errors
    /// [`StdioError`] when reading or writing fails, or a message is larger than [`Bounds::body_bytes`].
    pub async fn serve_stdio(
        &self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin,
    ) -> Result<(), StdioError> {
        stdio::serve(self, reader, writer).await
    }

    /// Ends all sessions, streams and calls under way, and waits until they have, at most 5 seconds. The host runs on.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.memory.clear();
        self.0.tasks.close();
        if timeout(SHUTDOWN_TIMEOUT, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks of the gateway did not end in time");
        }
    }
}
