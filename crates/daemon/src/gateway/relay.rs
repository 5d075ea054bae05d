//! Relays the questions of servers to the client whose call caused them, and asks the client to approve its calls.

use std::sync::Arc;

use futures::future::BoxFuture;
use rand::Rng as _;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use toolrack_host::{
    Abilities, Asker, Caller, Era, ServerName, SharedAsker,
    ask::{AskRefused, Confirm, Confirmed, Elicitation, Elicited, Root},
    principal::Kind,
};

use super::{
    approval,
    pending::{Question, Update},
};

/// An [`Asker`] (it gets the questions of servers) that sends each question to the client if the client can answer it,
/// and to a fallback asker if not.
#[derive(Clone)]
pub(super) struct ClientAsker {
    /// The era of the client. A client of the legacy era (2025-11-25 and older) gets an id with each page to open.
    pub(super) era: Era,
    /// What the client can answer.
    pub(super) client_abilities: Abilities,
    /// Takes the questions for the client.
    pub(super) updates: mpsc::Sender<Update>,
    /// Gets the questions that the client cannot answer. Without a fallback, these are declined.
    pub(super) fallback: Option<SharedAsker>,
    /// The name that the server gave to the question for which this asker was made ([`Asker::for_question`]).
    pub(super) question_name: Option<String>,
}

impl ClientAsker {
    /// Sends the client a request, and waits for its result. The error says in words why there is none.
    async fn ask(&self, method: &'static str, params: Value) -> Result<Value, String> {
        let (reply, answer) = oneshot::channel();
        let client_gone = || "the client went away".to_owned();
        self.updates
            .send(Update::Question(Question { name: self.question_name.clone(), method, params, reply }))
            .await
            .map_err(|_| client_gone())?;
        answer.await.unwrap_or_else(|_| Err(client_gone()))
    }

    /// What the fallback asker can answer.
    fn fallback_abilities(&self) -> Abilities {
        self.fallback.as_ref().map_or(Abilities::NONE, |fallback| fallback.abilities())
    }
}

impl Asker for ClientAsker {
    fn abilities(&self) -> Abilities {
        // The gateway asks a client for an approval with a form.
        Abilities { confirm: self.client_abilities.forms, ..self.client_abilities }.or(self.fallback_abilities())
    }

    fn for_question(&self, name: &str) -> Option<SharedAsker> {
        Some(Arc::new(Self { question_name: Some(name.to_owned()), ..self.clone() }))
    }

    fn on_behalf_of(&self, caller: &Caller) -> Option<SharedAsker> {
        let fallback = self.fallback.as_ref()?.on_behalf_of(caller)?;
        Some(Arc::new(Self { fallback: Some(fallback), ..self.clone() }))
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        Box::pin(async move {
            // Only a person can approve: an answer from the client of a service does not count.
            if self.client_abilities.forms && question.caller.principal().kind() == Kind::Person {
                let answer = self.ask("elicitation/create", approval::form(&question)).await;
                return approval::read_answer(answer);
            }
            match &self.fallback {
                Some(fallback) if fallback.abilities().confirm => fallback.confirm(question).await,
                _ => {
                    Confirmed::No { why: Some("the client cannot be asked, and no other user can be asked".to_owned()) }
                }
            }
        })
    }

    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        Box::pin(async move {
            let params = match &question {
                Elicitation::Form { message, schema } if self.client_abilities.forms => {
                    json!({"mode": "form", "message": message, "requestedSchema": schema})
                }
                Elicitation::Url { message, url, id } if self.client_abilities.urls => {
                    let mut params = json!({"mode": "url", "message": message, "url": url});
                    if self.era == Era::Legacy {
                        let id = id.clone().unwrap_or_else(|| format!("toolrack-{:016x}", rand::rng().random::<u64>()));
                        params["elicitationId"] = Value::from(id);
                    }
                    params
                }
                _ => {
                    return match &self.fallback {
                        Some(fallback) => fallback.elicit(server, question).await,
                        None => Elicited::Decline,
                    };
                }
            };
            match self.ask("elicitation/create", params).await {
                Ok(answer) => parse_elicited(answer),
                // Without an answer, the user has not decided.
                Err(_) => Elicited::Cancel,
            }
        })
    }

    fn sample(&self, server: ServerName, request: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        Box::pin(async move {
            if self.client_abilities.sampling {
                return self.ask("sampling/createMessage", request).await.map_err(AskRefused::new);
            }
            match &self.fallback {
                Some(fallback) if fallback.abilities().sampling => fallback.sample(server, request).await,
                _ => Err(AskRefused::new("sampling was refused: the client has no model to answer with")),
            }
        })
    }

    fn roots(&self, server: ServerName) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(async move {
            if self.client_abilities.roots {
                // A client that gives no answer, or a malformed one, has no roots.
                let answer = self.ask("roots/list", json!({})).await.unwrap_or_default();
                return serde_json::from_value(answer["roots"].clone()).unwrap_or_default();
            }
            match &self.fallback {
                Some(fallback) => fallback.roots(server).await,
                None => Vec::new(),
            }
        })
    }
}

/// Reads the client's result of `elicitation/create`. An unknown action counts as `cancel`.
fn parse_elicited(answer: Value) -> Elicited {
    match answer["action"].as_str() {
        Some("accept") => Elicited::Accept(answer["content"].as_object().cloned().unwrap_or_default()),
        Some("decline") => Elicited::Decline,
        _ => Elicited::Cancel,
    }
}

/// Returns whether `answer` is a valid answer of a client to a request of `method`. If not, the gateway asks again.
pub(super) fn is_valid_answer(method: &str, answer: &Value) -> bool {
    match method {
        "elicitation/create" => {
            matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel"))
                && matches!(answer["content"], Value::Null | Value::Object(_))
        }
        "roots/list" => answer["roots"].is_array(),
        // `sampling/createMessage`.
        _ => answer["role"].is_string() && !answer["content"].is_null(),
    }
}

/// Returns the abilities of a client with these capabilities. A client that declares elicitation without a mode means
/// forms.
pub(super) fn abilities(capabilities: &Map<String, Value>) -> Abilities {
    let has = |name: &str| capabilities.get(name).is_some_and(Value::is_object);
    let elicitation = capabilities.get("elicitation").and_then(Value::as_object);
    let has_mode = |mode: &str| elicitation.is_some_and(|modes| modes.get(mode).is_some_and(Value::is_object));
    Abilities {
        // MCP has no capability for approvals: `ClientAsker` asks for them with forms.
        confirm: false,
        forms: has_mode("form") || (elicitation.is_some() && !has_mode("url")),
        urls: has_mode("url"),
        sampling: has("sampling"),
        roots: has("roots"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_without_a_mode_means_forms() {
        let of = |capabilities: Value| abilities(capabilities.as_object().unwrap());
        assert!(of(json!({"elicitation": {}})).forms);
        assert!(!of(json!({"elicitation": {"url": {}}})).forms);
        assert!(of(json!({"elicitation": {"url": {}, "form": {}}})).forms);
        assert_eq!(of(json!({"sampling": true})), Abilities::NONE);
    }
}
