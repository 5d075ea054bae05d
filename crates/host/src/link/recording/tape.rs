//! Defines the tape of a recording: the requests to one server, each with the answer and the notifications that the
//! server sent for it (an exchange).

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::for_each_valid_message;
use crate::{
    link::framing::envelope::{Envelope, Outcome, peek},
    spec::Protocol,
};

/// Requests whose parameters only identify the client. So a replayed request may have other parameters than the
/// recorded request.
const HANDSHAKE_METHODS: [&str; 2] = ["initialize", "server/discover"];

/// The requests of one server in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Tape {
    exchanges: Vec<Exchange>,
    /// The indexes of the exchanges without an answer so far, by the ids of their requests. Used while the recording is
    /// read.
    unanswered_indexes: HashMap<i64, usize>,
}

/// A request, and the server's messages for it.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The recorded id.
    pub(super) id: i64,
    method: String,
    params: Value,
    /// The notifications that belong to the request, or arrived before the next request.
    pub(super) notifications: Vec<Bytes>,
    /// `None` if no answer was recorded.
    pub(super) answer: Option<Answer>,
    was_replayed: AtomicBool,
}

/// The end of a request.
#[derive(Debug)]
pub(super) struct Answer {
    /// `result` or `error`.
    member: &'static str,
    /// The value of the member, as JSON.
    raw: String,
}

impl Answer {
    /// Returns the message that answers the request `id`.
    pub(super) fn message(&self, id: i64) -> Bytes {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"{}":{}}}"#, self.member, self.raw).into()
    }
}

/// The exchange that answers a replayed request.
#[derive(Debug)]
pub(super) struct FoundExchange<'a> {
    pub(super) exchange: &'a Exchange,
    /// Whether the exchange is used for the first time. Its notifications are replayed only then.
    pub(super) is_first_use: bool,
}

/// The reason why a tape has no answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingReason {
    /// The tape has a request of this method and name, but with other parameters or without an answer.
    Similar,
    /// The tape has no request of this method and name.
    Unknown,
}

impl Exchange {
    /// Returns whether the request is a subscription, which stays open as long as the connection.
    pub(super) fn is_subscription(&self) -> bool {
        self.method == "subscriptions/listen"
    }

    fn matches(&self, method: &str, params: &Value) -> bool {
        self.method == method && (HANDSHAKE_METHODS.contains(&method) || self.params == *params)
    }
}

impl Tape {
    /// Adds a message that was sent to the server, if it is a request.
    pub(super) fn record_sent(&mut self, bytes: &Bytes) {
        if let Ok(Envelope::Request { id, method, params }) = peek(bytes)
            && let Some(id) = id.number()
        {
            self.unanswered_indexes.insert(id, self.exchanges.len());
            self.exchanges.push(Exchange {
                id,
                method: method.into_owned(),
                params: read_params(params),
                notifications: Vec::new(),
                answer: None,
                was_replayed: AtomicBool::new(false),
            });
        }
    }

    /// Adds a message, or a batch, that the server sent.
    pub(super) fn record_received(&mut self, bytes: &Bytes) {
        for_each_valid_message(bytes, |message| match message {
            Envelope::Response { id, outcome } => {
                let index = id.number().and_then(|id| self.unanswered_indexes.remove(&id));
                self.record_answer(index, &outcome);
            }
            // The answer of an HTTP server that could not determine the request.
            Envelope::Orphan { error } => {
                let latest = self.exchanges.len().checked_sub(1);
                self.record_answer(
                    latest.filter(|index| self.exchanges[*index].answer.is_none()),
                    &Outcome::Error(error),
                );
            }
            Envelope::Notification { method, params } => self.record_notification(&method, params),
            // Skip these: the recorded answer already reflects the answers to the server's questions.
            Envelope::Request { .. } | Envelope::Batch(_) => {}
        });
    }

