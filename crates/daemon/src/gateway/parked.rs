//! Calls that wait until their client returns with answers (multi round-trip requests of 2026-07-28).
//!
//! In each round, the client repeats its request with the answers to the questions of the round before. The
//! specification expects a server to forget the call between the rounds, and to begin it again. A gateway must not do
//! that: the call may be running on a server of the legacy era (2025-11-25 and older), and to begin again would call
//! the tool twice. So the call itself waits here, and `requestState` is the only key to it: 128 random bits, valid for
//! one round.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rand::Rng as _;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolrack_host::Principal;

use super::{
    pending::{PendingCall, Question},
    refusal::Refusal,
    relay,
    view::View,
};
use crate::fair_limit::{FairLimit, Permit};

/// The parts of a request by which the gateway recognizes it when the client repeats it with answers.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) method: &'static str,
    /// The parameters, unchanged.
    pub(super) params: Bytes,
    pub(super) view: Arc<View>,
    pub(super) principal: Principal,
}

impl Origin {
    /// Returns whether `other` is the same request in another round: all parts that have an effect are equal.
    /// Principals are compared with role, groups and membership, because these decided what the call may do when it
    /// began.
    pub(super) fn is_same_request(&self, other: &Self) -> bool {
        let effective_params = |origin: &Self| {
            // The parameters of an `Origin` were read as an object before.
            let mut params: Map<String, Value> = serde_json::from_slice(&origin.params).unwrap_or_default();
            params.retain(|name, _| matches!(name.as_str(), "name" | "uri" | "arguments"));
            params
        };
        self.method == other.method
            && self.principal == other.principal
            && self.view.is_same_view(&other.view)
            && effective_params(self) == effective_params(other)
    }
}

/// A call that waits for its client.
pub(super) struct ParkedCall {
    pub(super) call: PendingCall,
    /// The open questions, by the keys under which the client answers them.
    pub(super) questions: BTreeMap<String, Question>,
    pub(super) origin: Origin,
}

impl ParkedCall {
    /// Passes the answers of the client on. Ignores answers to questions that are not open. A question whose answer is
    /// not valid stays open.
    pub(super) fn give_answers(&mut self, answers: Map<String, Value>) {
        for (key, answer) in answers {
            let is_answered = |question: &mut Question| relay::is_valid_answer(question.method, &answer);
            let question = self.questions.extract_if(key.clone()..=key, |_, question| is_answered(question)).next();
            if let Some((_, question)) = question {
                // The code that asked may have given up meanwhile.
                let _ = question.reply.send(Ok(answer));
            }
        }
    }
}

/// All calls that wait for their clients, with the time at which each began to wait.
pub(super) struct ParkedCalls {
    /// The calls, by their `requestState`.
    by_state: HashMap<String, (Instant, Permit, ParkedCall)>,
    limit: FairLimit,
}

impl ParkedCalls {
    pub(super) fn new(limit: FairLimit) -> Self {
        Self { by_state: HashMap::new(), limit }
    }

    /// Parks a call. Returns the key with which the client resumes it.
    ///
    /// # Errors
    /// When too many calls are parked, of the principal or of all.
    pub(super) fn insert(&mut self, call: ParkedCall) -> Result<String, Refusal> {
        let permit = self.limit.take(&call.origin.principal);
        let permit =
            permit.map_err(|reached| Refusal::limit_reached("calls that wait for answers", reached, "parked"))?;
        let state = format!("{:032x}", rand::rng().random::<u128>());
        self.by_state.insert(state.clone(), (Instant::now(), permit, call));
        Ok(state)
    }

    /// The request whose call is parked under `state`, and the time at which it was parked.
    pub(super) fn origin(&self, state: &str) -> Option<(Instant, Origin)> {
        self.by_state.get(state).map(|(parked_at, _, call)| (*parked_at, call.origin.clone()))
    }

    /// Removes the call that is parked under `state`. Returns it with the time at which it was parked.
    pub(super) fn take(&mut self, state: &str) -> Option<(Instant, ParkedCall)> {
        self.by_state.remove(state).map(|(parked_at, _, call)| (parked_at, call))
    }

    /// Removes the calls that have waited for more than `max_wait`, and the calls whose questions no code waits for any
    /// more. Dropping the returned calls cancels them.
    pub(super) fn remove_expired(&mut self, max_wait: Duration) -> Vec<ParkedCall> {
        let expired = self.by_state.extract_if(|_, (parked_at, _, call)| {
            parked_at.elapsed() > max_wait || call.questions.values().all(|question| question.reply.is_closed())
        });
        expired.map(|(_, (_, _, call))| call).collect()
    }

