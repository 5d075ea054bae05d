//! Remembers the agreements between a client and a backend of the gateway, so that the next backend can continue the
//! conversation. A backend answers the client: it is a daemon, or the gateway in this process.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use toolrack_host::mcp::codes::SERVER_ERROR;

/// Requests that only read a list or that the gateway itself answers. They can be sent again.
const REPEATABLE_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
    "tools/list",
];

/// Requests that change the connection for as long as it lasts.
const LASTING_METHODS: &[&str] = &["logging/setLevel", "resources/subscribe"];

/// The notification that takes back a request, which then gets no response.
const CANCELLED_METHOD: &str = "notifications/cancelled";

/// The most bytes of a client's method that an error repeats.
const MAX_METHOD_BYTES: usize = 100;

/// The prefix of the ids of the gateway's own requests, which no client uses.
const OWN_ID_PREFIX: &str = "toolrack-gateway-";

/// A conversation, from the client's first message on. Lines are stored without their line breaks.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The client's open requests, by their ids as JSON: they have no response, and the client has not cancelled them.
    pending_requests: HashMap<String, PendingRequest>,
    /// The `initialize` request, once it was answered. Only the older era of MCP (before 2026-07-28) has this request.
    initialize_request: Option<Value>,
    /// The client's `initialized` notification.
    initialized_notification: Option<Vec<u8>>,
    /// Requests in [`LASTING_METHODS`] that were answered, by their method and, for a subscription, the URI of the
    /// resource.
    lasting_requests: BTreeMap<String, Value>,
    /// The number in the last id of the gateway's own requests.
    last_own_id: u64,
}

/// A request of the client without a response.
#[derive(Debug)]
struct PendingRequest {
    method: String,
    /// The line itself, if the next backend may need it.
    line: Option<Vec<u8>>,
}

/// The outer shape of a message.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// The parameters of [`CANCELLED_METHOD`].
#[derive(Deserialize)]
struct Cancellation<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

impl Conversation {
    /// Notes a line of the client, before it is passed on.
    pub(super) fn note_from_client(&mut self, line: &[u8]) {
        let Ok(Envelope { id, method: Some(method), params, .. }) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return;
        };
        match id {
            Some(id) => {
                let may_be_needed_again = REPEATABLE_METHODS.contains(&&*method)
                    || LASTING_METHODS.contains(&&*method)
                    || is_unsubscription(&method);
                let line = may_be_needed_again.then(|| line.to_owned());
                self.pending_requests.insert(id.get().to_owned(), PendingRequest { method, line });
            }
            None if method == "notifications/initialized" => self.initialized_notification = Some(line.to_owned()),
            None if method == CANCELLED_METHOD => {
                let cancellation =
                    params.and_then(|params| serde_json::from_str::<Cancellation<'_>>(params.get()).ok());
                if let Some(Cancellation { request_id }) = cancellation {
                    self.pending_requests.remove(request_id.get());
                }
            }
            None => {}
        }
    }

    /// Notes a line of the backend. Returns whether it is for the client, and not a response to a request of the
    /// gateway.
    pub(super) fn note_from_backend(&mut self, line: &[u8]) -> bool {
        let Ok(Envelope { id: Some(id), method: None, error, .. }) = serde_json::from_slice::<Envelope<'_>>(line)
        else {
            return true;
        };
        if id.get().trim_start_matches('"').starts_with(OWN_ID_PREFIX) {
            return false;
        }
        if let Some(PendingRequest { method, line: Some(line) }) = self.pending_requests.remove(id.get())
            && error.is_none()
            && let Ok(request) = serde_json::from_slice::<Value>(&line)
        {
            self.remember(&method, request);
        }
        true
    }

    /// Remembers the effect of a request that succeeded, if it lasts.
    fn remember(&mut self, method: &str, request: Value) {
        let key = |method: &str| match method {
            "resources/subscribe" => format!("{method} {}", request["params"]["uri"]),
            _ => method.to_owned(),
        };
        if method == "initialize" {
            self.initialize_request = Some(request);
        } else if is_unsubscription(method) {
            self.lasting_requests.remove(&key("resources/subscribe"));
        } else if LASTING_METHODS.contains(&method) {
            self.lasting_requests.insert(key(method), request);
        }
    }

