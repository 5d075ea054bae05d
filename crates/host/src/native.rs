//! Runs servers inside this process. Their tools are called like the tools of all other servers.

use std::{any::Any, fmt, sync::Arc};

use futures::future::BoxFuture;
use tokio::io::{DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

/// The capacity of the pipe in bytes; a writer waits when it is full.
const PIPE_BYTES: usize = 256 * 1024;

/// Serves the server's end of a pipe, until the token is cancelled.
type ServeFn = Arc<dyn Fn(DuplexStream, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// An MCP server that runs in this process, and speaks MCP over a pipe in memory.
///
/// Two values are equal if one is a clone of the other.
#[derive(Clone)]
pub struct Native {
    name: Arc<str>,
    serve: ServeFn,
    /// The host's data about this server, if the host made the server itself.
    extension: Option<Arc<dyn Any + Send + Sync>>,
}

impl Native {
    /// Creates a server. For each connection, `serve` gets the server's end of a pipe, which carries newline-delimited
    /// JSON-RPC, as over stdio. The token is cancelled when the host stops the server; the future is dropped soon
    /// after.
    ///
    /// Any version of any MCP server library works. With `rmcp`:
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
    ///     // If the handshake fails, the host notices it at its own end of the pipe, and reports why.
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
        Self { name: name.into(), serve: Arc::new(move |io, stop| Box::pin(serve(io, stop))), extension: None }
    }

    /// Returns the name with which the server was created.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Attaches the host's data about this server, which the host made itself.
    pub(crate) fn extended(mut self, extension: Arc<dyn Any + Send + Sync>) -> Self {
        self.extension = Some(extension);
        self
    }

    /// Returns the extension, if it is a `T`.
    pub(crate) fn extension<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.extension.clone()?.downcast().ok()
    }

    /// Returns whether the host made this server itself. The definitions of such a server describe tools of other
    /// servers, and change with them.
    pub(crate) fn is_made_by_host(&self) -> bool {
        self.extension.is_some()
    }

    /// Opens a connection. Returns the client's end of the pipe, and the future that serves the other end.
    pub(crate) fn open(&self, stop: CancellationToken) -> (DuplexStream, BoxFuture<'static, ()>) {
        let (ours, theirs) = duplex(PIPE_BYTES);
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
