//! A term of a replica: the time from when it joins the others until its heartbeat is late. Only within a term may the
//! replica serve tenants.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use tokio::{sync::watch, time::Instant};
use toolrack_store::{Heartbeat, Replica};

use super::{forward::Sibling, identity::Identity};

/// A term, and what the replica has learned of the other replicas in this term.
pub(super) struct Term {
    /// The id of this replica in this term. Each term has a new one.
    pub(super) id: String,
    /// When the term ends if no further heartbeat is written before.
    end: watch::Sender<Instant>,
    others: RwLock<OtherReplicas>,
}

/// What this replica knows of the other replicas (its siblings).
#[derive(Default)]
struct OtherReplicas {
    /// The siblings, by their ids.
    siblings: BTreeMap<String, Arc<Sibling>>,
    /// The homes, by the ids of their tenants.
    homes: HashMap<String, Home>,
}

/// The home of a tenant: the replica that serves it.
#[derive(Clone)]
pub(super) enum Home {
    /// This replica.
    ThisReplica,
    /// Another replica.
    Sibling(Arc<Sibling>),
}

impl Term {
    pub(super) fn new(id: String, end: Instant) -> Self {
        Self { id, end: watch::Sender::new(end), others: RwLock::default() }
    }

    pub(super) fn end(&self) -> Instant {
        *self.end.borrow()
    }

    /// Whether the term has not ended, so that this replica may serve tenants.
    pub(super) fn is_active(&self) -> bool {
        Instant::now() < self.end()
    }

    /// Moves the end of the term to `end`.
    pub(super) fn extend_to(&self, end: Instant) {
        self.end.send_replace(end);
    }

    /// The ids of the siblings that are known now.
    pub(super) fn sibling_ids(&self) -> BTreeSet<String> {
        self.others.read().siblings.keys().cloned().collect()
    }

    /// Adds the siblings that are new in `heartbeats`, and returns the last heartbeats of the siblings that have been
    /// silent for `timeout`. Forgets the siblings that are not in `heartbeats` any more, and gives up the requests to
    /// them. Forgets only siblings of `known_before`, which were known before the heartbeats were read: a sibling
    /// that was added later may have joined after the read.
    pub(super) fn update_siblings(
        &self,
        heartbeats: &[Heartbeat],
        known_before: &BTreeSet<String>,
        identity: &Identity,
        timeout: Duration,
    ) -> Vec<Heartbeat> {
        let mut others = self.others.write();
        let mut silent_siblings = Vec::new();
        for heartbeat in heartbeats.iter().filter(|heartbeat| heartbeat.replica.id != self.id) {
            if others.sibling(&heartbeat.replica, identity).record_heartbeat(heartbeat.number).elapsed() >= timeout {
                silent_siblings.push(heartbeat.clone());
            }
        }
        let is_gone = |id: &String| known_before.contains(id) && !heartbeats.iter().any(|last| last.replica.id == *id);
        for (_, gone_sibling) in others.siblings.extract_if(.., |id, _| is_gone(id)) {
            gone_sibling.give_up();
        }
        let OtherReplicas { siblings, homes } = &mut *others;
        homes.retain(|_, home| match home {
            Home::ThisReplica => true,
            Home::Sibling(sibling) => siblings.contains_key(sibling.id()),
        });
        silent_siblings
    }

    /// Whether a sibling has this public key.
    pub(super) fn is_sibling_key(&self, public_key: &[u8]) -> bool {
        self.others.read().siblings.values().any(|sibling| sibling.public_key() == public_key)
    }

    /// The home of `tenant`, as far as this replica remembers it.
    pub(super) fn remembered_home(&self, tenant: &str) -> Option<Home> {
        self.others.read().homes.get(tenant).cloned()
    }

    /// Remembers that `replica` is the home of `tenant`.
    pub(super) fn remember_home(&self, tenant: &str, replica: &Replica, identity: &Identity) -> Home {
        let mut others = self.others.write();
        let home = match replica.id == self.id {
            true => Home::ThisReplica,
            false => Home::Sibling(others.sibling(replica, identity)),
        };
        others.homes.insert(tenant.to_owned(), home.clone());
        home
    }

