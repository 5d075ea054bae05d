//! A server in this process, written by hand, and a host with it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, split},
    sync::watch,
};
use toolrack_code::{Bounds, QuickJs};
use toolrack_host::{
    Call, CallError, Desired, Host, HostBuilder, Native, Selection, ServerName, ServerSpec, ToolOutcome,
};

/// A server of books, and what its calls have done so far.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    pub(crate) calls: Arc<AtomicUsize>,
    /// The running calls of `wait`: how many now, and the most at any time.
    pub(crate) waiting: watch::Sender<(usize, usize)>,
    /// The number of cancelled calls of `wait`.
    pub(crate) cancelled: watch::Sender<usize>,
    /// A call of `wait` is answered once this many have run at the same time.
    pub(crate) together: usize,
}

impl Shelf {
    fn native(self) -> Native {
        Native::new("shelf", move |io, _| self.clone().serve(io))
    }

    async fn serve(self, io: DuplexStream) {
        let (read, mut write) = split(io);
        let mut lines = BufReader::new(read).lines();
        let mut answers = FuturesUnordered::new();
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    if message["method"] == "notifications/cancelled" {
                        self.cancelled.send_modify(|cancelled| *cancelled += 1);
                    }
                    if message.get("id").is_some() {
                        answers.push(self.answer(message));
                    }
                }
                Some(answer) = answers.next() => write.write_all(format!("{answer}\n").as_bytes()).await.unwrap(),
            }
        }
    }

    async fn answer(&self, message: Value) -> Value {
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "shelf", "version": "1" },
            }),
            "tools/list" => json!({ "tools": tools() }),
            "tools/call" => self.call(params["name"].as_str().unwrap(), &params["arguments"]).await,
            _ => return json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32601, "message": "no" } }),
        };
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
    }

    async fn call(&self, name: &str, arguments: &Value) -> Value {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
        match name {
            "count" => {
                json!({ "content": [], "structuredContent": { "pages": arguments["of"].as_str().unwrap().len() } })
            }
            "read" => text(format!("the text of {}", arguments["title"].as_str().unwrap_or("nothing"))),
            "burn" => text("burnt".to_owned()),
            "fail" => json!({ "content": [{ "type": "text", "text": "no such book" }], "isError": true }),
            _ => {
                let mut waiting = self.waiting.subscribe();
                self.waiting.send_modify(|(now, most)| (*now, *most) = (*now + 1, (*most).max(*now + 1)));
                waiting.wait_for(|(_, most)| *most >= self.together).await.unwrap();
                self.waiting.send_modify(|(now, _)| *now -= 1);
                text("waited".to_owned())
            }
        }
    }
}

fn tools() -> Value {
    let text =
        |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    json!([
        {
            "name": "count", "description": "Counts the pages of a book.\nSlowly.", "inputSchema": text("of"),
            "outputSchema": { "type": "object", "properties": { "pages": { "type": "integer" } }, "required": ["pages"] },
        },
        { "name": "read", "description": "Reads a book.", "inputSchema": text("title") },
        { "name": "burn", "inputSchema": { "type": "object" } },
        { "name": "fail", "inputSchema": { "type": "object" } },
        { "name": "wait", "inputSchema": { "type": "object" } },
    ])
}

pub(crate) fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// Starts a host with the servers `my-shelf` and `code`, which runs scripts within `bounds`. Also returns the `Desired`
/// that the host has applied.
pub(crate) async fn host_with_shelf(builder: HostBuilder, shelf: Shelf, bounds: Bounds) -> (Host, Desired) {
    let host = builder.build();
    let mut desired = Desired::from([(name("my-shelf"), ServerSpec::native(shelf.native()))]);
    host.apply(desired.clone()).await;
    host.settled().await;
    let scripts = host.scripts(&name("code"), Selection::all(), Arc::new(QuickJs::new(bounds)));
    desired.insert(name("code"), scripts);
    host.apply(desired.clone()).await;
    host.settled().await;
    (host, desired)
}

pub(crate) async fn default_host() -> Host {
    host_with_shelf(Host::builder(), Shelf::default(), Bounds::default()).await.0
}

/// A call of `run_code`.
pub(crate) fn script(code: &str) -> Call {
    Call::from_map("code/run_code", Map::from_iter([("code".to_owned(), code.into())]))
}

pub(crate) async fn run(host: &Host, code: &str) -> Result<ToolOutcome, CallError> {
    host.call(script(code)).await
}

/// Runs a script that must succeed, and returns what it printed.
pub(crate) async fn printed(host: &Host, code: &str) -> String {
    let outcome = run(host, code).await.unwrap();
    assert!(!outcome.is_error, "{}", outcome.text);
    outcome.text
}

/// Runs a script that must fail, and returns the text for the model.
pub(crate) async fn failure(host: &Host, code: &str) -> String {
    let outcome = run(host, code).await.unwrap();
    assert!(outcome.is_error, "{}", outcome.text);
    outcome.text
}
