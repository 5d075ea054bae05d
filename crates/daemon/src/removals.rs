//! Ends the servers of removed members, and deletes the values that they gave for these servers. Both belong to the key
//! of the ended membership, so a later membership of the same person is not touched.
//!
//! The store of the team keeps a note of each removal until this is done. So nothing is left behind even if the daemon
//! was not running at the time of the removal.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use toolrack_store::{RemovedMember, TeamStore};

use crate::tenants::Tenants;

/// How long the servers of a member may take to end. A value that a server stores after that time is not deleted.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after which the daemon tries again to delete a value.
const RETRY_PAUSE: Duration = Duration::from_mins(1);

/// Deletes the values that a member gave, by the tenant and the [key](toolrack_host::Principal::key) of the member.
/// Errors are messages for the operator.
pub type DeleteMemberValues = Box<dyn Fn(String, String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Finishes the removals of members that the store has noted.
pub(crate) struct Removals {
    pub(crate) store: TeamStore,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) delete_values: DeleteMemberValues,
}

impl Removals {
    /// Deletes the values of removed members at the start and after each change of the team, until `ending` is
    /// cancelled.
    pub(crate) async fn run(self, mut changes: watch::Receiver<()>, ending: CancellationToken) {
        loop {
            let all_deleted = tokio::select! {
                all_deleted = self.delete_all() => all_deleted,
                () = ending.cancelled() => return,
            };
            tokio::select! {
                () = ending.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = sleep(RETRY_PAUSE), if !all_deleted => {}
            }
        }
    }

    /// Deletes the values of all members whose removal the store has noted. Returns whether all are deleted.
    async fn delete_all(&self) -> bool {
        let removed_members = match self.store.removed_members().await {
            Ok(removed_members) => removed_members,
            Err(error) => {
                tracing::warn!("the values that removed members gave will be deleted later: {error}");
                return false;
            }
        };
        let mut all_deleted = true;
        // The values of a tenant that left the team file wait until it is back.
        for removed in removed_members.iter().filter(|removed| self.tenants.has(&removed.tenant)) {
            // The home of the tenant (the replica that serves it) deletes the values. This replica tries again later,
            // because the home may die before it has done so.
            if !self.tenants.serves(&removed.tenant).await {
                all_deleted = false;
                continue;
            }
            if let Err(why) = self.delete_values(removed).await {
                tracing::warn!(
                    "the values that a removed member of `{}` gave will be deleted later: {why}",
                    removed.tenant
                );
                all_deleted = false;
            }
        }
        all_deleted
    }

    /// Ends the servers of a removed member, deletes the values, and removes the note from the store.
    async fn delete_values(&self, removed_member: &RemovedMember) -> Result<(), String> {
        let (tenant, member) = (&removed_member.tenant, removed_member.key());
        // A server that still runs could renew its token, and store it again.
        if timeout(END_TIMEOUT, self.tenants.end_member(tenant, &member)).await.is_err() {
            tracing::warn!("servers of a removed member of `{tenant}` take long to end");
        }
        (self.delete_values)(tenant.clone(), member).await?;
        self.store.mark_values_deleted(removed_member).await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use toolrack_host::{Caller, Principal, Way, principal::Kind};
    use toolrack_store::Store;

    use super::*;
    use crate::{
        membership::identity_of,
        worlds::tests::{broken, that_never_run},
    };

    /// The members whose values were to be deleted, and whether deleting fails.
    #[derive(Default)]
    struct Deleted {
        keys: Mutex<Vec<String>>,
        fails: Mutex<bool>,
    }

    fn person(tenant: &str, name: &str) -> Principal {
        Principal::new(Kind::Person, tenant, "https://login.example", name).unwrap()
    }

    /// A team from which Ann of acme and Bob of bolt were removed. The team file has only acme.
    async fn removals() -> (tempfile::TempDir, Removals, Arc<Deleted>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let by = Caller::local(Way::Cli);
        for member in [person("acme", "ann"), person("bolt", "bob")] {
            store.put_member(&member, &by).await.unwrap();
            assert!(store.remove_member(identity_of(&member), &by).await.unwrap());
        }
        let deleted = Arc::new(Deleted::default());
        let notes = Arc::clone(&deleted);
        let delete_values: DeleteMemberValues = Box::new(move |tenant, member| {
            notes.keys.lock().push(format!("{tenant} {member}"));
            let fails = *notes.fails.lock();
            async move { if fails { Err("the database is locked".to_owned()) } else { Ok(()) } }.boxed()
        });
        let common = that_never_run(Box::new(|_, _| async { Err(broken()) }.boxed()));
        let tenants = Tenants::new(["acme".to_owned()].into(), common, None);
        (folder, Removals { store, tenants, delete_values }, deleted)
    }

    async fn left(removals: &Removals) -> Vec<String> {
        removals.store.removed_members().await.unwrap().into_iter().map(|removed| removed.tenant).collect()
    }

    #[tokio::test]
    async fn values_that_could_not_be_deleted_are_deleted_in_a_later_round_and_then_no_more() {
        let (_folder, removals, deleted) = removals().await;
        *deleted.fails.lock() = true;
        assert!(!removals.delete_all().await, "it is not done");
        assert_eq!(left(&removals).await, ["acme", "bolt"]);
        *deleted.fails.lock() = false;
        assert!(removals.delete_all().await);
        assert!(removals.delete_all().await, "nothing is left");
        let ann = format!("acme {}", person("acme", "ann").key());
        assert_eq!(*deleted.keys.lock(), [ann.clone(), ann]);
    }

    #[tokio::test]
    async fn values_of_a_tenant_that_left_the_team_file_wait_until_it_is_back() {
        let (_folder, removals, deleted) = removals().await;
        assert!(removals.delete_all().await);
        assert_eq!(left(&removals).await, ["bolt"]);
        let common = that_never_run(Box::new(|_, _| async { Err(broken()) }.boxed()));
        let tenants = Tenants::new(["acme", "bolt"].map(str::to_owned).into(), common, None);
        let removals = Removals { tenants, ..removals };
        assert!(removals.delete_all().await);
        assert!(left(&removals).await.is_empty() && deleted.keys.lock().len() == 2);
    }

    #[tokio::test]
    async fn a_change_of_the_team_begins_another_round_until_the_daemon_ends() {
        let (_folder, removals, deleted) = removals().await;
        let (store, by) = (removals.store.clone(), Caller::local(Way::Cli));
        let (changes, ending) = (watch::Sender::new(()), CancellationToken::new());
        let ends = ending.clone();
        let until = async |count: usize| {
            while deleted.keys.lock().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let story = async {
            until(1).await;
            let eve = person("acme", "eve");
            store.put_member(&eve, &by).await.unwrap();
            store.remove_member(identity_of(&eve), &by).await.unwrap();
            changes.send_replace(());
            until(2).await;
            ends.cancel();
        };
        tokio::join!(removals.run(changes.subscribe(), ending), story);
        assert!(deleted.keys.lock()[1].ends_with(&person("acme", "eve").key()));
    }
}
