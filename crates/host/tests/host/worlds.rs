//! Shorthands: building worlds, calling tools, waiting for events.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};
use toolrack_host::{Call, CallError, Desired, Event, Host, ServerName, ServerSpec, ServerStatus, ToolOutcome};
use toolrack_testkit::fake_server_path;

/// The time limit for events that must happen. It is reached only if a test fails.
const SOON: Duration = Duration::from_secs(20);

pub(crate) fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

pub(crate) fn world<const N: usize>(entries: [(&str, ServerSpec); N]) -> Desired {
    entries.into_iter().map(|(server, spec)| (name(server), spec)).collect()
}

/// The testkit's fake server as a child process.
pub(crate) fn fake(args: &[&str]) -> ServerSpec {
    let program = fake_server_path().to_str().unwrap();
    ServerSpec::stdio(program, ["stdio"].iter().chain(args).copied())
}

/// Applies a world and waits until every server has connected, or failed to.
pub(crate) async fn settle(host: &Host, desired: Desired) {
    host.apply(desired).await;
    soon("settle", host.settled()).await;
}

/// A host with default settings and this world.
pub(crate) async fn host_of<const N: usize>(entries: [(&str, ServerSpec); N]) -> Host {
    let host = Host::builder().build();
    settle(&host, world(entries)).await;
    host
}

/// A call, to be sent or changed further.
#[expect(clippy::needless_pass_by_value, reason = "reads as a literal where it is used")]
pub(crate) fn to_call(selector: &str, arguments: Value) -> Call {
    Call::from_map(selector, members(&arguments))
}

pub(crate) fn members(object: &Value) -> Map<String, Value> {
    object.as_object().unwrap().clone()
}

pub(crate) async fn call(host: &Host, selector: &str, arguments: Value) -> Result<ToolOutcome, CallError> {
    host.call(to_call(selector, arguments)).await
}

/// The text of a call that goes well.
pub(crate) async fn text(host: &Host, selector: &str, arguments: Value) -> String {
    let outcome = call(host, selector, arguments).await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    assert!(!outcome.is_error, "{selector}: {}", outcome.text);
    outcome.text
}

/// Every tool, as `server/tool`, in order.
pub(crate) fn selectors(host: &Host) -> Vec<String> {
    let mut selectors: Vec<_> = host.catalog().tools().map(toolrack_host::CatalogTool::selector).collect();
    selectors.sort();
    selectors
}

pub(crate) fn status(host: &Host, server: &str) -> ServerStatus {
    let all = host.status();
    all.into_iter().find(|status| status.name.as_str() == server).unwrap_or_else(|| panic!("no server {server}"))
}

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    timeout(SOON, happens).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

/// Waits until the catalog has, or has no longer, this tool.
pub(crate) async fn catalog_has(host: &Host, selector: &str, has: bool) {
    // Subscribe before the first look, so that no change is missed.
    let mut events = host.events();
    let turns = async {
        while host.catalog().select(selector).is_ok() != has {
            events.recv().await.unwrap();
        }
    };
    soon(&format!("{selector} in the catalog: {has}"), turns).await;
}

/// Waits for the first event that is wanted.
pub(crate) async fn event<T>(events: &mut Receiver<Event>, wanted: impl Fn(&Event) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = wanted(&events.recv().await.unwrap()) {
                return found;
            }
        }
    };
    soon("an event", found).await
}

/// The wanted events so far; the rest is dropped.
pub(crate) fn events_so_far<T>(events: &mut Receiver<Event>, wanted: impl Fn(&Event) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    loop {
        match events.try_recv() {
            Ok(event) => found.extend(wanted(&event)),
            Err(tokio::sync::broadcast::error::TryRecvError::Lagged(missed)) => panic!("{missed} events were missed"),
            Err(_) => return found,
        }
    }
}

/// Waits until the state of a server is as wanted.
pub(crate) async fn state_is(host: &Host, server: &str, word: &str) {
    let mut events = host.events();
    let turns = async {
        while status(host, server).state.word() != word {
            match events.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("the host is gone"),
            }
        }
    };
    soon(&format!("{server} is {word}"), turns).await;
}
