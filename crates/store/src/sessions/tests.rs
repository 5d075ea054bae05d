mod processes;
mod story;

use std::path::Path;

use chrono::Duration;
use futures::future::join_all;
use sqlx::sqlite::SqliteConnectOptions;
use toolrack_host::{Principal, principal::Kind};

use super::*;
use crate::tests::{Stage, new_store, on_both};

async fn begin(store: &Store, title: &str) -> Session {
    let new = NewSession { title: title.to_owned(), model: Some("mock/one".to_owned()), agent: None, owner: None };
    store.create_session(&new).await.unwrap()
}

/// Backdates the session, as if nothing had been added to it for `days` days.
async fn backdate(store: &Store, session: &Session, days: i64) {
    store
        .write(
            query("UPDATE sessions SET updated_at = $1 WHERE id = $2")
                .bind((Utc::now() - Duration::days(days)).timestamp_millis())
                .bind(session.id.to_string()),
            "testing",
        )
        .await
        .unwrap();
}

fn message_of(role: Role, content: &str) -> NewMessage {
    NewMessage::new(role, content)
}

fn step(position: u64, messages: Vec<NewMessage>) -> Step {
    Step { position, messages, ..Step::default() }
}

async fn titles(store: &Store, query: SessionQuery<'_>) -> Vec<String> {
    store.sessions(&query).await.unwrap().into_iter().map(|session| session.title).collect()
}

fn spent(input: u64, cost: Option<u64>) -> ModelUse {
    ModelUse { input, output: 2, cached_read: 3, cache_write: 4, reasoning: 5, cost }
}

