//! Remembers answers of users to the question whether a call may run, if an answer covers more than one call. Such an
//! answer is valid until the program ends. The embedding program also stores the answers that are valid for longer.
//!
//! A *principal* is the person or service that calls. The *fingerprint* of a server's configuration changes when the
//! server may have become another program, so that old answers no longer apply.

use std::{collections::HashMap, time::SystemTime};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::{
    ask::Callers,
    catalog::CatalogTool,
    definition::DefinitionHash,
    principal::Principal,
    spec::ServerName,
    witness::{Caller, Way},
};

/// The most answers in memory, where they stay until the program ends. Answers that are also in a store make room for
/// answers that are not.
const MAX_ANSWERS: usize = 10_000;

/// The answers since the program began, by the calls that they cover. Calls only read the map; each answer of a user
/// replaces the map.
#[derive(Debug, Default)]
pub(crate) struct RememberedAnswers(ArcSwap<HashMap<CoveredCalls, AnswerRecord>>);

/// The calls that an answer covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CoveredCalls {
    server: ServerName,
    /// The fingerprint of the server's configuration.
    fingerprint: String,
    tool: String,
    definition: DefinitionHash,
    /// The key of the principal; `None` for the calls of all principals.
    principal: Option<String>,
}

/// When and how a user gave an answer.
#[derive(Clone, Debug)]
pub(super) struct AnswerRecord {
    /// The moment of the answer, to compare with other moments of this process.
    pub(super) given_instant: Instant,
    /// Whether the answer is only in this map, because it was not or could not be stored.
    pub(super) is_session_only: bool,
    /// The time of the answer, to show to users.
    given_at: SystemTime,
    /// The caller of the call that the user was asked about.
    caller: Caller,
}

/// An answer that covers further calls of a tool until the program ends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionAnswer {
    /// The server.
    pub server: ServerName,
    /// The tool's own name; untrusted.
    pub tool: String,
    /// The hash of the definition that the user allowed.
    pub definition: DefinitionHash,
    /// The principal whose calls the answer covers; `None` if the answer covers the calls of all principals.
    pub principal: Option<Principal>,
    /// How the call that the user was asked about reached the host.
    pub way: Way,
    /// When the user answered.
    pub given_at: SystemTime,
}

/// An answer that the user has just given for more than one call.
pub(super) struct GivenAnswer<'a> {
    pub(super) server: &'a ServerName,
    /// The fingerprint of the server's configuration.
    pub(super) fingerprint: &'a str,
    /// The caller of the call that the question was about.
    pub(super) caller: &'a Caller,
    /// Says whether the answer covers only calls of the caller's principal, or calls of all principals.
    pub(super) callers: Callers,
    /// Whether the answer is only in [`RememberedAnswers`], because it was not or could not be stored.
    pub(super) is_session_only: bool,
}

impl RememberedAnswers {
    /// Returns the answers that cover a call of `tool` by `principal`. `fingerprint` is that of the server's
    /// configuration.
    pub(super) fn find(
        &self,
        tool: &CatalogTool,
        fingerprint: &str,
        principal: &Principal,
    ) -> impl Iterator<Item = AnswerRecord> {
        let answers = self.0.load();
        let keys = if answers.is_empty() { vec![] } else { vec![None, Some(principal.key())] };
        keys.into_iter().filter_map(move |principal| {
            let (server, definition) = (tool.server.clone(), tool.definition_hash());
            let (fingerprint, tool) = (fingerprint.to_owned(), tool.tool().name.clone());
            answers.get(&CoveredCalls { server, fingerprint, tool, definition, principal }).cloned()
        })
    }

    /// Adds an answer about `tools` of a server. Returns `false` if there was no room for some of them.
    pub(super) fn add(&self, tools: Vec<(String, DefinitionHash)>, answer: &GivenAnswer<'_>) -> bool {
        let GivenAnswer { server, fingerprint, caller, callers, is_session_only } = *answer;
        let (given_instant, given_at) = (Instant::now(), SystemTime::now());
        let record = AnswerRecord { given_instant, is_session_only, given_at, caller: caller.clone() };
        let principal = (callers == Callers::Same).then(|| caller.principal().key());
        let mut has_room = true;
        self.0.rcu(|answers| {
            // This runs again if another thread has replaced the map meanwhile.
            has_room = true;
            let mut answers = HashMap::clone(answers);
            if is_session_only && answers.len() + tools.len() > MAX_ANSWERS {
                answers.retain(|_, record| record.is_session_only);
            }
            for (tool, definition) in &tools {
                let (server, tool, principal) = (server.clone(), tool.clone(), principal.clone());
                let fingerprint = fingerprint.to_owned();
                let covered_calls = CoveredCalls { server, fingerprint, tool, definition: *definition, principal };
                if answers.len() < MAX_ANSWERS || answers.contains_key(&covered_calls) {
                    answers.insert(covered_calls, record.clone());
                } else {
                    has_room = false;
                }
            }
            answers
        });
        has_room
    }

    /// Returns the answers that are only in this map.
    pub(crate) fn session_only(&self) -> Vec<SessionAnswer> {
        self.0.load().iter().filter(|(_, record)| record.is_session_only).map(session_answer).collect()
    }

    /// Removes the answers for which `is_selected` returns `true`. Returns how many of the removed answers were only in
    /// this map.
    pub(crate) fn forget(&self, is_selected: impl Fn(&SessionAnswer) -> bool) -> usize {
        let mut forgotten_count = 0;
        self.0.rcu(|answers| {
            // This runs again if another thread has replaced the map meanwhile.
            forgotten_count = 0;
            let mut answers = HashMap::clone(answers);
            answers.retain(|covered_calls, record| {
                let is_forgotten = is_selected(&session_answer((covered_calls, record)));
                forgotten_count += usize::from(is_forgotten && record.is_session_only);
                !is_forgotten
            });
            answers
        });
        forgotten_count
    }
}

/// Converts an entry of the map.
fn session_answer((covered_calls, record): (&CoveredCalls, &AnswerRecord)) -> SessionAnswer {
    // The map has only the key of the principal. The principal itself is that of the call that the question was about.
    let principal = covered_calls.principal.as_ref().map(|_| record.caller.principal().clone());
    let CoveredCalls { server, tool, definition, .. } = covered_calls.clone();
    SessionAnswer { server, tool, definition, principal, way: record.caller.way(), given_at: record.given_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_answers_make_room_for_those_that_are_nowhere_else() {
        let (answers, server, caller) =
            (RememberedAnswers::default(), ServerName::new("fs").unwrap(), Caller::local(Way::Gateway));
        let add = |prefix: &str, count: usize, is_session_only: bool| {
            let tool = |number: usize| (format!("{prefix}{number}"), DefinitionHash::from_bytes([0; 32]));
            let (server, caller, fingerprint) = (&server, &caller, "");
            let answer = GivenAnswer { server, fingerprint, caller, callers: Callers::All, is_session_only };
            answers.add((0..count).map(tool).collect(), &answer)
        };
        assert!(add("stored", MAX_ANSWERS, false));
        assert!(add("session", 1, true));
        assert_eq!(answers.session_only().len(), 1);
        assert!(!add("more", MAX_ANSWERS, true), "one has no room");
        assert!(add("session", 1, true), "it is there already");
    }
}
