//! The questions of the fake (a scripted MCP server for tests) to its client. In the legacy era of MCP (2025-11-25 and
//! older), the server sends a request. In the modern era (2026-07-28), it answers `input_required`, and the client
//! repeats its request with the answers ("multi round-trip requests"). Each such repetition is a round.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::faults::Fault;
use super::offers;
use super::server::{Era, Request, Server};
use super::wire::{META_CAPABILITIES, Refusal, code};

/// The outcome of a question.
#[derive(Debug)]
pub(crate) enum QuestionOutcome {
    /// The client's answer; an error of a legacy client is `{"refused": error}`.
    Answered(Value),
    /// Modern: the result to send instead of an answer.
    InputRequired(Value),
}

/// The key of a question in `inputRequests`. The fake asks one question at a time, so one key is enough.
const KEY: &str = "the_answer";

/// Asks for the form that has a field of each type.
pub(crate) async fn form(server: &Server, request: &Request) -> Result<QuestionOutcome, Refusal> {
    let params = json!({"mode": "form", "message": "Who are you?", "requestedSchema": offers::form()});
    ask(server, request, "elicitation/create", params).await
}

/// Sends the question that the arguments of `elicit` describe.
pub(crate) async fn elicit(server: &Server, request: &Request) -> Result<QuestionOutcome, Refusal> {
    match request.params["arguments"]["mode"].as_str() {
        Some("url") => {
            let url = "https://example.com/sign-in?state=abc";
            let mut params = json!({"mode": "url", "message": "Please sign in.", "url": url});
            if request.era == Era::Legacy {
                params["elicitationId"] = json!("e-1");
            }
            ask(server, request, "elicitation/create", params).await
        }
        Some("url-error") if request.era == Era::Legacy => url_by_error(server),
        Some("state-only") if request.era == Era::Modern => state_only(request),
        _ => form(server, request).await,
    }
}

/// Asks the client's model.
pub(crate) async fn sample(server: &Server, request: &Request) -> Result<QuestionOutcome, Refusal> {
    let prompt = request.params["arguments"]["prompt"].as_str().unwrap_or("What is the capital of France?");
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    let params = json!({"messages": [message], "maxTokens": 100});
    ask(server, request, "sampling/createMessage", params).await
}

/// Asks for the client's roots.
pub(crate) async fn roots(server: &Server, request: &Request) -> Result<QuestionOutcome, Refusal> {
    ask(server, request, "roots/list", json!({})).await
}

async fn ask(server: &Server, request: &Request, method: &str, params: Value) -> Result<QuestionOutcome, Refusal> {
    let capability = match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        _ => "roots",
    };
    match request.era {
        Era::Legacy => ask_legacy(server, request, capability, method, &params).await,
        Era::Modern => ask_modern(request, capability, method, &params),
    }
}

async fn ask_legacy(
    server: &Server,
    request: &Request,
    capability: &str,
    method: &str,
    params: &Value,
) -> Result<QuestionOutcome, Refusal> {
    if request.peer.capabilities.get().is_none_or(|declared| declared.get(capability).is_none()) {
        return Ok(QuestionOutcome::Answered(json!({"refused": format!("the client did not declare {capability}")})));
    }
    let mut last = Value::Null;
    for _round in 0..requested_rounds(request) {
        last = match server.ask(&request.out, method, params).await {
            Ok(answer) => answer,
            Err(error) => json!({"refused": error}),
        };
    }
    Ok(QuestionOutcome::Answered(last))
}

fn ask_modern(request: &Request, capability: &str, method: &str, params: &Value) -> Result<QuestionOutcome, Refusal> {
    if request.params["_meta"][META_CAPABILITIES].get(capability).is_none() {
        let message = format!("Server requires the {capability} capability for this request");
        let data = json!({"requiredCapabilities": {capability: {}}});
        return Err(Refusal::new(code::MISSING_CAPABILITY, message).with_data(data));
    }
    let round = read_round(request)?;
    let answer = request.params["inputResponses"].get(KEY);
    let is_endless = request.faults.has(Fault::EndlessInput);
    if let Some(answer) = answer
        && round >= requested_rounds(request)
        && !is_endless
    {
        return Ok(QuestionOutcome::Answered(answer.clone()));
    }
    let questions = json!({KEY: {"method": method, "params": params}});
    // A client that repeats its request without an answer stays in the same round.
    Ok(QuestionOutcome::InputRequired(input_required(
        Some(questions),
        round + u64::from(answer.is_some() || round == 0),
    )))
}

/// Refuses the first call with links to visit (2025-11-25, -32042); the next one goes through.
fn url_by_error(server: &Server) -> Result<QuestionOutcome, Refusal> {
    if server.has_sent_links.swap(true, Ordering::Relaxed) {
        return Ok(QuestionOutcome::Answered(json!({"visited": true})));
    }
    let link =
        json!({"mode": "url", "elicitationId": "e-2", "url": "https://example.com/visit", "message": "Please visit."});
    let data = json!({"elicitations": [link]});
    Err(Refusal::new(code::URL_REQUIRED, "This request requires more information.").with_data(data))
}

/// Asks the client to repeat its request with the given state, and asks no question.
fn state_only(request: &Request) -> Result<QuestionOutcome, Refusal> {
    let round = read_round(request)?;
    if round >= requested_rounds(request) && !request.faults.has(Fault::EndlessInput) {
        return Ok(QuestionOutcome::Answered(json!({"rounds": round})));
    }
    let questions = None;
    Ok(QuestionOutcome::InputRequired(input_required(questions, round + 1)))
}

fn requested_rounds(request: &Request) -> u64 {
    request.params["arguments"]["rounds"].as_u64().unwrap_or(1)
}

fn input_required(requests: Option<Value>, round: u64) -> Value {
    let mut result = json!({"resultType": "input_required", "requestState": request_state(round)});
    if let Some(requests) = requests {
        result["inputRequests"] = requests;
    }
    result
}

/// A state with everything that a careless client would change: spaces, escapes, non-ASCII letters.
fn request_state(round: u64) -> String {
    format!(" round {round}\t\"é\\u0041\" ")
}

/// The round that the client's state names; an error if a byte of it was changed.
fn read_round(request: &Request) -> Result<u64, Refusal> {
    let Some(sent_state) = request.params.get("requestState") else { return Ok(0) };
    // No test plays more rounds.
    (1..=1_000)
        .find(|round| *sent_state == request_state(*round))
        .ok_or_else(|| Refusal::new(code::INVALID_PARAMS, "requestState is not what was sent"))
}
