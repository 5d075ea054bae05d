//! Runs servers that are a part of this program. They are written with `rmcp`, the Rust SDK of MCP.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use rmcp::{ServerHandler, service::serve_server_with_ct};
use tokio::io::{AsyncWrite, DuplexStream, WriteHalf, split};
use toolrack_host::Native;

/// Returns a server called `name`; `handler` creates a fresh handler for each connection.
pub(crate) fn native_server<H: ServerHandler>(name: &str, handler: impl Fn() -> H + Send + Sync + 'static) -> Native {
    Native::new(name, move |io, stop| {
        let handler = handler();
        let (reader, writer) = split(io);
        async move {
            // The host sees at its own end that the handshake or the connection has failed, and reports why.
            if let Ok(service) = serve_server_with_ct(handler, (reader, IgnoreClosed(writer)), stop).await {
                let _ = service.waiting().await;
            }
        }
    })
}

/// The server's stream to a host that may have ended already. Writing to it is then no error: `rmcp` would log one for
/// each response that a server still sends when its host ends, such as the last one to a subscription.
struct IgnoreClosed(WriteHalf<DuplexStream>);

/// Replaces the error `BrokenPipe` by `success`.
fn ignore_closed<T>(result: Poll<io::Result<T>>, success: T) -> Poll<io::Result<T>> {
    match result {
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Poll::Ready(Ok(success)),
        result => result,
    }
}

impl AsyncWrite for IgnoreClosed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ignore_closed(Pin::new(&mut self.0).poll_write(context, bytes), bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ignore_closed(Pin::new(&mut self.0).poll_flush(context), ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ignore_closed(Pin::new(&mut self.0).poll_shutdown(context), ())
    }
}