    /// Handles the loss of the backend: returns an error for each request that the backend may have carried out.
    /// Repeatable requests still wait, and are in [`Self::lines_to_repeat`].
    pub(super) fn fail_unanswered(&mut self) -> Vec<Vec<u8>> {
        let mut errors = Vec::new();
        self.pending_requests.retain(|id, request| {
            if REPEATABLE_METHODS.contains(&&*request.method) {
                return true;
            }
            // The id came as JSON.
            let id: Value = serde_json::from_str(id).unwrap_or_default();
            let message = format!(
                "the toolrack daemon ended before it answered `{}`: it is not known whether this was carried out, and it is \
                 not repeated",
                toolrack_host::text::clip(&request.method, MAX_METHOD_BYTES),
            );
            let error = json!({ "code": SERVER_ERROR, "message": message, "data": { "code": "DAEMON_LOST" } });
            errors.push(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes());
            false
        });
        errors
    }

    /// Returns the `initialize` request for the next backend, and the id of its response as JSON. Nothing else may be
    /// sent before that response. Returns `None` if the client's `initialize` was not answered, or there was none.
    pub(super) fn initialize_to_repeat(&mut self) -> Option<(Vec<u8>, String)> {
        let request = self.initialize_request.clone()?;
        Some(self.with_own_id(request))
    }

    /// Returns the lines for the next backend that follow [`Self::initialize_to_repeat`]: `initialized`, the lasting
    /// requests, and the requests that still wait for an answer.
    pub(super) fn lines_to_repeat(&mut self) -> Vec<Vec<u8>> {
        let mut lines: Vec<_> = self
            .initialize_request
            .is_some()
            .then(|| self.initialized_notification.clone())
            .flatten()
            .into_iter()
            .collect();
        for request in self.lasting_requests.values().cloned().collect::<Vec<_>>() {
            lines.push(self.with_own_id(request).0);
        }
        lines.extend(self.pending_requests.values().filter_map(|request| request.line.clone()));
        lines
    }

    /// Returns the notifications to the client once there is a new backend, which may have other tools, resources and
    /// prompts. A client of the newer era, which has no `initialize`, gets none: its subscriptions ended with the
    /// backend, and the client subscribes again.
    pub(super) fn list_change_notifications(&self) -> Vec<Vec<u8>> {
        let has_begun = self.initialize_request.is_some() && self.initialized_notification.is_some();
        let lists = ["tools", "resources", "prompts"].iter().filter(|_| has_begun);
        let changes =
            lists.map(|list| json!({ "jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed") }));
        changes.map(|message| message.to_string().into_bytes()).collect()
    }

    /// Returns the line of `request` with an id of the gateway's own, and that id as JSON.
    fn with_own_id(&mut self, mut request: Value) -> (Vec<u8>, String) {
        self.last_own_id += 1;
        let id = json!(format!("{OWN_ID_PREFIX}{}", self.last_own_id));
        let id_json = id.to_string();
        request["id"] = id;
        (request.to_string().into_bytes(), id_json)
    }
}

fn is_unsubscription(method: &str) -> bool {
    method == "resources/unsubscribe"
}