    pub(super) fn remove_all(&mut self) -> Vec<ParkedCall> {
        self.by_state.drain().map(|(_, (_, _, call))| call).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt as _;
    use serde_json::json;
    use tokio::{sync::oneshot, time::advance};
    use toolrack_host::principal::{Kind, Role};

    use super::*;
    use crate::gateway::{
        memory::Memory,
        options::{Bounds, GatewayOptions},
        view::Views,
    };

    /// A memory with room for two parked calls, each for a minute.
    fn memory() -> Memory {
        Memory::new(&Bounds { parked: 2, parked_for: Duration::from_secs(60), ..Bounds::default() })
    }

    /// Sets its flag when it is dropped.
    struct FlagOnDrop(Arc<AtomicBool>);

    impl Drop for FlagOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A call that never ends; whether it was dropped; and what receives the answer to its question.
    fn waiting() -> (ParkedCall, Arc<AtomicBool>, oneshot::Receiver<Result<Value, String>>) {
        let given_up = Arc::new(AtomicBool::new(false));
        let guard = FlagOnDrop(given_up.clone());
        let call = PendingCall::new(move |_updates| {
            async move {
                let _guard = guard;
                std::future::pending().await
            }
            .boxed()
        });
        let (reply, answer) = oneshot::channel();
        let question = Question { name: None, method: "roots/list", params: json!({}), reply };
        let questions = BTreeMap::from([("q".to_owned(), question)]);
        (ParkedCall { call, questions, origin: origin(r#"{"name":"a"}"#) }, given_up, answer)
    }

    fn origin(params: &'static str) -> Origin {
        thread_local! {
            static VIEW: Arc<View> = Views::new(&GatewayOptions::default()).default_view();
        }
        Origin { method: "tools/call", params: params.into(), view: VIEW.with(Arc::clone), principal: Principal::LOCAL }
    }

    #[tokio::test]
    async fn a_client_finds_its_parked_call_despite_requests_of_other_clients() {
        let views = Views::new(&GatewayOptions::default());
        let view = |query: &str| views.for_query(Some(query)).unwrap();
        let (parked, (mut one, ..)) = (memory(), waiting());
        one.origin.view = view("tools=a");
        let state = state_of(&parked.park(one).unwrap());
        (0..200).for_each(|number| drop(view(&format!("tools=t{number}"))));
        let with_view = |query: &str| Origin { view: view(query), ..origin(r#"{"name":"a"}"#) };
        assert!(parked.resume(&state, &with_view("tools=b")).is_err(), "a client that sees other tools is another one");
        assert!(parked.resume(&state, &with_view("tools=a")).is_ok());
    }

    #[tokio::test]
    async fn a_parked_call_is_resumed_by_its_own_caller_only() {
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let (parked, (mut of_ann, ..)) = (memory(), waiting());
        of_ann.origin.principal = person("ann");
        let state = state_of(&parked.park(of_ann).unwrap());
        let again = |subject| Origin { principal: person(subject), ..origin(r#"{"name":"a"}"#) };
        assert!(parked.resume(&state, &again("bob")).is_err());
        assert!(parked.resume(&state, &again("ann")).is_ok());
    }

    #[tokio::test]
    async fn a_call_that_was_begun_with_a_role_a_group_or_in_a_membership_does_not_go_on_without_it() {
        let ann = || Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
        let (parked, (mut of_ann, ..)) = (memory(), waiting());
        let before = ann().with_role(Role::Operator).in_groups(["dba"]).unwrap();
        of_ann.origin.principal = before.clone();
        let state = state_of(&parked.park(of_ann).unwrap());
        let of = |principal| Origin { principal, ..origin(r#"{"name":"a"}"#) };
        let with_role = before.clone().with_role(Role::User);
        let in_group = before.clone().in_groups(["eng"]).unwrap();
        for changed in [with_role, in_group, before.clone().in_membership(1)] {
            assert!(parked.resume(&state, &of(changed)).is_err());
        }
        assert!(parked.resume(&state, &of(before)).is_ok());
    }

    #[tokio::test]
    async fn waiting_calls_of_a_member_leave_room_for_those_of_another() {
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let bounds = Bounds { parked: 3, places_for_one: 2, ..Bounds::default() };
        let parked = Memory::new(&bounds);
        let park = |subject| {
            let (mut one, _, answer) = waiting();
            one.origin.principal = person(subject);
            (parked.park(one).map(|result| state_of(&result)), answer)
        };
        let (first, _answer) = park("bob");
        assert!(park("bob").0.unwrap_err().message.contains("of this member"));
        assert!(park("ann").0.is_ok());
        let again = Origin { principal: person("bob"), ..origin(r#"{"name":"a"}"#) };
        assert!(parked.resume(&first.unwrap(), &again).is_ok());
        assert!(park("bob").0.is_ok(), "bob has room for another call, because bob has resumed one");
    }

    /// The `requestState` in the result with which a call was parked.
    fn state_of(result: &Bytes) -> String {
        let result: Value = serde_json::from_slice(result).unwrap();
        result["requestState"].as_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_parked_call_is_given_up_when_no_client_resumes_it_in_time() {
        let parked = memory();
        let (one, given_up, _answer) = waiting();
        let state = state_of(&parked.park(one).unwrap());
        parked.sweep();
        assert!(!given_up.load(Ordering::Relaxed));
        advance(Duration::from_secs(61)).await;
        let late = parked.resume(&state, &origin(r#"{"name":"a"}"#));
        assert!(
            late.is_err() && given_up.load(Ordering::Relaxed),
            "a late call is given up even before the next sweep"
        );

        let (two, given_up, answer) = waiting();
        parked.park(two).unwrap();
        drop(answer);
        parked.sweep();
        assert!(given_up.load(Ordering::Relaxed), "no client waits for the answer any more");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_request_may_be_written_in_another_way() {
        let parked = memory();
        let (one, ..) = waiting();
        let state = state_of(&parked.park(one).unwrap());
        for other in [r#"{"name":"b"}"#, r#"{"name":"a","arguments":{"x":1}}"#] {
            assert!(parked.resume(&state, &origin(other)).is_err(), "{other}");
        }
        let again = r#"{ "requestState": "x", "_meta": {"new": 1}, "name": "\u0061" }"#;
        assert!(parked.resume(&state, &origin(again)).is_ok());
        assert!(parked.resume(&state, &origin(again)).is_err(), "a call can be resumed only once");
    }
}
