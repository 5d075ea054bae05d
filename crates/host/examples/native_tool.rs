//! Offers a tool of this program as an MCP server in this process; a call of it takes the same path as a call of any
//! other tool.
//!
//! `cargo run -p toolrack-host --example native_tool`

#![expect(clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::error::Error;

use rmcp::{
    ServerHandler, handler::server::wrapper::Parameters, service::serve_server_with_ct, tool, tool_handler, tool_router,
};
use serde_json::json;
use tokio::io::split;
use toolrack_host::{Call, Desired, Host, Native, ServerName, ServerSpec};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: f64,
    b: f64,
}

#[derive(Clone)]
struct Calculator;

#[tool_router]
impl Calculator {
    #[tool(description = "Adds two numbers", annotations(read_only_hint = true))]
    fn add(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Calculator {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder().build();
    let native = Native::new("calculator", |io, stop| async move {
        // The host sees a failed handshake at its own end, and reports why.
        if let Ok(service) = serve_server_with_ct(Calculator, split(io), stop).await {
            let _ = service.waiting().await;
        }
    });
    let spec = ServerSpec::native(native);
    host.apply(Desired::from([(ServerName::new("calculator")?, spec)])).await;
    host.settled().await;
    let arguments = json!({"a": 17, "b": 25}).as_object().cloned().unwrap_or_default();
    println!("{}", host.call(Call::from_map("calculator/add", arguments)).await?.text);
    host.shutdown().await;
    Ok(())
}
