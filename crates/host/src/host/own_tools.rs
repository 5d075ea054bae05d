//! Serves the host's own tools to the MCP client of this crate, over a pipe in memory, in MCP 2026-07-28.
//!
//! [`discovery`] and [`run_code`] need only five methods of that version. A general MCP server would add its
//! dependencies to every program that embeds this crate.

mod discovery;
mod run_code;
mod script;

use std::{io, sync::Arc};

use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, pending},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, split};
use tokio_util::sync::CancellationToken;

use crate::{
    link::MODERN,
    mcp::codes::{INVALID_PARAMS, METHOD_NOT_FOUND},
    native::Native,
};

pub use self::script::{Interpreter, ScriptCallError, ScriptOutput, ScriptTools};
pub(super) use self::{
    discovery::{Discovery, InnerCall, hits_as_json},
    run_code::Scripts,
};

/// The arguments of a call.
type JsonObject = Map<String, Value>;

/// The tools of a server that the host provides itself.
trait OwnTools: Send + Sync + 'static {
    /// Returns the server's name for itself.
    fn name(&self) -> &'static str;

    /// Returns the tools, in MCP's format.
    fn tools(&self) -> Vec<Value>;

    /// Calls a tool; returns the text of its result, or of the error for the model.
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Map<String, Value>) -> BoxFuture<'a, Result<String, String>>;

    /// Returns a stream with an item for each later change of the list of tools; `None` for tools that never change.
    fn changes(&self) -> Option<BoxStream<'_, ()>> {
        None
    }
}

/// Creates a server of these tools.
fn serve(tools: Arc<impl OwnTools>) -> Native {
    Native::new(tools.name(), move |io, stop| {
        let tools = Arc::clone(&tools);
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                // Ignore the error: the client sees that the connection has ended, and reports it.
                _ = serve_connection(&*tools, io, &stop) => {}
            }
        }
    })
}

/// Answers requests until the client closes its end of the pipe. Runs calls concurrently, and answers each call when it
/// ends.
async fn serve_connection(tools: &impl OwnTools, io: DuplexStream, stop: &CancellationToken) -> io::Result<()> {
    let (input, mut output) = split(io);
    let mut lines = BufReader::new(input).lines();
    let mut calls = FuturesUnordered::new();
    let mut changes: BoxStream<'_, ()> = pending().boxed();
    let mut subscription_id = Value::Null;
    while !stop.is_cancelled() {
        let message = tokio::select! {
            line = lines.next_line() => match line?.map(|line| serde_json::from_str::<Request>(&line)) {
                None => return Ok(()),
                Some(Ok(Request { id: Some(id), method, params })) => match &*method {
                    "tools/call" => {
                        calls.push(call(tools, id, params));
                        continue;
                    }
                    "subscriptions/listen" => {
                        changes = tools.changes().unwrap_or_else(|| pending().boxed());
                        subscription_id = id;
                        acknowledgement(&subscription_id, &params)
                    }
                    method => respond(tools, &id, method),
                },
                // Ignore lines that are no request, and notifications, even of a cancellation: a call ends soon anyway.
                Some(Ok(Request { id: None, .. }) | Err(_)) => continue,
            },
            Some(result) = calls.next() => result,
            Some(()) = changes.next() => notification("notifications/tools/list_changed", &subscription_id, Map::new()),
        };
        output.write_all(format!("{message}\n").as_bytes()).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// Answers every request except calls and subscriptions.
fn respond(tools: &impl OwnTools, id: &Value, method: &str) -> Value {
    match method {
        "server/discover" => success_response(
            id,
            json!({
                "supportedVersions": [MODERN],
                "capabilities": { "tools": { "listChanged": tools.changes().is_some() } },
                "_meta": { "io.modelcontextprotocol/serverInfo": {
                    "name": tools.name(), "version": env!("CARGO_PKG_VERSION"),
                } },
            }),
        ),
        "tools/list" => success_response(id, json!({ "tools": tools.tools() })),
        "ping" => success_response(id, json!({})),
        _ => error_response(id, METHOD_NOT_FOUND, "this server has tools only"),
    }
}

async fn call(tools: &impl OwnTools, id: Value, params: Value) -> Value {
    let Some(tool) = params["name"].as_str() else {
        return error_response(&id, INVALID_PARAMS, "a call needs `name`, the name of a tool");
    };
    let no_arguments = Map::new();
    let result = tools.call(tool, params["arguments"].as_object().unwrap_or(&no_arguments)).await;
    let is_error = result.is_err();
    let (Ok(text) | Err(text)) = result;
    success_response(&id, json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

fn acknowledgement(subscription_id: &Value, params: &Value) -> Value {
    let accepted = Map::from_iter([("notifications".to_owned(), params["notifications"].clone())]);
    notification("notifications/subscriptions/acknowledged", subscription_id, accepted)
}

fn notification(method: &str, subscription_id: &Value, mut params: Map<String, Value>) -> Value {
    params.insert("_meta".to_owned(), json!({ "io.modelcontextprotocol/subscriptionId": subscription_id }));
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn success_response(id: &Value, mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error_response(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    struct Sleeper;

    impl OwnTools for Sleeper {
        fn name(&self) -> &'static str {
            "sleeper"
        }

        fn tools(&self) -> Vec<Value> {
            vec![json!({ "name": "sleep", "inputSchema": { "type": "object" } })]
        }

        fn call<'a>(&'a self, tool: &'a str, _: &'a Map<String, Value>) -> BoxFuture<'a, Result<String, String>> {
            if tool == "sleep" { std::future::pending().boxed() } else { async { Err("no".to_owned()) }.boxed() }
        }
    }

    async fn answers(requests: &[Value], count: usize) -> Vec<Value> {
        let stop = CancellationToken::new();
        let (ours, server) = serve(Arc::new(Sleeper)).open(stop.clone());
        let talk = async {
            let (from, mut to) = split(ours);
            for request in requests {
                to.write_all(format!("{request}\n").as_bytes()).await.unwrap();
            }
            let mut lines = BufReader::new(from).lines();
            let mut answers = Vec::new();
            while answers.len() < count {
                answers.push(serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap());
            }
            stop.cancel();
            answers
        };
        tokio::join!(talk, server).0
    }

    #[tokio::test]
    async fn a_long_call_delays_no_other_call() {
        let call = |id: u32, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } });
        let answers = answers(&[call(1, "sleep"), call(2, "other")], 1).await;
        assert_eq!(answers[0]["id"], 2);
        assert_eq!(answers[0]["result"]["isError"], true);
        assert_eq!(answers[0]["result"]["content"][0]["text"], "no");
    }

    #[tokio::test]
    async fn unknown_requests_are_refused_and_other_messages_are_ignored() {
        let requests = [
            json!("no request"),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {} }),
            json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize" }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call" }),
            json!({ "jsonrpc": "2.0", "id": 4, "method": "server/discover" }),
        ];
        let answers = answers(&requests, 3).await;
        let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(of("a".into())["error"]["code"], METHOD_NOT_FOUND);
        assert_eq!(of(3.into())["error"]["code"], INVALID_PARAMS);
        assert_eq!(of(4.into())["result"]["supportedVersions"], json!([MODERN]));
        assert_eq!(of(4.into())["result"]["capabilities"]["tools"]["listChanged"], false);
    }
}
