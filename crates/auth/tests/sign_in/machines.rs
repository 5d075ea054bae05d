//! Signing in without a user. The conformance suite tests the valid requests; these tests are about failures.

use std::sync::Arc;

use toolrack_auth::{MemoryTokens, SignIn};
use toolrack_host::{
    Authorizer as _, Challenge, NotAuthorized, State,
    spec::{Grant, IdentityProvider, OAuth, TextOrFile},
};
use toolrack_testkit::authorization::{ASSERTION, AuthorizationFault, CLIENT, FakeAuthorization};

use crate::stage::{NoSecret, Stage, echo, state};

fn kept(text: &str) -> TextOrFile {
    TextOrFile { text: Some(text.to_owned()), file: None }
}

fn workload(assertion: &str) -> OAuth {
    OAuth { grant: Grant::JwtBearer, assertion: kept(assertion), ..OAuth::default() }
}

fn token_requests(stage: &Stage) -> usize {
    stage.server.requests().iter().filter(|asked| asked.endpoint == "POST /token").count()
}

#[tokio::test]
async fn a_workload_signs_in_by_itself_and_again_when_its_token_has_ended() {
    for dpop in [false, true] {
        let stage = Stage::with(FakeAuthorization::start([]), OAuth { dpop, ..workload(ASSERTION) });
        let host = stage.host().await;
        echo(&host).await.unwrap();
        stage.server.expire_access_tokens();
        echo(&host).await.unwrap();
        assert_eq!((token_requests(&stage), stage.server.counts().authorizations), (2, 0));
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_workload_asks_for_the_scopes_of_the_server_and_for_no_refresh_token() {
    // The authorization server supports `offline_access`, and a user's sign-in asks for it.
    let stage = Stage::with(FakeAuthorization::start([]), workload(ASSERTION));
    stage.login().await.unwrap();
    let requests = stage.server.requests();
    let asked = requests.iter().find(|asked| asked.endpoint == "POST /token").unwrap();
    assert_eq!(asked.parameter("scope"), Some("tools"));
}

#[tokio::test]
async fn a_refused_workload_fails_after_one_request() {
    let stage = Stage::with(FakeAuthorization::start([]), workload("canary-assertion"));
    let host = stage.host().await;
    let State::NeedsAuth { how } = state(&host) else { panic!("{:?}", state(&host)) };
    assert!(how.contains("invalid_grant") && !how.contains("canary"), "{how}");
    assert_eq!(token_requests(&stage), 1, "neither again nor another way");
    host.shutdown().await;
}

#[tokio::test]
async fn a_workload_tries_again_after_a_missing_file_or_missing_metadata_because_no_user_would_sign_in() {
    let other_issuer = AuthorizationFault::issuer("https://other.example");
    for (oauth, is_passing) in [(workload(ASSERTION), true), (OAuth::default(), false)] {
        let stage = Stage::with(FakeAuthorization::start([]), oauth);
        let challenge = || Challenge { status: 401, www_authenticate: Vec::new(), sent: None };
        let store = Arc::<MemoryTokens>::clone(&stage.store);
        let without_file = SignIn::builder(store).resolver(Arc::new(NoSecret)).build();
        let refused = without_file.challenged(stage.destination(), challenge()).await.unwrap_err();
        assert_eq!(matches!(refused, NotAuthorized::Unavailable { .. }), is_passing, "{refused:?}");

        // Only a grant without a user asks for metadata before a user has begun to sign in.
        stage.server.set_faults([other_issuer.clone()]);
        let refused = stage.sign_in.challenged(stage.destination(), challenge()).await.unwrap_err();
        assert_eq!(matches!(refused, NotAuthorized::Unavailable { .. }), is_passing, "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_without_pkce_will_do_where_no_code_is_sent() {
    let stage = Stage::with(FakeAuthorization::start([AuthorizationFault::no_pkce()]), workload(ASSERTION));
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_text_that_is_not_a_key_is_reported_without_repeating_it() {
    let oauth = OAuth {
        grant: Grant::ClientCredentials,
        client_id: Some(CLIENT.to_owned()),
        private_key: kept("canary"),
        ..OAuth::default()
    };
    let stage = Stage::with(FakeAuthorization::start([]), oauth);
    let error = stage.login().await.unwrap_err();
    assert!(error.to_string().contains("oauth.private_key") && !error.to_string().contains("canary"), "{error}");
    assert_eq!(token_requests(&stage), 0);
}

#[tokio::test]
async fn an_id_token_is_sent_only_to_the_identity_provider() {
    // This identity provider refuses: the fake server does not support the exchange of tokens.
    let idp = FakeAuthorization::start([]);
    let oauth = |token_url: String| OAuth {
        grant: Grant::EnterpriseManaged,
        client_id: Some(CLIENT.to_owned()),
        client_secret: Some("secret-of-the-client".to_owned()),
        assertion: kept("canary-id-token"),
        idp: Some(IdentityProvider { token_url, client_id: Some("here".to_owned()), client_secret: None }),
        ..OAuth::default()
    };
    let stage = Stage::with(FakeAuthorization::start([]), oauth(format!("{}/token", idp.issuer())));
    let error = stage.login().await.unwrap_err();
    assert!(
        error.to_string().contains("the identity provider answered") && !error.to_string().contains("canary"),
        "{error}"
    );
    assert_eq!(token_requests(&stage), 0, "the authorization server was not asked");
    let requests = idp.requests();
    let [exchange] = &*requests else { panic!("{requests:?}") };
    assert_eq!(exchange.parameter("audience"), Some(stage.server.issuer().as_str()));
    assert_eq!(exchange.parameter("subject_token"), Some("canary-id-token"));
    assert!(!format!("{exchange:?}").contains("secret-of-the-client"), "{exchange:?}");

    // The ID token is not sent to a URL that is neither https nor on this machine.
    let stage = Stage::with(FakeAuthorization::start([]), oauth("file:///etc/passwd".to_owned()));
    assert_eq!(stage.login().await.unwrap_err().code(), "SIGN_IN_UNSAFE_URL");
}
