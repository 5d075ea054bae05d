//! A scripted provider for the binary, over each wire. It returns the conversations that it received in a form of its
//! own.

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use toolrack_testkit::{
    FakeModel,
    model::{Answer, RecordedRequest},
};

/// A provider that answers while the test waits for the binary.
pub(crate) struct Provider {
    model: FakeModel,
    _runtime: Runtime,
}

impl Provider {
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let model = runtime.block_on(FakeModel::start(answers));
        Self { model, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.model.url()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.model.requests()
    }
}

/// The wires that providers other than Google speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Anthropic,
    Chat,
    Responses,
}

/// A piece of a conversation as a provider got it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    User(String),
    Model(String),
    Call { id: String, arguments: Value },
    Result { id: String, text: String },
}

/// An id, the name of a tool, and its arguments.
pub(crate) type ScriptedCall<'a> = (&'a str, &'a str, Value);

impl Speech {
    pub(crate) const ALL: [Self; 3] = [Self::Anthropic, Self::Chat, Self::Responses];

    /// The value of `--wire`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
        }
    }

    /// An answer of text alone, streamed in these pieces.
    pub(crate) fn says(self, pieces: &[&str]) -> Answer {
        let mut events: Vec<Value> = pieces.iter().enumerate().flat_map(|(at, piece)| self.text(at, piece)).collect();
        events.extend(self.end(
            false,
            &[json!({
                "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": pieces.concat() }],
            })],
        ));
        streamed(&events)
    }

    /// The beginning of an answer whose end never comes.
    pub(crate) fn begins(self, piece: &str) -> Answer {
        streamed(&self.text(0, piece))
    }

    /// An answer of nothing but these calls.
    pub(crate) fn calls(self, calls: &[ScriptedCall<'_>]) -> Answer {
        let mut events: Vec<Value> = calls.iter().enumerate().flat_map(|(at, call)| self.call(at, call)).collect();
        events.extend(self.end(true, &calls.iter().map(function_call).collect::<Vec<_>>()));
        streamed(&events)
    }

    fn text(self, at: usize, piece: &str) -> Vec<Value> {
        match self {
            Self::Anthropic if at == 0 => vec![
                json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": piece } }),
            ],
            Self::Anthropic => vec![
                json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } }),
            ],
            Self::Chat => vec![json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] })],
            Self::Responses => {
                vec![json!({ "type": "response.output_text.delta", "output_index": 0, "delta": piece })]
            }
        }
    }

    fn call(self, index: usize, call: &ScriptedCall<'_>) -> Vec<Value> {
        let (id, name, arguments) = call;
        let text = arguments.to_string();
        match self {
            Self::Anthropic => {
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                let delta = json!({ "type": "input_json_delta", "partial_json": text });
                vec![
                    json!({ "type": "content_block_start", "index": index, "content_block": block }),
                    json!({ "type": "content_block_delta", "index": index, "delta": delta }),
                    json!({ "type": "content_block_stop", "index": index }),
                ]
            }
            Self::Chat => {
                let function = json!({ "name": name, "arguments": text });
                let call = json!({ "index": index, "id": id, "type": "function", "function": function });
                vec![json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] })]
            }
            Self::Responses => {
                let mut started = function_call(call);
                started["arguments"] = json!("");
                let delta = "response.function_call_arguments.delta";
                vec![
                    json!({ "type": "response.output_item.added", "output_index": index, "item": started }),
                    json!({ "type": delta, "output_index": index, "delta": text }),
                    json!({ "type": "response.output_item.done", "output_index": index, "item": function_call(call) }),
                ]
            }
        }
    }

    fn end(self, calls: bool, output: &[Value]) -> Vec<Value> {
        match self {
            Self::Anthropic => {
                let reason = if calls { "tool_use" } else { "end_turn" };
                vec![
                    json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 7 } }),
                    json!({ "type": "message_stop" }),
                ]
            }
            Self::Chat => {
                let reason = if calls { "tool_calls" } else { "stop" };
                vec![json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })]
            }
            Self::Responses => {
                vec![json!({ "type": "response.completed", "response": { "status": "completed", "output": output } })]
            }
        }
    }

    /// The conversation in the body of a request.
    pub(crate) fn conversation(self, body: &Value) -> Vec<Said> {
        let items = body[if self == Self::Responses { "input" } else { "messages" }].as_array().unwrap();
        items.iter().flat_map(|item| self.parts_of(item)).collect()
    }

    fn parts_of(self, item: &Value) -> Vec<Said> {
        let by_role = |text: String| match item["role"].as_str() {
            Some("user") => vec![Said::User(text)],
            Some("assistant") => vec![Said::Model(text)],
            _ => Vec::new(),
        };
        match (self, item["type"].as_str(), item["role"].as_str()) {
            (Self::Responses, Some("function_call"), _) => vec![Said::Call {
                id: text(&item["call_id"]),
                arguments: serde_json::from_str(&text(&item["arguments"])).unwrap(),
            }],
            (Self::Responses, Some("function_call_output"), _) => {
                vec![Said::Result { id: text(&item["call_id"]), text: text(&item["output"]) }]
            }
            (Self::Chat, _, Some("tool")) => {
                vec![Said::Result { id: text(&item["tool_call_id"]), text: text(&item["content"]) }]
            }
            (Self::Chat, _, Some("assistant")) => {
                let calls = item["tool_calls"].as_array().into_iter().flatten().map(|call| Said::Call {
                    id: text(&call["id"]),
                    arguments: serde_json::from_str(&text(&call["function"]["arguments"])).unwrap(),
                });
                let words = Some(text(&item["content"])).filter(|words| !words.is_empty()).map(Said::Model);
                words.into_iter().chain(calls).collect()
            }
            (Self::Anthropic, ..) if item["content"].is_array() => {
                let blocks = item["content"].as_array().into_iter().flatten();
                let part = blocks.flat_map(|block| match block["type"].as_str() {
                    Some("tool_use") => vec![Said::Call { id: text(&block["id"]), arguments: block["input"].clone() }],
                    Some("tool_result") => {
                        vec![Said::Result { id: text(&block["tool_use_id"]), text: text(&block["content"]) }]
                    }
                    _ => by_role(text(block)),
                });
                part.collect()
            }
            _ => by_role(text(&item["content"])),
        }
    }
}

