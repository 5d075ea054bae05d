//! Tokens that are bound to a key: the token is worth nothing without the key.

use std::collections::BTreeSet;

use serde_json::json;
use toolrack_auth::TokenStore as _;
use toolrack_host::{
    State,
    spec::{Grant, OAuth},
};
use toolrack_testkit::authorization::{ASSERTION, FakeAuthorization, RecordedRequest, Wrong};

use crate::stage::{Stage, echo, state};

fn bound(wrong: impl IntoIterator<Item = Wrong>) -> Stage {
    Stage::with(FakeAuthorization::start(wrong), OAuth { dpop: true, ..OAuth::default() })
}

fn asked_of_mcp(stage: &Stage) -> Vec<RecordedRequest> {
    stage.server.asked().into_iter().filter(|asked| asked.what.ends_with("/mcp") && asked.proof.is_some()).collect()
}

#[tokio::test]
async fn every_request_proves_that_the_key_is_here_and_no_proof_is_sent_twice() {
    let stage = bound([Wrong::OnlyBound]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    echo(&host).await.unwrap();
    host.shutdown().await;
    let asked = stage.server.asked();
    let proofs: Vec<_> = asked.iter().filter_map(|asked| asked.proof.as_ref()).collect();
    assert_eq!(proofs.iter().collect::<BTreeSet<_>>().len(), proofs.len());
    assert!(proofs.len() >= 4, "of the code, of connecting and of two calls: {}", proofs.len());
    assert!(asked_of_mcp(&stage).iter().all(|asked| asked.authorization.as_ref().unwrap().starts_with("DPoP ")));
    let counts = stage.server.counts();
    assert_eq!((counts.proofs as usize, counts.replayed), (proofs.len(), 0));
    // The code was bound to the key as well.
    let page = &stage.browser.0.lock().unwrap()[0];
    assert!(page.query_pairs().any(|(name, value)| name == "dpop_jkt" && value.len() == 43), "{page}");
}

#[tokio::test]
async fn the_key_outlives_the_process_and_what_it_renews_is_bound_to_it() {
    let stage = bound([]);
    stage.login().await.unwrap();
    stage.server.expire();
    let host = stage.host_with(stage.another()).await;
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused, counts.authorizations), (1, 0, 1));
    host.shutdown().await;
    // It is kept where tokens are, and shown nowhere.
    let [key] = &*stage.store.keys().await.unwrap() else { panic!("one sign-in") };
    let kept: serde_json::Value = serde_json::from_slice(&stage.store.load(key).await.unwrap().unwrap()).unwrap();
    let secret = kept["key"].as_str().unwrap();
    assert!(!format!("{:?} {:?}", stage.sign_in, stage.store).contains(secret));
}

