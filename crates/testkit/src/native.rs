//! Servers in this process that are written with `rmcp`.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool},
    service::{RequestContext, serve_server_with_ct},
};
use tokio::io::split;
use toolrack_host::Native;

/// A server called `name`; `handler` is called for each connection, and returns the handler for it.
pub fn rmcp_native<H: ServerHandler>(name: &str, handler: impl Fn() -> H + Send + Sync + 'static) -> Native {
    Native::new(name, move |io, stop| {
        let handler = handler();
        async move {
            // If the handshake fails, the host notices it at its own end of the pipe.
            if let Ok(service) = serve_server_with_ct(handler, split(io), stop).await {
                // The host sees by itself how the connection has ended.
                let _ = service.waiting().await;
            }
        }
    })
}

/// A server called `name` that lists `tools`, and refuses every call.
pub fn listing_native(name: &str, tools: Vec<Tool>) -> Native {
    rmcp_native(name, move || ListingServer(tools.clone()))
}

#[derive(Clone)]
struct ListingServer(Vec<Tool>);

impl ServerHandler for ListingServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.clone()))
    }
}
