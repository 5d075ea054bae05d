//! Connects to a server, lists its tools and calls one.
//!
//! `cargo run -p toolrack-host --example connect_and_call -- npx -y @modelcontextprotocol/server-everything`

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{env, error::Error};

use serde_json::json;
use toolrack_host::{Call, Host, ServerSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let command = words.next().ok_or("give the command of an MCP server")?;
    let spec = match command.starts_with("http") {
        true => ServerSpec::http(command),
        false => ServerSpec::stdio(command, words),
    };
    // A host reads no environment. A server gets the given variables that its spec selects: here PATH and a few others.
    let host = Host::builder().environment(env::vars_os()).build();
    host.add("demo", spec).await?;
    host.settled().await;
    for server in host.status() {
        println!("{}: {} {:?} {:?}", server.name, server.state.word(), server.protocol_version, server.state.error());
    }
    for tool in host.catalog().tools() {
        println!("  {} ({} tokens)", tool.name, tool.tokens());
    }
    match host.call(Call::new("demo/echo", json!({"message": "hello"}))?).await {
        Ok(outcome) => println!("{}", outcome.text),
        Err(error) => println!("{error}"),
    }
    host.shutdown().await;
    Ok(())
}
