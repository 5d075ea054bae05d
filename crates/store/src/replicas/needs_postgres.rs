//! Replicas that want the same at once.

use std::{
    collections::BTreeSet,
    pin::{Pin, pin},
};

use futures::future::{join_all, poll_immediate};
use tokio::task::yield_now;
use toolrack_testkit::Postgres;

use super::{
    tests::{join, last, replica, taken},
    *,
};
use crate::{Database, DatabaseSettings};

async fn team(server: &Postgres) -> TeamStore {
    Database::connect(DatabaseSettings::new(server.url())).await.unwrap().team().await.unwrap()
}

/// Has `future` run until a statement of it waits for a lock.
async fn until_it_waits<T>(server: &Postgres, mut future: Pin<&mut impl Future<Output = T>>) {
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while server.rows("postgres", None, waiting) == "0" {
        assert!(poll_immediate(future.as_mut()).await.is_none(), "it waits for no lock");
        yield_now().await;
    }
}

#[tokio::test]
async fn of_many_that_want_a_home_at_once_one_takes_it() {
    let server = Postgres::start();
    let teams = [team(&server).await, team(&server).await, team(&server).await];
    let ids = ["a", "b", "c"];
    for (team, id) in teams.iter().zip(ids) {
        join(team, &[id]).await;
    }
    let at_once = async |tenant: &str, asking: &[usize]| {
        let asked = asking.iter().cycle().take(asking.len() * 4).map(|&at| taken(&teams[at], tenant, ids[at]));
        let homes: BTreeSet<_> = join_all(asked).await.into_iter().collect();
        assert_eq!(homes.len(), 1, "{homes:?}");
        homes.into_iter().next().unwrap()
    };
    let tenants: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    for tenant in &tenants {
        assert_eq!(at_once(tenant, &[0, 1, 2]).await.1, 1);
    }
    // All homes of a replica that was killed.
    let mut numbers = Vec::new();
    for tenant in &tenants {
        for id in ["a", "b"] {
            teams[2].leave_home(tenant, id).await.unwrap();
        }
        numbers.push(taken(&teams[2], tenant, "c").await.1);
    }
    assert!(teams[0].remove_silent(&last(&teams[0], "c").await).await.unwrap());
    for (tenant, number) in tenants.iter().zip(numbers) {
        let (home, next) = at_once(tenant, &[0, 1]).await;
        assert_eq!((home != "c", next), (true, number + 1), "{tenant}");
    }
}

#[tokio::test]
async fn a_heartbeat_under_way_is_waited_for_and_counts() {
    let server = Postgres::start();
    let (one, other) = (team(&server).await, team(&server).await);
    join(&one, &["a"]).await;
    let seen = last(&other, "a").await;
    let mut beating = one.begin_concurrent("testing").await.unwrap();
    let beat = query("UPDATE team_replicas SET beats = beats + 1 WHERE id = 'a'");
    assert_eq!(beat.execute(&mut beating).await.unwrap(), 1);
    let mut removing = pin!(other.remove_silent(&seen));
    until_it_waits(&server, removing.as_mut()).await;
    beating.commit().await.unwrap();
    assert!(!removing.await.unwrap());
    assert!(one.beat("a").await.unwrap());
}

#[tokio::test]
async fn a_heartbeat_after_the_removal_of_its_replica_comes_too_late() {
    let server = Postgres::start();
    let (one, other) = (team(&server).await, team(&server).await);
    join(&one, &["a", "b"]).await;
    taken(&one, "acme", "a").await;
    let mut removing = other.begin_concurrent("testing").await.unwrap();
    query("DELETE FROM team_replicas WHERE id = 'a'").execute(&mut removing).await.unwrap();
    let mut beating = pin!(one.beat("a"));
    until_it_waits(&server, beating.as_mut()).await;
    removing.commit().await.unwrap();
    assert!(!beating.await.unwrap());
    assert_eq!(taken(&one, "acme", "b").await, ("b".to_owned(), 2));
}

#[tokio::test]
async fn a_home_that_was_not_taken_after_all_stays_free() {
    let server = Postgres::start();
    let (one, other) = (team(&server).await, team(&server).await);
    join(&one, &["b", "c"]).await;
    let mut transaction = other.begin_concurrent("testing").await.unwrap();
    assert_eq!(take_home(&mut transaction, "acme", "b").await.unwrap().replica, replica("b"));
    let mut taking = pin!(taken(&one, "acme", "c"));
    until_it_waits(&server, taking.as_mut()).await;
    drop(transaction);
    assert_eq!(taking.await, ("c".to_owned(), 1));
}
