use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use toolrack_auth::{TokenKey, TokenStore as _};
use toolrack_config::Environment;
use toolrack_store::{Space, Store};

use super::*;
use crate::{
    secrets::{KEY_FILE, Keychain},
    tokens::Tokens,
};

/// The name under which a token is stored.
const TOKEN: &str = r#"["t","u","https://example.com/mcp",""]"#;

/// The secrets as another process sees them: with its own connection to the database.
async fn open_store(folder: &Path, variable: Option<&str>) -> SecretStore {
    let store = Store::open(folder.join("t.db")).await.unwrap();
    SecretStore::new(Some(store), variable.map(Into::into), folder, Keychain::from_environment(&Environment::default()))
}

async fn assert_everything_opens(folder: &Path) {
    let fresh = open_store(folder, None).await;
    assert_eq!(fresh.get("a").await.unwrap().as_deref(), Some("canary"));
    let (fresh, key) = (Arc::new(fresh), TokenKey::from_text(TOKEN).unwrap());
    let token = Tokens(Arc::clone(&fresh)).load(&key).await.unwrap();
    assert_eq!(token.as_deref(), Some(&b"token"[..]));
    fresh.set("b", "more").await.unwrap();
    assert_eq!(fresh.get("b").await.unwrap().as_deref(), Some("more"));
}

async fn store_with_values(folder: &Path) -> (SecretStore, PathBuf, String) {
    let stored = open_store(folder, None).await;
    stored.set("a", "canary").await.unwrap();
    stored.vault().await.unwrap().put(Space::Token, TOKEN, b"token").await.unwrap();
    let path = folder.join(KEY_FILE);
    let key = fs::read_to_string(&path).unwrap();
    (stored, path, key)
}

#[tokio::test]
async fn a_new_key_takes_the_place_of_the_old_one_and_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open_store(folder.path(), None).await.rotate(None).await.unwrap(), None, "there is no key yet");
    assert!(!folder.path().join(KEY_FILE).exists());
    let (stored, path, old) = store_with_values(folder.path()).await;
    assert_eq!(stored.key_changed_at().await.unwrap(), None);
    assert_eq!(stored.rotate(None).await.unwrap(), Some(2));
    assert!(stored.key_changed_at().await.unwrap().is_some());
    let new = fs::read_to_string(&path).unwrap();
    assert!(new != old && new.trim().len() == 64);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!file::next_key_file(&path).exists());
    assert_everything_opens(folder.path()).await;
    assert_eq!(stored.get("a").await.unwrap().as_deref(), Some("canary"));
    fs::write(&path, old).unwrap();
    let error = stored.get("a").await.unwrap_err().to_string();
    assert!(error.contains("another key has replaced") && error.contains(KEY_FILE), "{error}");
}

#[tokio::test]
async fn wherever_it_is_stopped_everything_opens_and_it_can_be_done_again() {
    for steps in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let (stopped, path, old) = store_with_values(folder.path()).await;
        let held = lock(&path).await.unwrap();
        let vault = stopped.existing_vault().await.unwrap().unwrap();
        let key = stopped.store_next_key(&path, &held).await.unwrap();
        if steps > 0 {
            assert_eq!(vault.change_key(key).await.unwrap(), 2);
        }
        if steps > 1 {
            stopped.promote_next_key(&path, &held).await.unwrap();
        }
        // While it still runs, and holds the lock.
        assert_everything_opens(folder.path()).await;
        assert_eq!(fs::read_to_string(&path).unwrap() == old, steps < 2, "it is in the process that holds the lock");
        assert!(file::lock(&path).unwrap().is_none());
        drop(held);
        assert_everything_opens(folder.path()).await;
        assert_eq!(fs::read_to_string(&path).unwrap() == old, steps < 1, "it was not finished");
        assert_eq!(file::next_key_file(&path).exists(), steps < 1);
        assert_eq!(stopped.get("a").await.unwrap().as_deref(), Some("canary"), "it goes on with what there is");

        assert_eq!(open_store(folder.path(), None).await.rotate(None).await.unwrap(), Some(3));
        assert!(!file::next_key_file(&path).exists());
        assert_everything_opens(folder.path()).await;
    }
}

