use super::*;
use crate::tests::{Stage, on_both};

pub(super) fn replica(id: &str) -> Replica {
    Replica { id: id.to_owned(), address: format!("{id}.example:7000"), public_key: vec![0, 1, 0xff] }
}

pub(super) async fn join(team: &TeamStore, ids: &[&str]) {
    for id in ids {
        assert!(team.join_replicas(&replica(id)).await.unwrap());
    }
}

/// Takes the home of `tenant` for the replica `id`. Returns the replica that then has it, and the epoch.
pub(super) async fn taken(team: &TeamStore, tenant: &str, id: &str) -> (String, i64) {
    let home = team.home_or_take(tenant, id).await.unwrap();
    assert_eq!(home.replica, replica(&home.replica.id));
    (home.replica.id, home.epoch)
}

/// The last heartbeat of a replica.
pub(super) async fn last(team: &TeamStore, id: &str) -> Heartbeat {
    let all = team.heartbeats().await.unwrap();
    all.into_iter().find(|last| last.replica.id == id).unwrap()
}

/// The number of each replica's last heartbeat.
async fn numbers(team: &TeamStore) -> Vec<(String, i64)> {
    let all = team.heartbeats().await.unwrap();
    all.into_iter().map(|last| (last.replica.id, last.number)).collect()
}

async fn each_heartbeat_has_the_next_number_and_a_replica_without_a_row_writes_none(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    assert_eq!(last(&team, "a").await, Heartbeat { replica: replica("a"), number: 0 });
    for _ in 0..2 {
        assert!(team.beat("a").await.unwrap());
    }
    assert_eq!(numbers(&team).await, [("a".to_owned(), 2), ("b".to_owned(), 0)]);
    team.leave_replicas("a").await.unwrap();
    for gone in ["a", "c"] {
        assert!(!team.beat(gone).await.unwrap());
    }
    assert_eq!(numbers(&team).await, [("b".to_owned(), 0)]);
}

async fn each_replica_is_listed_with_the_number_of_tenants_it_serves(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["b", "a"]).await;
    for tenant in ["acme", "bolt"] {
        taken(&team, tenant, "b").await;
    }
    let homes = team.replica_homes().await.unwrap();
    let homes: Vec<_> = homes.iter().map(|homes| (homes.last.replica.id.as_str(), homes.tenants)).collect();
    assert_eq!(homes, [("a", 0), ("b", 2)]);
}

async fn a_silent_replica_is_removed_and_one_that_has_written_a_heartbeat_is_not(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    let seen = last(&team, "a").await;
    assert!(team.beat("a").await.unwrap());
    assert!(!team.remove_silent(&seen).await.unwrap());
    assert!(team.remove_silent(&last(&team, "a").await).await.unwrap());
    assert!(!team.beat("a").await.unwrap(), "the replica learns that it was removed");
    assert_eq!(numbers(&team).await, [("b".to_owned(), 0)]);
}

async fn an_id_joins_once_and_an_address_has_one_replica(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    assert_eq!(taken(&team, "acme", "a").await, ("a".to_owned(), 1));
    let twice = Replica { address: "elsewhere:7000".to_owned(), ..replica("a") };
    assert!(!team.join_replicas(&twice).await.unwrap());
    assert_eq!(last(&team, "a").await.replica, replica("a"));
    let restarted = Replica { id: "c".to_owned(), ..replica("a") };
    assert!(team.join_replicas(&restarted).await.unwrap());
    assert_eq!(numbers(&team).await, [("b".to_owned(), 0), ("c".to_owned(), 0)]);
    assert_eq!(taken(&team, "acme", "b").await, ("b".to_owned(), 2), "the homes of the one before are free");
}

