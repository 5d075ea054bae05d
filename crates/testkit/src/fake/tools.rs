//! Runs the tools of the fake, a scripted MCP server for tests. Each run is logged as an *effect*, so that a test can
//! prove that no tool ran twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::asks::{self, QuestionOutcome};
use super::eras::{Reply, wait_forever};
use super::faults::Fault;
use super::offers::{self, ESCAPES};
use super::process::{self, Death};
use super::server::{Request, Server};
use super::wire::{self, Frame, Refusal, code};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Runs `tools/call`.
pub(crate) async fn call(server: &Arc<Server>, request: &Request) -> Reply {
    let name = request.params["name"].as_str().unwrap_or_default();
    let args = &request.params["arguments"];
    if !offers::tools(server).iter().any(|tool| tool["name"] == name) {
        return Err(Refusal::new(code::INVALID_PARAMS, format!("Unknown tool: {name}")));
    }
    // These three tools log their effect only after the client has answered.
    match name {
        "elicit" => return question_result(server, name, args, asks::elicit(server, request).await?),
        "sample" => return question_result(server, name, args, asks::sample(server, request).await?),
        "roots" => return question_result(server, name, args, asks::roots(server, request).await?),
        _ => {}
    }
    server.log.effect(name, args);
    match name {
        "sleep" => sleep(request, args).await,
        "crash" => crash(request, args).await,
        "flood" => flood(request, args).await,
        "tools_changed" => tools_changed(server, args).await,
        "touch" => touch(server, args).await,
        "protocol_error" => Err(protocol_error(args)),
        "spawn" => spawn(args),
        _ => Ok(run_at_once(server, request, name, args)),
    }
}

/// Returns a result with one text.
fn text_result(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}], "isError": false})
}

fn error_result(message: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": message.into()}], "isError": true})
}

fn string_argument<'a>(args: &'a Value, name: &str, default: &'a str) -> &'a str {
    args[name].as_str().unwrap_or(default)
}

/// Runs the tools that answer at once.
fn run_at_once(server: &Server, request: &Request, name: &str, args: &Value) -> Value {
    let escapes = if server.has(Fault::EscapeText) { ESCAPES } else { "" };
    match name {
        "echo" => text_result(format!("{}{escapes}", string_argument(args, "text", ""))),
        "add" => text_result((args["a"].as_f64().unwrap_or(0.0) + args["b"].as_f64().unwrap_or(0.0)).to_string()),
        "big" => text_result(big(args)),
        "write" => text_result("written"),
        "fail" => error_result(format!("{}{escapes}", string_argument(args, "message", "told to fail"))),
        "structured" => structured(server, args),
        "image" => every_kind_of_content(args),
        "env" => text_result(env(args).to_string()),
        "cwd" => {
            text_result(std::env::current_dir().map_or_else(|error| error.to_string(), |dir| dir.display().to_string()))
        }
        "fds" => text_result(json!({"inherited": server.inherited, "now": process::open_descriptors()}).to_string()),
        "headers" => text_result(json!(request.headers).to_string()),
        "region" => text_result(string_argument(args, "region", "")),
        // A generated or added tool returns its name.
        generated => text_result(generated),
    }
}

