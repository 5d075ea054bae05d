//! Access tokens of issuers that the team trusts.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolrack_host::{Caller, Way, egress::Egress, principal::Kind};
use toolrack_store::MemberIdentity;
use toolrack_team::{Authority, Issuers};

use crate::{
    provider::{Fault, Key, Provider},
    stage::Stage,
};

async fn stage() -> (Provider, Stage, Issuers) {
    let provider = Provider::new().await;
    let stage = trusting(&provider).await;
    let issuers = issuers(&stage);
    (provider, stage, issuers)
}

async fn trusting(provider: &Provider) -> Stage {
    let issuer = provider.issuer();
    Stage::with(&format!("[[issuers]]\nissuer = \"{issuer}\"\ntenants = [\"acme\"]\n")).await
}

fn issuers(stage: &Stage) -> Issuers {
    Issuers::new(Arc::clone(&stage.team), &Egress::default(), Arc::clone(stage.door.refusals())).unwrap()
}

/// What a good token says, with something changed.
fn claims(provider: &Provider, stage: &Stage, changed: &Value) -> Value {
    let now = Utc::now().timestamp();
    let mut claims = json!({
        "iss": provider.issuer(), "aud": stage.resource(), "exp": now + 300, "iat": now, "sub": "u-1",
        "client_id": "c-1", "jti": "1", "scope": "mcp", "email": "ann@acme.example", "email_verified": true,
        "groups": ["ops"],
    });
    for (name, value) in changed.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

#[tokio::test]
async fn a_token_of_a_trusted_issuer_proves_a_user_or_a_service() {
    let (provider, stage, issuers) = stage().await;
    let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
    let vouched = issuers.verify(&token).await.unwrap().unwrap();
    let principal = &vouched.principal;
    assert_eq!((principal.kind(), principal.tenant(), principal.subject()), (Kind::Person, "acme", "u-1"));
    assert_eq!(principal.issuer(), provider.issuer());
    assert!(principal.is_in("ops"));
    let left = (vouched.ends_at - Utc::now()).num_seconds();
    assert!((350..=360).contains(&left), "{left}");

    let own = provider.signed(claims(&provider, &stage, &json!({ "sub": "c-1" })), "application/at+JWT");
    assert_eq!(issuers.verify(&own).await.unwrap().unwrap().principal.kind(), Kind::Service);
    assert_eq!(provider.plan.lock().keys_fetched, 1);
}

#[tokio::test]
async fn a_token_for_the_endpoint_of_a_profile_opens_that_alone() {
    let (provider, stage, issuers) = stage().await;
    let (all, few) = (stage.resource(), stage.at("/p/few/mcp").to_string());
    let authority = Authority::new(stage.store.clone()).with_issuers(issuers);
    for (audiences, opens) in [
        (json!(few), Some("/p/few/mcp")),
        (json!([few, "https://elsewhere.example"]), Some("/p/few/mcp")),
        (json!([few, all]), Some("/mcp")),
        (json!([few, stage.at("/p/other/mcp")]), None),
        (json!(stage.at("/t/acme/mcp")), Some("/mcp")),
        (json!(stage.at("/t/bolt/mcp")), None),
        (json!(stage.at("/p/../mcp/")), None),
        (json!("https://elsewhere.example/p/few/mcp"), None),
    ] {
        let token = provider.signed(claims(&provider, &stage, &json!({ "aud": audiences })), "at+jwt");
        let proved = authority.prove(&token).await.unwrap();
        let paths = ["/mcp", "/p/few/mcp", "/p/other/mcp", "/api/v1/me"];
        let open: Vec<_> =
            paths.into_iter().filter(|path| proved.as_ref().is_some_and(|proved| proved.opens(path))).collect();
        assert_eq!(open, opens.into_iter().collect::<Vec<_>>(), "{audiences}");
    }
}

#[tokio::test]
async fn clocks_may_differ_by_a_minute() {
    let (provider, stage, issuers) = stage().await;
    let now = Utc::now().timestamp();
    for (changed, counts) in [
        (json!({ "exp": now - 50 }), true),
        (json!({ "exp": now - 70 }), false),
        (json!({ "nbf": now + 50 }), true),
        (json!({ "nbf": now + 70 }), false),
        (json!({ "iat": now + 50 }), true),
        (json!({ "iat": now + 70 }), false),
    ] {
        let token = provider.signed(claims(&provider, &stage, &changed), "at+jwt");
        assert_eq!(issuers.verify(&token).await.unwrap().is_some(), counts, "{changed}");
    }
}

#[tokio::test]
async fn forged_and_misused_tokens_prove_nothing() {
    let (provider, stage, issuers) = stage().await;
    let faults = [
        Fault::Audience,
        Fault::Issuer,
        Fault::Expired,
        Fault::Early,
        Fault::Future,
        Fault::NoExpiry,
        Fault::OtherKey,
        Fault::AlgNone,
        Fault::HmacWithPublicKey,
        Fault::UnknownKid,
        Fault::Critical,
    ];
    for fault in faults {
        provider.set_fault(fault);
        let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
        assert_eq!(issuers.verify(&token).await.unwrap(), None, "{fault:?}");
    }
    provider.clear_fault();
    for (kind, changed) in [
        // ID tokens, logout tokens, and statements of other kinds.
        ("JWT", json!({ "nonce": "x" })),
        ("JWT", json!({ "at_hash": "x" })),
        ("", json!({ "events": {} })),
        ("logout+jwt", json!({})),
        ("dpop+jwt", json!({})),
        // Tokens that only the holder of a key may use.
        ("at+jwt", json!({ "cnf": { "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" } })),
        ("JWT", json!({ "cnf": { "x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2" } })),
        // People of a tenant for which the issuer may not vouch, and of none.
        ("at+jwt", json!({ "email": "bob@bolt.example" })),
        ("at+jwt", json!({ "email_verified": false })),
        ("at+jwt", json!({ "sub": "" })),
        ("at+jwt", json!({ "sub": "a\nb" })),
        ("at+jwt", json!({ "exp": "soon" })),
        ("at+jwt", json!({ "aud": null })),
        ("at+jwt", json!({ "aud": [] })),
    ] {
        let token = provider.signed(claims(&provider, &stage, &changed), kind);
        assert_eq!(issuers.verify(&token).await.unwrap(), None, "{kind} {changed}");
    }
    let mut bare = claims(&provider, &stage, &json!({}));
    for claim in ["scope", "client_id"] {
        bare.as_object_mut().unwrap().shift_remove(claim);
    }
    assert_eq!(
        issuers.verify(&provider.signed(bare, "JWT")).await.unwrap(),
        None,
        "nothing says that it is for access"
    );
    assert_eq!(stage.refusals().await.len(), faults.len() + 15);
    assert!(stage.refusals().await.iter().all(|(door, _)| door == "mcp"));

    let known = provider.signed(claims(&provider, &stage, &json!({})), "JWT");
    assert!(issuers.verify(&known).await.unwrap().is_some(), "what others than RFC 9068 write");
}

#[tokio::test]
async fn a_token_that_is_not_a_signed_statement_is_unknown() {
    let (provider, stage, issuers) = stage().await;
    let good = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
    let large = provider.signed(claims(&provider, &stage, &json!({ "more": "x".repeat(17_000) })), "at+jwt");
    for token in ["", "tra_0", "a.b.c", &format!("{good}.x"), &large] {
        assert_eq!(issuers.verify(token).await.unwrap(), None);
    }
    let (_, tampered) = good.split_at(10);
    assert_eq!(issuers.verify(tampered).await.unwrap(), None);
    let refusals = stage.refusals().await;
    let is_unknown = |(door, code): &(String, String)| door == "daemon" && code == "unknown_token";
    assert!(refusals.iter().filter(|refusal| is_unknown(refusal)).count() >= 5, "{refusals:?}");
}

#[tokio::test]
async fn one_issuer_cannot_speak_for_another() {
    let (one, other) = (Provider::new().await, Provider::new().await);
    let both = [&one, &other]
        .map(|provider| format!("[[issuers]]\nissuer = \"{}\"\ntenants = [\"acme\"]\n", provider.issuer()));
    let stage = Stage::with(&both.concat()).await;
    let issuers = issuers(&stage);
    let token = other.signed(claims(&one, &stage, &json!({})), "at+jwt");
    assert_eq!(issuers.verify(&token).await.unwrap(), None, "signed by the other");
    let token = other.signed(claims(&other, &stage, &json!({})), "at+jwt");
    assert_eq!(issuers.verify(&token).await.unwrap().unwrap().principal.issuer(), other.issuer());
}

#[tokio::test]
async fn an_issuer_that_is_down_leaves_it_open_whether_a_token_counts() {
    let (provider, stage, issuers) = stage().await;
    let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
    provider.set_fault(Fault::Down);
    let error = issuers.verify(&token).await.unwrap_err().to_string();
    assert!(error.contains("502"), "{error}");
    assert!(stage.refusals().await.is_empty());

    provider.clear_fault();
    let issuers = self::issuers(&stage);
    assert!(issuers.verify(&token).await.unwrap().is_some());
    provider.set_fault(Fault::Down);
    assert!(issuers.verify(&token).await.unwrap().is_some(), "its keys are known");
}

#[tokio::test]
async fn a_flood_of_unknown_keys_makes_no_flood_of_requests() {
    let (provider, stage, issuers) = stage().await;
    provider.plan.lock().keys.insert(0, Key::new("k-2"));
    let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
    assert!(issuers.verify(&token).await.unwrap().is_some());
    provider.set_fault(Fault::UnknownKid);
    for _ in 0..20 {
        let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
        assert_eq!(issuers.verify(&token).await.unwrap(), None);
    }
    assert_eq!(provider.plan.lock().keys_fetched, 1);
}

#[tokio::test]
async fn a_removed_member_with_a_token_of_an_issuer_gets_a_new_membership() {
    let (provider, stage, issuers) = stage().await;
    let store = stage.store.clone();
    let authority = Arc::new(Authority::new(store.clone()).with_issuers(issuers));
    let mut watching = tokio::task::JoinSet::new();
    watching.spawn(Arc::clone(&authority).watch(CancellationToken::new()));
    let token = provider.signed(claims(&provider, &stage, &json!({})), "at+jwt");
    let proved = authority.prove(&token).await.unwrap().unwrap();
    assert_eq!(proved.member().membership(), 0);

    // The person also signed in, so that an administrator sees and removes them.
    let by = Caller::local(Way::Cli);
    store.put_signed_in(proved.member(), &by).await.unwrap();
    let issuer = provider.issuer();
    assert!(store.remove_member(MemberIdentity { issuer, subject: "u-1" }, &by).await.unwrap());
    timeout(Duration::from_secs(1), proved.ended()).await.unwrap();
    let again = authority.prove(&token).await.unwrap().unwrap();
    assert_eq!(again.member().key(), proved.member().clone().in_membership(1).key());
}
