use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, join_all};
use serde_json::json;
use toolrack_auth::{MemoryTokens, SignIn, SignedOut, TokenKey, TokenLease, TokenStore, TokenStoreError};
use toolrack_host::{
    Authorizer as _, Fact, State, Witness,
    spec::{Grant, OAuth, TextOrFile, Transport},
};
use toolrack_testkit::authorization::{AuthorizationFault, CLIENT, CLIENT_SECRET, FakeAuthorization};

use crate::stage::{NoSecret, Stage, echo, state};

#[tokio::test]
async fn a_server_that_wants_a_sign_in_says_how_and_is_connected_when_the_user_has_signed_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    let host = stage.host().await;
    assert_eq!(state(&host), State::NeedsAuth { how: "login guarded".to_owned() });
    let refused = echo(&host).await.unwrap_err();
    assert_eq!((refused.code(), refused.hint().as_deref()), ("AUTH_REQUIRED", Some("login guarded")));
    // The user signs in through another process, and the host of this process notices it.
    let signed = stage.other_process().login(stage.destination(), &[], &stage.browser).await.unwrap();
    assert!(signed.renewable && signed.issuer.starts_with("http://127.0.0.1"), "{signed:?}");
    while !matches!(state(&host), State::Connected { .. }) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    echo(&host).await.unwrap();
    host.shutdown().await;
    let page = &stage.browser.0.lock().unwrap()[0];
    let asked: Vec<_> = page.query_pairs().map(|(name, _)| name.into_owned()).collect();
    for parameter in ["state", "code_challenge", "code_challenge_method", "resource", "redirect_uri"] {
        assert!(asked.iter().any(|name| name == parameter), "{parameter} is missing: {asked:?}");
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_the_call_continues() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    for round in 1..=3 {
        stage.server.expire_access_tokens();
        echo(&host).await.unwrap();
        assert_eq!((stage.server.counts().refreshes, stage.server.counts().reused), (round, 0));
    }
    host.shutdown().await;
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires_without_a_refusal() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::Lives(2)]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    let rejected = stage.server.counts().rejected;
    stage.server.set_faults([]);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused, counts.rejected), (1, 0, rejected));
    host.shutdown().await;
}

#[tokio::test]
async fn twenty_processes_that_need_a_renewal_at_once_share_one_and_lose_no_token() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let hosts = join_all((0..20).map(|_| stage.host_with(stage.other_process()))).await;
    stage.server.expire_access_tokens();
    for answer in join_all(hosts.iter().map(echo)).await {
        answer.unwrap();
    }
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused), (1, 0));
    for answer in join_all(hosts.iter().flat_map(|host| [echo(host), echo(host)])).await {
        answer.unwrap();
    }
    assert_eq!(stage.server.counts().refreshes, 1);
    join_all(hosts.iter().map(toolrack_host::Host::shutdown)).await;
}

#[tokio::test]
async fn revoked_tokens_need_a_new_sign_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.revoke();
    let refused = echo(&host).await.unwrap_err();
    assert_eq!(refused.code(), "AUTH_REQUIRED", "{refused}");
    let [account] = &*stage.sign_in.accounts().await.unwrap() else { panic!("one account") };
    assert!(!account.signed_in);
    stage.login().await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn an_authorization_server_that_fails_costs_the_call_and_not_the_sign_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.expire_access_tokens();
    stage.server.set_faults([AuthorizationFault::TokenError("temporarily_unavailable")]);
    let refused = echo(&host).await.unwrap_err();
    assert_eq!(refused.code(), "NO_ACCESS_TOKEN", "{refused}");
    stage.server.set_faults([]);
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_registered_client_that_the_server_has_forgotten_needs_a_new_sign_in_and_a_new_registration() {
    for error in ["invalid_client", "unauthorized_client"] {
        let stage = Stage::of(FakeAuthorization::start([]));
        stage.login().await.unwrap();
        let host = stage.host().await;
        stage.server.expire_access_tokens();
        stage.server.set_faults([AuthorizationFault::TokenError(error)]);
        let refused = echo(&host).await.unwrap_err();
        assert_eq!(refused.code(), "AUTH_REQUIRED", "{refused}");
        assert!(stage.store.keys().await.unwrap().is_empty(), "the registration is of no use");
        host.shutdown().await;
        stage.server.set_faults([]);
        stage.login().await.unwrap();
        assert_eq!(stage.server.counts().registrations, 2);
    }
}

