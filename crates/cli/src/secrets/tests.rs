use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use toolrack_config::Environment;

use super::*;

fn no_keychain() -> Keychain {
    Keychain::from_environment(&Environment::default())
}

async fn open_store(folder: &Path, variable: Option<&str>) -> SecretStore {
    let store = Store::open(folder.join("t.db")).await.unwrap();
    SecretStore::new(Some(store), variable.map(Into::into), folder, no_keychain())
}

#[tokio::test]
async fn the_key_file_is_made_with_the_first_secret_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let stored = open_store(folder.path(), None).await;
    let file = folder.path().join(KEY_FILE);
    assert_eq!(stored.get("a").await.unwrap(), None);
    assert!(!file.exists(), "looking makes no key");
    stored.set("a", "one").await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap().trim().len(), 64);
    assert_eq!(stored.get("a").await.unwrap().as_deref(), Some("one"));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "database, its two companions and the key: {left:?}");
}

#[tokio::test]
async fn processes_that_make_a_key_at_once_have_the_same_one() {
    let folder = tempfile::tempdir().unwrap();
    let many = (0..8).map(async |index| {
        let stored = open_store(folder.path(), None).await;
        stored.set(&format!("s{index}"), "value").await.unwrap();
    });
    futures::future::join_all(many).await;
    let stored = open_store(folder.path(), None).await;
    for index in 0..8 {
        assert_eq!(stored.get(&format!("s{index}")).await.unwrap().as_deref(), Some("value"));
    }
}

#[tokio::test]
async fn a_process_that_looks_while_another_creates_the_key_gets_no_error() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (open_store(folder.path(), None).await, open_store(folder.path(), None).await);
        let looks = async { while other.get("a").await.unwrap().is_none() {} };
        let (set, ()) = tokio::join!(one.set("a", "value"), looks);
        set.unwrap();
    }
}

#[tokio::test]
async fn a_key_file_that_is_gone_damaged_or_open_to_others_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let stored = open_store(folder.path(), None).await;
    let file = folder.path().join(KEY_FILE);
    stored.set("a", "canary").await.unwrap();
    let refused = async || {
        let got = stored.get("a").await.unwrap_err().to_string();
        assert_eq!(stored.set("b", "x").await.unwrap_err().to_string(), got);
        assert!(got.contains(KEY_FILE) && !got.contains("canary"), "{got}");
        got
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused().await.contains("chmod 600"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "abc").unwrap();
    assert!(refused().await.contains("holds no key"));
    fs::write(&file, "00".repeat(32)).unwrap();
    let other = stored.get("a").await.unwrap_err().to_string();
    assert!(other.contains("another key") && other.contains(KEY_FILE), "{other}");
    fs::remove_file(&file).unwrap();
    assert!(refused().await.contains("is missing"));
    symlink("/nowhere", &file).unwrap();
    assert!(refused().await.contains("is missing"));
    assert_eq!(stored.names().await.unwrap(), ["a"], "names need no key");
    assert!(stored.remove("a").await.unwrap(), "nor does removing");
}

#[tokio::test]
async fn the_variable_is_a_key_or_a_passphrase_and_overrides_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let hex = "0f".repeat(32);
    open_store(folder.path(), Some(&hex)).await.set("a", "one").await.unwrap();
    assert!(!folder.path().join(KEY_FILE).exists());
    for same in [hex.to_uppercase(), format!(" {hex}\n"), "Dw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8=".into()] {
        let again = open_store(folder.path(), Some(&same)).await;
        assert_eq!(again.get("a").await.unwrap().as_deref(), Some("one"), "{same}");
    }
    let words = open_store(folder.path(), Some("correct horse battery")).await;
    assert!(words.get("a").await.unwrap_err().to_string().contains(VARIABLE));
    assert!(!format!("{words:?}").contains("horse"));
    words.set("b", "two").await.unwrap();
    assert_eq!(words.get("b").await.unwrap().as_deref(), Some("two"));
    let short = open_store(folder.path(), Some("short")).await;
    assert!(short.get("b").await.unwrap_err().to_string().contains("at least 12"));
}

#[tokio::test]
async fn without_a_database_there_are_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let stored = SecretStore::new(None, None, folder.path(), no_keychain());
    assert!(matches!(stored.get("a").await, Err(SecretsError::NoDatabase)));
    assert!(matches!(stored.set("a", "x").await, Err(SecretsError::NoDatabase)));
    assert!(!folder.path().join(KEY_FILE).exists(), "no key without a place for what it seals");
}
