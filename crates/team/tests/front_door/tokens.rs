//! Codes and refresh tokens, in the right hands and in wrong ones.

use std::sync::Arc;

use tokio::task::JoinSet;
use toolrack_host::{Caller, Way};
use toolrack_store::{MemberIdentity, TokenHash};
use toolrack_team::{FrontDoor, TeamFile};

use crate::{
    browser::Browser,
    stage::{Stage, VERIFIER, listen, pair, serve, sign_in},
};

#[tokio::test]
async fn a_code_becomes_tokens_for_the_person_who_allowed_it() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let code = stage.code(&client).await;
    let answer = stage.exchange(&client, &code, &[]).await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (200, "no-store"));
    let json = answer.json();
    assert_eq!((json["token_type"].as_str(), json["expires_in"].as_i64()), (Some("Bearer"), Some(3_600)));
    assert_eq!(json["scope"], "mcp");
    let (access, refresh) = pair(&answer);
    assert!(access.starts_with("tra_") && access.len() == 68 && refresh.starts_with("trr_"));
    let stored = stage.store.team_token(TokenHash::of(&access)).await.unwrap().unwrap();
    assert_eq!((stored.member.subject(), stored.client.as_deref()), ("ann", Some(&*client)));
    assert!(!stage.has_in_a_file(&access[4..]) && !stage.has_in_a_file(&refresh[4..]) && !stage.has_in_a_file(&code));
}

#[tokio::test]
async fn a_refresh_token_counts_once_and_its_second_use_ends_everything() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (first_access, first) = stage.tokens(&client).await;
    let answer = stage.refresh(&client, &first, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let (second_access, second) = pair(&answer);
    assert!(stage.is_valid(&first_access).await && stage.is_valid(&second_access).await, "a renewal ends nothing");

    let reused = stage.refresh(&client, &first, &[]).await;
    assert_eq!((reused.status.as_u16(), &*reused.error()), (400, "invalid_grant"));
    assert!(!stage.is_valid(&first_access).await && !stage.is_valid(&second_access).await);
    assert_eq!(stage.refresh(&client, &second, &[]).await.error(), "invalid_grant");
    let refused = stage.audit().await.into_iter().find(|entry| entry.kind == "refused_at_the_door").unwrap();
    assert_eq!((refused.subject.as_deref(), refused.client.as_deref()), (Some("ann"), Some(&*client)));
}

#[tokio::test]
async fn two_concurrent_renewals_with_one_token_revoke_the_grant() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    for _ in 0..5 {
        let (access, refresh) = stage.tokens(&client).await;
        let (one, other) = tokio::join!(stage.refresh(&client, &refresh, &[]), stage.refresh(&client, &refresh, &[]));
        let given: Vec<_> = [one, other].into_iter().filter(|answer| answer.status == 200).collect();
        assert!(given.len() <= 1);
        assert!(!stage.is_valid(&access).await);
        for answer in given {
            assert!(!stage.is_valid(&pair(&answer).0).await, "the one who was faster may be the thief");
        }
    }
}

#[tokio::test]
async fn a_code_that_is_used_twice_ends_all_that_came_of_it() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let code = stage.code(&client).await;
    let (access, refresh) = pair(&stage.exchange(&client, &code, &[]).await);
    assert_eq!(stage.exchange(&client, &code, &[]).await.error(), "invalid_grant");
    assert!(!stage.is_valid(&access).await);
    assert_eq!(stage.refresh(&client, &refresh, &[]).await.error(), "invalid_grant");
}

#[tokio::test]
async fn a_stolen_code_is_of_no_use_and_ends() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.client().await);
    let wrong_verifier = "x".repeat(43);
    let long = "x".repeat(129);
    for changed in [
        ("client_id", &*other),
        ("redirect_uri", "http://127.0.0.1:4999/other"),
        ("redirect_uri", "http://127.0.0.1:5000/back?here=1"),
        ("code_verifier", &*wrong_verifier),
        ("code_verifier", "short"),
        ("code_verifier", &*long),
        ("code_verifier", &*crate::stage::challenge()),
    ] {
        let code = stage.code(&client).await;
        let answer = stage.exchange(&client, &code, &[changed]).await;
        assert_eq!((answer.status.as_u16(), &*answer.error()), (400, "invalid_grant"), "{changed:?}");
        let honest = stage.exchange(&client, &code, &[]).await;
        assert_eq!(
            honest.error(),
            "invalid_grant",
            "a code that was tried by another is not worth anything: {changed:?}"
        );
    }
}

