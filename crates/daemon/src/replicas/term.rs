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
    known: RwLock<OtherReplicas>,
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
    Here,
    /// Another replica.
    At(Arc<Sibling>),
}

impl Term {
    pub(super) fn new(id: String, end: Instant) -> Self {
        Self { id, end: watch::Sender::new(end), known: RwLock::default() }
    }

    pub(super) fn end(&self) -> Instant {
        *self.end.borrow()
    }

    /// Whether the term has not ended, so that this replica may serve tenants.
    pub(super) fn is_held(&self) -> bool {
        Instant::now() < self.end()
    }

    /// Moves the end of the term to `end`.
    pub(super) fn extend_to(&self, end: Instant) {
        self.end.send_replace(end);
    }

    /// The ids of the siblings that are known now.
    pub(super) fn sibling_ids(&self) -> BTreeSet<String> {
        self.known.read().siblings.keys().cloned().collect()
    }

    /// Adds the siblings that are new in `heartbeats`, and returns the last heartbeats of the siblings that have been
    /// silent for `timeout`. Forgets the siblings that are not in `heartbeats` any more, and gives up the requests to
    /// them. It forgets only siblings of `known_before`, which were known before the heartbeats were read: a sibling
    /// that was added later may have joined after the read.
    pub(super) fn update_siblings(
        &self,
        heartbeats: &[Heartbeat],
        known_before: &BTreeSet<String>,
        identity: &Identity,
        timeout: Duration,
    ) -> Vec<Heartbeat> {
        let mut known = self.known.write();
        let mut silent = Vec::new();
        for heartbeat in heartbeats.iter().filter(|heartbeat| heartbeat.replica.id != self.id) {
            if known.sibling(&heartbeat.replica, identity).record_heartbeat(heartbeat.number).elapsed() >= timeout {
                silent.push(heartbeat.clone());
            }
        }
        let is_gone = |id: &String| known_before.contains(id) && !heartbeats.iter().any(|last| last.replica.id == *id);
        for (_, gone) in known.siblings.extract_if(.., |id, _| is_gone(id)) {
            gone.give_up();
        }
        let OtherReplicas { siblings, homes } = &mut *known;
        homes.retain(|_, home| match home {
            Home::Here => true,
            Home::At(sibling) => siblings.contains_key(sibling.id()),
        });
        silent
    }

    /// Whether a sibling has this public key.
    pub(super) fn has_key(&self, public_key: &[u8]) -> bool {
        self.known.read().siblings.values().any(|sibling| sibling.public_key() == public_key)
    }

    /// The home of `tenant`, as far as this replica remembers it.
    pub(super) fn known_home(&self, tenant: &str) -> Option<Home> {
        self.known.read().homes.get(tenant).cloned()
    }

    /// Remembers that `replica` is the home of `tenant`.
    pub(super) fn remember_home(&self, tenant: &str, replica: &Replica, identity: &Identity) -> Home {
        let mut known = self.known.write();
        let home = match replica.id == self.id {
            true => Home::Here,
            false => Home::At(known.sibling(replica, identity)),
        };
        known.homes.insert(tenant.to_owned(), home.clone());
        home
    }

    /// Forgets that `sibling` is the home of `tenant`. Does nothing if another replica is the home by now.
    pub(super) fn forget_home(&self, tenant: &str, sibling: &Sibling) {
        let mut known = self.known.write();
        if let Some(Home::At(known_sibling)) = known.homes.get(tenant)
            && known_sibling.id() == sibling.id()
        {
            known.homes.remove(tenant);
        }
    }
}

impl OtherReplicas {
    /// The sibling for `replica`. Adds the sibling if it is new.
    fn sibling(&mut self, replica: &Replica, identity: &Identity) -> Arc<Sibling> {
        let new = || Arc::new(Sibling::new(replica.clone(), identity));
        Arc::clone(self.siblings.entry(replica.id.clone()).or_insert_with(new))
    }
}