#[tokio::test]
async fn a_key_that_is_moved_while_another_waits_beside_it_is_the_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (stopped, path, _) = store_with_values(folder.path()).await;
    let held = lock(&path).await.unwrap();
    let vault = stopped.existing_vault().await.unwrap().unwrap();
    let key = stopped.store_next_key(&path, &held).await.unwrap();
    let _ = vault.change_key(key).await.unwrap();
    let next = fs::read_to_string(file::next_key_file(&path)).unwrap();
    drop(held);
    assert!(!open_store(folder.path(), None).await.move_key(false).await.unwrap(), "it is in the file already");
    assert_eq!(fs::read_to_string(&path).unwrap(), next);
    assert_everything_opens(folder.path()).await;
}

#[tokio::test]
async fn a_secret_that_does_not_open_is_named_and_the_old_key_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (stored, path, old) = store_with_values(folder.path()).await;
    let of_another_key = self::open_store(folder.path(), Some(&"0f".repeat(32))).await;
    of_another_key.set("theirs", "of another key").await.unwrap();
    let error = stored.rotate(None).await.unwrap_err().to_string();
    assert!(error.contains("`theirs`") && !error.contains("canary"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
    assert!(!file::next_key_file(&path).exists());
    assert_everything_opens(folder.path()).await;
}

#[tokio::test]
async fn a_process_that_holds_the_old_key_reads_the_new_one_and_loses_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path, _) = store_with_values(folder.path()).await;
    let tokens = Tokens(open_store(folder.path(), None).await.into());
    let key = TokenKey::from_text(TOKEN).unwrap();
    // From here on it has the old key in memory, and a new token that its server issues only once.
    let lease = tokens.lease(&key, Duration::from_secs(60)).await.unwrap();
    let vault = tokens.0.vault().await.unwrap();
    open_store(folder.path(), None).await.rotate(None).await.unwrap();
    let written = fs::read_to_string(&path).unwrap();
    lease.save(b"renewed".to_vec()).await.unwrap();
    lease.release().await;
    assert_eq!(tokens.load(&key).await.unwrap().as_deref(), Some(&b"renewed"[..]));
    assert_eq!(open_store(folder.path(), None).await.rotate(None).await.unwrap(), Some(2), "no row is of the old key");
    assert_ne!(fs::read_to_string(&path).unwrap(), written);

    // The vault as it was two keys ago.
    let retired = vault.get(Space::Secret, "a").await.unwrap_err();
    assert!(matches!(retired, VaultError::Retired), "{retired:?}");
    let renewed = tokens.0.vault_with_new_key(retired).await.unwrap();
    assert_eq!(renewed.get(Space::Secret, "a").await.unwrap().unwrap().expose_text(), Some("canary"));
}

#[tokio::test]
async fn the_key_of_the_variable_is_replaced_by_one_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = ("0f".repeat(32), "correct horse battery");
    let running = open_store(folder.path(), Some(&old)).await;
    running.set("a", "one").await.unwrap();
    assert!(running.requires_given_key());
    let rotate = async |given: &str| {
        let rotating = open_store(folder.path(), Some(&old)).await;
        rotating.rotate(Some(given.to_owned())).await
    };
    for unfit in ["", "short", &old] {
        let error = rotate(unfit).await.unwrap_err().to_string();
        assert!(error.contains("the new key is"), "{error}");
    }
    assert_eq!(running.get("a").await.unwrap().as_deref(), Some("one"));
    assert_eq!(rotate(&format!("{new}\n")).await.unwrap(), Some(1));
    assert_eq!(open_store(folder.path(), Some(new)).await.get("a").await.unwrap().as_deref(), Some("one"));
    for error in [running.get("a").await.unwrap_err(), running.set("b", "two").await.unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("use the new key") && error.contains("TOOLRACK_SECRET_KEY"), "{error}");
    }
    assert!(!folder.path().join(KEY_FILE).exists());
}

#[tokio::test]
async fn processes_that_change_the_key_at_once_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let _ = store_with_values(folder.path()).await;
    let many = (0..6).map(async |_| open_store(folder.path(), None).await.rotate(None).await.unwrap());
    let done = futures::future::join_all(many).await;
    assert!(done.iter().all(|done| *done == Some(2)), "{done:?}");
    assert_everything_opens(folder.path()).await;
}
