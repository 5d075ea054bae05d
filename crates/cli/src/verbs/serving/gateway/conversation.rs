//! The messages between a client and the backend of the gateway that the next backend must know.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// Requests that only read a list or that the gateway itself answers. They can be sent again.
const HARMLESS: &[&str] = &[
    "initialize",
    "ping",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
    "tools/list",
];

/// Requests that change the connection for as long as it lasts.
const LASTING: &[&str] = &["logging/setLevel", "resources/subscribe"];

/// The code of an error that an implementation defines (JSON-RPC 2.0, 5.1).
const LOST: i32 = -32_000;

/// The prefix of the ids of our own requests, which no client uses.
const OURS: &str = "toolrack-gateway-";

/// A conversation, from the client's first message on. Lines are without their ends.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Requests of the client without a response, by their ids as JSON.
    waiting: HashMap<String, Waiting>,
    /// The `initialize` request, once it was answered. Only the older era has one.
    initialize: Option<Value>,
    /// The client's `initialized` notification.
    initialized: Option<Vec<u8>>,
    /// Lasting requests that were answered, by their subject.
    lasting: BTreeMap<String, Value>,
    /// The number of our last id.
    last: u64,
}

#[derive(Debug)]
struct Waiting {
    method: String,
    /// The line itself, if it may be needed again.
    again: Option<Vec<u8>>,
}

/// The outer shape of a message.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Conversation {
    /// Notes a line of the client, before it is passed on.
    pub(super) fn asked(&mut self, line: &[u8]) {
        let Ok(Shape { id, method: Some(method), .. }) = serde_json::from_slice::<Shape<'_>>(line) else { return };
        match id {
            Some(id) => {
                let is_kept = HARMLESS.contains(&&*method) || LASTING.contains(&&*method) || is_unsubscription(&method);
                let again = is_kept.then(|| line.to_owned());
                self.waiting.insert(id.get().to_owned(), Waiting { method, again });
            }
            None if method == "notifications/initialized" => self.initialized = Some(line.to_owned()),
            None => {}
        }
    }

    /// Notes a line of the backend; returns whether it is for the client.
    pub(super) fn answered(&mut self, line: &[u8]) -> bool {
        let Ok(Shape { id: Some(id), method: None, error }) = serde_json::from_slice::<Shape<'_>>(line) else {
            return true;
        };
        if id.get().trim_start_matches('"').starts_with(OURS) {
            return false;
        }
        if let Some(Waiting { method, again: Some(again) }) = self.waiting.remove(id.get())
            && error.is_none()
            && let Ok(request) = serde_json::from_slice::<Value>(&again)
        {
            self.remember(&method, request);
        }
        true
    }

    fn remember(&mut self, method: &str, request: Value) {
        let about = |method: &str| match method {
            "resources/subscribe" => format!("{method} {}", request["params"]["uri"]),
            _ => method.to_owned(),
        };
        if method == "initialize" {
            self.initialize = Some(request);
        } else if is_unsubscription(method) {
            self.lasting.remove(&about("resources/subscribe"));
        } else if LASTING.contains(&method) {
            self.lasting.insert(about(method), request);
        }
    }

    /// Handles the loss of the backend: answers the requests that may have been carried out. Harmless requests still
    /// wait, and are in [`Self::again`].
    pub(super) fn lost(&mut self) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        self.waiting.retain(|id, waiting| {
            if HARMLESS.contains(&&*waiting.method) {
                return true;
            }
            let id: Value = serde_json::from_str(id).unwrap_or_default();
            let message = format!(
                "the toolrack daemon ended before it answered `{}`: it is not known whether this was carried out, and it is \
                 not repeated",
                toolrack_host::text::clip(&waiting.method, 100),
            );
            let error = json!({ "code": LOST, "message": message, "data": { "code": "DAEMON_LOST" } });
            answers.push(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes());
            false
        });
        answers
    }

    /// The line that restarts the conversation with the next backend, and the id of its response. Nothing else may be
    /// sent before that response.
    pub(super) fn beginning(&mut self) -> Option<(Vec<u8>, String)> {
        let request = self.initialize.clone()?;
        Some(self.as_ours(request))
    }

    /// The requests to send after that: the lasting requests, and the requests that still wait for an answer.
    pub(super) fn again(&mut self) -> Vec<Vec<u8>> {
        let mut lines: Vec<_> =
            self.initialize.is_some().then(|| self.initialized.clone()).flatten().into_iter().collect();
        for request in self.lasting.values().cloned().collect::<Vec<_>>() {
            lines.push(self.as_ours(request).0);
        }
        lines.extend(self.waiting.values().filter_map(|waiting| waiting.again.clone()));
        lines
    }

    /// The messages to the client once there is a new backend, which may have other tools, resources and prompts. A
    /// client of the era without `initialize` has lost its subscriptions, and makes them again.
    pub(super) fn news(&self) -> Vec<Vec<u8>> {
        let has_begun = self.initialize.is_some() && self.initialized.is_some();
        let lists = ["tools", "resources", "prompts"].iter().filter(|_| has_begun);
        let news = lists.map(|of| json!({ "jsonrpc": "2.0", "method": format!("notifications/{of}/list_changed") }));
        news.map(|message| message.to_string().into_bytes()).collect()
    }

    /// `request` under an id of ours, and that id as JSON.
    fn as_ours(&mut self, mut request: Value) -> (Vec<u8>, String) {
        self.last += 1;
        let id = json!(format!("{OURS}{}", self.last));
        let as_json = id.to_string();
        request["id"] = id;
        (request.to_string().into_bytes(), as_json)
    }
}