fn big(args: &Value) -> String {
    let bytes = usize::try_from(args["bytes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let fill = string_argument(args, "fill", "x");
    let mut filled = fill.repeat(bytes / fill.len().max(1));
    filled.extend(std::iter::repeat_n('.', bytes.saturating_sub(filled.len())));
    filled
}

fn env(args: &Value) -> Value {
    match args["name"].as_str() {
        Some(name) => json!(std::env::var(name).ok()),
        None => std::env::vars_os().map(|(name, _)| json!(name.to_string_lossy())).collect(),
    }
}

fn structured(server: &Server, args: &Value) -> Value {
    let mut value = json!({"label": string_argument(args, "label", "answer"), "value": 42});
    if server.has(Fault::WrongStructured) {
        value = json!({"label": 42});
    }
    let mut result = text_result(value.to_string());
    result["structuredContent"] = value;
    result
}

/// Returns all kinds of content, or those at the indices in the argument `only`, which the tool's schema does not
/// declare.
fn every_kind_of_content(args: &Value) -> Value {
    let blocks = json!([
        {"type": "text", "text": "one of each", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "fake://note", "mimeType": "text/plain", "text": "a note"}},
        {"type": "resource", "resource": {"uri": "fake://blob", "mimeType": "application/octet-stream", "blob": "AAEC"}},
        {"type": "resource_link", "uri": "fake://note", "name": "note", "mimeType": "text/plain"}
    ]);
    let content = match args["only"].as_array() {
        Some(indices) => {
            indices.iter().filter_map(|index| blocks.get(usize::try_from(index.as_u64()?).ok()?).cloned()).collect()
        }
        None => blocks.clone(),
    };
    json!({"content": content, "isError": false})
}

fn protocol_error(args: &Value) -> Refusal {
    let code = args["code"].as_i64().unwrap_or(code::INTERNAL);
    Refusal::new(code, string_argument(args, "message", "told to fail")).with_data(json!({"why": "told to"}))
}

/// Waits for `ms` milliseconds, and reports progress if the arguments ask for it. A cancellation drops this future, and
/// so ends the wait.
async fn sleep(request: &Request, args: &Value) -> Reply {
    let total = args["ms"].as_u64().unwrap_or(0);
    let token = &request.params["_meta"]["progressToken"];
    if args["progress"] == true && !token.is_null() {
        let mut slept = 0;
        while slept < total {
            let step = (total - slept).min(100);
            tokio::time::sleep(Duration::from_millis(step)).await;
            slept += step;
            let message = string_argument(args, "message", "sleeping");
            let params = json!({"progressToken": token, "progress": slept, "total": total, "message": message});
            request.out.send(Frame::message(&wire::notification("notifications/progress", &params))).await;
        }
    } else {
        tokio::time::sleep(Duration::from_millis(total)).await;
    }
    Ok(text_result(format!("slept {total} ms")))
}

async fn crash(request: &Request, args: &Value) -> Reply {
    let number = |name: &str| args[name].as_i64().and_then(|number| i32::try_from(number).ok());
    let death = number("signal").map_or_else(|| Death::Exit(number("code").unwrap_or(1)), Death::Signal);
    super::complain("fake-server: about to crash, as told\n");
    request.out.send(Frame::Die(death)).await;
    wait_forever().await
}

fn spawn(args: &Value) -> Reply {
    match process::start_grandchild(args["setsid"] == true, args["ignore_term"] == true) {
        Ok(pid) => Ok(text_result(pid.to_string())),
        Err(error) => Ok(error_result(error.to_string())),
    }
}

async fn tools_changed(server: &Server, args: &Value) -> Reply {
    server.add_tool(string_argument(args, "add", "added")).await;
    Ok(text_result("changed"))
}

async fn touch(server: &Server, args: &Value) -> Reply {
    server.notify_resource_updated(string_argument(args, "uri", "fake://note")).await;
    Ok(text_result("touched"))
}

async fn flood(request: &Request, args: &Value) -> Reply {
    let count = args["n"].as_u64().unwrap_or(0);
    send_log_messages(request, count).await;
    Ok(text_result(format!("sent {count}")))
}

/// Sends this many log notifications.
pub(crate) async fn send_log_messages(request: &Request, count: u64) {
    for n in 0..count {
        let params = json!({"level": "info", "logger": "flood", "data": format!("message {n}")});
        request.out.send(Frame::message(&wire::notification("notifications/message", &params))).await;
    }
}

/// Returns the result of a tool that asks a question. The tool counts as run only if the client has answered.
fn question_result(server: &Server, name: &str, args: &Value, outcome: QuestionOutcome) -> Reply {
    match outcome {
        QuestionOutcome::Answered(answer) if answer.get("refused").is_some() => {
            Ok(error_result(answer["refused"].to_string()))
        }
        QuestionOutcome::Answered(answer) => {
            server.log.effect(name, args);
            Ok(text_result(answer.to_string()))
        }
        QuestionOutcome::InputRequired(result) => Ok(result),
    }
}