#[tokio::test]
async fn a_sign_in_with_a_client_that_the_server_has_forgotten_registers_a_new_one() {
    // At the first page the server names the error, or it only refuses the client's code.
    for error in [Some("unauthorized_client"), Some("invalid_client"), None] {
        let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::RedirectsUnknownClients(error)]));
        stage.login().await.unwrap();
        stage.server.forget_clients();
        stage.login().await.unwrap();
        assert_eq!(stage.server.counts().registrations, 2, "{error:?}");
        assert_eq!(stage.browser.0.lock().unwrap().len(), 3, "{error:?}");
        let host = stage.host().await;
        echo(&host).await.unwrap();
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_registered_client_with_which_a_sign_in_was_given_up_is_used_for_its_tokens_and_no_new_sign_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    stage.login().await.unwrap();
    assert_eq!(stage.server.counts().registrations, 1, "a client that works is used again");
    stage.server.forget_clients();
    // The server shows the user an error, and does not redirect.
    assert_eq!(stage.login().await.unwrap_err().code(), "SIGN_IN_GIVEN_UP");
    assert!(stage.sign_in.accounts().await.unwrap()[0].signed_in);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
    for _ in 0..2 {
        stage.login().await.unwrap();
        assert_eq!(stage.server.counts().registrations, 2);
    }
}

#[tokio::test]
async fn a_configured_client_that_the_server_refuses_is_named_as_the_reason() {
    let oauth =
        OAuth { client_id: Some(CLIENT.to_owned()), client_secret: Some(CLIENT_SECRET.to_owned()), ..OAuth::default() };
    let stage = Stage::with(FakeAuthorization::start([]), oauth);
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.expire_access_tokens();
    stage.server.set_faults([AuthorizationFault::TokenError("invalid_client")]);
    let refused = echo(&host).await.unwrap_err();
    assert_eq!(refused.code(), "AUTH_REQUIRED", "{refused}");
    assert!(refused.hint().unwrap().contains("invalid_client"), "{refused}");
    assert!(stage.sign_in.accounts().await.unwrap()[0].signed_in, "the user can correct the client");
    host.shutdown().await;
}

#[tokio::test]
async fn signing_out_revokes_the_tokens_and_deletes_them() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::Revoked);
    assert!(stage.server.counts().revocations > 0);
    assert!(stage.store.keys().await.unwrap().is_empty());
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::WasNotSignedIn);
    let host = stage.host().await;
    assert!(matches!(state(&host), State::NeedsAuth { .. }));
    host.shutdown().await;
}

#[tokio::test]
async fn signing_out_of_a_server_that_cannot_revoke_deletes_the_tokens_and_says_so() {
    let recorded = Arc::new(RecordingWitness::default());
    let mut stage = Stage::of(FakeAuthorization::start([]));
    let witness: Arc<dyn Witness> = Arc::<RecordingWitness>::clone(&recorded);
    stage.sign_in = SignIn::builder(Arc::<MemoryTokens>::clone(&stage.store)).witness(witness).build();
    let missing_page = format!("{}/nowhere", stage.server.issuer());
    for (endpoint, outcome) in [
        (json!(null), "the tokens were deleted here; the authorization server cannot revoke tokens"),
        (json!(missing_page), "the tokens were deleted here, but not revoked: "),
    ] {
        let is_offered = endpoint.is_string();
        stage.server.set_faults([AuthorizationFault::Metadata(json!({ "revocation_endpoint": endpoint }))]);
        stage.login().await.unwrap();
        let signed_out = stage.sign_in.logout(stage.destination()).await.unwrap();
        match &signed_out {
            SignedOut::NotRevoked(error) => assert!(is_offered && error.to_string().contains("HTTP 404"), "{error}"),
            other => assert!(!is_offered && *other == SignedOut::CannotRevoke, "{other:?}"),
        }
        assert!(stage.store.keys().await.unwrap().is_empty());
        let facts = std::mem::take(&mut *recorded.0.lock().unwrap());
        let Some(Fact::SignedOut { outcome: told, .. }) = facts.last() else { panic!("{facts:?}") };
        assert!(told.starts_with(outcome), "{told}");
    }
    assert_eq!(stage.server.counts().revocations, 0);
}

