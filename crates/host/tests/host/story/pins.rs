//! Tools stay as they were approved: a tool that changes waits, and the others can be used.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use tokio::sync::Notify;
use toolrack_host::{
    Abilities, Asker, CallError, CallErrorKind, DefaultEffect, Event, Host, Memory, PinMode, Pins, Policy, ServerName,
    ServerSpec, Start,
    ask::{Confirm, Confirmed},
    pins::{Cause, Pin, PinComparison, PinMismatch, PinnedServer, PinsUnreadable, StoredPins},
    spec::Era,
};

use crate::{
    scripted::{Scripted, tool},
    worlds::{call, catalog_has, event, fake, settle, soon, status, text, to_call, world},
};

/// Pins in memory.
#[derive(Default)]
struct Book {
    pins: Mutex<BTreeMap<String, Pin>>,
    generation: Mutex<u64>,
    mismatches: Mutex<Vec<PinMismatch>>,
    unreadable: AtomicBool,
}

impl Book {
    /// Approves what is in quarantine as `tool`.
    fn release(&self, tool: &str) {
        let mut mismatches = self.mismatches.lock().unwrap();
        let at = mismatches.iter().position(|mismatches| mismatches.tool == tool).unwrap();
        let PinMismatch { definition, .. } = mismatches.remove(at);
        self.pins.lock().unwrap().insert(tool.to_owned(), Pin { definition, renamed_to: None });
        *self.generation.lock().unwrap() += 1;
    }

    fn held(&self) -> Vec<(String, Cause)> {
        let mismatches = self.mismatches.lock().unwrap();
        mismatches.iter().map(|mismatches| (mismatches.tool.clone(), mismatches.cause.clone())).collect()
    }
}

impl Pins for Book {
    fn recall<'a>(&'a self, _: &'a PinnedServer, _: &'a [u8; 32]) -> BoxFuture<'a, Result<StoredPins, PinsUnreadable>> {
        async move {
            if self.unreadable.load(Ordering::Relaxed) {
                return Err(PinsUnreadable { why: "the disk is on fire".to_owned() });
            }
            let (generation, pins) = (*self.generation.lock().unwrap(), self.pins.lock().unwrap().clone());
            Ok(StoredPins::Pins { generation, pins })
        }
        .boxed()
    }

    fn generation<'a>(&'a self, _: &'a PinnedServer) -> BoxFuture<'a, Option<u64>> {
        async move { Some(*self.generation.lock().unwrap()) }.boxed()
    }

    fn record_comparison<'a>(&'a self, _: &'a PinnedServer, seen: PinComparison) -> BoxFuture<'a, ()> {
        async move {
            let new = seen.new.into_iter().map(|(tool, definition)| (tool, Pin { definition, renamed_to: None }));
            self.pins.lock().unwrap().extend(new);
            *self.mismatches.lock().unwrap() = seen.mismatches;
        }
        .boxed()
    }
}

/// A host that pins, with a server that changes when `tools_changed` is called.
async fn turning(faults: &[&str], pins: Option<PinMode>) -> (Host, Arc<Book>) {
    let book = Arc::<Book>::default();
    let host = Host::builder().pins(Arc::<Book>::clone(&book)).build();
    let faults = faults.iter().flat_map(|fault| ["--fault", fault]);
    let args: Vec<&str> = faults.chain(["--fault", "later"]).collect();
    settle(&host, world([("fs", ServerSpec { pins, ..fake(&args) })])).await;
    (host, book)
}

async fn turns(host: &Host) {
    text(host, "fs/tools_changed", json!({ "add": "another" })).await;
    catalog_has(host, "fs/another", true).await;
}

fn quarantined(error: &CallError) -> &Cause {
    let CallError::Quarantined { cause, .. } = error else { panic!("{error:?}") };
    assert_eq!((error.kind(), error.code()), (CallErrorKind::NotTrusted, "QUARANTINED"));
    cause
}

