//! A hand-written server of both eras, with every tool, resource and prompt that the suite's scenarios use. The suite
//! reaches it only through the gateway.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, split},
    sync::{mpsc, oneshot},
    time::sleep,
};
use toolrack_host::{Native, ServerSpec, spec::Protocol};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

type Reply = Result<Value, Value>;

/// Returns the server, for a client of this era.
pub(super) fn server(protocol: Protocol) -> ServerSpec {
    ServerSpec { protocol, ..ServerSpec::native(Native::new("fixture", |io, _stop| serve(io))) }
}

async fn serve(io: DuplexStream) {
    let (reader, mut writer) = split(io);
    let mut lines = BufReader::new(reader).lines();
    let (out, mut messages) = mpsc::unbounded_channel::<Value>();
    let peer = Peer {
        out,
        waiting: Mutex::default(),
        next_id: AtomicU64::new(1),
        subscription: Mutex::default(),
        added: AtomicU64::new(0),
    };
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let message: Value = serde_json::from_str(&line).unwrap();
                match (message.get("method").is_some(), message.get("id").is_some()) {
                    (true, true) => running.push(peer.answer(message)),
                    (false, true) => peer.take_answer(&message),
                    _ => {}
                }
            }
            Some(message) = messages.recv() => writer.write_all(format!("{message}\n").as_bytes()).await.unwrap(),
            Some(()) = running.next() => {}
        }
    }
}

/// The state of one connection.
struct Peer {
    out: mpsc::UnboundedSender<Value>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next_id: AtomicU64,
    /// The `_meta` for notifications of the client's subscription.
    subscription: Mutex<Value>,
    /// How many tools were added at run time.
    added: AtomicU64,
}

impl Peer {
    fn send(&self, message: Value) {
        let _ = self.out.send(message);
    }

    fn notify(&self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn take_answer(&self, message: &Value) {
        let waiting = self.waiting.lock().unwrap().remove(&message["id"].as_u64().unwrap());
        let _ = waiting.unwrap().send(message["result"].clone());
    }

    /// Asks a client of the older era.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, reply);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer.await.unwrap()
    }

    async fn answer(&self, request: Value) {
        let reply = self.reply(&request["id"], request["method"].as_str().unwrap(), &request["params"]).await;
        let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
        match reply {
            Ok(mut result) => {
                if result.get("resultType").is_none() {
                    result["resultType"] = json!("complete");
                }
                message["result"] = result;
            }
            Err(error) => message["error"] = error,
        }
        self.send(message);
    }

