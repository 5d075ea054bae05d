//! A conversation to send, a scripted model to send it to, and the streamed answer in words.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use serde_json::{Value, json, value::to_raw_value};
use toolrack_agent::{
    Delta, Message, Model, ModelError, Reply, Request, Role, ToolCallData,
    model::{Key, ModelSettings, Wire},
};
use toolrack_host::{ToolBlock, ToolDefinition};
use toolrack_testkit::{FakeModel, model::Answer};

/// The beginning of a picture, in Base64.
const PICTURE: &str = "iVBORw0KGgo=";

/// Settings for a scripted model, with a short pause before a retry.
pub(crate) fn settings(server: &FakeModel, provider: &str, wire: Wire) -> ModelSettings {
    let mut settings = ModelSettings::new(provider, "some-model", wire, server.url());
    settings.key = Some(Key::new("sk-secret-0123456789"));
    settings.bounds.first_pause = Duration::from_millis(1);
    settings
}

/// A scripted server, and a model that reaches it over a wire.
pub(crate) async fn scripted(
    provider: &str,
    wire: Wire,
    answers: impl IntoIterator<Item = Answer>,
) -> (FakeModel, Arc<dyn Model>) {
    let server = FakeModel::start(answers).await;
    let model = settings(&server, provider, wire).connect().unwrap();
    (server, model)
}

/// Returns the deltas of a stream and its reply.
pub(crate) async fn streamed(model: &dyn Model, request: Request<'_>) -> (Vec<Delta>, Result<Reply, ModelError>) {
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(Delta::Done(reply)) => {
                assert!(stream.next().await.is_none(), "nothing comes after the end");
                return (deltas, Ok(*reply));
            }
            Ok(delta) => deltas.push(delta),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing comes after an error");
                return (deltas, Err(error));
            }
        }
    }
    panic!("the stream ended without an answer or an error, after {deltas:?}");
}

/// Returns the deltas of an answer, one a line, followed by the reply. The answer is streamed event by event, streamed
/// byte by byte and, if given, sent unstreamed: each must give the same reply.
pub(crate) async fn transcript(provider: &str, wire: Wire, events: &[&str], complete_answer: Option<Value>) -> String {
    let conversation = [Message::new(Role::User, "hello")];
    let answers = [Answer::events(events.iter().copied()), Answer::events(events.iter().copied()).byte_by_byte()];
    let (_server, model) = scripted(provider, wire, answers).await;
    let (deltas, reply) = streamed(&*model, Request::new(&conversation)).await;
    let reply = reply.unwrap();
    let (again, same) = streamed(&*model, Request::new(&conversation)).await;
    assert_eq!((&deltas, &reply), (&again, &same.unwrap()), "how a stream is cut makes no difference");
    if let Some(complete_answer) = complete_answer {
        let (_server, model) =
            scripted(provider, wire, [Answer::json(200, &complete_answer), Answer::json(200, &complete_answer)]).await;
        let completed = model.complete(Request::new(&conversation)).await.unwrap();
        assert_eq!(completed, reply, "the answer is the same, streamed or not");
        // Not every server streams when asked to.
        let (_, unstreamed) = streamed(&*model, Request::new(&conversation)).await;
        assert_eq!(unstreamed.unwrap(), reply);
    }
    let text: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(text, reply.message.content, "the streamed text is the stored text");
    let mut lines: Vec<String> = deltas.iter().map(in_words).collect();
    lines.push(format!("{:?} {}", reply.stop, pretty(&json!(reply.message))));
    lines.join("\n")
}

fn in_words(delta: &Delta) -> String {
    match delta {
        Delta::Text(text) => format!("text {text:?}"),
        Delta::Thinking(text) => format!("thinking {text:?}"),
        Delta::ToolCallBegin { index, id, name } => format!("call {index} {id} {name}"),
        Delta::ToolCallArguments { index, fragment } => format!("arguments {index} {fragment}"),
        Delta::Usage(usage) => format!(
            "usage in {} ({} read, {} written) out {} ({} thinking)",
            usage.input, usage.cached_read, usage.cache_write, usage.output, usage.reasoning
        ),
        other => format!("{other:?}"),
    }
}

pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Returns a body as text, with each member and each element of a list on its own line.
pub(crate) fn lines(body: &Value) -> String {
    let mut lines = Vec::new();
    for (name, value) in body.as_object().unwrap() {
        match value.as_array() {
            Some(list) => {
                lines.push(format!("{name}:"));
                lines.extend(list.iter().map(|element| format!("- {element}")));
            }
            None => lines.push(format!("{name}: {value}")),
        }
    }
    lines.join("\n")
}

/// Returns the body that one request becomes.
pub(crate) async fn sent(settings: impl FnOnce(&mut ModelSettings), wire: Wire, request: Request<'_>) -> Value {
    sent_to("custom", settings, wire, request).await
}

/// Returns the body that one request to this provider becomes.
pub(crate) async fn sent_to(
    provider: &str,
    change: impl FnOnce(&mut ModelSettings),
    wire: Wire,
    request: Request<'_>,
) -> Value {
    let server = FakeModel::start([]).await;
    let mut settings = settings(&server, provider, wire);
    change(&mut settings);
    let model = settings.connect().unwrap();
    // The answer is an error, because the script is empty: only the request matters.
    let _ = streamed(&*model, request).await;
    server.last_body()
}

/// Returns two tools, one of them without a description and arguments.
pub(crate) fn tools(wire: Wire) -> ToolBlock {
    let tool = |name: &str, description: &str, schema: Value| ToolDefinition {
        name: name.into(),
        description: description.into(),
        takes_arguments: schema["properties"].as_object().is_some_and(|all| !all.is_empty()),
        input_schema: to_raw_value(&schema).unwrap().into(),
    };
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let weather = tool("mcp__sky__weather", "The weather in a city", city);
    let now = tool("mcp__clock__now", "MCP tool from clock", json!({"type": "object", "properties": {}}));
    ToolBlock::new(wire, vec![weather, now])
}

/// Returns a request with every field that all providers know.
pub(crate) fn full_request<'a>(messages: &'a [Message], tools: &'a ToolBlock) -> Request<'a> {
    let mut request = Request::new(messages);
    request.system = Some("You are a guide.");
    request.tools = Some(tools);
    request.max_tokens = Some(500);
    request.temperature = Some(0.5);
    request
}

/// A call with one argument.
pub(crate) fn call(id: &str, name: &str, city: &str) -> ToolCallData {
    ToolCallData::from_text(id, name, &json!({"city": city}).to_string())
}

/// Returns a conversation with every kind of message: a system message, a picture, two calls at once (one of which
/// fails), a call with broken arguments, and an answer.
pub(crate) fn conversation() -> Vec<Message> {
    let picture = || toolrack_host::Content::Image { data: PICTURE.into(), mime_type: "image/png".into() };
    vec![
        Message::new(Role::System, "Be brief."),
        Message::new(Role::User, "What is this, and how is the weather there?").with_parts([picture()]),
        Message::new(Role::Assistant, "Let me see.").with_tool_calls(vec![
            call("call_a", "mcp__sky__weather", "Bern"),
            call("call_b", "mcp__sky__weather", "Atlantis"),
        ]),
        Message::tool_result("call_a", "sunny").with_parts([picture()]),
        Message::tool_error("call_b", "no such city").with_parts([picture()]),
        Message::new(Role::Assistant, "").with_tool_calls(vec![ToolCallData::from_text(
            "call_c",
            "mcp__clock__now",
            r#"{"zone": "CE"#,
        )]),
        Message::tool_error("call_c", "the arguments are not JSON"),
        Message::new(Role::Assistant, "It is sunny in Bern."),
        Message::new(Role::User, "Thanks!"),
    ]
}