async fn a_conversation_is_read_back_as_it_was_stored(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "Files").await;
    assert_eq!((session.messages, session.has_open_turn, session.spent), (0, false, ModelUse::default()));
    assert_eq!(session.id.get_version_num(), 7);

    let question = message_of(Role::User, "which file is largest? ☕\u{1}\u{1b}[2J");
    let call = NewMessage {
        tool_calls: Some(r#"[{"id":"c1","name":"fs__list","input":{"path":"."}}]"#.to_owned()),
        body: Some(r#"{"role":"assistant","content":"","blocks":[1,2]}"#.to_owned()),
        spent: Some(spent(10, Some(7))),
        ..message_of(Role::Assistant, "")
    };
    let result = NewMessage {
        tool_results: Some(r#"{"tool_call_id":"c1"}"#.to_owned()),
        ..message_of(Role::Tool, "a.txt 12\nb.txt 40")
    };
    let first = step(0, vec![message_of(Role::System, "Be brief."), question.clone()]);
    assert_eq!(store.append(session.id, &first).await.unwrap(), 2);
    assert_eq!(store.session(session.id).await.unwrap().model, session.model, "the step names no other model");
    let second = Step { model: Some("mock/two".to_owned()), ..step(2, vec![call.clone(), result.clone()]) };
    assert_eq!(store.append(session.id, &second).await.unwrap(), 4);

    let stored = store.messages(session.id, 0, usize::MAX).await.unwrap();
    assert_eq!(stored.iter().map(|message| message.position).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(stored.iter().all(|message| message.session_id == session.id && message.timestamp >= session.created_at));
    assert!(stored.is_sorted_by_key(|message| message.id), "ids are in the order of time");
    let without_place = |index: usize| {
        let message = stored[index].clone();
        let StoredMessage { role, content, tool_calls, tool_results, body, spent, .. } = message;
        NewMessage { role, content, tool_calls, tool_results, body, spent }
    };
    assert_eq!([without_place(1), without_place(2), without_place(3)], [question, call, result]);
    let middle = store.messages(session.id, 1, 2).await.unwrap();
    assert_eq!(middle, stored[1..3]);

    let now = store.session(session.id).await.unwrap();
    assert_eq!((now.messages, now.model.as_deref()), (4, Some("mock/two")));
    assert_eq!(now.spent, spent(10, Some(7)));
    assert!(now.updated_at >= session.updated_at);
}

#[tokio::test]
async fn stored_messages_survive_a_restart() {
    let (_folder, store) = new_store().await;
    let session = begin(&store, "Files").await;
    store.append(session.id, &step(0, vec![message_of(Role::User, "hello")])).await.unwrap();
    let path = store.path().to_owned();
    store.close().await;
    let store = Store::open(path).await.unwrap();
    assert_eq!(store.messages(session.id, 0, 9).await.unwrap()[0].content, "hello");
}

#[tokio::test]
async fn every_role_has_its_own_word() {
    for role in Role::ALL {
        assert_eq!(Role::from_word(role.as_str()), Some(role));
    }
    assert_eq!(Role::Tool.to_string(), "tool");
    assert_eq!(Role::from_word("Tool"), None);
}

async fn an_open_turn_is_stored_with_the_messages_of_its_step(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "").await;
    let open = |position, messages, turn: Option<&str>| Step {
        open_turn: turn.map(str::to_owned),
        ..step(position, messages)
    };
    let turn = open(0, vec![message_of(Role::User, "x")], Some(r#"{"round":1}"#));
    store.append(session.id, &turn).await.unwrap();
    assert_eq!(store.open_turn(session.id).await.unwrap().as_deref(), Some(r#"{"round":1}"#));
    assert!(store.session(session.id).await.unwrap().has_open_turn);

    // A refused step changes neither the messages nor the open turn.
    let refused = store.append(session.id, &open(0, vec![message_of(Role::User, "y")], None)).await;
    assert!(matches!(refused, Err(StoreError::SessionMoved { expected: 0, found: 1, .. })), "{refused:?}");
    assert_eq!(store.open_turn(session.id).await.unwrap().as_deref(), Some(r#"{"round":1}"#));

    store.append(session.id, &open(1, Vec::new(), None)).await.unwrap();
    assert_eq!(store.open_turn(session.id).await.unwrap(), None);
    let unknown = store.open_turn(Uuid::nil()).await;
    assert!(matches!(unknown, Err(StoreError::UnknownSession { .. })), "{unknown:?}");
}

async fn appending_to_a_session_that_has_grown_meanwhile_fails(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "").await;
    let other = stage.elsewhere().await;
    store.append(session.id, &step(0, vec![message_of(Role::User, "mine")])).await.unwrap();
    let error = other.append(session.id, &step(0, vec![message_of(Role::User, "theirs")])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "another process has continued the session {}: it has 1 messages where 0 were expected",
            session.prefix
        )
    );
    assert!(matches!(
        other.append(session.id, &step(2, Vec::new())).await,
        Err(StoreError::SessionMoved { expected: 2, found: 1, .. })
    ));
    let stored = store.messages(session.id, 0, 9).await.unwrap();
    assert_eq!(stored.iter().map(|message| &*message.content).collect::<Vec<_>>(), ["mine"]);

    store.delete_session(session.id).await.unwrap();
    let gone = other.append(session.id, &step(1, vec![message_of(Role::User, "late")])).await;
    assert!(matches!(gone, Err(StoreError::UnknownSession { .. })), "{gone:?}");
    assert_eq!(store.session_totals(OwnerFilter::All).await.unwrap(), SessionTotals::default());
}

async fn sessions_are_listed_by_page_with_the_newest_first(stage: &Stage) {
    let store = stage.store().await;
    for (number, title) in ["one", "100% two", "THREE", "four_", "five"].into_iter().enumerate() {
        let session = begin(&store, title).await;
        backdate(&store, &session, 10 - number as i64).await;
    }
    let page = |after: Option<&Session>| SessionQuery {
        after: after.map(|last| (last.updated_at, last.id)),
        limit: 2,
        ..SessionQuery::default()
    };
    let first = store.sessions(&page(None)).await.unwrap();
    let second = store.sessions(&page(first.last())).await.unwrap();
    let third = store.sessions(&page(second.last())).await.unwrap();
    let shown: Vec<_> = [first, second, third].concat().into_iter().map(|session| session.title).collect();
    assert_eq!(shown, ["five", "four_", "THREE", "100% two", "one"]);

    let search = |text: &str| SessionQuery { search: Some(text.to_owned()), limit: 9, ..SessionQuery::default() };
    assert_eq!(titles(&store, search("three")).await, ["THREE"]);
    assert_eq!(titles(&store, search("%")).await, ["100% two"], "`%` is not a wildcard");
    assert_eq!(titles(&store, search("_")).await, ["four_"]);
    assert_eq!(titles(&store, search("t")).await, ["THREE", "100% two"]);
    assert_eq!(titles(&store, search("'; DROP TABLE sessions; --")).await, [] as [&str; 0]);
}

async fn a_new_message_brings_a_session_to_the_top_and_a_new_title_does_not(stage: &Stage) {
    let store = stage.store().await;
    let old = begin(&store, "old").await;
    backdate(&store, &old, 2).await;
    let newer = begin(&store, "newer").await;
    backdate(&store, &newer, 1).await;
    store.rename_session(old.id, "renamed").await.unwrap();
    let all = || SessionQuery { limit: 9, ..SessionQuery::default() };
    assert_eq!(titles(&store, all()).await, ["newer", "renamed"]);
    store.append(old.id, &step(0, vec![message_of(Role::User, "x")])).await.unwrap();
    assert_eq!(titles(&store, all()).await, ["renamed", "newer"]);
}

async fn a_session_is_found_by_any_prefix_that_no_other_shares(stage: &Stage) {
    let store = stage.store().await;
    let ids = [
        "0190aaaa-1111-7000-8000-000000000001",
        "0190aaaa-1112-7000-8000-000000000002",
        "0190bbbb-0000-7000-8000-000000000003",
    ];
    for (number, id) in ids.iter().enumerate() {
        store
            .write(
                query("INSERT INTO sessions (id, title, created_at, updated_at) VALUES ($1, $2, 0, $3)")
                    .bind(id)
                    .bind(format!("number {number}"))
                    .bind(100 - number as i64),
                "testing",
            )
            .await
            .unwrap();
    }
    let listed = store.sessions(&SessionQuery { limit: 9, ..SessionQuery::default() }).await.unwrap();
    let prefixes: Vec<_> = listed.iter().map(|session| &*session.prefix).collect();
    assert_eq!(prefixes, ["0190aaaa-1111", "0190aaaa-1112", "0190bbbb"]);
    for (typed, found) in [
        ("0190aaaa-1111", 0),
        ("0190AAAA1112", 1),
        ("0190b", 2),
        ("0190bbbb-", 2),
        (ids[1], 1),
        (&ids[1].replace('-', ""), 1),
        ("last", 0),
    ] {
        assert_eq!(
            store.find_session(typed, OwnerFilter::All).await.unwrap().title,
            format!("number {found}"),
            "{typed}"
        );
    }
    for typed in ["", "019", "0190c", "LAST", "0190%", "number 0", "0190aaaa-1111-7000-8000-0000000000011"] {
        let error = store.find_session(typed, OwnerFilter::All).await.unwrap_err();
        assert_eq!(error.to_string(), format!("there is no session `{typed}`"));
    }
    let error = store.find_session("0190", OwnerFilter::All).await.unwrap_err();
    let expected = "`0190` may be one of several sessions: 0190aaaa-1111, 0190aaaa-1112, 0190bbbb";
    assert_eq!(error.to_string(), expected);
    let odd = store.find_session("a\u{1b}[2J\nb", OwnerFilter::All).await.unwrap_err();
    assert_eq!(odd.to_string(), r"there is no session `a\u{1b}[2J\nb`");
}

async fn sessions_that_begin_in_the_same_moment_have_prefixes_of_their_own(stage: &Stage) {
    let store = stage.store().await;
    for number in 0..20 {
        begin(&store, &number.to_string()).await;
    }
    for session in store.sessions(&SessionQuery { limit: 99, ..SessionQuery::default() }).await.unwrap() {
        assert!(!session.prefix.ends_with('-'), "{}", session.prefix);
        assert_eq!(store.find_session(&session.prefix, OwnerFilter::All).await.unwrap(), session);
    }
}

async fn deleting_a_session_deletes_its_messages(stage: &Stage) {
    let store = stage.store().await;
    let (gone, stays) = (begin(&store, "gone").await, begin(&store, "stays").await);
    for session in [&gone, &stays] {
        store
            .append(session.id, &step(0, vec![message_of(Role::User, "x"), message_of(Role::Assistant, "y")]))
            .await
            .unwrap();
    }
    store.delete_session(gone.id).await.unwrap();
    assert_eq!(store.messages(gone.id, 0, 9).await.unwrap(), []);
    let totals = store.session_totals(OwnerFilter::All).await.unwrap();
    assert_eq!((totals.sessions, totals.messages), (1, 2));
    for error in [
        store.delete_session(gone.id).await.unwrap_err(),
        store.rename_session(gone.id, "x").await.unwrap_err(),
        store.session(gone.id).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::UnknownSession { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn no_text_of_a_deleted_session_is_left_in_the_file() {
    let (folder, store) = new_store().await;
    for forgetting in [false, true] {
        let secret = format!("canary {forgetting}");
        let session = begin(&store, &secret).await;
        let long = format!("{secret} {}", "x".repeat(20_000));
        store
            .append(session.id, &step(0, vec![message_of(Role::User, &secret), message_of(Role::Tool, &long)]))
            .await
            .unwrap();
        if forgetting {
            backdate(&store, &session, 50).await;
            let retention = Retention { keep_days: Some(1), keep_sessions: None };
            assert_eq!(store.forget_old_sessions(retention, None).await.unwrap(), 1);
        } else {
            store.delete_session(session.id).await.unwrap();
        }
    }
    store.close().await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"canary"));
    }
}

async fn an_unreadable_message_is_an_error(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "x").await;
    store.append(session.id, &step(0, vec![message_of(Role::User, "a"), message_of(Role::User, "b")])).await.unwrap();
    store.write(query("UPDATE messages SET id = 'x' WHERE position = 0"), "testing").await.unwrap();
    let error = store.messages(session.id, 0, 9).await.unwrap_err();
    assert!(matches!(error, StoreError::UnreadableMessage { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(&format!("sessions delete {}", session.id)) && !message.contains("move it away"),
        "{message}"
    );
    assert_eq!(store.messages(session.id, 1, 9).await.unwrap().len(), 1);
}

async fn long_titles_are_cut_between_characters(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, &"ä".repeat(300)).await;
    assert_eq!(session.title, "ä".repeat(250));
    store.rename_session(session.id, &format!("a{}", "ä".repeat(300))).await.unwrap();
    assert_eq!(store.session(session.id).await.unwrap().title.len(), 499);
}

async fn costs_are_added_up_and_never_overflow(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "").await;
    let costing = |spent: ModelUse| NewMessage { spent: Some(spent), ..message_of(Role::Assistant, "x") };
    let unknown = vec![costing(spent(1, None)), message_of(Role::Assistant, "free")];
    store.append(session.id, &step(0, unknown)).await.unwrap();
    assert_eq!(store.session(session.id).await.unwrap().spent, spent(1, None), "no price was known");
    store.append(session.id, &step(2, vec![costing(spent(1, Some(30)))])).await.unwrap();
    let known = ModelUse { input: 2, output: 4, cached_read: 6, cache_write: 8, reasoning: 10, cost: Some(30) };
    assert_eq!(store.session(session.id).await.unwrap().spent, known);

    let excessive = vec![costing(spent(u64::MAX, Some(u64::MAX))), costing(spent(u64::MAX, Some(1)))];
    store.append(session.id, &step(3, excessive)).await.unwrap();
    let more = begin(&store, "").await;
    store.append(more.id, &step(0, vec![costing(spent(u64::MAX, None))])).await.unwrap();
    let totals = store.session_totals(OwnerFilter::All).await.unwrap().spent;
    assert!(totals.input >= i64::MAX as u64 && totals.cost == Some(i64::MAX as u64), "{totals:?}");
}

async fn old_sessions_are_forgotten_by_age_and_by_number(stage: &Stage) {
    let days = |days| Retention { keep_days: Some(days), keep_sessions: None };
    let number = |number| Retention { keep_days: None, keep_sessions: Some(number) };
    for (retention, kept) in [
        (Retention::default(), vec!["0", "2", "40", "400"]),
        (days(30), vec!["0", "2", "400"]),
        (days(0), vec!["0", "400"]),
        (days(u32::MAX), vec!["0", "2", "40", "400"]),
        (number(2), vec!["0", "2", "400"]),
        (number(0), vec!["0", "400"]),
        (number(9), vec!["0", "2", "40", "400"]),
        (Retention { keep_days: Some(3), keep_sessions: Some(1) }, vec!["0", "400"]),
    ] {
        let store = stage.store().await;
        store.write(query("DELETE FROM sessions"), "testing").await.unwrap();
        store.write(query("DELETE FROM chores"), "testing").await.unwrap();
        let mut in_use = None;
        for old in [0, 2, 40, 400] {
            let session = begin(&store, &old.to_string()).await;
            store.append(session.id, &step(0, vec![message_of(Role::User, "x")])).await.unwrap();
            backdate(&store, &session, old).await;
            in_use = Some(session.id);
        }
        let forgotten = store.forget_old_sessions(retention, in_use).await.unwrap();
        let left = titles(&store, SessionQuery { limit: 9, ..SessionQuery::default() }).await;
        assert_eq!(left, kept, "{retention:?}");
        assert_eq!(forgotten as usize, 4 - kept.len());
        assert_eq!(store.session_totals(OwnerFilter::All).await.unwrap().messages as usize, kept.len());
    }
}

async fn an_old_session_with_a_turn_under_way_is_not_forgotten(stage: &Stage) {
    let store = stage.store().await;
    let retention = Retention { keep_days: Some(30), keep_sessions: Some(1) };
    let session = begin(&store, "old").await;
    backdate(&store, &session, 50).await;
    begin(&store, "new").await;
    let claim = store.claim(&session).unwrap();
    let now = Utc::now();
    assert_eq!(store.forget_sessions_at(now, retention, None).await.unwrap(), 0);
    drop(claim);
    assert_eq!(store.forget_sessions_at(now + Duration::hours(25), retention, None).await.unwrap(), 1);
}

async fn old_sessions_are_looked_for_once_a_day(stage: &Stage) {
    let store = stage.store().await;
    let retention = Retention { keep_days: Some(30), keep_sessions: None };
    let now = Utc::now();
    let old = async || {
        let session = begin(&store, "old").await;
        backdate(&store, &session, 50).await;
    };
    old().await;
    assert_eq!(store.forget_sessions_at(now, retention, None).await.unwrap(), 1);
    old().await;
    assert_eq!(store.forget_sessions_at(now + Duration::hours(23), retention, None).await.unwrap(), 0);
    assert_eq!(store.forget_sessions_at(now + Duration::hours(25), retention, None).await.unwrap(), 1);
    old().await;
    assert_eq!(store.forget_sessions_at(now, retention, None).await.unwrap(), 1, "the clock went back");
}

#[tokio::test]
async fn a_read_only_file_refuses_new_and_changed_sessions() {
    let (_folder, store) = new_store().await;
    let session = begin(&store, "x").await;
    let path = store.path().to_owned();
    let options = SqliteConnectOptions::new().filename(&path).read_only(true);
    let reader =
        Store::from_file(crate::sqlite::File::from_pool(sqlx::SqlitePool::connect_with(options).await.unwrap(), &path));
    assert_eq!(reader.find_session("last", OwnerFilter::All).await.unwrap(), session, "reading works");
    for error in [
        reader.create_session(&NewSession::default()).await.map(drop).unwrap_err(),
        reader.append(session.id, &step(0, vec![message_of(Role::User, "x")])).await.map(drop).unwrap_err(),
        reader.rename_session(session.id, "y").await.unwrap_err(),
        reader.delete_session(session.id).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_full_disk_stores_nothing_of_a_step_and_keeps_earlier_steps() {
    let (_folder, store) = new_store().await;
    let session = begin(&store, "x").await;
    store.append(session.id, &step(0, vec![message_of(Role::User, "before")])).await.unwrap();
    // The file may grow by four pages.
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(store.pool()).await.unwrap();
    let limit = format!("PRAGMA max_page_count = {}", pages + 4);
    sqlx::query(sqlx::AssertSqlSafe(limit)).execute(store.pool()).await.unwrap();
    let long = Step {
        open_turn: Some("{}".to_owned()),
        ..step(1, vec![message_of(Role::Assistant, "short"), message_of(Role::Tool, &"long".repeat(100_000))])
    };
    let error = store.append(session.id, &long).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    let after = store.session(session.id).await.unwrap();
    assert_eq!((after.messages, after.has_open_turn), (1, false));
    assert_eq!(store.append(session.id, &step(1, vec![message_of(Role::User, "after")])).await.unwrap(), 2);
}

#[tokio::test]
async fn a_write_waits_for_a_locked_database_and_fails_with_an_error_that_says_so() {
    let (_folder, store) = new_store().await;
    let session = begin(&store, "x").await;
    let patient = Store::open_within(store.path().to_owned(), std::time::Duration::from_millis(50)).await.unwrap();
    let holding = store.begin_durably("holding").await.unwrap();
    let error = patient.append(session.id, &step(0, vec![message_of(Role::User, "x")])).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    assert_eq!(patient.session(session.id).await.unwrap(), session, "readers do not wait for a writer");
    drop(holding);
    patient.append(session.id, &step(0, vec![message_of(Role::User, "x")])).await.unwrap();
}

#[tokio::test]
async fn a_step_waits_for_the_disk_and_other_writes_do_not() {
    let (_folder, store) = new_store().await;
    let level = async || sqlx::query_scalar::<_, i64>("PRAGMA synchronous").fetch_one(store.pool()).await.unwrap();
    let (normal, full) = (1, 2);
    assert_eq!(level().await, normal);
    let session = begin(&store, "x").await;
    store.append(session.id, &step(0, vec![message_of(Role::User, "x")])).await.unwrap();
    assert_eq!(level().await, full);
    drop(store.begin("writing something else").await.unwrap());
    assert_eq!(level().await, normal);
}

async fn a_cancelled_step_is_stored_in_full_or_not_at_all(stage: &Stage) {
    let store = stage.store().await;
    let session = begin(&store, "x").await;
    let messages: Vec<_> = (0..50).map(|number| message_of(Role::Tool, &number.to_string())).collect();
    for polls in 0..40 {
        let before = store.session(session.id).await.unwrap().messages;
        let step = step(before, messages.clone());
        let mut append = Box::pin(store.append(session.id, &step));
        let mut left = polls;
        let polled_so_often = std::future::poll_fn(|context| {
            left -= 1;
            if left < 0 { std::task::Poll::Ready(()) } else { append.as_mut().poll(context).map(drop) }
        });
        polled_so_often.await;
        drop(append);
        let after = store.session(session.id).await.unwrap().messages;
        assert!(after == before || after == before + 50, "{before} became {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_of_one_file_append_without_loss() {
    let (_folder, one) = new_store().await;
    let two = Store::open(one.path()).await.unwrap();
    let session = begin(&one, "story").await;
    let append_steps = async |store: &Store, writer: &str| {
        let mut steps = 0;
        while steps < 40 {
            let position = store.session(session.id).await.unwrap().messages;
            let messages =
                ["a", "b", "c"].map(|part| message_of(Role::User, &format!("{writer}{steps}{part}"))).to_vec();
            match store.append(session.id, &step(position, messages)).await {
                Ok(_) => steps += 1,
                Err(StoreError::SessionMoved { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
            // Changes of other sessions at the same time do no harm.
            let other = begin(store, "other").await;
            store.rename_session(other.id, "renamed").await.unwrap();
            store.delete_session(other.id).await.unwrap();
        }
    };
    join_all([append_steps(&one, "x"), append_steps(&two, "y")]).await;
    assert_complete(&one, session.id, 240).await;
    assert_eq!(one.sessions(&SessionQuery { limit: 9, ..SessionQuery::default() }).await.unwrap().len(), 1);
    assert_eq!(
        one.messages(session.id, 0, usize::MAX).await.unwrap(),
        two.messages(session.id, 0, usize::MAX).await.unwrap()
    );
}

/// Asserts that the messages of each step are together, that the steps of each writer are in order, and that no
/// position is missing.
async fn assert_complete(store: &Store, session: Uuid, expected: usize) {
    let stored = store.messages(session, 0, usize::MAX).await.unwrap();
    assert_eq!(stored.len(), expected);
    let mut next = std::collections::BTreeMap::<char, u32>::new();
    for (number, step) in stored.chunks(3).enumerate() {
        let contents: Vec<&str> = step.iter().map(|message| message.content.as_str()).collect();
        let (writer, number_of_step) = contents[0].trim_end_matches('a').split_at(1);
        assert_eq!(contents, ["a", "b", "c"].map(|part| format!("{writer}{number_of_step}{part}")));
        let next = next.entry(writer.chars().next().unwrap()).or_default();
        assert_eq!(number_of_step.parse::<u32>().unwrap(), *next);
        *next += 1;
        assert!(step.iter().enumerate().all(|(at, message)| message.position as usize == number * 3 + at));
    }
}

async fn open(path: &Path) -> Store {
    Store::open(path).await.unwrap()
}

async fn a_query_for_one_principal_finds_the_conversations_of_no_other(stage: &Stage) {
    let store = stage.store().await;
    let [ann, bob] = ["ann", "bob"].map(|subject| Principal::new(Kind::Person, "acme", "https://i", subject).unwrap());
    let ann_added_again = ann.clone().in_membership(1);
    for (owner, title) in [(&Principal::LOCAL, "of the machine"), (&ann, "of ann"), (&bob, "of bob")] {
        let new = NewSession { title: title.to_owned(), owner: Owner::of(owner), ..NewSession::default() };
        let session = store.create_session(&new).await.unwrap();
        store.append(session.id, &step(0, vec![message_of(Role::User, title)])).await.unwrap();
    }
    for (whose, found) in [
        (OwnerFilter::Of(&Principal::LOCAL), vec!["of the machine"]),
        (OwnerFilter::Of(&ann), vec!["of ann"]),
        (OwnerFilter::Of(&bob), vec!["of bob"]),
        (OwnerFilter::Of(&ann_added_again), vec![]),
    ] {
        assert_eq!(titles(&store, SessionQuery { whose, limit: 9, ..SessionQuery::default() }).await, found);
        let totals = store.session_totals(whose).await.unwrap();
        assert_eq!((totals.sessions, totals.messages), (found.len() as u64, found.len() as u64));
        let last = store.find_session("last", whose).await.map(|session| session.title).ok();
        assert_eq!(last.as_deref(), found.first().copied());
    }
    let of_ann = store.find_session("last", OwnerFilter::Of(&ann)).await.unwrap();
    assert_eq!(of_ann.owner, Owner::of(&ann));
    for typed in [of_ann.id.to_string(), of_ann.prefix] {
        assert!(store.find_session(&typed, OwnerFilter::Of(&ann)).await.is_ok());
        assert!(matches!(
            store.find_session(&typed, OwnerFilter::Of(&bob)).await,
            Err(StoreError::UnknownSession { .. })
        ));
    }
    assert_eq!(store.session_totals(OwnerFilter::All).await.unwrap().sessions, 3);
}

on_both!(
    a_conversation_is_read_back_as_it_was_stored,
    an_open_turn_is_stored_with_the_messages_of_its_step,
    appending_to_a_session_that_has_grown_meanwhile_fails,
    sessions_are_listed_by_page_with_the_newest_first,
    a_new_message_brings_a_session_to_the_top_and_a_new_title_does_not,
    a_session_is_found_by_any_prefix_that_no_other_shares,
    sessions_that_begin_in_the_same_moment_have_prefixes_of_their_own,
    deleting_a_session_deletes_its_messages,
    an_unreadable_message_is_an_error,
    long_titles_are_cut_between_characters,
    costs_are_added_up_and_never_overflow,
    old_sessions_are_forgotten_by_age_and_by_number,
    an_old_session_with_a_turn_under_way_is_not_forgotten,
    old_sessions_are_looked_for_once_a_day,
    a_cancelled_step_is_stored_in_full_or_not_at_all,
    a_query_for_one_principal_finds_the_conversations_of_no_other
);
