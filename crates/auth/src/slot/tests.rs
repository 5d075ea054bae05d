use http::HeaderValue;
use url::Url;

use super::*;
use crate::credentials::{Client, Tokens};

fn slot() -> Slot {
    Slot::new(TokenKey::of(&Url::parse("https://h/mcp").unwrap()))
}

/// Returns credentials whose access token expires in this many seconds; without tokens if `expires_in` is `None`.
fn credentials(expires_in: Option<u64>, refresh: bool) -> Arc<Credentials> {
    let metadata = serde_json::json!({ "authorization_endpoint": "https://as/a", "token_endpoint": "https://as/t" });
    let tokens = expires_in.map(|seconds| Tokens {
        access: "a".into(),
        refresh: refresh.then(|| "r".into()),
        scopes: Vec::new(),
        received: now(),
        expires: Some(now() + seconds),
    });
    Arc::new(Credentials {
        issuer: "https://as".into(),
        resource: "https://h/mcp".into(),
        client: Client {
            id: "me".into(),
            secret: None,
            redirect_uri: String::new(),
            registered: false,
            in_doubt: false,
        },
        tokens,
        requested: Vec::new(),
        key: None,
        metadata: serde_json::from_value(metadata).unwrap(),
    })
}

#[test]
fn usable_credentials_are_known_and_not_due_for_renewal() {
    let slot = slot();
    assert!(slot.usable().is_err(), "the store was not read yet");
    slot.set_cached(None);
    assert!(slot.usable().unwrap().is_none(), "there is none, and the store need not be asked again");
    for (ends, refresh, is_at_hand) in [(3_600, true, true), (0, true, false), (0, false, false), (3_600, false, true)]
    {
        slot.set_cached(Some(credentials(Some(ends), refresh)));
        assert_eq!(slot.usable().is_ok(), is_at_hand, "{ends} {refresh}");
        assert!(slot.cached().is_some(), "known it is in any case");
    }
    // A registered client without tokens is not a sign-in.
    slot.set_cached(Some(credentials(None, false)));
    assert!(slot.cached().is_none() && slot.usable().unwrap().is_none());
}

#[test]
fn refused_credentials_are_remembered_and_not_used() {
    let slot = slot();
    slot.set_refused(Some(credentials(Some(3_600), true)));
    assert!(slot.cached().is_none() && slot.usable().unwrap().is_none());
    assert_eq!(slot.last_stored().unwrap().access(), Some("a"));
    slot.set_refused(Some(credentials(None, false)));
    assert!(slot.last_stored().is_none(), "a registered client without tokens has no token that could be refused");
    slot.set_cached(Some(credentials(Some(3_600), true)));
    assert!(slot.last_stored().is_some() && slot.cached().is_some());
}

#[test]
fn a_repeated_failure_is_reported_once() {
    let slot = slot();
    let went = |failing| slot.record_renewal(failing);
    let news = [None, Some("A"), Some("A"), Some("B"), None, None, Some("A")].map(went);
    assert_eq!(news, [false, true, false, true, true, false, true]);
}

#[test]
fn the_newest_nonce_counts() {
    let slot = slot();
    let nonce = |text: &'static str| Nonce::from_header(&HeaderValue::from_static(text));
    assert_eq!(slot.nonce(), None);
    slot.set_nonce(nonce("a"));
    slot.set_nonce(nonce("b"));
    assert_eq!(slot.nonce(), nonce("b").map(Arc::new));
    slot.set_nonce(None);
    assert_eq!(slot.nonce(), None);
}

#[tokio::test(start_paused = true)]
async fn one_task_has_the_permit_until_its_last_copy_is_gone() {
    let slot = slot();
    let waits = || tokio::time::timeout(std::time::Duration::from_secs(1), slot.permit());
    let permit = slot.permit().await;
    let copy = permit.clone();
    drop(permit);
    assert!(waits().await.is_err());
    drop(copy);
    assert!(waits().await.unwrap().is_some());
}
