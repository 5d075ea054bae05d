//! A hand-written server in this process, whose answers a test scripts exactly.
//!
//! It answers the handshake and `tools/list` by itself, unless its script does; the script answers everything else. It
//! keeps every message that it received.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf, split},
    sync::{broadcast, watch},
    time::sleep,
};
use toolrack_host::{Era, Native, ServerSpec};

use crate::worlds::soon;

/// What a server does with one request.
#[derive(Debug)]
pub(crate) enum Reaction {
    /// Answers with this result.
    Answer(Value),
    /// Answers with this result after a while. Other requests do not wait for it.
    After(Duration, Value),
    /// Sends these messages, then answers with this result.
    Tell(Vec<Value>, Value),
    /// Answers with an error of this code.
    Refuse(i64),
    /// Accepts a subscription, which then stays open.
    Acknowledge,
    /// Never answers.
    Silence,
    /// Closes the connection.
    HangUp,
}

/// A report of progress on the call that these parameters belong to.
pub(crate) fn progress(call: &Value, progress: usize) -> Value {
    let params = json!({"progressToken": call["_meta"]["progressToken"], "progress": progress});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

type Script = Box<dyn Fn(&str, &Value) -> Option<Reaction> + Send + Sync>;

/// The server. Its clones are the same server.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Stage>);

struct Stage {
    era: Era,
    script: Script,
    tools: Mutex<Vec<Value>>,
    /// Every message that it received, on all connections.
    seen: watch::Sender<Vec<Value>>,
    /// How many connections were made.
    connections: watch::Sender<usize>,
    out: broadcast::Sender<Value>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("era", &self.0.era).finish_non_exhaustive()
    }
}

/// A tool that takes anything.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}})
}

/// A result of one text.
pub(crate) fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

impl Scripted {
    /// A server with the tool `echo`, which answers `done`; `script` overrides that. It gets the method and the
    /// parameters of each request; `None` leaves the answer to the server.
    pub(crate) fn new(era: Era, script: impl Fn(&str, &Value) -> Option<Reaction> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Stage {
            era,
            script: Box::new(script),
            tools: Mutex::new(vec![tool("echo")]),
            seen: watch::Sender::default(),
            connections: watch::Sender::default(),
            out: broadcast::Sender::new(64),
        }))
    }

    /// A legacy server that needs no script.
    pub(crate) fn plain() -> Self {
        Self::new(Era::Legacy, |_, _| None)
    }

    /// A legacy server whose tools react like this; `react` gets the tool's name and arguments.
    pub(crate) fn calling(react: impl Fn(&str, &Value) -> Reaction + Send + Sync + 'static) -> Self {
        Self::new(Era::Legacy, move |method, params| {
            let name = params["name"].as_str().unwrap_or_default();
            (method == "tools/call").then(|| react(name, &params["arguments"]))
        })
    }

    /// The same server with these tools.
    pub(crate) fn with_tools(self, tools: impl IntoIterator<Item = Value>) -> Self {
        self.set_tools(tools);
        self
    }

    /// Changes the tools without a notification.
    pub(crate) fn set_tools(&self, tools: impl IntoIterator<Item = Value>) {
        *self.0.tools.lock().unwrap() = tools.into_iter().collect();
    }

    /// An entry for this server. Two entries of one server are equal only as clones of each other.
    pub(crate) fn spec(&self) -> ServerSpec {
        let server = self.clone();
        ServerSpec::native(Native::new("scripted", move |io, _| server.clone().serve(io)))
    }

    /// Sends a message to all connected clients.
    pub(crate) fn say(&self, message: Value) {
        self.0.out.send(message).unwrap();
    }

    /// Notifies that the tools have changed.
    pub(crate) fn say_changed(&self) {
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }

    /// Every message that it received so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.0.seen.borrow().clone()
    }

    /// The messages of this method so far.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Value> {
        self.seen().into_iter().filter(|message| message["method"] == method).collect()
    }

    pub(crate) fn count_of(&self, method: &str) -> usize {
        self.seen_of(method).len()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        *self.0.connections.borrow()
    }

    /// Waits for a message and returns it.
    pub(crate) async fn hears(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = self.0.seen.subscribe();
        let received = async {
            let seen = seen.wait_for(|seen| seen.iter().any(&wanted)).await.unwrap();
            seen.iter().find(|message| wanted(message)).cloned().unwrap()
        };
        soon("a message to the server", received).await
    }

    /// Waits for a message of this method and returns the first.
    pub(crate) async fn hears_of(&self, method: &str) -> Value {
        self.hears(|message| message["method"] == method).await
    }

    fn react(&self, method: &str, params: &Value) -> Reaction {
        (self.0.script)(method, params).unwrap_or_else(|| self.react_as_usual(method))
    }

    fn react_as_usual(&self, method: &str) -> Reaction {
        let legacy = self.0.era == Era::Legacy;
        let info = json!({"name": "scripted", "version": "1"});
        Reaction::Answer(match method {
            "server/discover" if !legacy => json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": info,
                "ttlMs": 0,
            }),
            "initialize" if legacy => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}, "tasks": {"requests": {"tools": {"call": {}}}}},
                "serverInfo": info,
            }),
            "tools/list" if legacy => json!({"tools": *self.0.tools.lock().unwrap()}),
            "tools/list" => json!({"resultType": "complete", "tools": *self.0.tools.lock().unwrap(), "ttlMs": 0}),
            "tools/call" => text_result("done"),
            "subscriptions/listen" if !legacy => return Reaction::Silence,
            _ => return Reaction::Refuse(-32601),
        })
    }

    async fn serve(self, io: DuplexStream) {
        self.0.connections.send_modify(|connections| *connections += 1);
        let mut messages = self.0.out.subscribe();
        let (read, mut write) = split(io);
        let mut lines = BufReader::new(read).lines();
        let mut later: FuturesUnordered<BoxFuture<'static, Value>> = FuturesUnordered::new();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                Some(answer) = later.next() => {
                    send(&mut write, &answer).await;
                    continue;
                }
                Ok(message) = messages.recv() => {
                    send(&mut write, &message).await;
                    continue;
                }
            };
            let Ok(Some(line)) = line else { return };
            let message: Value = serde_json::from_str(&line).unwrap();
            self.0.seen.send_modify(|seen| seen.push(message.clone()));
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id").cloned()) else {
                continue;
            };
            let answer = move |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
            match self.react(method, &message["params"]) {
                Reaction::Answer(result) => send(&mut write, &answer(result)).await,
                Reaction::Tell(messages, result) => {
                    for message in messages {
                        send(&mut write, &message).await;
                    }
                    send(&mut write, &answer(result)).await;
                }
                Reaction::After(wait, result) => later.push(
                    async move {
                        sleep(wait).await;
                        answer(result)
                    }
                    .boxed(),
                ),
                Reaction::Refuse(code) => {
                    let error = json!({"code": code, "message": format!("no {method} here")});
                    send(&mut write, &json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).await;
                }
                Reaction::Acknowledge => {
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
                    let params = json!({"_meta": meta, "notifications": message["params"]["notifications"]});
                    let method = "notifications/subscriptions/acknowledged";
                    send(&mut write, &json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
                Reaction::Silence => {}
                Reaction::HangUp => return,
            }
        }
    }
}

async fn send(write: &mut WriteHalf<DuplexStream>, message: &Value) {
    // The client may be gone: the next read shows it.
    let _gone = write.write_all(format!("{message}\n").as_bytes()).await;
}
