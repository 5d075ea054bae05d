//! Runs the same random events on the database, through two handles of one file, and on a model, which is only a list.
//! Both must agree.

use proptest::prelude::*;

use super::*;

/// An event of one of a few sessions, through the first or the second handle.
#[derive(Clone, Debug)]
enum Event {
    Begin,
    /// Adds this many messages at a position that is `off` away from the end of the session.
    Add {
        messages: usize,
        off: i64,
        open_turn: bool,
    },
    Rename(String),
    Delete,
    /// Both handles are closed and opened again.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Begin),
        6 => (0..4_usize, prop_oneof![4 => Just(0_i64), 1 => -2..3_i64], any::<bool>())
            .prop_map(|(messages, off, open_turn)| Event::Add { messages, off, open_turn }),
        1 => "[a-zß%_]{0,8}".prop_map(Event::Rename),
        1 => Just(Event::Delete),
        1 => Just(Event::Restart),
    ]
}

/// A session as it should be.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    id: Uuid,
    title: String,
    contents: Vec<String>,
    open_turn: Option<String>,
}

async fn is_as_expected(store: &Store, model: &[Expected]) {
    let mut listed = store.sessions(&SessionQuery { limit: usize::MAX, ..SessionQuery::default() }).await.unwrap();
    assert!(listed.is_sorted_by_key(|session| std::cmp::Reverse((session.updated_at, session.id))));
    listed.sort_by_key(|session| session.id);
    assert_eq!(listed.len(), model.len());
    for (session, expected) in listed.iter().zip(model) {
        let messages = store.messages(session.id, 0, usize::MAX).await.unwrap();
        let found = Expected {
            id: session.id,
            title: session.title.clone(),
            contents: messages.into_iter().map(|message| message.content).collect(),
            open_turn: store.open_turn(session.id).await.unwrap(),
        };
        assert_eq!(found, *expected);
        assert_eq!(
            (session.messages as usize, session.has_open_turn),
            (found.contents.len(), found.open_turn.is_some())
        );
        assert_eq!(store.find_session(&session.prefix, OwnerFilter::All).await.unwrap().id, session.id);
    }
}

async fn happens(number: usize, event: &Event, which: usize, store: &Store, model: &mut Vec<Expected>) {
    if let Event::Begin = event {
        let session = begin(store, &number.to_string()).await;
        model.push(Expected { id: session.id, title: session.title, contents: Vec::new(), open_turn: None });
        return;
    }
    if model.is_empty() {
        assert!(matches!(store.find_session("last", OwnerFilter::All).await, Err(StoreError::UnknownSession { .. })));
        return;
    }
    let at = which % model.len();
    let expected = &mut model[at];
    match event {
        Event::Add { messages, off, open_turn } => {
            let contents: Vec<_> = (0..*messages).map(|message| format!("{number} {message}")).collect();
            let position = expected.contents.len() as i64 + off;
            let step = Step {
                position: position.unsigned_abs(),
                messages: contents.iter().map(|content| message_of(Role::User, content)).collect(),
                open_turn: open_turn.then(|| number.to_string()),
                model: None,
            };
            let added = store.append(expected.id, &step).await;
            if step.position as usize == expected.contents.len() {
                expected.contents.extend(contents);
                expected.open_turn = step.open_turn;
                assert_eq!(added.unwrap() as usize, expected.contents.len());
            } else {
                assert!(matches!(added, Err(StoreError::SessionMoved { .. })), "{added:?}");
            }
        }
        Event::Rename(title) => {
            store.rename_session(expected.id, title).await.unwrap();
            expected.title.clone_from(title);
        }
        Event::Delete => {
            store.delete_session(expected.id).await.unwrap();
            model.remove(at);
        }
        Event::Begin | Event::Restart => {}
    }
}

async fn play(events: &[(Event, bool, usize)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolrack.db");
    let mut handles = [open(&path).await, open(&path).await];
    let mut model = Vec::new();
    for (number, (event, second, which)) in events.iter().enumerate() {
        if let Event::Restart = event {
            futures::future::join_all(handles.iter().map(Store::close)).await;
            handles = [open(&path).await, open(&path).await];
        }
        happens(number, event, *which, &handles[usize::from(*second)], &mut model).await;
        // What one handle has kept, the other one finds.
        is_as_expected(&handles[usize::from(!*second)], &model).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn changes_through_one_handle_are_visible_through_the_other(
        events in prop::collection::vec((event(), any::<bool>(), 0..9_usize), 1..30),
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(&events));
    }
}
