//! Several processes, and the sudden end of one.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;

/// Starts this test program anew, as a test that does something only with a path of this kind behind its name.
fn child(test: &str, path: &Path, teller: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("sessions::tests::processes::{test}")])
        .arg(format!("{teller}={}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Who tells the story, and to which file, in a process that [`child`] started.
fn told_to() -> Option<(String, String)> {
    let words = std::env::args().find(|word| word.ends_with(".child.db"))?;
    let (teller, path) = words.split_once('=')?;
    Some((teller.to_owned(), path.to_owned()))
}

const STEPS: usize = 15;

#[tokio::test]
async fn child_tells_a_story() {
    let Some((teller, path)) = told_to() else {
        return;
    };
    let store = Store::open(path).await.unwrap();
    let session = store.find_session("last", Whose::All).await.unwrap().id;
    let mut reported = 0;
    while reported < STEPS {
        let position = store.session(session).await.unwrap().messages;
        let messages =
            ["a", "b", "c"].map(|part| message_of(Role::User, &format!("{teller}{reported}{part}"))).to_vec();
        match store.append(session, &step(position, messages)).await {
            Ok(_) => reported += 1,
            Err(StoreError::SessionMoved { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    store.close().await;
}

#[tokio::test]
async fn processes_that_add_to_one_session_never_come_between_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let store = open(&path).await;
    let session = begin(&store, "story").await;
    let children: Vec<_> = ["u", "v", "w", "x"].map(|teller| child("child_tells_a_story", &path, teller)).into();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
    assert_complete(&store, session.id, 4 * STEPS * 3).await;
}

#[tokio::test]
async fn child_adds_until_it_is_killed() {
    let Some((_, path)) = told_to() else {
        return;
    };
    let store = Store::open(path).await.unwrap();
    let session = store.find_session("last", Whose::All).await.unwrap();
    for round in session.messages / 3.. {
        let messages = ["a", "b", "c"].map(|part| message_of(Role::Tool, &format!("x{round}{part}"))).to_vec();
        let open_turn = Some(format!("{{\"round\":{round}}}"));
        let step = Step { open_turn, ..step(round * 3, messages) };
        let stored = store.append(session.id, &step).await.unwrap();
        println!("kept {stored}");
    }
}

#[tokio::test]
async fn after_kill_9_every_stored_step_is_there_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.child.db");
    let store = open(&path).await;
    let session = begin(&store, "story").await.id;
    store.close().await;
    for life in 0..20 {
        let mut child = child("child_adds_until_it_is_killed", &path, "x");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // Each life ends at another moment.
        let mut said = (&mut lines).filter_map(|line| Some(line.strip_prefix("kept ")?.parse::<u64>().unwrap()));
        let seen = said.nth(life % 7);
        child.kill().unwrap();
        child.wait().unwrap();
        let last = said.last().or(seen).expect("the child kept something");

        let store = open(&path).await;
        let now = store.session(session).await.unwrap();
        assert!(now.messages == last || now.messages == last + 3, "{last} were kept, {} are there", now.messages);
        assert_complete(&store, session, now.messages as usize).await;
        let turn = store.open_turn(session).await.unwrap().unwrap();
        assert_eq!(turn, format!("{{\"round\":{}}}", now.messages / 3 - 1), "the turn is the one of the last step");
        let check: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(store.pool()).await.unwrap();
        assert_eq!(check, "ok");
        store.close().await;
    }
}
