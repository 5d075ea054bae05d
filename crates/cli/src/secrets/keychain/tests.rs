use std::{fs, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;

use super::*;

/// A `secret-tool` that stores its items in files beside it, and logs its commands.
const KEEPING: &str = r#"
case $1 in
store) cat > "$(dirname "$0")/item-$6" ;;
lookup) cat "$(dirname "$0")/item-$5" 2>/dev/null ;;
search) [ ! -e "$(dirname "$0")/item-$5" ] || echo '[/1]' ;;
clear) rm "$(dirname "$0")/item-$5" 2>/dev/null ;;
esac"#;

/// A keychain whose `secret-tool` is this script.
fn keychain_with_script(script: &str) -> (TempDir, Keychain) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("secret-tool");
    fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> \"$(dirname \"$0\")/asked\"\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("relative:{}:/usr/bin:/bin", folder.path().display());
    let variables = [("PATH", path.as_str()), ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere"), ("TOKEN", "canary")];
    let mut keychain = Keychain::from_environment(&Environment::new(variables));
    keychain.kind = KeychainProgram::SecretTool;
    (folder, keychain)
}

fn commands(folder: &TempDir) -> Vec<String> {
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_key_is_stored_read_once_and_removed_and_is_on_no_command_line() {
    let (folder, keychain) = keychain_with_script(KEEPING);
    let id = Uuid::now_v7();
    assert_eq!(keychain.key(id).await, Err(KeychainError::Missing));
    let (folder, keychain) = (folder, Keychain { last_lookup: ArcSwapOption::default(), ..keychain });
    keychain.put(id, [7; 32]).await.unwrap();
    let before = commands(&folder).len();
    let many = futures::future::join_all((0..5).map(|_| keychain.key(id))).await;
    assert!(many.iter().all(|key| *key == Ok([7; 32])));
    assert_eq!(commands(&folder).len(), before + 1, "five who ask at once, and one question");
    assert!(keychain.has_key(id) && !keychain.has_key(Uuid::now_v7()));
    keychain.remove(id).await.unwrap();
    keychain.remove(id).await.unwrap();
    assert!(!commands(&folder).concat().contains(&"07".repeat(4)), "{:?}", commands(&folder));
}

#[tokio::test]
async fn the_keychain_program_gets_only_the_variables_that_lead_to_the_keychain() {
    let (folder, keychain) = keychain_with_script("env > \"$(dirname \"$0\")/env\"; exit 1");
    let _ = keychain.key(Uuid::now_v7()).await;
    let seen = fs::read_to_string(folder.path().join("env")).unwrap();
    assert!(seen.contains("DBUS_SESSION_BUS_ADDRESS=") && !seen.contains("canary"), "{seen}");
}

#[tokio::test]
async fn a_locked_a_silent_and_a_broken_keychain_have_errors_of_their_own() {
    let id = Uuid::now_v7();
    let (_locked, keychain) = keychain_with_script("[ $1 != search ] || echo '[/1]'; [ $1 = search ]");
    assert_eq!(keychain.key(id).await, Err(KeychainError::Locked));
    let (_closed, keychain) =
        keychain_with_script("echo 'secret-tool: Cannot create an item in a locked collection' >&2; exit 1");
    assert_eq!(keychain.put(id, [1; 32]).await, Err(KeychainError::Locked));
    let (_lying, keychain) = keychain_with_script("echo hunter2");
    assert_eq!(keychain.key(id).await, Err(KeychainError::WrongContent));
    assert_eq!(
        keychain.put(id, [1; 32]).await,
        Err(KeychainError::WrongContent),
        "what it does not give back it has not kept"
    );
    let (_broken, keychain) = keychain_with_script("printf 'no \\033[31mservice\\n' >&2; exit 1");
    assert_eq!(keychain.key(id).await, Err(KeychainError::Failed("no \\u{1b}[31mservice".to_owned())));
}

#[tokio::test]
async fn a_keychain_that_never_answers_is_given_up() {
    let (_folder, mut keychain) = keychain_with_script("exec sleep 600");
    keychain.answer_timeout = Duration::from_millis(300);
    let asked = Instant::now();
    assert_eq!(keychain.key(Uuid::now_v7()).await, Err(KeychainError::Slow(keychain.answer_timeout)));
    assert!(asked.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_failure_is_shared_by_all_tasks_that_ask_at_that_time() {
    let (folder, keychain) = keychain_with_script("echo 'no service' >&2; exit 1");
    let id = Uuid::now_v7();
    let many = futures::future::join_all((0..5).map(|_| keychain.key(id))).await;
    assert!(many.iter().all(|key| *key == Err(KeychainError::Failed("no service".to_owned()))), "{many:?}");
    assert_eq!(commands(&folder).len(), 1);
}

#[tokio::test]
async fn more_output_than_the_keychain_needs_neither_fills_memory_nor_blocks() {
    let (_folder, keychain) =
        keychain_with_script("head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2");
    assert_eq!(keychain.key(Uuid::now_v7()).await, Err(KeychainError::WrongContent));
}

#[tokio::test]
async fn without_a_session_bus_no_keychain_program_is_started() {
    let (folder, mut keychain) = keychain_with_script(KEEPING);
    keychain.variables.retain(|(name, _)| *name != "DBUS_SESSION_BUS_ADDRESS");
    assert!(matches!(keychain.key(Uuid::now_v7()).await, Err(KeychainError::Absent(_))));
    keychain.variables = vec![("DBUS_SESSION_BUS_ADDRESS", "x".into()), ("PATH", "relative".into())];
    let error = keychain.put(Uuid::now_v7(), [1; 32]).await.unwrap_err();
    assert!(error.to_string().contains("not installed"), "{error}");
    assert_eq!(commands(&folder), Vec::<String>::new());
}
