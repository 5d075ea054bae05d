//! Tokens that are bound to a key (DPoP): the token is useless without the key.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use toolrack_auth::TokenStore as _;
use toolrack_host::{
    Authorizer as _, State,
    spec::{Grant, OAuth, Transport},
};
use toolrack_testkit::authorization::{ASSERTION, AuthorizationFault, FakeAuthorization, RecordedRequest};

use crate::stage::{Stage, echo, state};

/// A stage whose entry requires bound tokens.
fn bound(faults: impl IntoIterator<Item = AuthorizationFault>) -> Stage {
    Stage::with(FakeAuthorization::start(faults), OAuth { dpop: true, ..OAuth::default() })
}

/// The requests with a proof that the MCP endpoint has got.
fn signed_mcp_requests(stage: &Stage) -> Vec<RecordedRequest> {
    stage
        .server
        .requests()
        .into_iter()
        .filter(|request| request.endpoint.ends_with("/mcp") && request.proof.is_some())
        .collect()
}

#[tokio::test]
async fn every_request_has_a_proof_of_its_own() {
    let stage = bound([AuthorizationFault::OnlyBound]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    echo(&host).await.unwrap();
    host.shutdown().await;
    let requests = stage.server.requests();
    let proofs: Vec<_> = requests.iter().filter_map(|request| request.proof.as_ref()).collect();
    assert_eq!(proofs.iter().collect::<BTreeSet<_>>().len(), proofs.len(), "no two proofs are the same");
    assert!(proofs.len() >= 4, "for the code, the connection and two calls: {}", proofs.len());
    assert!(
        signed_mcp_requests(&stage).iter().all(|request| request.authorization.as_ref().unwrap().starts_with("DPoP "))
    );
    let counts = stage.server.counts();
    assert_eq!((counts.proofs as usize, counts.replayed), (proofs.len(), 0));
    // The authorization code was bound to the key, too.
    let page = &stage.browser.0.lock().unwrap()[0];
    assert!(page.query_pairs().any(|(name, value)| name == "dpop_jkt" && value.len() == 43), "{page}");
}

#[tokio::test]
async fn the_key_survives_a_restart_and_renewed_tokens_are_bound_to_it() {
    let stage = bound([]);
    stage.login().await.unwrap();
    stage.server.expire_access_tokens();
    let host = stage.host_with(stage.other_process()).await;
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused, counts.authorizations), (1, 0, 1));
    host.shutdown().await;
    // The key is stored with the tokens, and never printed.
    let [key] = &*stage.store.keys().await.unwrap() else { panic!("expected one sign-in") };
    let stored: serde_json::Value = serde_json::from_slice(&stage.store.load(key).await.unwrap().unwrap()).unwrap();
    let secret = stored["key"].as_str().unwrap();
    assert!(!format!("{:?} {:?}", stage.sign_in, stage.store).contains(secret));
}

#[tokio::test]
async fn a_token_and_a_proof_that_were_recorded_are_refused() {
    let stage = bound([]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
    let recorded = signed_mcp_requests(&stage).pop().unwrap();
    let (token, proof) = (recorded.authorization.unwrap(), recorded.proof.unwrap());
    let admitted = stage.server.counts().admitted;
    let as_bearer = token.replace("DPoP ", "Bearer ");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (authorization, proof) in
        [(&token, Some(&proof)), (&token, None), (&as_bearer, None), (&as_bearer, Some(&proof))]
    {
        let mut request = client.post(stage.server.mcp_url()).header("authorization", authorization).body("{}");
        if let Some(proof) = proof {
            request = request.header("dpop", proof);
        }
        assert_eq!(request.send().await.unwrap().status(), 401, "{authorization} {proof:?}");
    }
    assert_eq!((stage.server.counts().admitted, stage.server.counts().replayed), (admitted, 1));
}

#[tokio::test]
async fn after_one_refusal_every_proof_has_the_nonce_that_the_server_wants() {
    let stage = bound([AuthorizationFault::WantsNonce("n-1".to_owned())]);
    stage.login().await.unwrap();
    let refused = stage.server.counts().refused;
    assert_eq!(refused, 1, "the token endpoint refuses once");
    let host = stage.host().await;
    // The requests that the host sends at the same time when it connects are refused together.
    let rejected = stage.server.counts().rejected;
    assert!((1..=2).contains(&rejected), "{rejected}");
    echo(&host).await.unwrap();
    assert_eq!(stage.server.counts().rejected, rejected);
    // A refused token is still renewed.
    stage.server.expire_access_tokens();
    stage.server.set_faults([AuthorizationFault::WantsNonce("n-2".to_owned())]);
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused), (1, 0));
    host.shutdown().await;
}

#[tokio::test]
async fn a_nonce_in_a_response_is_used_in_the_next_proof() {
    let stage = bound([]);
    stage.login().await.unwrap();
    stage.server.set_faults([AuthorizationFault::ChangesNonce]);
    let host = stage.host().await;
    let rejected = stage.server.counts().rejected;
    for _ in 0..3 {
        echo(&host).await.unwrap();
    }
    assert_eq!(stage.server.counts().rejected, rejected, "no request was refused for an old nonce");
    host.shutdown().await;
}

