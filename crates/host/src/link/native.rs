//! Servers in this process: native tools, called like those of all other servers.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::io::{DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

use super::scripts::Scripts;
use crate::catalog::Selection;

/// What fits between both ends before the writer waits.
const BUFFER: usize = 256 * 1024;

/// The arguments of a call.
pub(super) type JsonObject = Map<String, Value>;

/// The call that another call stands for.
pub(crate) struct Meant {
    pub(crate) selector: String,
    pub(crate) arguments: JsonObject,
    /// The tools that it may call.
    pub(crate) selection: Arc<Selection>,
}

type Meaning = Arc<dyn Fn(&str, &JsonObject) -> Option<Meant> + Send + Sync>;
type Serve = Arc<dyn Fn(DuplexStream, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// An MCP server that runs in this process and speaks MCP over a pipe in memory.
///
/// Two of them are equal when they are clones of one another.
#[derive(Clone)]
pub struct Native {
    name: Arc<str>,
    serve: Serve,
    /// Maps a tool and its arguments to the call that they stand for.
    meaning: Option<Meaning>,
    /// Runs the scripts that one of its tools is called with.
    scripts: Option<Arc<Scripts>>,
}

impl Native {
    /// A server that `serve` runs, once per connection, on its end of the pipe: newline-delimited JSON-RPC, as over
    /// stdio. The token is cancelled when the host stops the server; the future is dropped soon after.
    ///
    /// Any MCP server library fits, in any version. With `rmcp`:
    ///
    /// ```
    /// use rmcp::service::serve_server_with_ct;
    /// use toolrack_host::Native;
    ///
    /// #[derive(Clone)]
    /// struct Calculator;
    /// impl rmcp::ServerHandler for Calculator {}
    ///
    /// let native = Native::new("calculator", |io, stop| async move {
    ///     // The host sees a failed handshake at its own end, and tells why.
    ///     if let Ok(service) = serve_server_with_ct(Calculator, tokio::io::split(io), stop).await {
    ///         let _ = service.waiting().await;
    ///     }
    /// });
    /// ```
    pub fn new<F>(
        name: impl Into<Arc<str>>,
        serve: impl Fn(DuplexStream, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            name: name.into(),
            serve: Arc::new(move |io, stop| Box::pin(serve(io, stop))),
            meaning: None,
            scripts: None,
        }
    }

    /// The name that it was made with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Lets some of its calls stand for calls of other tools.
    pub(super) fn meaning(
        mut self,
        meaning: impl Fn(&str, &JsonObject) -> Option<Meant> + Send + Sync + 'static,
    ) -> Self {
        self.meaning = Some(Arc::new(meaning));
        self
    }

    /// Lets one of its tools run scripts.
    pub(super) fn running(mut self, scripts: Arc<Scripts>) -> Self {
        self.scripts = Some(scripts);
        self
    }

    /// What runs the script that `tool` is called with; `None` for any other tool.
    pub(crate) fn scripts(&self, tool: &str) -> Option<&Arc<Scripts>> {
        self.scripts.as_ref().filter(|_| Scripts::is_run(tool))
    }

    /// The call that a call of `tool` stands for; `None` when it is only itself.
    pub(crate) fn meant(&self, tool: &str, arguments: &JsonObject) -> Option<Meant> {
        self.meaning.as_ref()?(tool, arguments)
    }

    /// Runs one connection; the returned end is the client's.
    pub(crate) fn open(&self, stop: CancellationToken) -> (DuplexStream, BoxFuture<'static, ()>) {
        let (ours, theirs) = duplex(BUFFER);
        (ours, (self.serve)(theirs, stop))
    }
}

impl PartialEq for Native {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.serve, &other.serve)
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Native({})", self.name)
    }
}
