//! Sign-ins in a browser, and which of them are refused.

use serde_json::json;
use toolrack_host::principal::Role;
use toolrack_store::{Purpose, TokenHash};

use crate::{
    browser::{Answer, Browser, parameter},
    provider::{Fault, Key, Provider},
    stage::Stage,
};

async fn stage() -> (Provider, Stage) {
    let provider = Provider::new().await;
    let stage = Stage::signing_in_at(&provider.url).await;
    (provider, stage)
}

async fn sign_in(stage: &Stage, browser: &mut Browser) -> Answer {
    let home = stage.at("/servers");
    browser.follow(&stage.at("/sign-in?to=/servers"), home.as_str()).await
}

/// The session of the browser's cookie.
async fn session_of(stage: &Stage, browser: &Browser) -> Option<toolrack_store::TeamToken> {
    let cookie = browser.cookie(&stage.url, "toolrack")?;
    stage.store.team_token(TokenHash::of(cookie)).await.unwrap()
}

#[tokio::test]
async fn a_user_signs_in_and_returns_to_the_page_they_wanted() {
    let (_provider, stage) = stage().await;
    let mut browser = Browser::new();
    let answer = sign_in(&stage, &mut browser).await;
    assert_eq!((answer.status.as_u16(), answer.location()), (303, Some(stage.at("/servers"))));
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("HttpOnly; SameSite=Lax") && cookie.contains("Max-Age=43200"), "{cookie}");
    let token = session_of(&stage, &browser).await.unwrap();
    let member = &token.member;
    assert_eq!((token.purpose, member.name(), member.tenant()), (Purpose::Browser, "Ann", "acme"));
    assert!(member.is_in("eng") && member.role() == Role::User);
    assert!(!stage.has_in_a_file(browser.cookie(&stage.url, "toolrack").unwrap()));
}

#[tokio::test]
async fn each_sign_in_makes_a_new_session_and_ends_the_one_before() {
    let (_provider, stage) = stage().await;
    let mut browser = Browser::new();
    // An attacker who could set the cookie gains nothing: the session after a sign-in is another one.
    let planted = stage.person("eve", "bolt").await;
    let planted = planted.cookie(&stage.url, "toolrack").unwrap().to_owned();
    browser.set_cookie(&stage.url, "toolrack", &planted);
    sign_in(&stage, &mut browser).await;
    let first = browser.cookie(&stage.url, "toolrack").unwrap().to_owned();
    assert!(first != planted && !stage.is_valid(&planted).await);
    sign_in(&stage, &mut browser).await;
    let second = browser.cookie(&stage.url, "toolrack").unwrap().to_owned();
    assert!(second != first && stage.is_valid(&second).await && !stage.is_valid(&first).await);
}

#[tokio::test]
async fn userinfo_claims_count_and_a_later_sign_in_updates_the_member() {
    let (provider, stage) = stage().await;
    provider.plan.lock().person = json!({ "sub": "u-1" });
    provider.plan.lock().userinfo =
        json!({ "sub": "u-1", "email": "ann@acme.example", "email_verified": true, "groups": ["ops"] });
    let mut browser = Browser::new();
    sign_in(&stage, &mut browser).await;
    assert_eq!(session_of(&stage, &browser).await.unwrap().member.role(), Role::Operator);
    provider.plan.lock().userinfo["groups"] = json!([]);
    sign_in(&stage, &mut Browser::new()).await;
    assert_eq!(session_of(&stage, &browser).await.unwrap().member.role(), Role::User, "in every browser at once");
}

