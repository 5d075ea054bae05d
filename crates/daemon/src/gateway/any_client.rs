//! The asker of a host that has a gateway (one MCP server in front of all others). An asker puts the questions of
//! servers to a user. The clients that could be asked connect to the gateway only after the servers.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use toolrack_host::{
    Abilities, Asker, Caller, ServerName, SharedAsker,
    ask::{AskRefused, Confirm, Confirmed, Elicitation, Elicited, Root},
};

/// The asker of a host behind a gateway.
///
/// Servers of 2025-11-25 and older get the capabilities when they connect, long before the clients are known. So this
/// asker declares everything that a client can be asked: forms, URLs, sampling, roots. Each question then goes to the
/// client whose call caused it, and is declined if that client cannot be asked. A question without a call goes to the
/// asker given to [`Self::with_fallback`], or is declined if there is none.
#[derive(Clone, Debug, Default)]
pub struct AnyClient {
    fallback: Option<SharedAsker>,
}

impl AnyClient {
    /// Asks only the clients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `fallback` the questions that belong to no client's call, and the approvals of calls that no client made.
    #[must_use]
    pub fn with_fallback(fallback: SharedAsker) -> Self {
        Self { fallback: Some(fallback) }
    }
}

impl Asker for AnyClient {
    fn abilities(&self) -> Abilities {
        // Only the fallback approves calls that no client made.
        let client_abilities = Abilities { confirm: false, ..Abilities::ALL };
        client_abilities.or(self.fallback.as_ref().map_or(Abilities::NONE, |fallback| fallback.abilities()))
    }

    /// Clients do not count here: in a call of a client, the asker is the client itself.
    fn abilities_in_own_calls(&self) -> Abilities {
        self.fallback.as_ref().map_or(Abilities::NONE, |fallback| fallback.abilities_in_own_calls())
    }

    fn on_behalf_of(&self, caller: &Caller) -> Option<SharedAsker> {
        let fallback = self.fallback.as_ref()?.on_behalf_of(caller)?;
        Some(Arc::new(Self { fallback: Some(fallback) }))
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        match &self.fallback {
            Some(fallback) => fallback.confirm(question),
            None => Box::pin(async { Confirmed::No { why: None } }),
        }
    }

    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        let can_ask = |abilities: Abilities| match question {
            Elicitation::Form { .. } => abilities.forms,
            Elicitation::Url { .. } => abilities.urls,
        };
        match &self.fallback {
            Some(fallback) if can_ask(fallback.abilities()) => fallback.elicit(server, question),
            _ => Box::pin(async { Elicited::Decline }),
        }
    }

    fn sample(&self, server: ServerName, request: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        match &self.fallback {
            Some(fallback) if fallback.abilities().sampling => fallback.sample(server, request),
            _ => Box::pin(async {
                Err(AskRefused::new("sampling was refused: it does not belong to a call of a client that has a model"))
            }),
        }
    }

    fn roots(&self, server: ServerName) -> BoxFuture<'_, Vec<Root>> {
        match &self.fallback {
            Some(fallback) if fallback.abilities().roots => fallback.roots(server),
            _ => Box::pin(async { Vec::new() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Inbox;

    impl Asker for Inbox {
        fn abilities(&self) -> Abilities {
            Abilities { confirm: true, ..Abilities::NONE }
        }

        fn confirm(&self, _question: Confirm) -> BoxFuture<'_, Confirmed> {
            Box::pin(async { Confirmed::Yes })
        }

        fn elicit(&self, _server: ServerName, _question: Elicitation) -> BoxFuture<'_, Elicited> {
            panic!("it said that it cannot")
        }
    }

    #[tokio::test]
    async fn everything_is_declared_and_only_what_a_client_can_answer_is_asked() {
        let asker = AnyClient::with_fallback(Arc::new(Inbox));
        assert_eq!(asker.abilities(), Abilities::ALL);
        assert!(!AnyClient::new().abilities().confirm);
        let server = ServerName::new("fs").unwrap();
        let question = Confirm::new(server.clone(), "write", serde_json::Map::new(), "rule");
        assert_eq!(asker.confirm(question).await, Confirmed::Yes);
        let form = Elicitation::Form { message: String::new(), schema: Value::Null };
        assert_eq!(asker.elicit(server.clone(), form).await, Elicited::Decline);
        assert!(asker.sample(server.clone(), Value::Null).await.is_err());
        assert!(asker.roots(server).await.is_empty());
    }
}
