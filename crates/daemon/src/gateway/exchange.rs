//! An exchange: a request of a client to the gateway (one MCP server in front of all others), from its arrival to its
//! answer. It yields the messages that the gateway sends back, in their order, for any transport.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use toolrack_host::{Era, mcp::Progress};

use super::{
    Gateway,
    message::{self, Id},
    methods::{ClientCaller, ClientRequest, Listening, Reply, RunningCall},
    news::{self, Filter, News},
    parked::ParkedCall,
    pending::{Question, Step, Update},
    protocol_names::META_SUBSCRIPTION,
    refusal::Refusal,
    subscriptions::ResourceSubscriptions,
    tools::Cacheable,
};
use crate::fair_limit::Permit;

/// The next message to send back.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A notification, or a request of the gateway. Further messages follow.
    Message(Bytes),
    /// The answer, which is the last message.
    Answer(Result<Bytes, Refusal>),
}

/// A request that is under way. Dropping it cancels it.
pub(super) struct Exchange {
    gateway: Gateway,
    caller: ClientCaller,
    id: Id,
    work: Work,
    /// A permit of the gateway's limit of calls or of streams. Dropping the exchange frees the permit.
    _gateway_permit: Permit,
    /// A permit of the session's limit of calls, if the request has a session.
    _session_permit: Option<OwnedSemaphorePermit>,
}

/// The work that a request has begun.
enum Work {
    Call(Box<RunningCall>),
    Listen {
        filter: Filter,
        subscriptions: ResourceSubscriptions,
        news: broadcast::Receiver<News>,
        /// The messages that are to be sent next.
        unsent: Vec<Bytes>,
    },
    /// A call that is parked until its client returns, or that has ended.
    Ended,
}

/// Returns a key for a question that is asked together with `questions`. This is `name`, which the server gave to the
/// question, or a numbered name if there is no `name` or `questions` has it already.
fn unused_key<T>(name: Option<String>, questions: &BTreeMap<String, T>) -> String {
    let numbered_names = (questions.len() + 1..).map(|number| format!("question-{number}"));
    // One of the numbered names is free.
    name.into_iter().chain(numbered_names).find(|name| !questions.contains_key(name)).unwrap_or_default()
}

/// A request that has begun.
pub(super) enum StartedRequest {
    /// It was answered at once, with this result object.
    Answered(Bytes),
    /// It is under way.
    Exchange(Box<Exchange>),
}

impl Gateway {
    /// Begins to handle a request. Dropping the future cancels the request.
    ///
    /// # Errors
    /// When the request is refused, for example because too many requests are under way.
    pub(super) async fn begin_exchange(
        &self,
        caller: &ClientCaller,
        id: &Id,
        request: ClientRequest<'_>,
    ) -> Result<StartedRequest, Refusal> {
        let gateway_permit = if request.method == "subscriptions/listen" {
            self.0
                .stream_limit
                .take(&caller.principal)
                .map_err(|reached| Refusal::limit_reached("streams", reached, "streams"))?
        } else {
            self.0
                .call_limit
                .take(&caller.principal)
                .map_err(|reached| Refusal::limit_reached("requests", reached, "calls"))?
        };
        let session_permit = caller.session.as_ref().map(|session| session.call_permits.clone().try_acquire_owned());
        let too_many_calls = |_| Refusal::busy("too many requests of this client", "calls_per_session");
        let session_permit = session_permit.transpose().map_err(too_many_calls)?;
        let work = match self.handle(caller, request).await? {
            Reply::Now(result) => return Ok(StartedRequest::Answered(result)),
            Reply::Call(running_call) => Work::Call(running_call),
            Reply::Listen(listening) => {
                let Listening { filter, subscriptions } = *listening;
                let news = self.0.news.subscribe();
                let unsent = vec![filter.acknowledgement(id.json())];
                Work::Listen { filter, subscriptions, news, unsent }
            }
        };
        let (gateway, caller, id) = (self.clone(), caller.clone(), id.clone());
        let exchange =
            Exchange { gateway, caller, id, work, _gateway_permit: gateway_permit, _session_permit: session_permit };
        Ok(StartedRequest::Exchange(Box::new(exchange)))
    }
}

impl Exchange {
    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Runs the request until there is a message to send, and returns the message. Cancel-safe. The answer is the last
    /// message: a call after that never returns.
    pub(super) async fn next(&mut self) -> Outgoing {
        loop {
            let outgoing = match &mut self.work {
                Work::Call(running_call) => {
                    match self.gateway.0.stop.run_until_cancelled(running_call.call.next()).await {
                        Some(Step::Update(Update::Progress(progress))) => self.progress_notification(&progress),
                        Some(Step::Update(Update::Question(question))) => self.ask_client(question),
                        Some(Step::Update(Update::Completed(id))) => self.elicitation_completed(&id),
                        Some(Step::Ended(outcome)) => {
                            let cacheable = running_call.cacheable;
                            self.work = Work::Ended;
                            let finish = |result| self.gateway.with_required_fields(self.caller.era, result, cacheable);
                            Some(Outgoing::Answer(outcome.map(finish)))
                        }
                        None => {
                            self.work = Work::Ended;
                            Some(Outgoing::Answer(Err(Refusal::stopping())))
                        }
                    }
                }
                Work::Listen { .. } => Some(self.next_news().await),
                Work::Ended => std::future::pending().await,
            };
            if let Some(outgoing) = outgoing {
                return outgoing;
            }
        }
    }