#[tokio::test]
async fn a_user_without_a_tenant_learns_whom_to_ask() {
    let (provider, stage) = stage().await;
    for (claims, message) in [
        (json!({ "sub": "u-1", "email": "eve@evil.example", "email_verified": true }), "do not belong to a tenant"),
        (json!({ "sub": "u-1", "email": "ann@acme.example" }), "do not belong to a tenant"),
        (
            json!({ "sub": "u-1", "email": "ann@acme.example", "email_verified": true, "groups": ["bolt-staff"] }),
            "more than one",
        ),
    ] {
        provider.plan.lock().person = claims;
        let mut browser = Browser::new();
        let answer = sign_in(&stage, &mut browser).await;
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains(message) && answer.body.contains("Ask the operator"), "{}", answer.body);
        assert_eq!(browser.cookie(&stage.url, "toolrack"), None);
    }
    assert_eq!(stage.store.members(None).await.unwrap().len(), 0);
    assert_eq!(stage.refusals().await, vec![("sign-in".to_owned(), "not_a_member".to_owned()); 3]);
}

#[tokio::test]
async fn an_unproved_identity_is_not_signed_in() {
    let (provider, stage) = stage().await;
    let faults = [
        Fault::Audience,
        Fault::Issuer,
        Fault::Nonce,
        Fault::NoNonce,
        Fault::Azp,
        Fault::Expired,
        Fault::Early,
        Fault::Future,
        Fault::NoExpiry,
        Fault::OtherKey,
        Fault::AlgNone,
        Fault::HmacWithPublicKey,
        Fault::UnknownKid,
        Fault::Critical,
        Fault::NoIdToken,
        Fault::WrongIssParameter,
        Fault::Refuses,
    ];
    for fault in faults {
        provider.set_fault(fault);
        let mut browser = Browser::new();
        let answer = sign_in(&stage, &mut browser).await;
        assert_eq!(answer.status, 400, "{fault:?}: {}", answer.body);
        assert_eq!(browser.cookie(&stage.url, "toolrack"), None, "{fault:?}");
        assert!(!answer.body.contains("<b>"), "{fault:?}");
    }
    provider.plan.lock().person = json!({ "sub": "u-1" });
    provider.set_fault(Fault::AnotherPersonInUserinfo);
    assert_eq!(sign_in(&stage, &mut Browser::new()).await.status, 400);
    assert_eq!(stage.refusals().await.len(), faults.len() + 1);
    assert_eq!(stage.store.members(None).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_provider_that_is_down_ends_no_session() {
    let (provider, stage) = stage().await;
    let mut browser = Browser::new();
    provider.set_fault(Fault::Down);
    let answer = sign_in(&stage, &mut browser).await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("Try again") && answer.body.contains("502"), "{}", answer.body);

    let (provider, stage) = self::stage().await;
    sign_in(&stage, &mut browser).await;
    let session = browser.cookie(&stage.url, "toolrack").unwrap().to_owned();
    provider.set_fault(Fault::TokenDown);
    assert_eq!(sign_in(&stage, &mut browser).await.status, 503);
    assert!(stage.is_valid(&session).await && browser.cookie(&stage.url, "toolrack") == Some(&*session));
    assert!(stage.refusals().await.is_empty(), "a failing provider does not count as bad input");
}

#[tokio::test]
async fn a_sign_in_that_began_in_another_browser_is_refused() {
    let (_provider, stage) = stage().await;
    // The attacker begins a sign-in, and sends the link of its last step to a victim.
    let mut attacker = Browser::new();
    let link = attacker.follow(&stage.at("/sign-in"), stage.at("/sign-in/back").as_str()).await.location().unwrap();
    for mut victim in [Browser::new(), stage.ann().await] {
        let answer = victim.get(&link).await;
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("did not begin in this browser"), "{}", answer.body);
        // The same, after the victim began a sign-in of their own.
        let own = victim.follow(&stage.at("/sign-in"), stage.at("/sign-in/back").as_str()).await.location().unwrap();
        assert_eq!(victim.get(&link).await.status, 400);
        let mut mixed = own.clone();
        mixed.set_query(Some(
            &own.query().unwrap().replace(&parameter(&own, "code").unwrap(), &parameter(&link, "code").unwrap()),
        ));
        assert_eq!(victim.get(&mixed).await.status, 400, "a code of another sign-in");
        assert_eq!(victim.get(&own).await.status, 303, "their own sign-in goes on");
        assert_eq!(victim.get(&own).await.status, 400, "and cannot be repeated");
    }
    assert!(stage.refusals().await.iter().all(|(door, _)| door == "sign-in"));
}

