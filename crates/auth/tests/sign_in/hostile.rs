use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolrack_host::{
    Egress,
    egress::{EgressRules, Profile, SystemLookup},
    spec::{AddedBy, Transport},
};
use toolrack_testkit::authorization::{AuthorizationFault, FakeAuthorization};

use crate::stage::Stage;

#[tokio::test]
async fn a_server_that_lies_gets_no_code_and_no_token() {
    let cases = [
        (AuthorizationFault::issuer("https://other.example"), "SIGN_IN_UNKNOWN"),
        (AuthorizationFault::no_pkce(), "SIGN_IN_WITHOUT_PKCE"),
        (AuthorizationFault::sends_users_to("file:///bin/sh"), "SIGN_IN_UNSAFE_URL"),
        (AuthorizationFault::sends_users_to("javascript:alert(1)"), "SIGN_IN_UNSAFE_URL"),
        (AuthorizationFault::sends_users_to("http://169.254.169.254/authorize"), "SIGN_IN_UNSAFE_URL"),
        (AuthorizationFault::Metadata(json!({ "token_endpoint": "http://10.0.0.1/token" })), "SIGN_IN_UNSAFE_URL"),
        (AuthorizationFault::Metadata(json!({ "registration_endpoint": "ftp://example.com/" })), "SIGN_IN_UNSAFE_URL"),
        (AuthorizationFault::resource("https://other.example/mcp"), "SIGN_IN_UNKNOWN"),
        (AuthorizationFault::authorization_server("http://169.254.169.254/"), "SIGN_IN_UNKNOWN"),
        (AuthorizationFault::Iss(Some("https://other.example".to_owned())), "SIGN_IN_WRONG_ISSUER"),
        (AuthorizationFault::Iss(None), "SIGN_IN_WRONG_ISSUER"),
        (AuthorizationFault::State("another"), "SIGN_IN_BAD_CALLBACK"),
        (AuthorizationFault::Refuses("access_denied"), "SIGN_IN_REFUSED"),
        (AuthorizationFault::NoRegistration, "SIGN_IN_NO_CLIENT"),
        (AuthorizationFault::TokenType("DPoP"), "SIGN_IN_NO_TOKEN"),
        (AuthorizationFault::TokenError("invalid_grant"), "SIGN_IN_NO_TOKEN"),
    ];
    for (wrong, code) in cases {
        let stage = Stage::of(FakeAuthorization::start([wrong.clone()]));
        let error = stage.login().await.unwrap_err();
        assert_eq!(error.code(), code, "{wrong:?}: {error}");
        assert_eq!(stage.server.counts().admitted, 0, "{wrong:?}");
        let text = format!("{error} {error:?}");
        assert!(stage.server.issued_secrets().iter().all(|secret| !text.contains(secret)), "{text}");
        let exchanged = stage.server.counts().exchanges;
        assert!(
            exchanged == 0 || matches!(wrong, AuthorizationFault::TokenType(_)),
            "{wrong:?}: {exchanged} codes were sent"
        );
    }
}

#[tokio::test]
async fn the_error_for_metadata_of_another_resource_names_both() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::resource("https://other.example/mcp")]));
    let error = stage.login().await.unwrap_err().to_string();
    let mismatch = format!("belongs to `https://other.example/mcp`, and not to `{}`", stage.server.mcp_url());
    assert!(error.contains(&mismatch) && !error.contains("issuer"), "{error}");
}

#[tokio::test]
async fn metadata_without_end_or_sense_is_given_up() {
    for wrong in
        [AuthorizationFault::HugeMetadata(4 << 20), AuthorizationFault::MovedMetadata("http://10.0.0.1/".into())]
    {
        let stage = Stage::of(FakeAuthorization::start([wrong.clone()]));
        let error = stage.login().await.unwrap_err();
        assert!(error.to_string().len() < 1_000, "{wrong:?}: {error}");
        assert_eq!(stage.server.counts().authorizations, 0, "{wrong:?}");
    }
}

/// MCP 2025-03-26: without metadata, the endpoints have fixed paths at the origin of the MCP server.
#[tokio::test]
async fn a_server_without_readable_metadata_is_asked_at_its_own_origin_and_nowhere_else() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::NoJson("<html>")]));
    // The redirect names an issuer, and without metadata no issuer is expected.
    assert_eq!(stage.login().await.unwrap_err().code(), "SIGN_IN_WRONG_ISSUER");
    let page = stage.browser.0.lock().unwrap()[0].clone();
    assert!(page.as_str().starts_with(&format!("{}/authorize?", stage.server.issuer())), "{page}");
}

#[tokio::test]
async fn a_sign_in_to_a_server_that_a_member_has_added_keeps_to_the_rules_for_such_servers() {
    let mut stage = Stage::of(FakeAuthorization::start([]));
    let rules = EgressRules { profile: Profile::Hosted, ..EgressRules::default() };
    let egress = Egress::new(rules, Arc::new(SystemLookup));
    let Transport::Http(http) = &mut stage.spec.transport else { panic!("not HTTP") };
    http.added_by = Some(AddedBy { member: "ann".to_owned(), egress });
    let refused = stage.login().await.unwrap_err();
    assert_eq!(stage.server.requests().len(), 0, "{refused}");
}

#[tokio::test]
async fn a_slow_server_is_waited_for_and_not_for_ever() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::SlowMetadata(Duration::from_millis(300))]));
    stage.login().await.unwrap();
}

#[tokio::test]
async fn no_debug_and_no_error_shows_a_secret() {
    let stage = Stage::of(FakeAuthorization::start([]));
    let signed = stage.login().await.unwrap();
    let accounts = stage.sign_in.accounts().await.unwrap();
    let shown = format!("{:?} {:?} {signed:?} {accounts:?} {:?}", stage.sign_in, stage.store, stage.destination());
    let given = stage.server.issued_secrets();
    assert!(given.len() >= 2, "{given:?}");
    assert!(given.iter().all(|secret| !shown.contains(secret)), "{shown}");
}
