//! Answers a request of the server: chooses the asker (the part of the program that puts questions to a user) that
//! answers it, and pauses the clocks of the calls that wait meanwhile.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Abilities,
    ask::SharedAsker,
    link::inbound::{Inbound, OpenRequest, input},
};

/// A request of the server, about to be answered.
pub(super) struct Question {
    pub(super) inbound: Arc<Inbound>,
    pub(super) method: String,
    pub(super) params: Value,
    /// The request of this host on whose stream the question arrived, if the transport knows that request.
    pub(super) stream_request: Option<i64>,
}

impl Question {
    /// Answers the request, or starts the task as which the server wants it answered.
    pub(super) async fn answer(self) -> Result<Value, input::Refusal> {
        if self.method.starts_with("tasks/") {
            let reply = self.inbound.state.lock().tasks.handle(&self.method, &self.params)?;
            return reply.wait().await;
        }
        if self.params.get("task").is_some_and(Value::is_object) {
            let ttl = self.params["task"]["ttl"].as_u64();
            let new_task = self.inbound.state.lock().tasks.begin(ttl, &self.inbound.stop)?;
            let tracker = self.inbound.tracker.clone();
            tracker.spawn(new_task.runner.run(self.ask()));
            return Ok(new_task.answer);
        }
        self.ask().await
    }

    /// Has the asker of the call that caused the request answer. Pauses the clocks of waiting calls meanwhile.
    async fn ask(self) -> Result<Value, input::Refusal> {
        // A request for roots belongs to no call, unless it arrives on a call's stream.
        let belongs_to_no_call = self.stream_request.is_none() && self.method == "roots/list";
        let request = if belongs_to_no_call { None } else { self.inbound.request_for_question(self.stream_request)? };
        let asker = match &request {
            // Usually, the host's asker replaces an asker that can answer nothing. It does not if the asker of the call
            // is exclusive, or if the question certainly belongs to the call.
            Some(request)
                if self.stream_request.is_some() || request.asker.is_exclusive() || can_answer(&request.asker) =>
            {
                request.asker.clone()
            }
            _ => self.inbound.asker.clone(),
        };
        // The user is shown who made the call, even if the host's asker answers.
        let caller_is_known = |request: &&Arc<OpenRequest>| {
            // A question that arrived on no request's stream may belong to any open request.
            self.stream_request.is_some()
                || self.inbound.open_requests().iter().all(|other| other.caller == request.caller)
        };
        let request_of_caller = request.as_ref().filter(caller_is_known);
        let asker = request_of_caller.and_then(|request| asker.on_behalf_of(&request.caller)).unwrap_or(asker);
        // For a question that belongs to no call, a token that is never cancelled.
        let abandon_token = request.as_ref().map(|request| request.abandon_token.clone()).unwrap_or_default();
        // If the question may belong to any open request, pause the clocks of all open requests.
        let requests_to_pause = match (self.stream_request, request) {
            (Some(_), Some(request)) => vec![request],
            _ => self.inbound.open_requests(),
        };
        let _pauses: Vec<_> = requests_to_pause.iter().map(|request| request.clock.pause()).collect();
        let answer = input::answer(&asker, self.inbound.questioner(), &self.method, &self.params);
        tokio::select! {
            answer = answer => answer,
            // The caller no longer waits for the call that the question belongs to.
            () = abandon_token.cancelled() => Err(input::Refusal::unanswered()),
        }
    }
}

/// Returns whether the asker has any ability.
fn can_answer(asker: &SharedAsker) -> bool {
    asker.abilities() != Abilities::NONE
}