#[tokio::test]
async fn what_was_overheard_is_of_no_use() {
    let stage = bound([]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
    let overheard = asked_of_mcp(&stage).pop().unwrap();
    let (token, proof) = (overheard.authorization.unwrap(), overheard.proof.unwrap());
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
async fn a_nonce_that_a_server_wants_is_used_after_one_refusal_and_from_then_on() {
    let stage = bound([Wrong::WantsNonce("n-1".to_owned())]);
    stage.login().await.unwrap();
    let refused = stage.server.counts().refused;
    assert_eq!(refused, 1, "by the token endpoint, once");
    let host = stage.host().await;
    // What is sent at once when connecting is refused at once.
    let turned_away = stage.server.counts().turned_away;
    assert!((1..=2).contains(&turned_away), "{turned_away}");
    echo(&host).await.unwrap();
    assert_eq!(stage.server.counts().turned_away, turned_away);
    // A token that is refused is another matter, and renewed all the same.
    stage.server.expire();
    stage.server.goes_wrong([Wrong::WantsNonce("n-2".to_owned())]);
    echo(&host).await.unwrap();
    let counts = stage.server.counts();
    assert_eq!((counts.refreshes, counts.reused), (1, 0));
    host.shutdown().await;
}

#[tokio::test]
async fn a_nonce_that_comes_with_an_answer_is_in_the_next_proof() {
    let stage = bound([]);
    stage.login().await.unwrap();
    stage.server.goes_wrong([Wrong::ChangesNonce]);
    let host = stage.host().await;
    let turned_away = stage.server.counts().turned_away;
    for _ in 0..3 {
        echo(&host).await.unwrap();
    }
    assert_eq!(stage.server.counts().turned_away, turned_away, "no request was refused for an old nonce");
    host.shutdown().await;
}

#[tokio::test]
async fn a_nonce_that_never_fits_is_tried_once_and_one_that_is_absurd_never() {
    let stage = bound([]);
    stage.login().await.unwrap();
    let host = stage.host().await;
    // 100 KB in one header is more than an HTTP client reads.
    for (nonce, tried) in [("n".to_owned(), 2), ("n".repeat(20_000), 1)] {
        stage.server.goes_wrong([Wrong::NoNonceFits(nonce)]);
        let before = stage.server.counts();
        let refused = echo(&host).await.unwrap_err();
        let counts = stage.server.counts();
        assert_eq!((counts.turned_away - before.turned_away, counts.admitted), (tried, before.admitted), "{refused}");
        assert_eq!(counts.refreshes, 0, "the token had nothing to do with it");
        assert!(refused.to_string().len() < 1_000, "{refused}");
        stage.server.goes_wrong([]);
    }
    let signed_in = stage.sign_in.accounts().await.unwrap().iter().all(|account| account.signed_in);
    assert!(signed_in, "and it is still good");
    host.shutdown().await;
    let login = bound([Wrong::NoNonceFits("n".to_owned())]);
    assert_eq!(login.login().await.unwrap_err().code(), "SIGN_IN_NO_TOKEN");
    assert_eq!(login.server.counts().refused, 2, "asked once, and once more");
}

#[tokio::test]
async fn a_token_that_is_not_bound_is_refused_where_the_entry_wants_one_that_is() {
    let stage = bound([Wrong::TokenType("Bearer")]);
    let error = stage.login().await.unwrap_err();
    assert!(error.to_string().contains("oauth.dpop"), "{error}");
    assert_eq!((error.code(), stage.server.counts().admitted), ("SIGN_IN_NO_TOKEN", 0));
}

#[tokio::test]
async fn a_server_that_wants_bound_tokens_says_what_to_set() {
    let stage = Stage::of(FakeAuthorization::start([Wrong::OnlyBound]));
    let host = stage.host().await;
    let State::NeedsAuth { how } = state(&host) else { panic!("{:?}", state(&host)) };
    assert!(how.contains("set `oauth.dpop` to true"), "{how}");
    host.shutdown().await;
}

/// What a server says of itself that takes bound tokens alone (RFC 9728).
fn only_bound() -> [Wrong; 2] {
    [Wrong::OnlyBound, Wrong::ResourceMetadata(json!({ "dpop_bound_access_tokens_required": true }))]
}

#[tokio::test]
async fn a_server_whose_metadata_wants_bound_tokens_gets_them_without_a_word_in_the_entry() {
    let stage = Stage::of(FakeAuthorization::start(only_bound()));
    let host = stage.host().await;
    let State::NeedsAuth { how } = state(&host) else { panic!("{:?}", state(&host)) };
    assert_eq!(how, "login guarded");
    host.shutdown().await;
    stage.login().await.unwrap();
    stage.outlives_a_token().await;
    assert!(asked_of_mcp(&stage).iter().all(|asked| asked.authorization.as_ref().unwrap().starts_with("DPoP ")));
    assert_eq!((stage.server.counts().refreshes, stage.server.counts().authorizations), (1, 1));
}

#[tokio::test]
async fn a_token_of_before_a_server_wanted_bound_ones_is_not_renewed_but_asked_for_anew() {
    let stage = Stage::of(FakeAuthorization::start([]));
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    stage.server.goes_wrong(only_bound());
    stage.server.expire();
    assert!(echo(&host).await.is_err());
    assert_eq!(stage.server.counts().refreshes, 0, "what comes of it would be of no use either");
    host.shutdown().await;
    stage.login().await.unwrap();
    let host = stage.host().await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn a_workload_binds_its_tokens_where_the_metadata_wants_it() {
    let assertion = toolrack_host::spec::TextOrFile { text: Some(ASSERTION.to_owned()), file: None };
    let oauth = OAuth { grant: Grant::JwtBearer, assertion, ..OAuth::default() };
    let stage = Stage::with(FakeAuthorization::start(only_bound()), oauth);
    let host = stage.host().await;
    echo(&host).await.unwrap();
    assert!(!asked_of_mcp(&stage).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn twenty_calls_at_once_have_a_proof_each() {
    let stage = bound([Wrong::WantsNonce("n-1".to_owned())]);
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