#[tokio::test]
async fn two_tabs_sign_in_side_by_side() {
    let (_provider, stage) = stage().await;
    let mut browser = Browser::new();
    let back = stage.at("/sign-in/back");
    let one = browser.follow(&stage.at("/sign-in?to=/one"), back.as_str()).await.location().unwrap();
    let other = browser.follow(&stage.at("/sign-in?to=/other"), back.as_str()).await.location().unwrap();
    assert_eq!(browser.get(&one).await.location().unwrap().path(), "/one");
    assert_eq!(browser.get(&other).await.location().unwrap().path(), "/other");
}

#[tokio::test]
async fn a_sign_in_never_redirects_to_another_origin() {
    let (_provider, stage) = stage().await;
    for to in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "%2F%2Fevil.example",
        "/sign-out",
    ] {
        let answer = Browser::new().get(&stage.at(&format!("/sign-in?to={to}"))).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (400, None), "{to}");
    }
    assert_eq!(stage.refusals().await, vec![("sign-in".to_owned(), "open_redirect".to_owned()); 6]);
}

#[tokio::test]
async fn changed_keys_of_the_provider_are_fetched_again_but_many_unknown_keys_cause_one_request() {
    let (provider, stage) = stage().await;
    sign_in(&stage, &mut Browser::new()).await;
    assert_eq!(provider.plan.lock().keys_fetched, 1);
    provider.set_fault(Fault::UnknownKid);
    for _ in 0..5 {
        assert_eq!(sign_in(&stage, &mut Browser::new()).await.status, 400);
    }
    assert_eq!(provider.plan.lock().keys_fetched, 1, "the keys were fetched less than 30 s ago");

    // A new front door knows no keys yet; the provider changes its key after it has fetched them.
    provider.clear_fault();
    provider.plan.lock().keys.insert(0, Key::new("k-2"));
    let other = Stage::signing_in_at(&provider.url).await;
    assert_eq!(sign_in(&other, &mut Browser::new()).await.status, 303);
}

#[tokio::test]
async fn signing_out_ends_the_session_and_no_other_site_can_do_it() {
    let (_provider, stage) = stage().await;
    let mut browser = Browser::new();
    sign_in(&stage, &mut browser).await;
    let session = browser.cookie(&stage.url, "toolrack").unwrap().to_owned();
    browser.headers = vec![("origin", "https://evil.example".to_owned())];
    assert_eq!(browser.post(&stage.at("/sign-out"), &[]).await.status, 403);
    assert_eq!(browser.get(&stage.at("/sign-out")).await.status, 405, "following a link does not sign out");
    assert!(stage.is_valid(&session).await);
    browser.headers = vec![("origin", stage.url.origin().ascii_serialization())];
    let answer = browser.post(&stage.at("/sign-out"), &[("to", "/oauth/authorize?x=y")]).await;
    let to = answer.location().unwrap();
    assert_eq!((to.path(), parameter(&to, "to").as_deref()), ("/sign-in", Some("/oauth/authorize?x=y")));
    assert!(!stage.is_valid(&session).await && browser.cookie(&stage.url, "toolrack").is_none());
    // Then the provider is asked to let the person choose another account.
    let page = browser.get(&to).await.location().unwrap();
    assert_eq!(parameter(&page, "prompt").as_deref(), Some("login"));
    let elsewhere = browser.post(&stage.at("/sign-out"), &[("to", "https://evil.example")]).await;
    assert_eq!(elsewhere.location(), Some(stage.at("/")));
}

#[tokio::test]
async fn without_a_provider_the_sign_in_page_says_so() {
    let stage = Stage::with("").await;
    let answer = Browser::new().get(&stage.at("/sign-in")).await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("[sign_in]"), "{}", answer.body);
}