#[tokio::test]
async fn an_access_token_is_revoked_even_if_the_server_revokes_no_refresh_tokens() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::RevokesNoRefreshTokens]));
    stage.login().await.unwrap();
    let signed_out = stage.sign_in.logout(stage.destination()).await.unwrap();
    assert!(matches!(signed_out, SignedOut::NotRevoked(_)), "{signed_out:?}");
    assert_eq!(stage.server.counts().revocations, 1, "the access token");
}

#[tokio::test]
async fn signing_out_deletes_the_tokens_even_if_a_placeholder_has_no_value() {
    let mut stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let store = Arc::<MemoryTokens>::clone(&stage.store);
    stage.sign_in = SignIn::builder(store).resolver(Arc::new(NoSecret)).build();
    match stage.sign_in.logout(stage.destination()).await.unwrap() {
        SignedOut::NotRevoked(error) => assert!(error.to_string().contains("is not set"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(stage.store.keys().await.unwrap().is_empty());
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::WasNotSignedIn);
}

#[tokio::test]
async fn signing_out_deletes_what_is_left_of_a_sign_in_and_says_that_there_was_none() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.revoke();
    echo(&host).await.unwrap_err();
    assert!(!stage.sign_in.accounts().await.unwrap()[0].signed_in, "only the registered client is left");
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::WasNotSignedIn);
    assert!(stage.store.keys().await.unwrap().is_empty());
    host.shutdown().await;

    stage.login().await.unwrap();
    let key = stage.store.keys().await.unwrap().remove(0);
    let lease = stage.store.lease(&key, Duration::from_secs(60)).await.unwrap();
    lease.save(b"damaged".to_vec()).await.unwrap();
    lease.release().await;
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::WasNotSignedIn);
    assert!(stage.store.keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_names_them_and_other_calls_continue() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.set_faults([AuthorizationFault::WantsScope("files:write")]);
    let refused = echo(&host).await.unwrap_err();
    let how = refused.hint().unwrap();
    assert!(how.starts_with("login guarded ") && how.contains("files:write"), "{how}");
    assert!(matches!(state(&host), State::Connected { .. }), "one call was refused, not the server");
    let scopes: Vec<String> = how.split(' ').skip(2).map(str::to_owned).collect();
    stage.sign_in.login(stage.destination(), &scopes, &stage.browser).await.unwrap();
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_client_signs_in_without_a_user_if_the_entry_says_so() {
    let oauth = OAuth {
        client_id: Some(CLIENT.to_owned()),
        client_secret: Some(CLIENT_SECRET.to_owned()),
        grant: Grant::ClientCredentials,
        ..OAuth::default()
    };
    let stage = Stage::with(FakeAuthorization::start([]), oauth);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    stage.server.expire_access_tokens();
    echo(&host).await.unwrap();
    assert_eq!(stage.server.counts().authorizations, 0);
    host.shutdown().await;
}

#[tokio::test]
async fn another_process_renews_tokens_with_the_secret_of_the_configured_client() {
    let oauth =
        OAuth { client_id: Some(CLIENT.to_owned()), client_secret: Some(CLIENT_SECRET.to_owned()), ..OAuth::default() };
    let stage = Stage::with(FakeAuthorization::start([]), oauth);
    stage.login().await.unwrap();
    stage.server.expire_access_tokens();
    let host = stage.host_with(stage.other_process()).await;
    echo(&host).await.unwrap();
    assert_eq!((stage.server.counts().registrations, stage.server.counts().refreshes), (0, 1));
    host.shutdown().await;
}

#[tokio::test]
async fn accounts_of_one_server_are_separate() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let other = OAuth { account: Some("work".to_owned()), ..OAuth::default() };
    let mut http = stage.destination().spec.clone();
    http.oauth = other;
    let to = toolrack_host::Destination { spec: &http, ..stage.destination() };
    assert_eq!(stage.sign_in.logout(to).await.unwrap(), SignedOut::WasNotSignedIn);
    stage.sign_in.login(to, &[], &stage.browser).await.unwrap();
    let accounts = stage.sign_in.accounts().await.unwrap();
    let names: Vec<_> = accounts.iter().map(|account| account.key.account.as_str()).collect();
    assert_eq!(names, ["", "work"]);
    assert_eq!(stage.sign_in.logout(to).await.unwrap(), SignedOut::Revoked);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_user_signs_in_through_a_client_with_a_key_and_stays_signed_in() {
    let server = FakeAuthorization::start([]);
    let (id, key) = server.client_with_key();
    let oauth =
        OAuth { client_id: Some(id), private_key: TextOrFile { text: Some(key), file: None }, ..OAuth::default() };
    let mut stage = Stage::with(server, oauth);
    stage.login().await.unwrap();
    stage.call_before_and_after_expiry().await;
    let counts = stage.server.counts();
    assert_eq!((counts.registrations, counts.exchanges, counts.refreshes, counts.refused), (0, 1, 1, 0));
    let requests = stage.server.requests();
    let statements: Vec<_> = requests.iter().filter_map(|requests| requests.parameter("client_assertion")).collect();
    assert!(statements.len() == 2 && statements[0] != statements[1], "one for the code, and another for the renewal");

    // The server refuses the key of another client.
    let (_, other) = stage.server.client_with_key();
    let Transport::Http(http) = &mut stage.spec.transport else { panic!("not HTTP") };
    http.oauth.private_key.text = Some(other);
    assert!(stage.login().await.is_err());
    assert_eq!(stage.server.counts().exchanges, 1);
}

/// Remembers all facts that were reported to it.
#[derive(Default)]
struct RecordingWitness(Mutex<Vec<Fact>>);

impl Witness for RecordingWitness {
    fn record(&self, fact: Fact) {
        self.0.lock().unwrap().push(fact);
    }
}

#[tokio::test]
async fn sign_ins_sign_outs_and_failures_are_reported_and_a_repeated_failure_once() {
    let recorded = Arc::new(RecordingWitness::default());
    let mut stage = Stage::of(FakeAuthorization::start([]));
    let witness: Arc<dyn Witness> = Arc::<RecordingWitness>::clone(&recorded);
    stage.sign_in = SignIn::builder(Arc::<MemoryTokens>::clone(&stage.store)).witness(witness).build();
    let facts = || std::mem::take(&mut *recorded.0.lock().unwrap());
    stage.login().await.unwrap();
    let issuer = stage.server.issuer();
    assert!(matches!(&*facts(), [Fact::SignedIn { issuer: reported, .. }] if *reported == issuer));

    let host = stage.host().await;
    stage.server.set_faults([AuthorizationFault::TokenError("temporarily_unavailable")]);
    stage.server.expire_access_tokens();
    for _ in 0..3 {
        assert!(echo(&host).await.is_err());
    }
    let failures = facts();
    let [Fact::SignInFailed { error, .. }] = &*failures else { panic!("{failures:?}") };
    assert!(!error.is_empty());
    stage.server.set_faults([]);
    echo(&host).await.unwrap();
    assert_eq!(facts(), [], "a renewal is not reported");
    host.shutdown().await;

    let _ = stage.sign_in.logout(stage.destination()).await.unwrap();
    assert!(matches!(&*facts(), [Fact::SignedOut { outcome, .. }] if outcome.contains("were revoked")));
    assert_eq!(stage.sign_in.logout(stage.destination()).await.unwrap(), SignedOut::WasNotSignedIn);
    assert_eq!(facts(), [], "no user was signed in");
    stage.server.set_faults([AuthorizationFault::no_pkce()]);
    assert!(stage.login().await.is_err());
    assert!(matches!(&*facts(), [Fact::SignInFailed { code: "SIGN_IN_WITHOUT_PKCE", .. }]));
}

#[tokio::test]
async fn a_call_that_is_dropped_while_its_token_is_renewed_loses_no_sign_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.set_faults([AuthorizationFault::HoldsTokens]);
    stage.server.expire_access_tokens();
    tokio::select! {
        _ = echo(&host) => panic!("no token can have been issued"),
        () = stage.server.wait_for_held_back(1) => {}
    }
    stage.server.set_faults([]);
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused), (1, 0));
    host.shutdown().await;
}

