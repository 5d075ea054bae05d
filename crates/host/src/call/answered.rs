//! The answers of users that cover more than one call, and are valid until the program ends.

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

/// The most answers that are kept until the program ends. Any further answer is valid for its own call only.
const MAX_ANSWERS: usize = 10_000;

/// The answers since the program began. Calls only read the map; each answer of a user replaces it.
#[derive(Debug, Default)]
pub(crate) struct Answered(ArcSwap<HashMap<Covered, Since>>);

/// The calls that an answer covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Covered {
    server: ServerName,
    /// The fingerprint of the server's entry.
    fingerprint: String,
    tool: String,
    definition: DefinitionHash,
    /// The key of the principal; `None` for calls of all.
    principal: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Since {
    pub(super) at: Instant,
    /// Whether only this map holds the answer, because it was not or could not be stored.
    pub(super) is_kept_here: bool,
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
    /// The principal whose calls it covers; `None` if it covers those of all principals.
    pub principal: Option<Principal>,
    /// Where the call came from that the user was asked about.
    pub way: Way,
    /// When the user answered.
    pub given_at: SystemTime,
}

/// An answer that the user has just given for more than one call.
pub(super) struct GivenAnswer<'a> {
    pub(super) server: &'a ServerName,
    /// That of the server's entry.
    pub(super) fingerprint: &'a str,
    /// Whose call the question was about.
    pub(super) caller: &'a Caller,
    /// Whose calls it covers: those of the caller's principal, or of all.
    pub(super) callers: Callers,
    /// Whether nothing else holds it.
    pub(super) is_kept_here: bool,
}

impl Answered {
    /// The answers that cover calls of `tool` of the entry with this fingerprint by `principal`.
    pub(super) fn find(
        &self,
        tool: &CatalogTool,
        fingerprint: &str,
        principal: &Principal,
    ) -> impl Iterator<Item = Since> {
        let all = self.0.load();
        let keys = if all.is_empty() { vec![] } else { vec![None, Some(principal.key())] };
        keys.into_iter().filter_map(move |principal| {
            let (server, definition) = (tool.server.clone(), tool.definition());
            let (fingerprint, tool) = (fingerprint.to_owned(), tool.tool().name.clone());
            all.get(&Covered { server, fingerprint, tool, definition, principal }).cloned()
        })
    }

    /// Adds an answer about `tools` of a server.
    pub(super) fn add(&self, tools: Vec<(String, DefinitionHash)>, answer: &GivenAnswer<'_>) {
        let GivenAnswer { server, fingerprint, caller, callers, is_kept_here } = *answer;
        let (at, given_at) = (Instant::now(), SystemTime::now());
        let since = Since { at, is_kept_here, given_at, caller: caller.clone() };
        let principal = (callers == Callers::Same).then(|| caller.principal().key());
        self.0.rcu(|all| {
            let mut all = HashMap::clone(all);
            for (tool, definition) in &tools {
                let (server, tool, principal) = (server.clone(), tool.clone(), principal.clone());
                let fingerprint = fingerprint.to_owned();
                if all.len() < MAX_ANSWERS {
                    let covered = Covered { server, fingerprint, tool, definition: *definition, principal };
                    all.insert(covered, since.clone());
                }
            }
            all
        });
    }

    /// The answers that nothing else holds.
    pub(crate) fn kept_here(&self) -> Vec<SessionAnswer> {
        self.0.load().iter().filter(|(_, since)| since.is_kept_here).map(shown).collect()
    }

    /// Takes back the answers that `is_meant`; returns how many nothing else holds.
    pub(crate) fn forget(&self, is_meant: impl Fn(&SessionAnswer) -> bool) -> usize {
        let mut forgotten = 0;
        self.0.rcu(|all| {
            forgotten = 0;
            let mut all = HashMap::clone(all);
            all.retain(|covered, since| {
                let goes = is_meant(&shown((covered, since)));
                forgotten += usize::from(goes && since.is_kept_here);
                !goes
            });
            all
        });
        forgotten
    }
}

fn shown((covered, since): (&Covered, &Since)) -> SessionAnswer {
    let principal = covered.principal.as_ref().map(|_| since.caller.principal().clone());
    let Covered { server, tool, definition, .. } = covered.clone();
    SessionAnswer { server, tool, definition, principal, way: since.caller.way(), given_at: since.given_at }
}