async fn a_tenant_has_one_home_until_its_replica_is_removed(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    assert_eq!(team.home("acme").await.unwrap(), None);
    assert_eq!(taken(&team, "acme", "a").await, ("a".to_owned(), 1));
    assert_eq!(taken(&team, "acme", "b").await, ("a".to_owned(), 1));
    assert_eq!(taken(&team, "acme", "a").await, ("a".to_owned(), 1), "no number is used up by asking");
    assert_eq!(taken(&team, "bolt", "b").await, ("b".to_owned(), 1));
    assert!(team.remove_silent(&last(&team, "a").await).await.unwrap());
    assert_eq!(team.home("acme").await.unwrap(), None);
    assert_eq!(taken(&team, "acme", "b").await, ("b".to_owned(), 2));
    join(&team, &["c"]).await;
    assert_eq!(taken(&team, "acme", "c").await, ("b".to_owned(), 2));
    assert_eq!(taken(&team, "bolt", "c").await, ("b".to_owned(), 1));
}

async fn a_replica_that_was_removed_takes_nothing(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    assert_eq!(taken(&team, "acme", "a").await.1, 1);
    for id in ["a", "b"] {
        assert!(team.remove_silent(&last(&team, id).await).await.unwrap());
    }
    for (tenant, id) in [("acme", "a"), ("acme", "b"), ("bolt", "b"), ("bolt", "unknown")] {
        let refused = team.home_or_take(tenant, id).await.unwrap_err();
        assert!(matches!(&refused, StoreError::RemovedReplica { id: named } if named == id), "{refused}");
    }
    assert_eq!(team.home("bolt").await.unwrap(), None);
    // A removed replica still learns which replica is the home of a tenant.
    join(&team, &["c"]).await;
    assert_eq!(taken(&team, "acme", "c").await, ("c".to_owned(), 2));
    assert_eq!(taken(&team, "acme", "b").await, ("c".to_owned(), 2));
}

async fn a_home_that_is_given_up_is_free_and_its_number_still_rises(stage: &Stage) {
    let team = stage.team().await;
    join(&team, &["a", "b"]).await;
    for tenant in ["acme", "bolt", "cell"] {
        assert_eq!(taken(&team, tenant, "a").await.1, 1);
    }
    team.leave_home("acme", "b").await.unwrap();
    assert_eq!(taken(&team, "acme", "b").await, ("a".to_owned(), 1), "the replica `b` has nothing to give up");
    team.leave_home("acme", "a").await.unwrap();
    assert_eq!(team.home("acme").await.unwrap(), None);
    assert_eq!(taken(&team, "acme", "b").await, ("b".to_owned(), 2));
    team.leave_home("acme", "a").await.unwrap();
    team.leave_replicas("a").await.unwrap();
    assert_eq!(numbers(&team).await, [("b".to_owned(), 0)]);
    assert_eq!(taken(&team, "acme", "b").await, ("b".to_owned(), 2));
    for tenant in ["bolt", "cell"] {
        assert_eq!(team.home(tenant).await.unwrap(), None);
        assert_eq!(taken(&team, tenant, "b").await, ("b".to_owned(), 2));
    }
}

async fn replicas_of_other_processes_see_the_same_homes(stage: &Stage) {
    let (team, elsewhere) = (stage.team().await, stage.elsewhere().await.with_team().await.unwrap());
    join(&team, &["a"]).await;
    join(&elsewhere, &["b"]).await;
    assert_eq!(taken(&elsewhere, "acme", "b").await, ("b".to_owned(), 1));
    assert_eq!(taken(&team, "acme", "a").await, ("b".to_owned(), 1));
    elsewhere.leave_replicas("b").await.unwrap();
    assert_eq!(taken(&team, "acme", "a").await, ("a".to_owned(), 2));
}

on_both!(
    each_heartbeat_has_the_next_number_and_a_replica_without_a_row_writes_none,
    each_replica_is_listed_with_the_number_of_tenants_it_serves,
    a_silent_replica_is_removed_and_one_that_has_written_a_heartbeat_is_not,
    an_id_joins_once_and_an_address_has_one_replica,
    a_tenant_has_one_home_until_its_replica_is_removed,
    a_replica_that_was_removed_takes_nothing,
    a_home_that_is_given_up_is_free_and_its_number_still_rises,
    replicas_of_other_processes_see_the_same_homes,
);
