//! Calls that have asked their client something and wait for it to come back (2026-07-28, multi round-trip requests).
//!
//! The specification thinks of servers that forget the call between the rounds and begin it again. A gateway must not:
//! behind it the call may be under way on a server of the older era, where beginning again is calling twice. So the call
//! itself waits here, and `requestState` is the only key to it: 128 random bits, good for one round.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rand::Rng as _;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    flight::{Flight, Question},
    refusal::Refusal,
    view::View,
};

/// What a request is, apart from the round that it is in.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) method: &'static str,
    /// The parameters as they came.
    pub(super) params: Bytes,
    pub(super) view: Arc<View>,
}

impl Origin {
    /// Whether `other` is the same request again: everything that decides what is done is the same.
    fn is(&self, other: &Self) -> bool {
        let salient = |origin: &Self| {
            let mut params: Map<String, Value> = serde_json::from_slice(&origin.params).unwrap_or_default();
            params.retain(|name, _| matches!(name.as_str(), "name" | "uri" | "arguments"));
            params
        };
        self.method == other.method && Arc::ptr_eq(&self.view, &other.view) && salient(self) == salient(other)
    }
}

/// A call that waits for its client.
pub(super) struct Waiting {
    pub(super) flight: Flight,
    pub(super) questions: BTreeMap<String, Question>,
    pub(super) origin: Origin,
}

/// All calls that wait for their clients.
pub(super) struct Parked {
    all: Mutex<HashMap<String, (Instant, Waiting)>>,
    most: usize,
    longest: Duration,
}

impl Parked {
    pub(super) fn new(most: usize, longest: Duration) -> Self {
        Self { all: Mutex::default(), most, longest }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (Instant, Waiting)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call; gives the `input_required` result that leads back to it.
    pub(super) fn park(&self, waiting: Waiting) -> Result<Bytes, Refusal> {
        let questions = &waiting.questions;
        let requests: Map<String, Value> = questions
            .iter()
            .map(|(key, question)| (key.clone(), json!({"method": question.method, "params": question.params})))
            .collect();
        let state = format!("{:032x}", rand::rng().random::<u128>());
        let mut all = self.all();
        if all.len() >= self.most {
            return Err(Refusal::busy("too many calls wait for answers", "parked"));
        }
        all.insert(state.clone(), (Instant::now(), waiting));
        Ok(json!({"resultType": "input_required", "inputRequests": requests, "requestState": state}).to_string().into())
    }

    /// The call that a client comes back to.
    pub(super) fn resume(&self, state: &str, origin: &Origin) -> Result<Waiting, Refusal> {
        let unknown = || {
            let after = self.longest.as_secs();
            Refusal::invalid_params(format!(
                "requestState is not that of a call that waits here (they wait {after} s at most): call again without it"
            ))
        };
        let mut all = self.all();
        let (since, waiting) = all.remove(state).ok_or_else(unknown)?;
        if since.elapsed() > self.longest {
            return Err(unknown());
        }
        if !waiting.origin.is(origin) {
            all.insert(state.to_owned(), (since, waiting));
            return Err(Refusal::invalid_params("requestState belongs to another request"));
        }
        Ok(waiting)
    }

    /// Gives up, and so cancels, what nobody has come back for.
    pub(super) fn sweep(&self) {
        let longest = self.longest;
        let expired: Vec<_> = {
            let mut all = self.all();
            all.extract_if(|_, (since, waiting)| {
                since.elapsed() > longest || waiting.questions.values().all(|question| question.reply.is_closed())
            })
            .collect()
        };
        drop(expired);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.all());
        drop(all);
    }
}