    async fn reply(&self, id: &Value, method: &str, params: &Value) -> Reply {
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities(),
                "serverInfo": {"name": "fixture", "version": "1"},
            })),
            "server/discover" => {
                Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities(), "ttlMs": 0}))
            }
            "subscriptions/listen" => {
                let subscription = json!({"io.modelcontextprotocol/subscriptionId": id});
                *self.subscription.lock().unwrap() = subscription.clone();
                let acknowledged = json!({"_meta": subscription, "notifications": params["notifications"]});
                self.notify("notifications/subscriptions/acknowledged", acknowledged);
                std::future::pending().await
            }
            "tools/list" => Ok(json!({"tools": self.tools()})),
            "tools/call" => self.call(params).await,
            "resources/list" => Ok(json!({"resources": [
                {"uri": "test://static-text", "name": "text", "description": "A text.", "mimeType": "text/plain"},
                {"uri": "test://static-binary", "name": "binary", "description": "A picture.", "mimeType": "image/png"},
            ]})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": [
                {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"},
            ]})),
            "resources/read" => resource(params["uri"].as_str().unwrap()),
            "prompts/list" => Ok(json!({"prompts": prompts()})),
            "prompts/get" => prompt(params),
            "completion/complete" => {
                Ok(json!({"completion": {"values": ["paris", "park"], "total": 2, "hasMore": false}}))
            }
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => Ok(json!({})),
            _ => Err(json!({"code": -32601, "message": "no such method"})),
        }
    }

    fn tools(&self) -> Vec<Value> {
        let added = (0..self.added.load(Ordering::Relaxed)).map(|number| format!("added_{number}"));
        let added = added.map(|name| json!({"name": name, "description": "New.", "inputSchema": {"type": "object"}}));
        tools().into_iter().chain(added).collect()
    }

    async fn call(&self, params: &Value) -> Reply {
        let answers = &params["inputResponses"];
        let name = params["name"].as_str().unwrap();
        match name {
            "test_simple_text" => text_result("This is a simple text response for testing."),
            "test_image_content" => Ok(json!({"content": [image()]})),
            "test_audio_content" => Ok(json!({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]})),
            "test_embedded_resource" => Ok(json!({"content": [embedded("test://embedded-resource")]})),
            "test_multiple_content_types" => Ok(json!({"content": [
                {"type": "text", "text": "Multiple content types test:"}, image(),
                embedded("test://mixed-content-resource"),
            ]})),
            "test_error_handling" => Ok(json!({
                "isError": true,
                "content": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
            })),
            "test_tool_with_logging" => {
                for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    self.notify("notifications/message", json!({"level": "info", "data": text}));
                    sleep(Duration::from_millis(50)).await;
                }
                text_result("done")
            }
            "test_tool_with_progress" => {
                for progress in [0, 50, 100] {
                    let token = &params["_meta"]["progressToken"];
                    let report = json!({"progressToken": token, "progress": progress, "total": 100});
                    self.notify("notifications/progress", report);
                    sleep(Duration::from_millis(50)).await;
                }
                text_result("done")
            }
            "test_reconnection" => {
                sleep(Duration::from_millis(100)).await;
                text_result("answered after a while")
            }
            "test_sampling" => {
                let answer = self.ask("sampling/createMessage", sampling(&params["arguments"]["prompt"])).await;
                text_result(&format!("LLM response: {}", answer["content"]["text"]))
            }
            "test_elicitation" | "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
                let answer = self.ask("elicitation/create", form(name, &params["arguments"])).await;
                text_result(&format!(
                    "Elicitation completed: action={}, content={}",
                    answer["action"], answer["content"]
                ))
            }
            "test_logging_tool" => text_result("Nothing is logged, because no client asked for it."),
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                self.added.fetch_add(1, Ordering::Relaxed);
                let list = if name == "test_trigger_tool_change" { "tools" } else { "prompts" };
                let subscription = self.subscription.lock().unwrap().clone();
                self.notify(&format!("notifications/{list}/list_changed"), json!({ "_meta": subscription }));
                text_result("changed")
            }
            "test_missing_capability" if params["_meta"][CAPABILITIES]["sampling"].is_null() => Err(json!({
                "code": -32021, "message": "sampling is needed", "data": {"requiredCapabilities": {"sampling": {}}},
            })),
            _ => Ok(input_rounds(name, params, answers)),
        }
    }
}

/// Runs the tools that ask the client in input rounds (2026-07-28).
fn input_rounds(name: &str, params: &Value, answers: &Value) -> Value {
    let name_form = text_form("What is your name?", "name");
    let sample =
        json!({"method": "sampling/createMessage", "params": sampling(&json!("What is the capital of France?"))});
    let roots = json!({"method": "roots/list", "params": {}});
    let (requests, state) = match name {
        "test_input_required_result_elicitation" => (json!({ "user_name": name_form }), None),
        "test_input_required_result_sampling" => (json!({ "capital_question": sample }), None),
        "test_input_required_result_list_roots" => (json!({ "client_roots": roots }), None),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (json!({"confirm": text_form("Please confirm", "ok")}), Some("state"))
        }
        "test_input_required_result_multiple_inputs" => {
            (json!({"user_name": name_form, "greeting": sample, "client_roots": roots}), Some("state"))
        }
        "test_input_required_result_multi_round" if params["requestState"].is_null() => {
            (json!({"step1": text_form("Step 1: What is your name?", "name")}), Some("one"))
        }
        "test_input_required_result_multi_round" => {
            (json!({"step2": text_form("Step 2: What is your favorite color?", "color")}), Some("two"))
        }
        "test_input_required_result_capabilities" => (json!({ "sample": sample }), None),
        _ => return json!({"content": [{"type": "text", "text": name}]}),
    };
    let is_complete = requests.as_object().unwrap().keys().all(|key| answers.get(key).is_some());
    if is_complete {
        return json!({"content": [{"type": "text", "text": format!("state-ok {answers}")}]});
    }
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {"listChanged": true}, "completions": {}, "logging": {}})
}