#[tokio::test]
async fn a_tool_that_changes_while_its_server_runs_is_not_called_until_it_is_approved() {
    let (host, book) = turning(&["redescribes=echo"], None).await;
    assert_eq!(text(&host, "fs/echo", json!({ "text": "hi" })).await, "hi");
    let before = host.catalog();
    let mut events = host.events();
    turns(&host).await;

    let report = |event: &Event| match event {
        Event::McpToolQuarantined { quarantined, .. } => Some(quarantined.clone()),
        _ => None,
    };
    let report = event(&mut events, report).await;
    assert_eq!((report.tool.as_str(), &report.cause, report.usable), ("echo", &Cause::Changed, false));
    assert!(host.catalog().select("fs/echo").is_err(), "no model is offered it");
    assert_eq!(host.catalog().quarantined().len(), 1);
    assert_eq!(status(&host, "fs").quarantined.len(), 1);

    let error = call(&host, "fs/echo", json!({ "text": "hi" })).await.unwrap_err();
    assert_eq!(quarantined(&error), &Cause::Changed);
    assert!(error.to_string().contains("`toolrack trust diff fs/echo`"), "{error}");
    let by_name = call(&host, "mcp__fs__echo", json!({ "text": "hi" })).await.unwrap_err();
    quarantined(&by_name);
    let of_old_catalog = host.call(to_call("fs/echo", json!({ "text": "hi" })).in_catalog(before)).await.unwrap_err();
    quarantined(&of_old_catalog);
    assert_eq!(text(&host, "fs/add", json!({ "a": 1, "b": 2 })).await, "3");
    let why = host.why("fs/echo");
    assert!(!why.present && why.steps.last().is_some_and(|step| step.stage == "pins" && !step.ok), "{why}");

    book.release("echo");
    // An approval needs no call to the host: it looks again before it refuses.
    assert_eq!(text(&host, "fs/echo", json!({ "text": "hi" })).await, "hi");
    // The catalog follows the server, a moment later.
    host.settled().await;
    assert!(host.catalog().quarantined().len() == 0 && host.catalog().select("fs/echo").is_ok());
    host.shutdown().await;
}

#[tokio::test]
async fn another_process_approves_and_the_tool_is_offered_again() {
    let (host, book) = turning(&["redescribes=echo"], None).await;
    turns(&host).await;
    assert_eq!(book.held(), [("echo".to_owned(), Cause::Changed)]);
    book.release("echo");
    catalog_has(&host, "fs/echo", true).await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_under_another_name_and_a_new_claim_to_be_harmless_are_changes_too() {
    let (host, book) = turning(&["renames=add", "flips-hints=write"], None).await;
    turns(&host).await;
    let renamed = Cause::Renamed { was: "add".to_owned() };
    assert_eq!(book.held(), [("write".to_owned(), Cause::Changed), ("renamed".to_owned(), renamed.clone())]);
    assert_eq!(quarantined(&call(&host, "fs/renamed", json!({})).await.unwrap_err()), &renamed);
    assert_eq!(quarantined(&call(&host, "fs/write", json!({})).await.unwrap_err()), &Cause::Changed);
    // A new tool that resembles no removed tool is pinned as it is.
    assert_eq!(text(&host, "fs/another", json!({})).await, "another");
    host.shutdown().await;
}

#[tokio::test]
async fn pins_that_warn_stop_nothing_and_pins_that_are_off_say_nothing() {
    let (host, book) = turning(&["redescribes=echo"], Some(PinMode::Warn)).await;
    turns(&host).await;
    assert_eq!(text(&host, "fs/echo", json!({ "text": "hi" })).await, "hi");
    let status = status(&host, "fs");
    assert!(status.quarantined[0].usable && status.warnings[0].contains("echo"), "{:?}", status.warnings);
    assert_eq!(book.held().len(), 1);
    host.shutdown().await;

    let (host, book) = turning(&["redescribes=echo"], Some(PinMode::Off)).await;
    turns(&host).await;
    assert_eq!(text(&host, "fs/echo", json!({ "text": "hi" })).await, "hi");
    assert!(book.held().is_empty() && book.pins.lock().unwrap().is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn while_pins_cannot_be_read_nothing_is_called_and_afterwards_all_is_as_before() {
    let book = Arc::<Book>::default();
    book.unreadable.store(true, Ordering::Relaxed);
    let host = Host::builder().pins(Arc::<Book>::clone(&book)).build();
    settle(&host, world([("fs", fake(&[]))])).await;
    let error = call(&host, "fs/echo", json!({ "text": "hi" })).await.unwrap_err();
    assert!(matches!(quarantined(&error), Cause::Unchecked { why } if why.contains("fire")), "{error}");
    book.unreadable.store(false, Ordering::Relaxed);
    assert_eq!(text(&host, "fs/echo", json!({ "text": "hi" })).await, "hi");
    host.shutdown().await;
}

/// Remembers one list of tools, and returns it for every server.
struct Kept(Mutex<Option<Bytes>>);

impl Memory for Kept {
    fn era<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<Era>> {
        async { None }.boxed()
    }
    fn remember_era<'a>(&'a self, _: &'a str, _: Era) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
    fn tools<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        async { self.0.lock().unwrap().clone() }.boxed()
    }
    fn remember_tools<'a>(&'a self, _: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        async { *self.0.lock().unwrap() = Some(tools) }.boxed()
    }
}

#[tokio::test]
async fn tools_that_are_known_from_before_are_held_against_their_pins_too() {
    let (book, kept) = (Arc::<Book>::default(), Arc::new(Kept(Mutex::default())));
    let start = |args: &[&str]| {
        let spec = ServerSpec { start: Start::Lazy, ..fake(args) };
        let host = Host::builder().pins(Arc::<Book>::clone(&book)).memory(Arc::<Kept>::clone(&kept)).build();
        async move {
            settle(&host, world([("fs", spec)])).await;
            host
        }
    };
    let host = start(&[]).await;
    host.shutdown().await;
    // Another program keeps the list of a server that has changed.
    let turned = Host::builder().memory(Arc::<Kept>::clone(&kept)).build();
    let spec = ServerSpec { start: Start::Lazy, ..fake(&["--fault", "redescribes=echo"]) };
    *kept.0.lock().unwrap() = None;
    settle(&turned, world([("fs", spec)])).await;
    turned.shutdown().await;

    let host = start(&["--fault", "redescribes=echo"]).await;
    assert_eq!(status(&host, "fs").state.word(), "idle");
    assert!(host.catalog().select("fs/echo").is_err());
    quarantined(&call(&host, "fs/echo", json!({ "text": "hi" })).await.unwrap_err());
    assert_eq!(status(&host, "fs").state.word(), "idle", "nothing was started for it");
    host.shutdown().await;
}

/// An asker that says yes as soon as the test allows it to answer.
#[derive(Default)]
struct Slow {
    asked: Notify,
    yes: Notify,
}

impl Asker for Slow {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }
    fn confirm(&self, _: Confirm) -> BoxFuture<'_, Confirmed> {
        async {
            self.asked.notify_one();
            self.yes.notified().await;
            Confirmed::Yes
        }
        .boxed()
    }
}

