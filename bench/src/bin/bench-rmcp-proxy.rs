//! The simplest gateway that can be made with the official Rust SDK: `bench-rmcp-proxy COMMAND…` starts a server over
//! stdio, and passes its tools and calls on over HTTP. It has no policy and no bounds, and does not rename tools. It
//! prints its URL and then serves.

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
use toolrack_bench::AnyError;

/// The connection to the server, which all sessions share.
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
        self.0.list_tools(request).await.map_err(to_error_data)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request).await.map(Into::into).map_err(to_error_data)
    }
}

fn to_error_data(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        error => ErrorData::internal_error(error.to_string(), None),
    }
}

fn main() -> Result<(), AnyError> {
    // The runtime that the SDK's own examples use.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), AnyError> {
    let mut words = env::args().skip(1);
    let mut command = Command::new(words.next().ok_or("usage: bench-rmcp-proxy COMMAND…")?);
    command.args(words);
    let proxy = Proxy(Arc::new(().serve(TokioChildProcess::new(command)?).await?));
    let service: StreamableHttpService<Proxy, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(proxy.clone()), Arc::default(), StreamableHttpServerConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // An event stream is written in pieces. With Nagle's algorithm they would wait for each other, 40 ms in each call.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
