//! The memory of the gateway (one MCP server in front of all others) between the requests of clients. It keeps
//! sessions, and parked calls, which wait for their client to return with answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolrack_host::Principal;

use super::{
    options::Bounds,
    parked::{Origin, ParkedCall, ParkedCalls},
    refusal::Refusal,
    session::{Session, Sessions},
};

/// The sessions and parked calls. A removed session or call is dropped only after the lock is released, because
/// dropping a parked call cancels it and runs code of other modules.
pub(super) struct Memory {
    state: Mutex<State>,
    /// How long a call stays parked. After this time, it is cancelled.
    parked_for: Duration,
}

struct State {
    sessions: Sessions,
    parked_calls: ParkedCalls,
}

impl Memory {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let state =
            State { sessions: Sessions::new(bounds), parked_calls: ParkedCalls::new(bounds.fair_limit(bounds.parked)) };
        Self { state: Mutex::new(state), parked_for: bounds.parked_for }
    }

    /// Adds a session. If there are too many, first ends another one. If the principal has used up its share, this is
    /// the principal's own idlest session. If not, it is the idlest session of the principal with the most sessions.
    ///
    /// # Errors
    /// When there are too many sessions, and no session of that principal was idle for long enough.
    pub(super) fn add_session(&self, session: Arc<Session>) -> Result<(), Refusal> {
        let removed_session = self.state.lock().sessions.insert(session)?;
        removed_session.iter().for_each(|session| session.ended.cancel());
        Ok(())
    }

    /// Returns the session of this id, if `principal` began it in the same membership, and marks it as used now. A
    /// session outlives a change of the principal's role or groups, because the gateway judges each request by the
    /// principal that sends it.
    pub(super) fn find_session(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let session = self.state.lock().sessions.get(id).filter(|session| session.belongs_to(principal))?;
        session.touch();
        Some(session)
    }

    /// Ends the session of this id, if there is one.
    pub(super) fn end_session(&self, id: &str) {
        let session = self.state.lock().sessions.remove(id);
        session.iter().for_each(|session| session.ended.cancel());
    }

    /// Parks a call. Returns the `input_required` result with which the client can resume it.
    ///
    /// # Errors
    /// When too many calls are parked.
    pub(super) fn park(&self, call: ParkedCall) -> Result<Bytes, Refusal> {
        let questions = call.questions.iter();
        let requests: Map<String, Value> = questions
            .map(|(key, question)| (key.clone(), json!({"method": question.method, "params": question.params})))
            .collect();
        let request_state = self.state.lock().parked_calls.insert(call)?;
        Ok(json!({"resultType": "input_required", "inputRequests": requests, "requestState": request_state})
            .to_string()
            .into())
    }

    /// Returns the parked call that a client resumes with `state`. The call is not parked any more.
    ///
    /// # Errors
    /// When `state` belongs to another request than `origin`, or to no call that is parked.
    pub(super) fn resume(&self, state: &str, origin: &Origin) -> Result<ParkedCall, Refusal> {
        let is_in_time = |parked_at: &Instant| parked_at.elapsed() <= self.parked_for;
        // Compared before the call is taken, so that a request with another origin leaves the call to its own client.
        let parked_origin = self.state.lock().parked_calls.origin(state);
        if parked_origin.is_some_and(|(parked_at, parked)| is_in_time(&parked_at) && !parked.is_same_request(origin)) {
            return Err(Refusal::invalid_params("requestState belongs to another request"));
        }
        let taken_call = self.state.lock().parked_calls.take(state);
        taken_call.filter(|(parked_at, _)| is_in_time(parked_at)).map(|(_, call)| call).ok_or_else(|| {
            let seconds = self.parked_for.as_secs();
            Refusal::invalid_params(format!(
                "no call waits here under this requestState (a call waits {seconds} s at most, and not beyond a \
                 restart): the server may have done a part of the call already; if it is safe to call again, do so \
                 without requestState"
            ))
        })
    }

    /// Ends idle sessions, and cancels the parked calls that their clients have not resumed in time.
    pub(super) fn sweep(&self) {
        let (idle_sessions, expired_calls) = {
            let mut state = self.state.lock();
            (state.sessions.remove_idle(), state.parked_calls.remove_expired(self.parked_for))
        };
        idle_sessions.iter().for_each(|session| session.ended.cancel());
        drop(expired_calls);
    }

    /// Ends all sessions, and cancels all parked calls.
    pub(super) fn clear(&self) {
        let (sessions, parked_calls) = {
            let mut state = self.state.lock();
            (state.sessions.remove_all(), state.parked_calls.remove_all())
        };
        sessions.iter().for_each(|session| session.ended.cancel());
        drop(parked_calls);
    }
}