#[tokio::test]
async fn a_nonce_that_is_refused_is_used_once_and_an_oversized_one_never() {
    let stage = bound([]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    // An HTTP client would not read 100 KB in one header, so the oversized nonce has only 20 KB.
    for (nonce, attempts) in [("n".to_owned(), 2), ("n".repeat(20_000), 1)] {
        stage.server.set_faults([AuthorizationFault::NoNonceFits(nonce)]);
        let before = stage.server.counts();
        let refused = echo(&host).await.unwrap_err();
        let counts = stage.server.counts();
        assert_eq!((counts.rejected - before.rejected, counts.admitted), (attempts, before.admitted), "{refused}");
        assert_eq!(counts.refreshes, 0, "the token is not renewed");
        assert!(refused.to_string().len() < 1_000, "{refused}");
        stage.server.set_faults([]);
    }
    let signed_in = stage.sign_in.accounts().await.unwrap().iter().all(|account| account.signed_in);
    assert!(signed_in, "the sign-in is still valid");
    host.shutdown().await;
    let stage = bound([AuthorizationFault::NoNonceFits("n".to_owned())]);
    assert_eq!(stage.login().await.unwrap_err().code(), "SIGN_IN_NO_TOKEN");
    assert_eq!(stage.server.counts().refused, 2, "the client sends the request twice");
}

#[tokio::test]
async fn an_unbound_token_is_refused_if_the_entry_requires_a_bound_one() {
    let stage = bound([AuthorizationFault::TokenType("Bearer")]);
    let error = stage.login().await.unwrap_err();
    assert!(error.to_string().contains("oauth.dpop"), "{error}");
    assert_eq!((error.code(), stage.server.counts().admitted), ("SIGN_IN_NO_TOKEN", 0));
}

#[tokio::test]
async fn an_error_about_bound_tokens_names_the_setting() {
    let stage = Stage::of(FakeAuthorization::start([AuthorizationFault::OnlyBound]));
    let host = stage.host().await;
    let State::NeedsAuth { how } = state(&host) else { panic!("{:?}", state(&host)) };
    assert!(how.contains("set `oauth.dpop` to true"), "{how}");
    host.shutdown().await;
}

/// A server that takes only bound tokens, and says so in its metadata (RFC 9728).
fn only_bound() -> [AuthorizationFault; 2] {
    [
        AuthorizationFault::OnlyBound,
        AuthorizationFault::ResourceMetadata(json!({ "dpop_bound_access_tokens_required": true })),
    ]
}

#[tokio::test]
async fn a_server_whose_metadata_requires_bound_tokens_gets_them_without_a_setting() {
    let stage = Stage::of(FakeAuthorization::start(only_bound()));
    let host = stage.host().await;
    let State::NeedsAuth { how } = state(&host) else { panic!("{:?}", state(&host)) };
    assert_eq!(how, "login guarded");
    host.shutdown().await;
    stage.login().await.unwrap();
    stage.call_before_and_after_expiry().await;
    assert!(
        signed_mcp_requests(&stage).iter().all(|request| request.authorization.as_ref().unwrap().starts_with("DPoP "))
    );
    assert_eq!((stage.server.counts().refreshes, stage.server.counts().authorizations), (1, 1));
}

#[tokio::test]
async fn an_unbound_token_is_not_renewed_once_the_server_requires_bound_ones() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    stage.server.set_faults(only_bound());
    stage.server.expire_access_tokens();
    assert!(echo(&host).await.is_err());
    assert_eq!(stage.server.counts().refreshes, 0, "a renewed token would be unbound as well");
    host.shutdown().await;
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_begins_to_require_bound_tokens_waits_for_a_new_sign_in() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    stage.server.set_faults(only_bound());
    // The first connection is refused with the token, the second without.
    for _ in 0..2 {
        let host = stage.host().await;
        assert_eq!(state(&host), State::NeedsAuth { how: "login guarded".to_owned() });
        host.shutdown().await;
    }
    let waiting = async || {
        // From here on only the store is read, so the clock may jump.
        tokio::time::pause();
        let signed_in = stage.sign_in.signed_in(stage.destination());
        let is_over = tokio::time::timeout(Duration::from_secs(60), signed_in).await.is_ok();
        tokio::time::resume();
        is_over
    };
    assert!(!waiting().await, "no user has signed in, so there is no reason to connect again");
    stage.other_process().login(stage.destination(), &[], &stage.browser).await.unwrap();
    assert!(waiting().await);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn an_unbound_token_of_an_entry_that_now_requires_bound_ones_is_not_renewed() {
    let mut stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    stage.server.set_faults([AuthorizationFault::OnlyBound]);
    let Transport::Http(http) = &mut stage.spec.transport else { panic!("not HTTP") };
    http.oauth.dpop = true;
    let host = stage.host().await;
    assert_eq!(state(&host), State::NeedsAuth { how: "login guarded".to_owned() });
    assert_eq!(stage.server.counts().refreshes, 0, "a renewed token would be unbound as well");
    host.shutdown().await;
}

#[tokio::test]
async fn a_workload_binds_its_tokens_if_the_metadata_requires_it() {
    let assertion = toolrack_host::spec::TextOrFile { text: Some(ASSERTION.to_owned()), file: None };
    let oauth = OAuth { grant: Grant::JwtBearer, assertion, ..OAuth::default() };
    let stage = Stage::with(FakeAuthorization::start(only_bound()), oauth);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    assert!(!signed_mcp_requests(&stage).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn each_of_twenty_concurrent_calls_has_its_own_proof() {
    let stage = bound([AuthorizationFault::WantsNonce("n-1".to_owned())]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    for answer in futures::future::join_all((0..20).map(|_| echo(&host))).await {
        answer.unwrap();
    }
    assert_eq!(stage.server.counts().replayed, 0);
    let claims = json!({ "proofs": stage.server.counts().proofs });
    assert!(stage.server.counts().proofs >= 21, "{claims}");
    host.shutdown().await;
}
