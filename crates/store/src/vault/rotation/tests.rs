use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sqlx::SqliteConnection;

use super::*;
use crate::tests::{Stage, on_both, raw};

fn key(byte: u8) -> VaultKey {
    VaultKey::from_bytes([byte; 32])
}

async fn vault_at(path: &Path, byte: u8) -> Vault {
    Vault::open(&Store::open(path).await.unwrap(), key(byte)).await.unwrap()
}

async fn vault(stage: &Stage, byte: u8) -> Vault {
    Vault::open(&stage.elsewhere().await, key(byte)).await.unwrap()
}

async fn text(vault: &Vault, space: Space, name: &str) -> String {
    vault.get(space, name).await.unwrap().unwrap().expose_text().unwrap().to_owned()
}

/// All that the vault's tables say.
async fn content(connection: &mut SqliteConnection) -> Vec<(String, String, Vec<u8>, Vec<u8>, Vec<u8>, i64)> {
    let retired: i64 =
        sqlx::query_scalar("SELECT count(*) FROM vault_retired").fetch_one(&mut *connection).await.unwrap();
    assert_eq!(retired, 0);
    let rows = "SELECT space, name, key_id, nonce, sealed, changed_at FROM vault ORDER BY space, name";
    sqlx::query_as(rows).fetch_all(connection).await.unwrap()
}

async fn all_rows_are_sealed_with_the_new_key_and_keep_when_they_changed(stage: &Stage) {
    let old = vault(stage, 1).await;
    for (space, name) in [(Space::Secret, "a"), (Space::Secret, "b"), (Space::Token, "a")] {
        old.put(space, name, format!("{space} {name}").as_bytes()).await.unwrap();
    }
    old.store.write(query("UPDATE vault SET changed_at = 7"), "testing").await.unwrap();
    assert_eq!(old.store.key_changed_at().await.unwrap(), None);
    assert_eq!(old.change_key(key(2)).await.unwrap(), 3);
    let new = vault(stage, 2).await;
    assert!(new.is_successor().await.unwrap() && !old.is_successor().await.unwrap());
    assert!(old.store.key_changed_at().await.unwrap().unwrap() > 1_600_000_000);
    for (space, name) in [(Space::Secret, "a"), (Space::Secret, "b"), (Space::Token, "a")] {
        assert_eq!(text(&new, space, name).await, format!("{space} {name}"));
    }
    let stored = "SELECT count(*) FROM vault WHERE changed_at = 7";
    let mut connection = new.store.begin_read("testing").await.unwrap();
    assert_eq!(query_scalar(stored).fetch_one::<i64>(&mut connection).await.unwrap(), 3);
    drop(connection);

    for again in [1, 2] {
        assert!(matches!(new.change_key(key(again)).await, Err(VaultError::NotNew)), "a key that is known is none");
    }
    assert_eq!(new.change_key(VaultKey::from_passphrase("correct horse battery")).await.unwrap(), 3);
    assert!(!new.is_successor().await.unwrap(), "it was one");
}

async fn a_vault_with_an_old_key_gets_an_error_and_seals_nothing(stage: &Stage) {
    let (rotating, old) = (vault(stage, 1).await, vault(stage, 1).await);
    rotating.put(Space::Token, "a", b"first").await.unwrap();
    let minute = Duration::from_secs(60);
    let lease = old.try_lease(Space::Token, "a", minute).await.unwrap().unwrap();
    rotating.change_key(key(2)).await.unwrap();
    assert!(matches!(old.get(Space::Token, "a").await, Err(VaultError::Retired)));
    assert!(matches!(old.put(Space::Token, "a", b"late").await, Err(VaultError::Retired)));
    assert!(matches!(old.put(Space::Secret, "new", b"late").await, Err(VaultError::Retired)));
    assert!(matches!(old.put_under(&lease, b"late").await, Err(VaultError::Retired)));
    assert!(matches!(old.change_key(key(3)).await, Err(VaultError::Retired)));
    let new = vault(stage, 2).await;
    assert_eq!(text(&new, Space::Token, "a").await, "first");
    // The lease is still held, and the value that is stored under it is sealed with the new key.
    new.put_under(&lease, b"second").await.unwrap();
    assert_eq!(text(&new, Space::Token, "a").await, "second");
    // A key that was never in use here gets the same error as before the change.
    let stranger = vault(stage, 9).await;
    assert!(matches!(stranger.get(Space::Token, "a").await, Err(VaultError::OtherKey { .. })));
}