#[tokio::test]
async fn the_end_of_a_program_waits_for_the_renewal_that_a_request_left_behind() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    stage.server.set_faults([AuthorizationFault::HoldsTokens]);
    stage.server.expire_access_tokens();
    tokio::select! {
        _ = echo(&host) => panic!("no token can have been issued"),
        () = stage.server.wait_for_held_back(1) => {}
    }
    host.shutdown().await;
    let mut settled = Box::pin(stage.sign_in.settled());
    assert!(futures::poll!(&mut settled).is_pending());
    stage.server.set_faults([]);
    settled.await;

    // Another process uses the token that the renewal has got.
    let host = stage.host_with(stage.other_process()).await;
    echo(&host).await.unwrap();
    assert_eq!((stage.server.counts().refreshes, stage.server.counts().reused), (1, 0));
    host.shutdown().await;
}

#[tokio::test]
async fn a_login_dropped_after_its_code_was_exchanged_is_stored() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::HoldsTokens]));
    tokio::select! {
        _ = stage.login() => panic!("no token can have been issued"),
        () = stage.server.wait_for_held_back(1) => {}
    }
    stage.server.set_faults([]);
    stage.sign_in.settled().await;
    assert!(stage.sign_in.accounts().await.unwrap()[0].signed_in);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    assert_eq!(stage.server.counts().exchanges, 1);
    host.shutdown().await;
}