    fn record_answer(&mut self, index: Option<usize>, outcome: &Outcome<'_>) {
        let Some(exchange) = index.and_then(|index| self.exchanges.get_mut(index)) else { return };
        let (member, raw) = match outcome {
            Outcome::Result(raw) => ("result", raw),
            Outcome::Error(raw) => ("error", raw),
        };
        exchange.answer = Some(Answer { member, raw: raw.get().to_owned() });
    }

    fn record_notification(&mut self, method: &str, params: Option<&RawValue>) {
        let params: Value = params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
        let index_of_named =
            named_request_id(&params).and_then(|id| self.exchanges.iter().rposition(|exchange| exchange.id == id));
        let Some(index) = index_of_named.or_else(|| self.exchanges.len().checked_sub(1)) else { return };
        let message = serde_json::json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.exchanges[index].notifications.push(message.to_string().into());
    }

    /// Returns the era that the server spoke.
    pub(super) fn protocol(&self) -> Protocol {
        let is_modern = |exchange: &Exchange| {
            let answer = exchange.answer.as_ref().filter(|answer| answer.member == "result");
            let result = answer.and_then(|answer| serde_json::from_str::<Value>(&answer.raw).ok());
            exchange.method == "server/discover" && result.is_some_and(|result| result["supportedVersions"].is_array())
        };
        let was_initialized = |exchange: &Exchange| exchange.method == "initialize" && exchange.answer.is_some();
        let was_modern = self.exchanges.iter().any(is_modern) && !self.exchanges.iter().any(was_initialized);
        if was_modern { Protocol::Modern } else { Protocol::Legacy }
    }

    /// Returns the exchange that answers `request`.
    pub(super) fn find(&self, request: &Bytes) -> Result<FoundExchange<'_>, MissingReason> {
        let Ok(Envelope::Request { method, params, .. }) = peek(request) else { return Err(MissingReason::Unknown) };
        let params = read_params(params);
        let is_usable = |exchange: &&Exchange| exchange.answer.is_some() || exchange.is_subscription();
        let mut last_replayed = None;
        let is_same = |exchange: &&Exchange| exchange.matches(&method, &params);
        for exchange in self.exchanges.iter().filter(is_same).filter(is_usable) {
            if !exchange.was_replayed.swap(true, Ordering::AcqRel) {
                return Ok(FoundExchange { exchange, is_first_use: true });
            }
            last_replayed = Some(exchange);
        }
        let name = name_in(&params);
        let is_similar = |exchange: &Exchange| exchange.method == *method && name_in(&exchange.params) == name;
        match last_replayed {
            Some(exchange) => Ok(FoundExchange { exchange, is_first_use: false }),
            None if self.exchanges.iter().any(is_similar) => Err(MissingReason::Similar),
            None => Err(MissingReason::Unknown),
        }
    }
}

/// Returns the parameters of a request without `_meta`, which only identifies the client and its options.
fn read_params(raw: Option<&RawValue>) -> Value {
    let mut params: Value = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
    if let Value::Object(members) = &mut params {
        members.shift_remove("_meta");
    }
    params
}

/// Returns the tool, prompt or resource that parameters name.
fn name_in(params: &Value) -> Option<&Value> {
    params.get("name").or_else(|| params.get("uri"))
}

/// Returns the id of the request that a notification names, by its progress token or its subscription.
fn named_request_id(params: &Value) -> Option<i64> {
    REQUEST_ID_POINTERS.iter().find_map(|pointer| params.pointer(pointer)?.as_i64())
}

/// The places in the parameters of a notification that name a request, as JSON pointers.
const REQUEST_ID_POINTERS: [&str; 2] = ["/progressToken", "/_meta/io.modelcontextprotocol~1subscriptionId"];

/// Returns `notification` with the recorded request id replaced by `id`.
pub(super) fn with_request_id(notification: &Bytes, recorded_id: i64, id: i64) -> Bytes {
    let Ok(mut message) = serde_json::from_slice::<Value>(notification) else { return notification.clone() };
    for pointer in REQUEST_ID_POINTERS {
        if let Some(request_id) = message.pointer_mut(&format!("/params{pointer}"))
            && *request_id == recorded_id
        {
            *request_id = id.into();
        }
    }
    message.to_string().into()
}