#[tokio::test]
async fn a_client_of_oauth_2_1_gets_tokens_without_naming_its_address_again() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let code = stage.code(&client).await;
    let answer = stage.exchange(&client, &code, &[("redirect_uri", "")]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn invalid_requests_get_exact_errors_and_use_up_no_code() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let code = stage.code(&client).await;
    for (error, changed) in [
        ("invalid_request", ("code_verifier", "")),
        ("invalid_request", ("client_id", "")),
        ("invalid_request", ("code", "")),
        ("invalid_request", ("grant_type", "")),
        ("unsupported_grant_type", ("grant_type", "password")),
        ("invalid_target", ("resource", "https://other.example/mcp")),
        ("invalid_grant", ("code", "unknown")),
    ] {
        let answer = stage.exchange(&client, &code, &[changed]).await;
        assert_eq!((answer.status.as_u16(), &*answer.error()), (400, error), "{changed:?}");
    }
    let mut twice = Browser::new();
    let form = [("client_id", &*client), ("client_id", &*client), ("grant_type", "authorization_code")];
    assert_eq!(twice.post(&stage.at("/oauth/token"), &form).await.error(), "invalid_request");
    let json = serde_json::json!({ "client_id": client, "code": code });
    assert_eq!(Browser::new().post_json(&stage.at("/oauth/token"), &json).await.error(), "invalid_request");
    let mut basic = Browser::new();
    basic.headers = vec![("authorization", "Basic eDp5".to_owned())];
    let answer = basic.post(&stage.at("/oauth/token"), &[("client_id", &*client), ("code", &*code)]).await;
    assert_eq!((answer.status.as_u16(), &*answer.error()), (401, "invalid_client"));
    assert!(answer.header("www-authenticate").starts_with("Basic"));
    assert_eq!(stage.exchange(&client, &code, &[]).await.status, 200, "the code still counts");
}

#[tokio::test]
async fn a_refresh_token_of_one_client_is_of_no_use_to_another() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.client().await);
    let (access, refresh) = stage.tokens(&client).await;
    for changed in [("scope", "admin"), ("resource", "https://other.example/mcp"), ("refresh_token", "trr_x")] {
        assert_eq!(stage.refresh(&client, &refresh, &[changed]).await.status, 400, "{changed:?}");
    }
    assert!(stage.is_valid(&access).await);
    assert_eq!(stage.refresh(&client, &access, &[]).await.error(), "invalid_grant", "an access token is none");
    assert_eq!(stage.refresh(&other, &refresh, &[]).await.error(), "invalid_grant");
    assert!(!stage.is_valid(&access).await);
}

#[tokio::test]
async fn a_client_that_renews_without_pause_waits() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (_, mut refresh) = stage.tokens(&client).await;
    for _ in 0..7 {
        refresh = pair(&stage.refresh(&client, &refresh, &[]).await).1;
    }
    let answer = stage.refresh(&client, &refresh, &[]).await;
    assert_eq!((answer.status.as_u16(), &*answer.error()), (429, "temporarily_unavailable"));
    assert_eq!(stage.refresh(&client, &refresh, &[]).await.status, 429, "the token still counts");
}

#[tokio::test]
async fn a_token_that_a_client_revokes_ends_the_whole_grant() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.client().await);
    let revoke = async |form: &[(&str, &str)]| Browser::new().post(&stage.at("/oauth/revoke"), form).await;
    for which in 0..2 {
        let (access, refresh) = stage.tokens(&client).await;
        let token = if which == 0 { &access } else { &refresh };
        let refused = revoke(&[("token", token), ("client_id", &other)]).await;
        assert_eq!((refused.status.as_u16(), &*refused.error()), (401, "invalid_client"));
        assert!(stage.is_valid(&access).await);
        assert_eq!(revoke(&[("token", token), ("client_id", &client)]).await.status, 200);
        assert!(!stage.is_valid(&access).await);
        assert_eq!(stage.refresh(&client, &refresh, &[]).await.error(), "invalid_grant");
    }
    assert_eq!(revoke(&[("token", "unknown"), ("client_id", &client)]).await.status, 200);
    assert_eq!(revoke(&[("client_id", &client)]).await.error(), "invalid_request");
    // The session of a browser is not a token of a client.
    let ann = stage.ann().await;
    let session = ann.cookie(&stage.url, "toolrack").unwrap();
    assert_eq!(revoke(&[("token", session)]).await.status, 200);
    assert!(stage.is_valid(session).await);
}

