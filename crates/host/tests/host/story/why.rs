//! Why is this tool not there?

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::json;
use toolrack_host::{
    Call, Era, Host, ServerSpec, ToolFilter, Why,
    spec::{Source, Trust},
};

use crate::{
    scripted::{Reaction, Scripted, tool},
    worlds::{settle, soon, state_is, world},
};

async fn host() -> Host {
    let present = json!({"name": "present", "inputSchema": {"type": "object"}});
    let tools =
        [tool("hidden"), json!({"name": "broken", "inputSchema": 3}), present.clone(), tool("twice"), tool("twice")];
    let mut good = Scripted::plain().with_tools(tools).spec();
    good.tools = ToolFilter::new(&[], &["hidden".into()]).unwrap();
    let unlisted = Scripted::new(toolrack_host::Era::Legacy, |method, _| {
        (method == "tools/list").then_some(Reaction::Refuse(-32603))
    });
    let host = Host::builder().build();
    let desired = world([
        ("good", good),
        ("off", ServerSpec { enabled: false, ..Scripted::plain().spec() }),
        ("pending", ServerSpec { trust: Trust::Pending, ..Scripted::plain().spec() }),
        ("missing", ServerSpec::stdio("/no/such/program", [""; 0])),
        ("unlisted", unlisted.spec()),
    ]);
    settle(&host, desired).await;
    host
}

/// The stages in order, the one that failed marked.
fn stages(why: &Why) -> String {
    let word = |step: &toolrack_host::WhyStep| if step.ok { step.stage.to_owned() } else { format!("!{}", step.stage) };
    why.steps.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn the_error_for_a_server_that_never_speaks_mcp_quotes_its_first_output() {
    let server = Scripted::new(Era::Legacy, |_, _| Some(Reaction::Silence));
    let host = Host::builder().build();
    let mut spec = server.spec();
    spec.timeouts.startup = Duration::from_secs(5);
    host.apply(world([("noisy", spec)])).await;
    server.hears_of("server/discover").await;
    for line in ["Listening on\u{1b}[2J port 3000", "Ready"] {
        server.say(json!(line));
    }
    soon("settle", host.settled()).await;
    let why = host.why("noisy");
    let what = &why.steps.last().unwrap().what;
    assert!(what.starts_with("the server did not finish the handshake within 5 s (startup_timeout)"), "{what}");
    let sent = r#"; 2 times it sent output that is not an MCP message: "Listening on\u001b[2J port 3000""#;
    assert!(what.contains(sent), "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_connects_again_is_not_said_to_be_connected() {
    let connections = AtomicUsize::new(0);
    let server = Scripted::new(Era::Legacy, move |method, _| match method {
        "tools/call" => Some(Reaction::HangUp),
        "initialize" if connections.fetch_add(1, Ordering::SeqCst) > 0 => Some(Reaction::Silence),
        _ => None,
    });
    let host = Host::builder().build();
    settle(&host, world([("server", server.spec())])).await;
    host.call(Call::new("server/echo", json!({})).unwrap()).await.unwrap_err();
    state_is(&host, "server", "connecting").await;
    let why = host.why("server/echo");
    assert_eq!(stages(&why), "config trust !start", "{why}");
    assert_eq!(why.steps.last().unwrap().what, "connecting");
}

#[tokio::test]
async fn every_absence_has_a_first_cause_and_says_it() {
    let host = host().await;
    for (selector, walked, expected) in [
        ("good/present", "config trust start negotiation list filter name", "models see it as mcp__good__present"),
        ("good/hidden", "config trust start negotiation list !filter", "deny"),
        ("good/broken", "config trust start negotiation !list", "inputSchema is not an object"),
        ("good/nothing", "config trust start negotiation !list", "not one of them"),
        ("unlisted/any", "config trust start negotiation !list", "no tools/list here"),
        ("missing/any", "config trust !start", "/no/such/program"),
        ("pending/any", "config !trust", "not trusted in this folder"),
        ("off/any", "!config", "disabled in"),
        ("nobody/any", "!config", "configured: good, missing, off, pending, unlisted"),
    ] {
        let why = host.why(selector);
        assert_eq!(stages(&why), walked, "{why}");
        assert_eq!(why.present, selector == "good/present", "{why}");
        let last = &why.steps.last().unwrap().what;
        assert!(last.contains(expected), "{selector}: {last}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_that_is_there_is_found_by_each_of_its_names() {
    let host = host().await;
    for selector in ["good/present", "good.present", "mcp__good__present"] {
        assert!(host.why(selector).present, "{}", host.why(selector));
    }
    host.shutdown().await;
}

/// The second of two tools of one name cannot be used, the first can.
#[tokio::test]
async fn a_tool_that_is_listed_twice_is_there() {
    let host = host().await;
    assert!(host.catalog().select("good/twice").is_ok());
    let why = host.why("good/twice");
    assert!(why.present, "{why}");
    let unusable = host.status().into_iter().find(|server| server.name.as_str() == "good").unwrap().unusable;
    assert_eq!(unusable.iter().filter(|tool| tool.name == "twice").count(), 1, "{unusable:?}");
    host.shutdown().await;
}

/// The errors of a call for a server that never starts, and for one that answers nothing, of a host with or without private
/// output.
async fn errors(is_private: bool) -> [String; 2] {
    let silent = Scripted::new(Era::Legacy, |method, _| (method == "tools/call").then_some(Reaction::Silence));
    let mut slow = silent.with_tools([tool("wait")]).spec();
    slow.timeouts.call = Duration::from_secs(5);
    let specs = [("missing", ServerSpec::stdio("/no/such/program", [""; 0])), ("slow", slow)];
    let specs = specs.map(|(name, mut spec)| {
        spec.source = Source::file("user", "/srv/team/acme/mcp.json");
        (name, spec)
    });
    let host = Host::builder().private_output(is_private).build();
    settle(&host, world(specs)).await;
    let mut errors = Vec::new();
    for address in ["missing/any", "slow/wait"] {
        errors.push(host.call(Call::new(address, json!({})).unwrap()).await.unwrap_err().to_string());
    }
    host.shutdown().await;
    errors.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_file_of_the_server_s_entry_unless_callers_share_the_server() {
    for error in errors(false).await {
        assert!(error.contains("(/srv/team/acme/mcp.json)"), "{error}");
    }
    for error in errors(true).await {
        assert!(error.contains("(the shared configuration)") && !error.contains("/srv"), "{error}");
    }
}