/// Returns whether `line` is the response to the request with this id, which is JSON.
pub(super) fn is_response_to(id: &str, line: &[u8]) -> bool {
    serde_json::from_slice::<Envelope<'_>>(line)
        .is_ok_and(|envelope| envelope.method.is_none() && envelope.id.is_some_and(|message_id| message_id.get() == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &Value) -> Vec<u8> {
        message.to_string().into_bytes()
    }

    fn messages(lines: &[Vec<u8>]) -> Vec<Value> {
        lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn begun() -> Conversation {
        let mut conversation = Conversation::default();
        conversation.note_from_client(&line(
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "x": 1 } }),
        ));
        assert!(conversation.note_from_backend(&line(&json!({ "jsonrpc": "2.0", "id": 0, "result": {} }))));
        conversation.note_from_client(&line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })));
        conversation
    }

    #[test]
    fn a_call_is_never_sent_twice_and_a_list_request_may_be() {
        let mut conversation = begun();
        for (id, method) in [(json!(1), "tools/call"), (json!("a"), "resources/read"), (json!(2), "tools/list")] {
            conversation
                .note_from_client(&line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} })));
        }
        conversation
            .note_from_client(&line(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {} })));
        assert!(
            conversation.note_from_backend(&line(&json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } })))
        );
        let mut lost = messages(&conversation.fail_unanswered());
        lost.sort_by_key(|answer| answer["id"].to_string());
        assert_eq!(lost.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [&json!("a"), &json!(1)]);
        let message = lost[1]["error"]["message"].as_str().unwrap();
        assert!(message.contains("`tools/call`: it is not known whether this was carried out"), "{message}");
        let again = messages(&conversation.lines_to_repeat());
        let methods: Vec<_> = again.iter().map(|message| message["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["notifications/initialized", "tools/list"]);
        assert_eq!(again[1]["id"], 2, "its answer is for the client");
        assert!(conversation.fail_unanswered().is_empty(), "an error is sent once");
    }

    #[test]
    fn a_cancelled_request_is_forgotten() {
        let mut conversation = begun();
        for (id, method) in [(json!(1), "tools/call"), (json!("a"), "tools/list"), (json!(2), "tools/call")] {
            conversation
                .note_from_client(&line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} })));
        }
        // The last one cancels nothing: 3 is not the id of a request.
        for id in [json!(1), json!("a"), json!(3)] {
            conversation.note_from_client(&line(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
            ));
        }
        let lost = messages(&conversation.fail_unanswered());
        assert_eq!(lost.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [&json!(2)]);
        let again = messages(&conversation.lines_to_repeat());
        let methods: Vec<_> = again.iter().map(|message| message["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["notifications/initialized"]);
    }

    #[test]
    fn a_new_backend_takes_over_the_state_and_the_client_notices_nothing() {
        let mut conversation = begun();
        let subscribe = |id: u32, method: &str, uri: &str| {
            line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "uri": uri } }))
        };
        let ok = |id: u32| line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
        for (id, method, uri) in
            [(1, "resources/subscribe", "a:"), (2, "resources/subscribe", "b:"), (3, "resources/unsubscribe", "a:")]
        {
            conversation.note_from_client(&subscribe(id, method, uri));
            assert!(conversation.note_from_backend(&ok(id)));
        }
        conversation.note_from_client(&subscribe(4, "resources/subscribe", "no:"));
        let refused = json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": -1, "message": "no" } });
        assert!(conversation.note_from_backend(&line(&refused)));
        let (initialize_request, id) = conversation.initialize_to_repeat().unwrap();
        assert_eq!(messages(&[initialize_request])[0]["params"]["x"], 1);
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
        assert!(is_response_to(&id, answer.as_bytes()) && !conversation.note_from_backend(answer.as_bytes()));
        let again = messages(&conversation.lines_to_repeat());
        assert_eq!(again.len(), 2, "{again:?}");
        assert_eq!(again[1]["params"]["uri"], "b:");
        assert_eq!(conversation.list_change_notifications().len(), 3);
    }

    #[test]
    fn a_client_that_did_not_initialize_gets_no_message_that_it_did_not_ask_for() {
        let mut conversation = Conversation::default();
        conversation.note_from_client(&line(
            &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": {} } }),
        ));
        assert!(
            conversation.fail_unanswered().is_empty()
                && conversation.list_change_notifications().is_empty()
                && conversation.initialize_to_repeat().is_none()
        );
        assert_eq!(messages(&conversation.lines_to_repeat())[0]["id"], 7);
        // An `initialize` without a response yet is sent as it came.
        conversation
            .note_from_client(&line(&json!({ "jsonrpc": "2.0", "id": 8, "method": "initialize", "params": {} })));
        assert!(conversation.initialize_to_repeat().is_none());
        assert!(messages(&conversation.lines_to_repeat()).iter().any(|message| message["id"] == 8));
    }
}