#[tokio::test]
async fn an_approval_covers_only_the_shown_tool() {
    let server = Scripted::plain().with_tools([tool("write"), tool("read")]);
    let slow = Arc::<Slow>::default();
    let rules = Policy::new(DefaultEffect::Confirm);
    let host = Host::builder().asker(Arc::<Slow>::clone(&slow)).gate(Arc::new(rules)).build();
    settle(&host, world([("fs", server.spec())])).await;

    let mut other = tool("write");
    other["description"] = json!("Writes everywhere.");
    for (tools, passes) in [
        (vec![tool("write"), tool("new")], true),
        (vec![other, tool("new2")], false),
        (vec![tool("write"), tool("new3")], false),
        (vec![tool("read"), tool("new4")], false),
    ] {
        let call = call(&host, "fs/write", json!({}));
        let changes = async {
            slow.asked.notified().await;
            let new = tools[1]["name"].as_str().unwrap().to_owned();
            server.set_tools(tools.clone());
            server.say_changed();
            catalog_has(&host, &format!("fs/{new}"), true).await;
            slow.yes.notify_one();
        };
        let (called, ()) = soon("an answer", Box::pin(async { tokio::join!(call, changes) })).await;
        match called {
            Ok(_) => assert!(passes),
            Err(error) => {
                assert!(!passes && error.code() == "DENIED", "{error}");
                assert!(error.to_string().contains("changed while a user was asked"), "{error}");
            }
        }
    }
    assert_eq!(server.count_of("tools/call"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn the_same_name_in_another_file_is_another_server() {
    let name = ServerName::new("fs").unwrap();
    let placed = |path: &str, args: &[&str]| {
        let source = toolrack_host::spec::Source::file("user", path);
        PinnedServer::of(&name, &ServerSpec { source, ..fake(args) })
    };
    assert_eq!(
        placed("/a/mcp.json", &[]),
        placed("/a/mcp.json", &["--tools", "2"]),
        "its next version is the same server"
    );
    assert_ne!(placed("/a/mcp.json", &[]), placed("/b/mcp.json", &[]));
    // A server without a file is known by its command alone.
    assert_ne!(PinnedServer::of(&name, &fake(&[])), PinnedServer::of(&name, &fake(&["--tools", "2"])));
}