#[tokio::test]
async fn removing_a_member_removes_their_clients() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (access, refresh) = stage.tokens(&client).await;
    let late = stage.code(&client).await;
    let ann = MemberIdentity { issuer: "https://login.example", subject: "ann" };
    stage.store.remove_member(ann, &Caller::local(Way::Cli)).await.unwrap();
    assert!(!stage.is_valid(&access).await);
    assert_eq!(stage.refresh(&client, &refresh, &[]).await.error(), "invalid_grant");
    assert_eq!(stage.exchange(&client, &late, &[("code_verifier", VERIFIER)]).await.error(), "invalid_grant");
}

/// Renews a refresh token at another daemon, which has the same database and another team file. Returns the error.
async fn renewed_after_a_change(stage: &Stage, url: &str, tenant: &str, client: &str, refresh: &str) -> String {
    let sign_in = sign_in(&"http://127.0.0.1:9".parse().unwrap());
    let file = format!("url = \"{url}\"\n{sign_in}[[tenants]]\nid = \"{tenant}\"\n");
    let team = Arc::new(TeamFile::parse(&file, "/team".as_ref()).unwrap());
    let door = FrontDoor::new(team, None, stage.store.clone()).unwrap();
    let (listener, place) = listen().await;
    let mut tasks = JoinSet::new();
    serve(&mut tasks, listener, door.router()).await;
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh)];
    Browser::new().post(&place.join("/oauth/token").unwrap(), &form).await.error()
}

#[tokio::test]
async fn a_tenant_that_leaves_the_team_takes_the_clients_of_its_members_along() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (access, refresh) = stage.tokens(&client).await;
    assert_eq!(renewed_after_a_change(&stage, stage.url.as_str(), "bolt", &client, &refresh).await, "invalid_grant");
    assert!(!stage.is_valid(&access).await, "its access tokens end with the grant");
    assert_eq!(stage.refresh(&client, &refresh, &[]).await.error(), "invalid_grant", "also when the tenant is back");
    let refusals = stage.audit().await.into_iter().filter(|entry| entry.kind == "refused_at_the_door");
    let whys: Vec<_> = refusals.filter_map(|entry| entry.why).collect();
    assert!(whys.iter().any(|why| why.contains("no longer belongs to the team")), "{whys:?}");
}

#[tokio::test]
async fn tokens_for_an_address_that_the_team_had_before_are_not_renewed() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (access, refresh) = stage.tokens(&client).await;
    let moved = renewed_after_a_change(&stage, "https://tools.example", "acme", &client, &refresh).await;
    assert_eq!(moved, "invalid_grant");
    assert!(stage.is_valid(&access).await, "what the client has goes on until its end");
}

#[tokio::test]
async fn two_clients_of_one_user_end_independently() {
    let stage = Stage::new().await;
    let (one, other) = (stage.client().await, stage.client().await);
    let (first, second) = (stage.tokens(&one).await, stage.tokens(&other).await);
    // A second consent to the same client is a grant of its own, too.
    let third = stage.tokens(&one).await;
    let form = [("token", &*first.1), ("client_id", &*one)];
    assert_eq!(Browser::new().post(&stage.at("/oauth/revoke"), &form).await.status, 200);
    assert!(!stage.is_valid(&first.0).await && stage.is_valid(&second.0).await && stage.is_valid(&third.0).await);
    assert_eq!(stage.refresh(&other, &second.1, &[]).await.status, 200);
    assert_eq!(stage.refresh(&one, &third.1, &[]).await.status, 200);
}