fn text_result(text: &str) -> Reply {
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn embedded(uri: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "This is an embedded resource content."}})
}

fn sampling(prompt: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": 100})
}

fn text_form(message: &str, field: &str) -> Value {
    let schema = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn form(tool: &str, arguments: &Value) -> Value {
    let titled = |options: [(&str, &str); 3]| -> Value {
        options.iter().map(|(value, title)| json!({"const": value, "title": title})).collect()
    };
    let properties = match tool {
        "test_elicitation" => json!({"username": {"type": "string"}, "email": {"type": "string"}}),
        "test_elicitation_sep1034_defaults" => json!({
            "name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5}, "verified": {"type": "boolean", "default": true},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        }),
        _ => json!({
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled([("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")])},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled([("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")])}},
        }),
    };
    let message = arguments["message"].as_str().unwrap_or("Please fill this in.");
    json!({"message": message, "requestedSchema": {"type": "object", "properties": properties, "required": []}})
}

fn tools() -> Vec<Value> {
    let plain = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_reconnection",
        "test_tool_with_logging",
        "test_tool_with_progress",
        "test_sampling",
        "test_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_logging_tool",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_tampered_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_capabilities",
    ];
    let tool = |name: &&str| json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object"}});
    let mut tools: Vec<_> = plain.iter().map(tool).collect();
    tools.push(json!({
        "name": "test_custom_header", "description": "Has an argument that is mirrored in a header.",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    }));
    tools.push(json!({
        "name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {
                "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "phone": {"type": "string"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false,
        },
    }));
    tools
}

fn resource(uri: &str) -> Reply {
    let contents = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        "test://template/123/data" => {
            let text = json!({"id": "123", "templateTest": true, "data": "Data for ID: 123"}).to_string();
            json!({"uri": uri, "mimeType": "application/json", "text": text})
        }
        _ => return Err(json!({"code": -32602, "message": "Resource not found", "data": {"uri": uri}})),
    };
    Ok(json!({"contents": [contents], "ttlMs": 0, "cacheScope": "private"}))
}

fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": "An argument.", "required": true});
    json!([
        {"name": "test_simple_prompt", "description": "Simple."},
        {"name": "test_prompt_with_arguments", "description": "With arguments.", "arguments": [argument("arg1"), argument("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "With a resource.", "arguments": [argument("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "With a picture."},
        {"name": "test_input_required_result_prompt", "description": "Asks first."},
    ])
}

fn prompt(params: &Value) -> Reply {
    let arguments = &params["arguments"];
    let text = |text: String| json!({"type": "text", "text": text});
    let content = match params["name"].as_str().unwrap() {
        "test_simple_prompt" => text("This is a simple prompt for testing.".to_owned()),
        "test_prompt_with_arguments" => text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            arguments["arg1"].as_str().unwrap_or_default(),
            arguments["arg2"].as_str().unwrap_or_default()
        )),
        "test_prompt_with_embedded_resource" => embedded(arguments["resourceUri"].as_str().unwrap_or_default()),
        "test_prompt_with_image" => image(),
        _ if params["inputResponses"]["user_context"].is_null() => {
            let wanted = json!({"user_context": text_form("What context should the prompt use?", "context")});
            return Ok(json!({"resultType": "input_required", "inputRequests": wanted}));
        }
        _ => text(params["inputResponses"]["user_context"].to_string()),
    };
    Ok(json!({"messages": [{"role": "user", "content": content}]}))
}