/// A store that cannot be read while `fails` is set.
struct FailingStore {
    tokens: Arc<MemoryTokens>,
    fails: AtomicBool,
}

impl TokenStore for FailingStore {
    fn load<'a>(&'a self, key: &'a TokenKey) -> BoxFuture<'a, Result<Option<Vec<u8>>, TokenStoreError>> {
        if self.fails.load(Ordering::SeqCst) {
            return Box::pin(async { Err(TokenStoreError::new("the disk is busy")) });
        }
        self.tokens.load(key)
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<TokenKey>, TokenStoreError>> {
        self.tokens.keys()
    }

    fn lease<'a>(
        &'a self,
        key: &'a TokenKey,
        max_time: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn TokenLease>, TokenStoreError>> {
        self.tokens.lease(key, max_time)
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_for_a_moment_is_read_again() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let store = Arc::new(FailingStore { tokens: Arc::clone(&stage.store), fails: AtomicBool::new(true) });
    let sign_in = SignIn::builder(Arc::<FailingStore>::clone(&store)).build();
    let is_signed = async || {
        let signed = sign_in.sign(stage.destination(), &http::Method::POST).await;
        signed.is_ok_and(|signature| signature.is_some())
    };
    assert!(!is_signed().await);
    store.fails.store(false, Ordering::SeqCst);
    assert!(is_signed().await);
}