    /// The notification of progress. `None` if the client wants no progress.
    fn progress_notification(&self, progress: &Progress) -> Option<Outgoing> {
        let Work::Call(running_call) = &self.work else { return None };
        let token = running_call.progress_token.as_ref()?;
        let mut params = json!({"progress": progress.progress});
        if let Some(total) = progress.total {
            params["total"] = json!(total);
        }
        if let Some(message) = &progress.message {
            params["message"] = json!(message);
        }
        let fields = params.to_string();
        // The token is copied as the client wrote it, because parsing could change a large number. It is written in
        // front of the other fields, in place of their opening brace.
        let fields = fields.strip_prefix('{').unwrap_or_default();
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},{fields}}}"#,
            token.get()
        );
        Some(Outgoing::Message(text.into()))
    }

    /// The notification that the user has finished with the page to which the gateway directed the client. Only for
    /// clients of the legacy era (2025-11-25 and older).
    fn elicitation_completed(&self, id: &str) -> Option<Outgoing> {
        (self.caller.era == Era::Legacy).then(|| {
            let params = json!({ "elicitationId": id });
            Outgoing::Message(message::request_or_notification(
                /* id */ None,
                "notifications/elicitation/complete",
                &params,
            ))
        })
    }

    /// Asks the client. A client of the legacy era gets a request of the gateway. A client of 2026-07-28 gets the
    /// question in the answer to its own request.
    fn ask_client(&mut self, question: Question) -> Option<Outgoing> {
        match (self.caller.era, &self.caller.session) {
            (Era::Legacy, Some(session)) => match session.add_question(question.reply) {
                Ok(number) => Some(Outgoing::Message(message::request_or_notification(
                    Some(number),
                    question.method,
                    &question.params,
                ))),
                Err(reply) => {
                    // Fails only if the call no longer waits for the reply.
                    let _ = reply.send(Err("too many questions wait for an answer".to_owned()));
                    None
                }
            },
            _ => self.park(question),
        }
    }

    /// Parks the call until its client returns, and asks all open questions of the call together.
    fn park(&mut self, first_question: Question) -> Option<Outgoing> {
        let Work::Call(mut running_call) = std::mem::replace(&mut self.work, Work::Ended) else { return None };
        let mut questions = BTreeMap::new();
        let mut next_update = Some(Update::Question(first_question));
        while let Some(update) = next_update {
            // Other updates are dropped: the client gets the questions in an answer, which no message may follow.
            if let Update::Question(mut question) = update {
                let name = question.name.take();
                questions.insert(unused_key(name, &questions), question);
            }
            next_update = running_call.call.try_next();
        }
        let parked_call = ParkedCall { call: running_call.call, questions, origin: running_call.origin };
        let result = self.gateway.0.memory.park(parked_call);
        Some(Outgoing::Answer(
            result.map(|result| self.gateway.with_required_fields(Era::Modern, result, Cacheable::No)),
        ))
    }

    /// The next message of a subscription. The gateway answers the request when it shuts down.
    async fn next_news(&mut self) -> Outgoing {
        let Work::Listen { filter, subscriptions, news, unsent } = &mut self.work else {
            return std::future::pending().await;
        };
        loop {
            if !unsent.is_empty() {
                return Outgoing::Message(unsent.remove(0));
            }
            let received_news = tokio::select! {
                received_news = news::next(news) => received_news,
                uris = subscriptions.until_updated() => {
                    unsent.extend(uris.iter().map(|uri| news::resource_updated(uri, Some(self.id.json()))));
                    continue;
                }
                () = self.gateway.0.stop.cancelled() => None,
            };
            let Some(received_news) = received_news else {
                let subscription = format!(r#"{{"_meta":{{"{META_SUBSCRIPTION}":{}}}}}"#, self.id.json());
                let result = self.gateway.with_required_fields(Era::Modern, subscription.into(), Cacheable::No);
                self.work = Work::Ended;
                return Outgoing::Answer(Ok(result));
            };
            for news in received_news.iter().filter(|news| news.concerns(&self.caller.view, &self.caller.principal)) {
                if let News::Changed(list, _) = news
                    && filter.wants(*list)
                {
                    unsent.push(news::list_changed(*list, Some(self.id.json())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_question_of_a_call_takes_the_key_of_another() {
        let mut questions = BTreeMap::new();
        let named = |name: &str| Some(name.to_owned());
        // A server may choose the key that the gateway would give to the second question.
        for name in [named("question-2"), None, named("question-2"), named("roots"), None] {
            questions.insert(unused_key(name, &questions), ());
        }
        let keys: Vec<_> = questions.keys().map(String::as_str).collect();
        assert_eq!(keys, ["question-2", "question-3", "question-4", "question-5", "roots"]);
    }
}
