//! Answers the questions of servers: forms, URLs, roots, and whether a call may run.
//!
//! `cargo run -p toolrack-host --example asker -- npx -y @modelcontextprotocol/server-everything`

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own, for people to read")]

use std::{env, error::Error, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Map, json};
use toolrack_host::{
    Abilities, Asker, Call, Desired, Host, Policy, ServerName, ServerSpec,
    ask::{Confirm, Confirmed, Elicitation, Elicited, Root},
    spec::Transport,
};

/// Prints each question, and agrees.
struct Agreeable;

impl Asker for Agreeable {
    // The host declares only these abilities to servers.
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, forms: true, roots: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        println!("may {}/{} run? ({})", question.server, question.tool, question.why);
        Box::pin(async { Confirmed::Yes })
    }

    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        println!("{server} asks: {question:?}");
        // The host fills missing fields with the defaults of the form.
        let fields = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
        Box::pin(async { Elicited::Accept(fields) })
    }

    fn roots(&self, _: ServerName) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(async { vec![Root { uri: "file:///tmp/example".into(), name: Some("example".into()) }] })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let mut spec = ServerSpec::stdio(words.next().ok_or("give the command of an MCP server")?, words);
    if let Transport::Stdio(stdio) = &mut spec.transport {
        stdio.env.insert("PATH".into(), env::var("PATH")?);
    }
    // `Policy` asks for a confirmation of each call that no rule allows.
    let host = Host::builder().asker(Arc::new(Agreeable)).gate(Arc::new(Policy::default())).build();
    host.apply(Desired::from([(ServerName::new("demo")?, spec)])).await;
    host.settled().await;
    for tool in ["trigger-elicitation-request", "get-roots-list"] {
        match host.call(Call::from_map(format!("demo/{tool}"), Map::new())).await {
            Ok(outcome) => println!("{}", outcome.text),
            Err(error) => println!("{error}"),
        }
    }
    host.shutdown().await;
    Ok(())
}
