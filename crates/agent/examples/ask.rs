//! One turn: a model asks for a tool of an MCP server, gets its result and answers. The program prints each event.
//!
//! `cargo run -p toolrack-agent --example ask`
//!
//! The model and the server are those of the tests, so the example needs no key and no network. Use
//! `toolrack_agent::model::ModelSettings` for a real model, and any command or URL for a server.

#![expect(clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{error::Error, sync::Arc};

use serde_json::json;
use toolrack_agent::{
    Agent, Delta, Front, Limits, Message, Role, Turn, TurnEvent,
    model::{Model, Scripted},
};
use toolrack_host::{Desired, Host, ServerName, ServerSpec, text};
use toolrack_testkit::fake_server_path;

/// Prints each event. A front that stores conversations also implements `store`.
struct Printer;

impl Front for Printer {
    fn on_event(&mut self, event: TurnEvent<'_>) {
        match event {
            TurnEvent::Asked { round } => println!("round {round}"),
            // Text of models and servers is untrusted: remove its control characters before a terminal prints it.
            TurnEvent::Delta(Delta::Text(piece)) => println!("  says {}", text::for_line(piece)),
            TurnEvent::CallBegins(call) => println!("  calls {} {}", text::for_line(&call.name), call.input),
            TurnEvent::CallEnds { text, is_error, took, .. } => {
                println!(
                    "  {} {:?} after {took:?}",
                    if is_error { "fails:" } else { "gets" },
                    text::for_terminal(text)
                );
            }
            _ => {}
        }
    }
}

/// Returns a model that calls the tool `add` to add two numbers.
fn model() -> Arc<dyn Model> {
    let model = Scripted::new().call_tool("mcp__demo__add", json!({"a": 17, "b": 25}));
    Arc::new(model.say("17 and 25 are 42."))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder().build();
    let spec = ServerSpec::stdio(fake_server_path().to_string_lossy(), ["stdio"]);
    host.apply(Desired::from([(ServerName::new("demo")?, spec)])).await;
    host.settled().await;

    let mut agent = Agent::new(model(), host.clone());
    agent.system = Some("You add numbers with a tool, never in your head.".to_owned());
    let mut turn = Turn::new(vec![Message::new(Role::User, "What are 17 and 25?")], Limits::default());
    let end = agent.run(&mut turn, &mut Printer).await?;
    println!("{end:?} in {} rounds, {} messages", turn.rounds(), turn.messages().len());

    // The next turn begins with the messages of this one.
    let mut messages = turn.into_messages();
    messages.push(Message::new(Role::User, "Are you sure?"));
    agent.model = Arc::new(Scripted::new().say("The tool is."));
    agent.run(&mut Turn::new(messages, Limits::default()), &mut Printer).await?;
    host.shutdown().await;
    Ok(())
}