/// What the Responses wire calls a call.
fn function_call((id, name, arguments): &ScriptedCall<'_>) -> Value {
    json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments.to_string() })
}

fn streamed(events: &[Value]) -> Answer {
    let events: Vec<_> = events.iter().map(Value::to_string).collect();
    Answer::events(events.iter().map(String::as_str))
}

/// The text of a content: a string, a block with text, or a list of blocks.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text).collect(),
        block => block["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Fails unless every call has one result, and the results directly follow the calls in their order, as every provider
/// demands.
pub(crate) fn assert_valid(conversation: &[Said]) {
    let mut open = std::collections::VecDeque::new();
    let mut is_answering = false;
    let mut ids = std::collections::HashSet::new();
    for part in conversation {
        match part {
            Said::Call { id, .. } => {
                assert!(!is_answering, "{id} comes before all calls before it are answered: {conversation:#?}");
                assert!(ids.insert(id), "{id} is there twice: {conversation:#?}");
                open.push_back(id);
            }
            Said::Result { id, .. } => {
                assert_eq!(open.pop_front(), Some(id), "{conversation:#?}");
                is_answering = !open.is_empty();
            }
            Said::User(_) | Said::Model(_) => assert!(open.is_empty(), "{open:?} are not answered: {conversation:#?}"),
        }
    }
    assert!(open.is_empty(), "{open:?} are not answered: {conversation:#?}");
}