fn is_unsubscription(method: &str) -> bool {
    method == "resources/unsubscribe"
}

/// Whether `line` is the response to the request of this id.
pub(super) fn answers(line: &[u8], id: &str) -> bool {
    serde_json::from_slice::<Shape<'_>>(line)
        .is_ok_and(|shape| shape.method.is_none() && shape.id.is_some_and(|of| of.get() == id))
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
        conversation.asked(&line(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "x": 1 } })));
        assert!(conversation.answered(&line(&json!({ "jsonrpc": "2.0", "id": 0, "result": {} }))));
        conversation.asked(&line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })));
        conversation
    }

    #[test]
    fn a_call_is_never_sent_twice_and_a_list_request_may_be() {
        let mut conversation = begun();
        for (id, method) in [(json!(1), "tools/call"), (json!("a"), "resources/read"), (json!(2), "tools/list")] {
            conversation.asked(&line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} })));
        }
        conversation.asked(&line(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {} })));
        assert!(conversation.answered(&line(&json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } }))));
        let mut lost = messages(&conversation.lost());
        lost.sort_by_key(|answer| answer["id"].to_string());
        assert_eq!(lost.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [&json!("a"), &json!(1)]);
        let message = lost[1]["error"]["message"].as_str().unwrap();
        assert!(message.contains("`tools/call`: it is not known whether this was carried out"), "{message}");
        let again = messages(&conversation.again());
        let methods: Vec<_> = again.iter().map(|message| message["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["notifications/initialized", "tools/list"]);
        assert_eq!(again[1]["id"], 2, "its answer is for the client");
        assert!(conversation.lost().is_empty(), "an error is sent once");
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
            conversation.asked(&subscribe(id, method, uri));
            assert!(conversation.answered(&ok(id)));
        }
        conversation.asked(&subscribe(4, "resources/subscribe", "no:"));
        let refused = json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": -1, "message": "no" } });
        assert!(conversation.answered(&line(&refused)));
        let (initialize, id) = conversation.beginning().unwrap();
        assert_eq!(messages(&[initialize])[0]["params"]["x"], 1);
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
        assert!(answers(answer.as_bytes(), &id) && !conversation.answered(answer.as_bytes()));
        let again = messages(&conversation.again());
        assert_eq!(again.len(), 2, "{again:?}");
        assert_eq!(again[1]["params"]["uri"], "b:");
        assert_eq!(conversation.news().len(), 3);
    }

    #[test]
    fn a_client_that_did_not_initialize_gets_no_message_that_it_did_not_ask_for() {
        let mut conversation = Conversation::default();
        conversation
            .asked(&line(&json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": {} } })));
        assert!(conversation.lost().is_empty() && conversation.news().is_empty() && conversation.beginning().is_none());
        assert_eq!(messages(&conversation.again())[0]["id"], 7);
        // An `initialize` without a response yet is sent as it came.
        conversation.asked(&line(&json!({ "jsonrpc": "2.0", "id": 8, "method": "initialize", "params": {} })));
        assert!(conversation.beginning().is_none());
        assert!(messages(&conversation.again()).iter().any(|message| message["id"] == 8));
    }
}
