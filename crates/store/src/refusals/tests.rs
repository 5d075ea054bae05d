use toolrack_host::Way;

use super::*;
use crate::tests::{Stage, on_both};
use crate::{Approval, audit::AuditQuery};

fn refusal(project: &str, name: &str, hash: &str) -> Refusal {
    Refusal { project: project.into(), name: name.to_owned(), hash: hash.to_owned() }
}

async fn kinds(store: &Store) -> Vec<(String, Option<String>, Option<String>)> {
    let rows = store.audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.unwrap();
    rows.into_iter().map(|row| (row.entry.kind, row.entry.server, row.entry.content)).collect()
}

async fn a_refusal_covers_one_content_of_one_entry_of_one_project_and_the_last_one_applies(stage: &Stage) {
    let store = stage.store().await;
    for (project, name, hash) in [("/b", "x", "1"), ("/a", "y", "1"), ("/a", "x", "1"), ("/a", "x", "2")] {
        store.refuse(&refusal(project, name, hash), &Caller::local(Way::Cli)).await.unwrap();
    }
    let stored = store.refusals().await.unwrap();
    assert_eq!(stored, [refusal("/a", "x", "2"), refusal("/a", "y", "1"), refusal("/b", "x", "1")]);
    for (project, name, hash, covered) in [
        ("/a", "x", "2", true),
        ("/a", "x", "1", false),
        ("/a", "X", "2", false),
        ("/a/", "x", "2", true),
        ("/a/b", "x", "2", false),
        ("/c", "x", "2", false),
        ("/a", "", "2", false),
    ] {
        let is_covered = stored.iter().any(|refusal| refusal.covers(Path::new(project), name, hash));
        assert_eq!(is_covered, covered, "{project} {name} {hash}");
    }
}

async fn an_approval_takes_a_refusal_back_and_both_are_in_the_log(stage: &Stage) {
    let store = stage.store().await;
    store.refuse(&refusal("/a", "x", "1"), &Caller::local(Way::Daemon)).await.unwrap();
    store.refuse(&refusal("/a", "y", "1"), &Caller::local(Way::Daemon)).await.unwrap();
    let (project, shown) = (PathBuf::from("/a"), "{}".to_owned());
    let approval = Approval { project, name: "x".to_owned(), hash: "1".to_owned(), shown, approved_at: 1 };
    store.approve(&approval, &Caller::local(Way::Cli)).await.unwrap();
    assert_eq!(store.refusals().await.unwrap(), [refusal("/a", "y", "1")]);
    let events: Vec<_> = kinds(&store).await.into_iter().map(|(kind, server, _)| (kind, server.unwrap())).collect();
    let row = |kind: &str, server: &str| (kind.to_owned(), server.to_owned());
    assert_eq!(events, [row("refused", "x"), row("refused", "y"), row("trusted", "x")]);
    assert!(store.verify_audit(None).await.unwrap().is_ok());
}

#[cfg(unix)]
async fn a_project_whose_path_is_not_utf_8_is_named_and_nothing_is_stored(stage: &Stage) {
    use std::os::unix::ffi::OsStrExt as _;

    let store = stage.store().await;
    let project = PathBuf::from(std::ffi::OsStr::from_bytes(b"/a/\xff"));
    let odd = Refusal { project, ..refusal("", "x", "1") };
    let error = store.refuse(&odd, &Caller::local(Way::Cli)).await.unwrap_err();
    assert!(matches!(error, StoreError::Path { .. }), "{error:?}");
    assert_eq!((store.refusals().await.unwrap(), kinds(&store).await), (vec![], vec![]));
}

on_both!(
    a_refusal_covers_one_content_of_one_entry_of_one_project_and_the_last_one_applies,
    an_approval_takes_a_refusal_back_and_both_are_in_the_log,
    a_project_whose_path_is_not_utf_8_is_named_and_nothing_is_stored
);
