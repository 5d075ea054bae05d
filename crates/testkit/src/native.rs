//! Servers in this process that are written with `rmcp`.

use rmcp::{ServerHandler, service::serve_server_with_ct};
use tokio::io::split;
use toolrack_host::Native;

/// A server called `name`; `handler` makes a fresh handler for each connection.
pub fn rmcp_native<H: ServerHandler>(name: &str, handler: impl Fn() -> H + Send + Sync + 'static) -> Native {
    Native::new(name, move |io, stop| {
        let handler = handler();
        async move {
            // The host sees a failed handshake at its own end.
            if let Ok(service) = serve_server_with_ct(handler, split(io), stop).await {
                let _ = service.waiting().await;
            }
        }
    })
}
