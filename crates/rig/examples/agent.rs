//! An agent that is written with Rig, and has the tools of an MCP server.
//!
//! `cargo run -p toolrack-rig --example agent`
//!
//! Model and server are those of the tests, so that this runs without a key and without a network. Any model of Rig's
//! and any command or URL of a server will do.

#![expect(clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{error::Error, sync::Arc};

use rig_agent::AgentBuilder;
use rig_core::test_utils::{MockCompletionModel, MockTurn};
use serde_json::json;
use toolrack_host::{DefaultEffect, Desired, Host, Policy, Provider, Selection, ServerName, ServerSpec, text};
use toolrack_rig::{SAFETY, Snapshot};
use toolrack_testkit::fake_server_path;

/// Adds by means of a tool, and then tries what it may not.
fn model() -> MockCompletionModel {
    MockCompletionModel::from_turns([
        MockTurn::tool_call("one", "mcp__demo__add", json!({"a": 17, "b": 25})),
        MockTurn::tool_call("two", "mcp__demo__write", json!({"path": "/etc/motd"})),
        MockTurn::text("17 and 25 are 42. I was not allowed to write that down."),
    ])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // What servers claim to change nothing runs, and all else is refused: Rig's calls pass the same gate as any other.
    let rules = Policy::new(DefaultEffect::Deny).allow_read_only(true);
    let host = Host::builder().gate(Arc::new(rules)).build();
    let spec = ServerSpec::stdio(fake_server_path().to_string_lossy(), ["stdio"]);
    host.apply(Desired::from([(ServerName::new("demo")?, spec)])).await;
    host.settled().await;

    let selection = Selection::all().only(["demo/add".parse()?, "demo/write".parse()?]);
    let tools = Snapshot::of(&host).selection(selection).provider(Provider::OpenAi).tools();
    for tool in &tools {
        println!("{}: {}", tool.name().as_str(), text::for_line(&tool.definition().description));
    }
    let model = model();
    let agent = AgentBuilder::new(model.clone()).preamble(SAFETY).dynamic_tools(tools).build();
    let answer = agent.prompt("What are 17 and 25? Write it down.").max_turns(3).await?;
    println!("asked {} times; {}", model.request_count(), text::for_terminal(&answer.output()));
    host.shutdown().await;
    Ok(())
}
