//! The least that a gateway can be with the official Rust SDK: `bench-rmcp-proxy COMMAND…` starts a server over stdio
//! and passes tools and calls on over HTTP. No policy, no bounds, no names of its own. It prints its URL and then
//! serves.

#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::{env, sync::Arc};

use axum::serve::ListenerExt as _;
use rmcp::{
    ErrorData, RoleClient, RoleServer, ServerHandler, ServiceError, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
        ServerConfig,
    },
    service::{RequestContext, RunningService},
    transport::{
        TokioChildProcess,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use tokio::{net::TcpListener, process::Command};
use toolrack_bench::Trouble;

/// Shared by all sessions, as the server behind it is.
#[derive(Clone, Debug)]
struct Proxy(Arc<RunningService<RoleClient, ()>>);

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(passed_on)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request).await.map(Into::into).map_err(passed_on)
    }
}

fn passed_on(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        error => ErrorData::internal_error(error.to_string(), None),
    }
}

fn main() -> Result<(), Trouble> {
    // What the SDK's own examples use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Trouble> {
    let mut words = env::args().skip(1);
    let mut command = Command::new(words.next().ok_or("usage: bench-rmcp-proxy COMMAND…")?);
    command.args(words);
    let proxy = Proxy(Arc::new(().serve(TokioChildProcess::new(command)?).await?));
    let service: StreamableHttpService<Proxy, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(proxy.clone()), Arc::default(), StreamableHttpServerConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // An event stream is written in pieces, which otherwise wait for each other (Nagle's algorithm) for 40 ms a call.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
