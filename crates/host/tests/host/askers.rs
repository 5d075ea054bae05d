//! Askers for tests: an asker passes questions to a user, and gives the answers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep};
use toolrack_host::{
    Abilities, Asker, ServerName,
    ask::{AskRefused, Confirm, Confirmed, Elicitation, Elicited, Root},
};

/// The folder that an eager user shows to servers.
pub(crate) const ROOT: &str = "file:///workspace";
/// The answer of an eager user's model.
pub(crate) const MODEL_SAYS: &str = "Paris, of course";

/// An asker that answers as set, and remembers what was asked.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) abilities: Abilities,
    /// The answer to every call that needs approval.
    pub(crate) confirms: Confirmed,
    /// The answer to every form; without one, the form is filled in.
    pub(crate) elicits: Option<Elicited>,
    /// The time it takes to fill in a form.
    pub(crate) takes: Duration,
    /// A word for each question so far.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// Questions that are open now.
    pub(crate) open: watch::Sender<usize>,
}

impl Person {
    /// An asker that can answer every kind of question, and says yes to all.
    pub(crate) fn eager() -> Self {
        Self {
            abilities: Abilities::ALL,
            confirms: Confirmed::Yes,
            elicits: None,
            takes: Duration::ZERO,
            asked: Arc::default(),
            open: watch::Sender::default(),
        }
    }

    pub(crate) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// What was asked so far, a word for each question.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until so many questions are open.
    pub(crate) async fn has_open(&self, questions: usize) {
        self.open.subscribe().wait_for(|open| *open == questions).await.unwrap();
    }

    fn note(&self, question: impl Into<String>) {
        self.asked.lock().unwrap().push(question.into());
    }
}

/// Counts an open question, until its future ends or is dropped.
struct Open<'a>(&'a watch::Sender<usize>);

impl<'a> Open<'a> {
    fn on(table: &'a watch::Sender<usize>) -> Self {
        table.send_modify(|open| *open += 1);
        Self(table)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl Asker for Person {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        self.note(format!("confirm {}/{} {}", question.server, question.tool, Value::Object(question.arguments)));
        Box::pin(async { self.confirms.clone() })
    }

    fn elicit(&self, _: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        let filled_in = match question {
            Elicitation::Form { message, schema } => {
                self.note(format!("form {message}"));
                Elicited::Accept(fill_in(&schema))
            }
            Elicitation::Url { url, .. } => {
                self.note(format!("url {url}"));
                Elicited::Accept(Map::new())
            }
        };
        Box::pin(async move {
            let _open = Open::on(&self.open);
            sleep(self.takes).await;
            self.elicits.clone().unwrap_or(filled_in)
        })
    }

    fn sample(&self, _: ServerName, _: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        self.note("sample");
        let content = json!({"type": "text", "text": MODEL_SAYS});
        let message = json!({"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"});
        Box::pin(async { Ok(message) })
    }

    fn roots(&self, _: ServerName) -> BoxFuture<'_, Vec<Root>> {
        self.note("roots");
        Box::pin(async { vec![Root { uri: ROOT.to_owned(), name: Some("workspace".to_owned()) }] })
    }
}

/// The required fields of a form that have no default.
fn fill_in(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required
        .filter(|name| schema["properties"][name].get("default").is_none())
        .map(|name| (name.to_owned(), value_for(&schema["properties"][name])))
        .collect()
}

fn value_for(property: &Value) -> Value {
    let listed = property["enum"].get(0).or_else(|| property["oneOf"].get(0)?.get("const"));
    match (listed, property["type"].as_str()) {
        (Some(value), _) => value.clone(),
        (None, Some("boolean")) => json!(true),
        (None, Some("integer" | "number")) => json!(1),
        _ => json!("Ada"),
    }
}
