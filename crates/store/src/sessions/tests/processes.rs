//! Several processes write to the same store, and one of them is killed.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;

/// Starts this test program again, to run only `test`, as `writer`, on the store at `path`. The path must end in
/// `.child.db`.
fn child(test: &str, path: &Path, writer: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("sessions::tests::processes::{test}")])
        .arg(format!("{writer}={}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the writer and the path of the store in a process that [`child`] started. `None` in every other process,
/// where a test with this function does nothing.
fn writer_and_path() -> Option<(String, String)> {
    let words = std::env::args().find(|word| word.ends_with(".child.db"))?;
    let (writer, path) = words.split_once('=')?;
    Some((writer.to_owned(), path.to_owned()))
}

const STEPS: usize = 15;

#[tokio::test]
async fn child_appends_steps() {
    let Some((writer, path)) = writer_and_path() else {
        return;
    };
    let store = Store::open(path).await.unwrap();
    let session = store.find_session("last", OwnerFilter::All).await.unwrap().id;
    let mut done = 0;
    while done < STEPS {
        let position = store.session(session).await.unwrap().messages;
        let messages = ["a", "b", "c"].map(|part| message_of(Role::User, &format!("{writer}{done}{part}"))).to_vec();
        match store.append(session, &step(position, messages)).await {
            Ok(_) => done += 1,
            Err(StoreError::SessionMoved { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    store.close().await;
}

#[tokio::test]
async fn steps_that_processes_append_to_one_session_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let store = open(&path).await;
    let session = begin(&store, "session").await;
    let children: Vec<_> = ["u", "v", "w", "x"].map(|writer| child("child_appends_steps", &path, writer)).into();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
    assert_complete(&store, session.id, 4 * STEPS * 3).await;
}

#[tokio::test]
async fn child_appends_until_it_is_killed() {
    let Some((_, path)) = writer_and_path() else {
        return;
    };
    let store = Store::open(path).await.unwrap();
    let session = store.find_session("last", OwnerFilter::All).await.unwrap();
    for round in session.messages / 3.. {
        let messages = ["a", "b", "c"].map(|part| message_of(Role::Tool, &format!("x{round}{part}"))).to_vec();
        let open_turn = Some(format!("{{\"round\":{round}}}"));
        let step = Step { open_turn, ..step(round * 3, messages) };
        let stored = store.append(session.id, &step).await.unwrap();
        println!("stored {stored}");
    }
}

#[tokio::test]
async fn after_kill_9_every_stored_step_is_there_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let store = open(&path).await;
    let session = begin(&store, "session").await.id;
    store.close().await;
    for life in 0..20 {
        let mut child = child("child_appends_until_it_is_killed", &path, "x");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // Each life ends at another moment.
        let mut stored = (&mut lines).filter_map(|line| Some(line.strip_prefix("stored ")?.parse::<u64>().unwrap()));
        let seen = stored.nth(life % 7);
        child.kill().unwrap();
        child.wait().unwrap();
        let last = stored.last().or(seen).expect("the child stored something");

        let store = open(&path).await;
        let now = store.session(session).await.unwrap();
        assert!(
            now.messages == last || now.messages == last + 3,
            "the child stored {last} messages, the store has {}",
            now.messages
        );
        assert_complete(&store, session, now.messages as usize).await;
        let turn = store.open_turn(session).await.unwrap().unwrap();
        assert_eq!(turn, format!("{{\"round\":{}}}", now.messages / 3 - 1), "the turn is the one of the last step");
        let check: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(store.pool()).await.unwrap();
        assert_eq!(check, "ok");
        store.close().await;
    }
}