async fn a_process_of_an_older_version_cannot_seal_with_the_old_key_either(stage: &Stage) {
    let old = vault(stage, 1).await;
    old.put(Space::Secret, "a", b"first").await.unwrap();
    old.change_key(key(2)).await.unwrap();
    // The statement with which an older version writes, without checking whether its key is retired.
    for name in ["a", "b"] {
        let write = query(
            "INSERT INTO vault (space, name, key_id, nonce, sealed, changed_at) VALUES ('secret', $1, $2, $3, $3, 1) \
             ON CONFLICT (space, name) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce, \
             sealed = excluded.sealed, changed_at = excluded.changed_at",
        );
        let write = write.bind(name).bind(old.sealer.key_id()).bind(&[0][..]);
        let refused = format!("{:?}", old.store.write(write, "testing").await.unwrap_err());
        assert!(refused.contains("another key"), "{name}: {refused}");
    }
    let update = query("UPDATE vault SET key_id = $1").bind(old.sealer.key_id());
    assert!(old.store.write(update, "testing").await.is_err());
    assert_eq!(text(&vault(stage, 2).await, Space::Secret, "a").await, "first");
}

#[tokio::test]
async fn a_row_that_does_not_open_is_named_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let vault = vault_at(&path, 1).await;
    vault.put(Space::Secret, "a", b"canary").await.unwrap();
    vault.put(Space::Token, "broken", b"canary").await.unwrap();
    vault.put(Space::Token, "z", b"canary").await.unwrap();
    let damage = "UPDATE vault SET sealed = zeroblob(22) WHERE name = 'broken'";
    sqlx::query(damage).execute(&mut raw(&path).await).await.unwrap();
    let before = content(&mut raw(&path).await).await;
    let error = vault.change_key(key(2)).await.unwrap_err();
    assert!(matches!(&error, VaultError::Damaged { space: Space::Token, name } if name == "broken"), "{error:?}");
    assert!(error.to_string().contains("`broken`") && !error.to_string().contains("canary"), "{error}");
    assert_eq!(content(&mut raw(&path).await).await, before);

    vault_at(&path, 3).await.put(Space::Token, "broken", b"of another key").await.unwrap();
    let before = content(&mut raw(&path).await).await;
    let error = vault.change_key(key(2)).await.unwrap_err();
    assert!(matches!(&error, VaultError::OtherKey { name, .. } if name == "broken"), "{error:?}");
    assert_eq!(content(&mut raw(&path).await).await, before);
    assert_eq!(text(&vault, Space::Secret, "a").await, "canary");
}

/// How many rows the child process seals with the new key.
const MANY: usize = 100;

/// How much later each process is killed than the one before it.
const STEP: Duration = Duration::from_millis(2);

/// The child process of the next test: changes the key only if that test passes a path as an argument.
#[tokio::test]
async fn child_changes_the_key() {
    if let Some(path) = std::env::args().find(|argument| argument.ends_with(".rotate.db")) {
        vault_at(Path::new(&path), 1).await.change_key(key(2)).await.unwrap();
    }
}

#[tokio::test]
async fn whenever_a_process_that_changes_the_key_is_killed_one_key_opens_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.rotate.db");
    let vault = vault_at(&path, 1).await;
    for index in 0..MANY {
        vault.put(Space::Secret, &format!("s{index}"), b"value").await.unwrap();
    }
    vault.store.close().await;
    let program = std::env::current_exe().unwrap();
    for round in 0.. {
        let mut child = Command::new(&program)
            .args(["--exact", "vault::rotation::tests::child_changes_the_key"])
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Kills the first process at once. The last one ends before it would be killed.
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() && started.elapsed() < STEP * round {}
        let _ = child.kill();
        let _ = child.wait().unwrap();
        let store = Store::open(&path).await.unwrap();
        let changed = store.key_changed_at().await.unwrap().is_some();
        let vault = Vault::open(&store, key(1 + u8::from(changed))).await.unwrap();
        for index in 0..MANY {
            assert_eq!(text(&vault, Space::Secret, &format!("s{index}")).await, "value");
        }
        store.close().await;
        if changed {
            assert!(round > 0, "none was killed before its commit");
            break;
        }
    }
}

on_both!(
    a_process_of_an_older_version_cannot_seal_with_the_old_key_either,
    all_rows_are_sealed_with_the_new_key_and_keep_when_they_changed,
    a_vault_with_an_old_key_gets_an_error_and_seals_nothing
);
