//! A turn with four kinds of calls: one needs no approval, one is approved, one is approved with changed arguments, and
//! one is refused. The model gets the result of each.
//!
//! `cargo run -p toolrack-agent --example approvals`
//!
//! The model and the server are those of the tests, so the example needs no key and no network.

#![expect(clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{error::Error, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolrack_agent::{Agent, Limits, Message, NoopFront, Role, Turn, model::Scripted};
use toolrack_host::{
    Abilities, Asker, Desired, Host, Policy, ServerName, ServerSpec,
    ask::{Confirm, Confirmed},
    text,
};
use toolrack_testkit::fake_server_path;

/// Refuses destructive calls, hides the code of the door in the arguments, and approves all other calls. A program
/// could ask a user here; the time-outs of the call pause meanwhile.
struct Careful;

impl Asker for Careful {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        let body = question.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        let answer = if question.destructive {
            Confirmed::No { why: Some("nothing is written today".to_owned()) }
        } else if body.contains("1234") {
            let mut arguments = question.arguments.clone();
            arguments.insert("text".to_owned(), body.replace("1234", "****").into());
            Confirmed::Edited(arguments)
        } else {
            Confirmed::Yes
        };
        let what = format!("{}/{}", question.server, text::for_line(&question.tool));
        println!("{what} with {}, {}? {answer:?}", Value::from(question.arguments), question.why);
        Box::pin(async { answer })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A deny rule wins over a confirm rule, and a confirm rule over an allow rule. Calls that match no rule need
    // approval.
    let rules = Policy::default().allow("demo/add".parse()?);
    let host = Host::builder().gate(Arc::new(rules)).build();
    let spec = ServerSpec::stdio(fake_server_path().to_string_lossy(), ["stdio"]);
    host.apply(Desired::from([(ServerName::new("demo")?, spec)])).await;
    host.settled().await;

    let model = Scripted::new()
        .call_tool("mcp__demo__add", json!({"a": 1, "b": 2}))
        .call_tool("mcp__demo__echo", json!({"text": "the door opens at nine"}))
        .call_tool("mcp__demo__echo", json!({"text": "the code of the door is 1234"}))
        .call_tool("mcp__demo__write", json!({"path": "/etc/motd"}))
        .say("Three of four.");
    let mut agent = Agent::new(Arc::new(model), host.clone());
    agent.asker = Some(Arc::new(Careful));
    let mut turn = Turn::new(vec![Message::new(Role::User, "Tell all of them.")], Limits::default());
    agent.run(&mut turn, &mut NoopFront).await?;
    for message in turn.messages().iter().filter(|message| message.role == Role::Tool) {
        println!("the model gets: {}", text::for_line(&message.content));
    }
    host.shutdown().await;
    Ok(())
}
