use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::*;
use crate::tests::{Stage, on_both, raw};

const MINUTE: Duration = Duration::from_secs(60);

fn key(byte: u8) -> VaultKey {
    VaultKey::from_bytes([byte; 32])
}

async fn vault_at(path: &Path) -> Vault {
    Vault::open(&Store::open(path).await.unwrap(), key(1)).await.unwrap()
}

async fn vault(stage: &Stage) -> Vault {
    Vault::open(&stage.store().await, key(1)).await.unwrap()
}

fn text(found: Option<SecretValue>) -> Option<String> {
    found.map(|value| value.expose_text().unwrap().to_owned())
}

#[tokio::test]
async fn a_stored_value_is_found_by_its_space_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let vault = vault_at(&path).await;
    vault.put(Space::Secret, "b", b"one").await.unwrap();
    vault.put(Space::Token, "b", b"two").await.unwrap();
    vault.put(Space::Secret, "a", b"").await.unwrap();
    vault.put(Space::Secret, "b", b"three").await.unwrap();
    vault.store.close().await;

    let vault = vault_at(&path).await;
    assert_eq!(text(vault.get(Space::Secret, "b").await.unwrap()).as_deref(), Some("three"));
    assert_eq!(text(vault.get(Space::Token, "b").await.unwrap()).as_deref(), Some("two"));
    assert_eq!(text(vault.get(Space::Secret, "a").await.unwrap()).as_deref(), Some(""));
    assert_eq!(vault.get(Space::Secret, "c").await.unwrap(), None);
    assert_eq!(vault.names(Space::Secret).await.unwrap(), ["a", "b"]);
    assert!(vault.remove(Space::Secret, "b").await.unwrap());
    assert!(!vault.remove(Space::Secret, "b").await.unwrap());
    assert_eq!(vault.names(Space::Secret).await.unwrap(), ["a"]);
    assert_eq!(vault.names(Space::Token).await.unwrap(), ["b"]);
}

async fn another_key_is_a_clear_error_and_never_garbage(stage: &Stage) {
    let vault = vault(stage).await;
    vault.put(Space::Secret, "a", b"canary").await.unwrap();
    let other = Vault::open(&vault.store, key(2)).await.unwrap();
    let error = other.get(Space::Secret, "a").await.unwrap_err();
    assert!(matches!(error, VaultError::OtherKey { .. }), "{error:?}");
    assert!(error.to_string().contains("`a` was sealed with another key"), "{error}");

    // A value can be set again, and is then sealed with the other key.
    other.put(Space::Secret, "a", b"fresh").await.unwrap();
    assert_eq!(text(other.get(Space::Secret, "a").await.unwrap()).as_deref(), Some("fresh"));
    assert!(matches!(vault.get(Space::Secret, "a").await, Err(VaultError::OtherKey { .. })));
}

#[tokio::test]
async fn a_row_that_was_moved_or_changed_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let vault = vault_at(&path).await;
    for tamper in [
        "UPDATE vault SET name = CASE name WHEN 'a' THEN 'x' ELSE 'a' END",
        "UPDATE vault SET space = 'token'; UPDATE vault SET space = 'secret' WHERE name = 'x'",
        "UPDATE vault SET sealed = (SELECT sealed FROM vault WHERE name = 'b') WHERE name = 'a'",
        "UPDATE vault SET nonce = zeroblob(24) WHERE name = 'a'",
        "UPDATE vault SET nonce = x'00' WHERE name = 'a'",
        "UPDATE vault SET sealed = x'' WHERE name = 'a'",
        "UPDATE vault SET sealed = CAST(sealed || x'00' AS BLOB) WHERE name = 'a'",
    ] {
        vault.remove(Space::Secret, "x").await.unwrap();
        vault.put(Space::Secret, "a", b"first").await.unwrap();
        vault.put(Space::Secret, "b", b"other").await.unwrap();
        sqlx::raw_sql(tamper).execute(&mut raw(&path).await).await.unwrap();
        let space = if tamper.contains("token") { Space::Token } else { Space::Secret };
        let error = vault.get(space, "a").await.unwrap_err();
        assert!(matches!(error, VaultError::Damaged { .. }), "{tamper}: {error:?}");
        sqlx::query("DELETE FROM vault").execute(&mut raw(&path).await).await.unwrap();
    }
}