    /// Forgets that `sibling` is the home of `tenant`. Does nothing if another replica is the home by now.
    pub(super) fn forget_home(&self, tenant: &str, sibling: &Sibling) {
        let mut others = self.others.write();
        if let Some(Home::Sibling(known_sibling)) = others.homes.get(tenant)
            && known_sibling.id() == sibling.id()
        {
            others.homes.remove(tenant);
        }
    }
}

impl OtherReplicas {
    /// The sibling for `replica`. Adds the sibling if it is new.
    fn sibling(&mut self, replica: &Replica, identity: &Identity) -> Arc<Sibling> {
        let make_sibling = || Arc::new(Sibling::new(replica.clone(), identity));
        Arc::clone(self.siblings.entry(replica.id.clone()).or_insert_with(make_sibling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn term() -> (Term, Identity) {
        (Term::new("own".to_owned(), Instant::now() + TIMEOUT), Identity::new().unwrap())
    }

    fn replica(id: &str) -> Replica {
        let address = "127.0.0.1:1".to_owned();
        Replica { id: id.to_owned(), address, public_key: id.as_bytes().to_vec() }
    }

    fn heartbeats(rows: &[(&str, i64)]) -> Vec<Heartbeat> {
        rows.iter().map(|(id, number)| Heartbeat { replica: replica(id), number: *number }).collect()
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_sibling_is_silent_when_its_heartbeat_has_not_changed_for_the_timeout() {
        let (term, identity) = term();
        let silent = |rows: &[(&str, i64)]| {
            let silent = term.update_siblings(&heartbeats(rows), &term.sibling_ids(), &identity, TIMEOUT);
            silent.into_iter().map(|last| last.replica.id).collect::<Vec<_>>()
        };
        assert!(silent(&[("own", 1), ("a", 1), ("b", 1)]).is_empty());
        tokio::time::advance(TIMEOUT - Duration::from_secs(1)).await;
        assert!(silent(&[("own", 1), ("a", 1), ("b", 2)]).is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(silent(&[("own", 1), ("a", 1), ("b", 2)]), ["a"], "this replica itself never counts");
        assert_eq!(silent(&[("own", 1), ("a", 2), ("b", 2)]), [""; 0], "it has written again");
        assert!(!term.is_active(), "its own heartbeat is late");
        term.extend_to(Instant::now() + TIMEOUT);
        assert!(term.is_active());
    }

    #[tokio::test]
    async fn a_sibling_that_joined_after_the_rows_were_read_is_not_forgotten() {
        let (term, identity) = term();
        term.update_siblings(&heartbeats(&[("a", 1)]), &ids(&[]), &identity, TIMEOUT);
        let known_before = term.sibling_ids();
        term.remember_home("acme", &replica("a"), &identity);
        term.remember_home("bolt", &replica("b"), &identity);
        term.remember_home("cord", &replica("own"), &identity);
        term.update_siblings(&[], &known_before, &identity, TIMEOUT);
        assert_eq!(term.sibling_ids(), ids(&["b"]));
        assert!(term.remembered_home("acme").is_none(), "this home is gone");
        assert!(matches!(term.remembered_home("bolt"), Some(Home::Sibling(sibling)) if sibling.id() == "b"));
        assert!(matches!(term.remembered_home("cord"), Some(Home::ThisReplica)));
        assert!(term.is_sibling_key(b"b") && !term.is_sibling_key(b"a"));
    }

    #[tokio::test]
    async fn a_home_that_another_replica_has_taken_over_is_not_forgotten() {
        let (term, identity) = term();
        let Home::Sibling(before) = term.remember_home("acme", &replica("a"), &identity) else { unreachable!() };
        term.remember_home("acme", &replica("b"), &identity);
        term.forget_home("acme", &before);
        assert!(matches!(term.remembered_home("acme"), Some(Home::Sibling(sibling)) if sibling.id() == "b"));
        term.remember_home("acme", &replica("a"), &identity);
        term.forget_home("acme", &before);
        assert!(term.remembered_home("acme").is_none());
    }
}
