use std::{
    pin::{Pin, pin},
    task::Poll,
};

use tempfile::TempDir;
use toolrack_agent::Limits;

use super::*;
use crate::SessionQuery;

async fn open(folder: &TempDir) -> Store {
    Store::open(folder.path().join("t.db")).await.unwrap()
}

fn said(text: &str) -> Turn {
    Turn::new(vec![Message::new(Role::User, text)], Limits::default())
}

/// Polls `work` this many times; `None` when it has not ended then.
async fn polled<F: Future>(mut work: Pin<&mut F>, mut times: usize) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(None);
        }
        times -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if times == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn a_step_that_was_dropped_anywhere_while_it_was_written_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let mut drops = 0;
    loop {
        let mut journal = Journal::new(Some(store.clone()), "some/model");
        let mut turn = said(&format!("words {drops}"));
        let ended = polled(pin!(journal.keep(&turn)), drops + 1).await.is_some();
        turn.cancel("so far");
        journal.keep(&turn).await.unwrap();
        let kept = store.messages(journal.id().unwrap(), 0, 99).await.unwrap();
        let kept: Vec<_> = kept.into_iter().map(|message| message.content).collect();
        assert_eq!(kept, [format!("words {drops}"), "so far".to_owned()]);
        let sessions = store.sessions(&SessionQuery { limit: 999, ..SessionQuery::default() }).await.unwrap();
        drops += 1;
        assert_eq!(sessions.len(), drops, "one for each conversation");
        if ended {
            break;
        }
    }
    assert!(drops > 2, "it was dropped in the middle: {drops}");
}

#[tokio::test]
async fn what_somebody_else_has_added_is_not_taken_for_a_step_that_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let mut journal = Journal::new(Some(store.clone()), "some/model");
    let mut turn = said("one");
    journal.keep(&turn).await.unwrap();
    turn.cancel("so far");
    assert!(polled(pin!(journal.keep(&turn)), 1).await.is_none(), "dropped before anything was written");
    let step =
        Step { position: 1, messages: vec![NewMessage::new(crate::Role::Assistant, "theirs")], ..Step::default() };
    store.append(journal.id().unwrap(), &step).await.unwrap();
    let refused = journal.keep(&turn).await;
    assert!(matches!(refused, Err(StoreError::SessionMoved { expected: 1, found: 2, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_conversation_is_claimed_once_and_again_when_the_claim_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let mut journal = Journal::new(Some(store.clone()), "some/model");
    let claim = journal.claim().unwrap();
    journal.keep(&said("one")).await.unwrap();
    let session = store.find_session("last").await.unwrap();
    assert!(matches!(store.clone().claim(&session), Err(StoreError::SessionBusy { .. })));
    assert!(matches!(journal.claim(), Err(StoreError::SessionBusy { .. })));
    drop(claim);
    let claim = store.claim(&session).unwrap();
    drop(claim);
    assert!(journal.claim().unwrap().is_some());
    assert!(Journal::new(None, "some/model").claim().unwrap().is_none());
}