#[tokio::test]
async fn no_byte_of_a_value_is_in_the_files_or_in_any_debug() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault_at(&folder.path().join("t.db")).await;
    vault.put(Space::Secret, "name", b"canary-value").await.unwrap();
    let found = vault.get(Space::Secret, "name").await.unwrap().unwrap();
    let lease = vault.try_lease(Space::Secret, "name", MINUTE).await.unwrap();
    let shown = format!("{vault:?} {found:?} {lease:?} {:?}", VaultKey::from_passphrase("canary-value"));
    assert!(!shown.contains("canary"), "{shown}");
    let mut sizes = 0;
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        sizes += bytes.len();
        assert!(!bytes.windows(6).any(|window| window == b"canary"));
    }
    assert!(sizes > 4096, "the files were not searched");
}

async fn names_and_values_have_bounds(stage: &Stage) {
    let vault = vault(stage).await;
    vault.put(Space::Token, &"n".repeat(MAX_NAME_BYTES), &vec![0; MAX_VALUE_BYTES]).await.unwrap();
    for name in [String::new(), "n".repeat(MAX_NAME_BYTES + 1)] {
        assert!(matches!(vault.put(Space::Token, &name, b"x").await, Err(VaultError::Name { .. })));
        assert!(matches!(vault.try_lease(Space::Token, &name, MINUTE).await, Err(VaultError::Name { .. })));
    }
    let error = vault.put(Space::Token, "n", &vec![0; MAX_VALUE_BYTES + 1]).await.unwrap_err();
    assert!(error.to_string().contains("65537 bytes"), "{error}");
}

#[tokio::test]
async fn a_passphrase_is_the_same_key_each_time_and_another_one_in_another_database() {
    let folder = tempfile::tempdir().unwrap();
    let open = async |file: &str, words: &str| {
        let store = Store::open(folder.path().join(file)).await.unwrap();
        Vault::open(&store, VaultKey::from_passphrase(words)).await
    };
    let words = "correct horse battery";
    let first = open("a.db", words).await.unwrap();
    first.put(Space::Secret, "s", b"value").await.unwrap();
    let again = open("a.db", words).await.unwrap();
    assert_eq!(text(again.get(Space::Secret, "s").await.unwrap()).as_deref(), Some("value"));
    let wrong = open("a.db", "correct horse batterz").await.unwrap();
    assert!(matches!(wrong.get(Space::Secret, "s").await, Err(VaultError::OtherKey { .. })));
    assert_ne!(open("b.db", words).await.unwrap().sealer.key_id(), first.sealer.key_id());
    assert!(matches!(open("a.db", "eleven char").await, Err(VaultError::Passphrase)));
}

async fn a_lease_is_held_by_one_until_it_is_given_back_or_runs_out(stage: &Stage) {
    let (one, other) = (vault(stage).await, Vault::open(&stage.elsewhere().await, key(1)).await.unwrap());
    let held = one.try_lease(Space::Token, "a", MINUTE).await.unwrap().unwrap();
    assert!(other.try_lease(Space::Token, "a", MINUTE).await.unwrap().is_none());
    assert!(other.try_lease(Space::Secret, "a", MINUTE).await.unwrap().is_some(), "another space is another lease");
    held.release().await.unwrap();

    // A holder ends without releasing its lease.
    drop(other.try_lease(Space::Token, "a", Duration::from_millis(60)).await.unwrap().unwrap());
    let started = Instant::now();
    let held = one.lease(Space::Token, "a", MINUTE, MINUTE).await.unwrap();
    assert!(held.is_some() && started.elapsed() >= Duration::from_millis(30), "{:?}", started.elapsed());

    // The clock was set back: a lease whose end is too far away counts as ended.
    let distant = "UPDATE leases SET ends_at = ends_at + 86400000";
    other.store.write(query(distant), "testing").await.unwrap();
    assert!(other.try_lease(Space::Token, "a", MINUTE).await.unwrap().is_some());
}

