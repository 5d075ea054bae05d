use toolrack_host::{ServerName, pins::PinnedServer};

use super::*;
use crate::tests::{Stage, on_both};

fn server(source: &str) -> PinnedServer {
    PinnedServer { server: ServerName::new("fs").unwrap(), source: source.to_owned() }
}

fn definition(byte: u8) -> Definition {
    Definition { hash: DefinitionHash::from_bytes([byte; 32]), text: format!("{{\"description\":\"{byte}\"}}") }
}

fn mismatch(tool: &str, byte: u8, cause: Cause) -> PinMismatch {
    PinMismatch { tool: tool.to_owned(), definition: definition(byte), cause }
}

fn new(tools: &[(&str, u8)]) -> Vec<(String, Definition)> {
    tools.iter().map(|(tool, byte)| ((*tool).to_owned(), definition(*byte))).collect()
}

async fn pins(store: &Store, of: &PinnedServer, list: u8) -> (u64, Vec<(String, u8)>) {
    match store.recall(of, &[list; 32]).await.unwrap() {
        StoredPins::Unchanged => panic!("it is as before"),
        StoredPins::Pins { generation, pins } => {
            let pins = pins.into_iter().map(|(tool, pin)| (tool, pin.definition.hash.as_bytes()[0]));
            (generation, pins.collect())
        }
    }
}

async fn is_as_before(store: &Store, of: &PinnedServer, list: u8) -> bool {
    matches!(store.recall(of, &[list; 32]).await.unwrap(), StoredPins::Unchanged)
}

async fn the_first_definition_is_pinned_and_the_same_list_is_recognised_by_its_hash(stage: &Stage) {
    let store = stage.store().await;
    let of = server("/a/mcp.json");
    assert_eq!(pins(&store, &of, 1).await, (0, vec![]));
    store
        .record_comparison(
            &of,
            PinComparison { list: [1; 32], generation: 0, new: new(&[("a", 1), ("b", 2)]), mismatches: vec![] },
        )
        .await;
    assert!(is_as_before(&store, &of, 1).await);
    assert!(!is_as_before(&store, &server("/b/mcp.json"), 1).await, "another file is another server");
    // A later writer does not replace a pin, and its list is not known by its hash.
    store
        .record_comparison(
            &of,
            PinComparison { list: [2; 32], generation: 0, new: new(&[("a", 9)]), mismatches: vec![] },
        )
        .await;
    assert!(!is_as_before(&store, &of, 2).await);
    assert_eq!(pins(&store, &of, 2).await.1, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

async fn a_release_is_of_one_definition_and_every_list_is_compared_in_full_after_it(stage: &Stage) {
    let store = stage.store().await;
    let of = server("/a/mcp.json");
    store
        .record_comparison(
            &of,
            PinComparison { list: [1; 32], generation: 0, new: new(&[("a", 1)]), mismatches: vec![] },
        )
        .await;
    let generation = store.generation(&of).await.unwrap();
    let seen =
        PinComparison { list: [2; 32], generation, new: vec![], mismatches: vec![mismatch("a", 7, Cause::Changed)] };
    store.record_comparison(&of, seen).await;
    assert!(!is_as_before(&store, &of, 2).await, "with something in quarantine");
    let held = store.quarantine().await.unwrap();
    assert_eq!((held.len(), held[0].mismatch.definition.hash, &held[0].pinned_server), (1, definition(7).hash, &of));
    assert_eq!(
        held[0].pinned.as_ref().map(|pinned| (&pinned.definition, &pinned.approved_by)),
        Some((&definition(1), &None))
    );

    for (of, tool, byte) in [(&server("/b"), "a", 7), (&of, "b", 7), (&of, "a", 1), (&of, "a", 8)] {
        assert!(
            !store.release(of, tool, definition(byte).hash, &Caller::local(Way::Cli)).await.unwrap(),
            "{tool} {byte}"
        );
    }
    assert!(store.release(&of, "a", definition(7).hash, &Caller::local(Way::Cli)).await.unwrap());
    assert!(!store.release(&of, "a", definition(7).hash, &Caller::local(Way::Cli)).await.unwrap(), "twice");
    assert_eq!(pins(&store, &of, 2).await.1, [("a".to_owned(), 7)]);
    assert!(store.generation(&of).await.unwrap() > generation);
    assert!(store.quarantine().await.unwrap().is_empty());
    // The list that was trusted before the release is no longer trusted.
    assert!(!is_as_before(&store, &of, 1).await);
    // Nor does it become so by a comparison that began before the release.
    store.record_comparison(&of, PinComparison { list: [1; 32], generation, new: vec![], mismatches: vec![] }).await;
    assert!(!is_as_before(&store, &of, 1).await);
    let kinds: Vec<_> = store.audit(&crate::audit::AuditQuery { limit: 10, ..Default::default() }).await.unwrap();
    let kinds: Vec<_> = kinds.into_iter().map(|row| (row.entry.kind, row.entry.content)).collect();
    let content = Some(definition(7).hash.to_string());
    assert_eq!(kinds, [("quarantined".to_owned(), content.clone()), ("approved".to_owned(), content)]);
}

async fn a_tool_that_was_renamed_keeps_its_old_name_for_itself(stage: &Stage) {
    let store = stage.store().await;
    let of = server("/a/mcp.json");
    store
        .record_comparison(
            &of,
            PinComparison { list: [1; 32], generation: 0, new: new(&[("a", 1)]), mismatches: vec![] },
        )
        .await;
    let cause = Cause::Renamed { was: "a".to_owned() };
    let seen =
        PinComparison { list: [2; 32], generation: 1, new: vec![], mismatches: vec![mismatch("b", 2, cause.clone())] };
    store.record_comparison(&of, seen.clone()).await;
    let since = store.quarantine().await.unwrap()[0].since;
    store.record_comparison(&of, seen).await;
    let held = store.quarantine().await.unwrap().remove(0);
    assert_eq!((held.mismatch.cause, held.since), (cause, since));
    assert_eq!(held.pinned.unwrap().definition, definition(1));
    assert!(store.release(&of, "b", definition(2).hash, &Caller::local(Way::Daemon)).await.unwrap());
    let StoredPins::Pins { pins, .. } = store.recall(&of, &[3; 32]).await.unwrap() else { panic!("as before") };
    assert_eq!(pins["a"].renamed_to.as_deref(), Some("b"));
    assert_eq!((pins["b"].definition.hash, &pins["b"].renamed_to), (definition(2).hash, &None));
}

async fn thousands_of_tools_are_pinned_at_once(stage: &Stage) {
    let store = stage.store().await;
    let of = server("/a/mcp.json");
    let many: Vec<_> = (0..5_050).map(|number| (format!("tool_{number}"), definition(1))).collect();
    store.record_comparison(&of, PinComparison { list: [1; 32], generation: 0, new: many, mismatches: vec![] }).await;
    assert_eq!(pins(&store, &of, 2).await.1.len(), 5_050);
    assert!(is_as_before(&store, &of, 1).await);
}

on_both!(
    the_first_definition_is_pinned_and_the_same_list_is_recognised_by_its_hash,
    a_release_is_of_one_definition_and_every_list_is_compared_in_full_after_it,
    a_tool_that_was_renamed_keeps_its_old_name_for_itself,
    thousands_of_tools_are_pinned_at_once
);
