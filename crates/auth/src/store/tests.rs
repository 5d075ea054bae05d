use super::*;

#[test]
fn a_key_holds_no_query_and_no_user_and_survives_as_text() {
    let url = Url::parse("https://me:pw@h.example:8443/mcp?key=secret#part").unwrap();
    let key = TokenKey { account: "a \"b\" [c]".into(), ..TokenKey::of(&url) };
    assert_eq!(key.resource, "https://h.example:8443/mcp");
    assert_eq!(TokenKey::from_text(&key.to_text()), Some(key));
    assert_eq!(TokenKey::from_text("[1]"), None);
}

fn key(account: &str) -> TokenKey {
    TokenKey { account: account.into(), ..TokenKey::of(&Url::parse("https://h/mcp").unwrap()) }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn different_keys_have_different_texts_and_each_comes_back() {
    let all = [
        TokenKey { tenant: "a".into(), ..key("") },
        TokenKey { user: "a".into(), ..key("") },
        key("a"),
        key(""),
        key("a\",\""),
        key("\u{fc}\u{0}\n"),
        TokenKey { tenant: "a\",\"b".into(), ..key("") },
        TokenKey { tenant: "a".into(), user: "b".into(), ..key("") },
        TokenKey { resource: "https://h/mcp/".into(), ..key("") },
    ];
    let texts: std::collections::HashSet<String> = all.iter().map(TokenKey::to_text).collect();
    assert_eq!(texts.len(), all.len());
    for key in all {
        assert_eq!(TokenKey::from_text(&key.to_text()), Some(key));
    }
    for text in ["", "{}", "[]", "[\"a\",\"b\",\"c\"]", "[\"a\",\"b\",\"c\",\"d\",\"e\"]", "[1,2,3,4]", "\u{feff}[]"] {
        assert_eq!(TokenKey::from_text(text), None, "{text}");
    }
}

#[test]
fn a_server_is_the_same_by_its_path_and_another_by_its_port() {
    let resource = |url: &str| TokenKey::of(&Url::parse(url).unwrap()).resource;
    for same in ["https://h/mcp", "https://h:443/mcp", "https://H/mcp?a=b", "https://h/mcp#x", "https://me:pw@h/mcp"] {
        assert_eq!(resource(same), "https://h/mcp", "{same}");
    }
    for other in ["https://h/mcp/", "https://h/MCP", "https://h:8443/mcp", "http://h/mcp", "https://h.example/mcp"] {
        assert_ne!(resource(other), "https://h/mcp", "{other}");
    }
}

#[tokio::test]
async fn stored_credentials_are_listed_until_they_are_deleted() {
    let store = MemoryTokens::default();
    let (a, b) = (key("a"), key("b"));
    let lease = store.lease(&a, LONG).await.unwrap();
    assert_eq!(store.keys().await.unwrap(), [], "a lease does not count as credentials");
    lease.save(b"one".to_vec()).await.unwrap();
    lease.save(b"two".to_vec()).await.unwrap();
    lease.release().await;
    store.lease(&b, LONG).await.unwrap().save(b"b".to_vec()).await.unwrap();
    assert_eq!(store.load(&a).await.unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(store.keys().await.unwrap(), [a.clone(), b.clone()]);
    store.lease(&a, LONG).await.unwrap().delete().await.unwrap();
    assert_eq!((store.load(&a).await.unwrap(), store.keys().await.unwrap()), (None, vec![b]));
    assert_eq!(format!("{store:?}"), "MemoryTokens { .. }");
}

#[tokio::test(start_paused = true)]
async fn one_holder_has_a_lease_at_a_time_and_each_key_has_its_own() {
    let store = MemoryTokens::default();
    let (a, b) = (key("a"), key("b"));
    let waits = |key| tokio::time::timeout(Duration::from_secs(1), store.lease(key, LONG));
    let first = store.lease(&a, LONG).await.unwrap();
    assert!(waits(&a).await.is_err(), "two have the lease of one key");
    assert!(waits(&b).await.is_ok());
    // Deleting the credentials does not give the lease back.
    first.delete().await.unwrap();
    assert!(waits(&a).await.is_err());
    first.release().await;
    let second = waits(&a).await.unwrap().unwrap();
    // Dropping the lease, as when its task is dropped, gives it back as well.
    drop(second);
    assert!(waits(&a).await.is_ok());
}