async fn a_process_that_lost_a_lease_overwrites_nothing(stage: &Stage) {
    let vault = vault(stage).await;
    let lost = vault.try_lease(Space::Token, "a", Duration::ZERO).await.unwrap().unwrap();
    let error = vault.put_under(&lost, b"late").await.unwrap_err();
    assert!(matches!(error, VaultError::LeaseLost { .. }), "{error:?}");

    let held = vault.try_lease(Space::Token, "a", MINUTE).await.unwrap().unwrap();
    vault.put_under(&held, b"new").await.unwrap();
    assert!(vault.put_under(&lost, b"late").await.is_err() && vault.remove_under(&lost).await.is_err());
    lost.release().await.unwrap();
    vault.put_under(&held, b"newer").await.unwrap();
    assert_eq!(text(vault.get(Space::Token, "a").await.unwrap()).as_deref(), Some("newer"));
    assert!(vault.remove_under(&held).await.unwrap() && !vault.remove_under(&held).await.unwrap());
}

const REFRESHERS: usize = 20;

/// Refreshes an old token, as each of many processes does. A process that finds the token still old under the lease
/// stores a new one, and adds a line to a file, as an authorization server would count the request.
async fn refresh(path: &Path) {
    let vault = vault_at(path).await;
    let lease = vault.lease(Space::Token, "t", MINUTE, MINUTE).await.unwrap().unwrap();
    let token = text(vault.get(Space::Token, "t").await.unwrap()).unwrap();
    if token == "old" {
        let mut counted = OpenOptions::new().append(true).create(true).open(path.with_extension("count")).unwrap();
        counted.write_all(b"refreshed\n").unwrap();
        vault.put_under(&lease, b"new").await.unwrap();
    }
    lease.release().await.unwrap();
    vault.store.close().await;
}

/// The child process of the next test: refreshes only if that test passes a path as an argument.
#[tokio::test]
async fn child_refreshes() {
    if let Some(path) = std::env::args().find(|argument| argument.ends_with(".lease.db")) {
        refresh(&PathBuf::from(path)).await;
    }
}

#[tokio::test]
async fn of_twenty_processes_one_refreshes_and_all_see_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.lease.db");
    let vault = vault_at(&path).await;
    vault.put(Space::Token, "t", b"old").await.unwrap();
    // A process died while it held the lease.
    drop(vault.try_lease(Space::Token, "t", Duration::from_millis(300)).await.unwrap().unwrap());
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..REFRESHERS)
        .map(|_| {
            let mut child = Command::new(&program);
            child.args(["--exact", "vault::tests::child_refreshes"]).arg(&path);
            child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
    assert_eq!(fs::read_to_string(path.with_extension("count")).unwrap(), "refreshed\n");
    assert_eq!(text(vault.get(Space::Token, "t").await.unwrap()).as_deref(), Some("new"));
}

async fn only_values_of_the_removed_member_are_deleted(stage: &Stage) {
    let store = stage.store().await;
    let vault = Vault::open(&store, key(1)).await.unwrap();
    let rest = [(Space::MemberValue, "anna/A"), (Space::Secret, "ann/A")];
    for (space, name) in [(Space::MemberValue, "ann/A"), (Space::MemberValue, "ann/B")].into_iter().chain(rest) {
        vault.put(space, name, b"value").await.unwrap();
    }
    assert_eq!(store.delete_member_values("ann/", &Caller::local(toolrack_host::Way::Daemon)).await.unwrap(), 2);
    assert_eq!(vault.names(Space::MemberValue).await.unwrap(), ["anna/A"]);
    assert_eq!(vault.names(Space::Secret).await.unwrap(), ["ann/A"]);
    let query = crate::audit::AuditQuery { limit: 9, ..Default::default() };
    let rows = store.audit(&query).await.unwrap();
    let deleted: Vec<_> = rows.iter().map(|row| (row.entry.kind.as_str(), row.entry.credential.as_deref())).collect();
    assert_eq!(deleted, [("credential_removed", Some("A")), ("credential_removed", Some("B"))]);
}

on_both!(
    another_key_is_a_clear_error_and_never_garbage,
    names_and_values_have_bounds,
    a_lease_is_held_by_one_until_it_is_given_back_or_runs_out,
    a_process_that_lost_a_lease_overwrites_nothing,
    only_values_of_the_removed_member_are_deleted
);
