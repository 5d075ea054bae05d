//! What clients ask for, and what is refused before a person is asked.

use serde_json::{Value, json};
use toolrack_store::TokenHash;
use toolrack_team::{Authority, Endpoint};
use url::Url;

use crate::{
    browser::{Browser, parameter},
    stage::{BACK, Stage, pair},
};

#[tokio::test]
async fn a_client_finds_its_way_from_the_resource_to_the_tokens() {
    let stage = Stage::new().await;
    let origin = stage.url.as_str().trim_end_matches('/');
    let mut client = Browser::new();
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let answer = client.get(&stage.at(path)).await;
        assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, "*"));
        assert_eq!(answer.json()["resource"], stage.resource());
        assert_eq!(answer.json()["authorization_servers"], json!([origin]));
    }
    let challenge = stage.door.challenge(Endpoint::ALL, true);
    assert!(challenge.contains(&format!("resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"")));
    assert!(challenge.starts_with("Bearer error=\"invalid_token\""));

    let server = client.get(&stage.at("/.well-known/oauth-authorization-server")).await.json();
    assert_eq!(server["issuer"], origin);
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(server["client_id_metadata_document_supported"], true);
    for endpoint in ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"] {
        let place: Url = server[endpoint].as_str().unwrap().parse().unwrap();
        assert_eq!(place.origin(), stage.url.origin(), "{endpoint}");
        assert_ne!(client.get(&place).await.status, 404, "{endpoint}");
    }
}

#[tokio::test]
async fn a_client_of_a_profile_gets_tokens_that_open_its_endpoint_alone() {
    let stage = Stage::new().await;
    let origin = stage.url.as_str().trim_end_matches('/');
    let resource = format!("{origin}/p/review/mcp");
    let metadata = Browser::new().get(&stage.at("/.well-known/oauth-protected-resource/p/review/mcp")).await.json();
    assert_eq!(metadata["resource"], resource);
    let challenge = stage.door.challenge(Endpoint::of(Some("review")), false);
    assert!(
        challenge.contains(&format!("\"{origin}/.well-known/oauth-protected-resource/p/review/mcp\"")),
        "{challenge}"
    );
    for path in ["/x", "/p/a/b/mcp", "/p/review", "/mcp/"] {
        let answer = Browser::new().get(&stage.at(&format!("/.well-known/oauth-protected-resource{path}"))).await;
        assert_eq!(answer.status, 404, "{path}");
    }

    let client = stage.client().await;
    let mut ann = stage.ann().await;
    let page = ann.get(&stage.authorize(&client, &[("resource", &resource)])).await;
    assert!(page.body.contains("the tools of the profile “review”"), "{}", page.body);
    let code = parameter(&stage.allow(&mut ann, &page).await.location().unwrap(), "code").unwrap();
    let answer = stage.exchange(&client, &code, &[("resource", &resource)]).await;
    let (access, refresh) = pair(&answer);
    let opens = async |access: &str| stage.store.team_token(TokenHash::of(access)).await.unwrap().unwrap().profile;
    assert_eq!(opens(&access).await.as_deref(), Some("review"));
    // A renewal gives no token for another endpoint. Without `resource`, the new token is for the same endpoint.
    let wider = stage.refresh(&client, &refresh, &[("resource", &stage.resource())]).await;
    assert_eq!((wider.status.as_u16(), &*wider.error()), (400, "invalid_target"));
    let renewed = pair(&stage.refresh(&client, &refresh, &[]).await);
    assert_eq!(opens(&renewed.0).await.as_deref(), Some("review"));
}

#[tokio::test]
async fn a_client_of_the_endpoint_of_a_tenant_gets_tokens_for_its_members_and_for_no_one_else() {
    let stage = Stage::new().await;
    let origin = stage.url.as_str().trim_end_matches('/');
    let [own, other] = ["acme", "bolt"].map(|tenant| format!("{origin}/t/{tenant}/mcp"));
    let metadata = Browser::new().get(&stage.at("/.well-known/oauth-protected-resource/t/acme/mcp")).await.json();
    assert_eq!(metadata["resource"], own);

    let client = stage.client().await;
    let mut ann = stage.ann().await;
    let refused = ann.get(&stage.authorize(&client, &[("resource", &other)])).await.location().unwrap();
    assert_eq!(parameter(&refused, "error").as_deref(), Some("invalid_target"), "{refused}");
    let page = ann.get(&stage.authorize(&client, &[("resource", &own)])).await;
    let code = parameter(&stage.allow(&mut ann, &page).await.location().unwrap(), "code").unwrap();
    let (access, _) = pair(&stage.exchange(&client, &code, &[("resource", &own)]).await);
    let proved = Authority::new(stage.store.clone()).prove(&access).await.unwrap().unwrap();
    let opens =
        ["/mcp", "/t/acme/mcp", "/t/bolt/mcp", "/t/acme/p/few/mcp", "/api/v1/me"].map(|path| proved.opens(path));
    assert_eq!(opens, [true, true, false, false, false]);
}

#[tokio::test]
async fn a_code_for_one_endpoint_gives_no_token_for_another() {
    let stage = Stage::new().await;
    let origin = stage.url.as_str().trim_end_matches('/');
    let client = stage.client().await;
    let mut ann = stage.ann().await;
    let review = format!("{origin}/p/review/mcp");
    let page = ann.get(&stage.authorize(&client, &[("resource", &review)])).await;
    let code = parameter(&stage.allow(&mut ann, &page).await.location().unwrap(), "code").unwrap();
    let answer = stage.exchange(&client, &code, &[]).await;
    assert_eq!((answer.status.as_u16(), &*answer.error()), (400, "invalid_grant"));
    // Two resources, and one that is not an endpoint, are refused before a user is asked.
    let [two, none] = [format!("{origin}/p/other/mcp"), format!("{origin}/p/a%2Fb/mcp")];
    let mut both = stage.authorize(&client, &[("resource", &review)]);
    both.query_pairs_mut().append_pair("resource", &two);
    for url in [both, stage.authorize(&client, &[("resource", &none)])] {
        let refused = ann.get(&url).await.location().unwrap();
        assert_eq!(parameter(&refused, "error").as_deref(), Some("invalid_target"), "{url}");
    }
}

#[tokio::test]
async fn a_client_that_requests_a_secret_gets_an_error() {
    let stage = Stage::new().await;
    let asked = json!({
        "client_name": "A client", "redirect_uris": [BACK], "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"], "unknown": { "a": 1 },
    });
    let answer = Browser::new().post_json(&stage.at("/oauth/register"), &asked).await;
    assert_eq!(answer.status, 201);
    let client = answer.json();
    assert_eq!((&client["token_endpoint_auth_method"], &client["redirect_uris"]), (&json!("none"), &json!([BACK])));
    assert_eq!(client["client_secret"], Value::Null);
}

#[tokio::test]
async fn registrations_beyond_the_bounds_are_refused_exactly() {
    let stage = Stage::new().await;
    let register = stage.at("/oauth/register");
    let many: Vec<_> = (0..11).map(|number| format!("https://client.example/{number}")).collect();
    for (asked, error) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": many }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["http://client.example/back"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [BACK, "javascript:alert(1)"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["https://client.example/#x"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [BACK], "grant_types": ["client_credentials"] }), "invalid_client_metadata"),
        (json!({ "redirect_uris": [BACK], "response_types": ["token"] }), "invalid_client_metadata"),
        (json!({ "redirect_uris": "x" }), "invalid_client_metadata"),
        (json!({ "redirect_uris": [BACK], "client_name": "x".repeat(20_000) }), "invalid_client_metadata"),
    ] {
        let answer = Browser::new().post_json(&register, &asked).await;
        assert_eq!((answer.status.as_u16(), &*answer.error()), (400, error), "{asked}");
    }
    assert_eq!(stage.refusals().await.len(), 10);
    let huge = json!({ "redirect_uris": [BACK], "client_name": "x".repeat(100_000) });
    assert_eq!(Browser::new().post_json(&register, &huge).await.status, 413);
}

#[tokio::test]
async fn a_flood_of_registrations_keeps_no_client_out() {
    let stage = Stage::new().await;
    let register = stage.at("/oauth/register");
    let mut flood = Browser::new();
    for _ in 0..200 {
        let answer = flood.post_json(&register, &json!({ "redirect_uris": [BACK] })).await;
        assert_eq!(answer.status, 201);
    }
    let answer = flood.post_json(&register, &json!({ "redirect_uris": [BACK] })).await;
    assert!(answer.json()["client_id"].as_str().unwrap().starts_with("trs_"), "the store keeps no place for it");
    let long: Vec<_> = (0..10).map(|number| format!("https://client.example/{}/{number}", "x".repeat(200))).collect();
    let answer = flood.post_json(&register, &json!({ "redirect_uris": long })).await;
    assert_eq!(answer.status, 429, "an id does not hold it");
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn a_request_whose_answer_could_go_astray_is_shown_and_never_redirected() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    for (at, changed) in [
        ("invalid_client", ("client_id", "trc_unknown")),
        ("invalid_client", ("client_id", "x\u{0}y")),
        ("invalid_request", ("client_id", "")),
        ("invalid_redirect_uri", ("redirect_uri", "https://evil.example/back")),
        ("invalid_redirect_uri", ("redirect_uri", "http://127.0.0.1:4999/other")),
        ("invalid_redirect_uri", ("redirect_uri", "http://127.0.0.1:4999/back?here=1&more=2")),
        ("invalid_redirect_uri", ("redirect_uri", "http://127.0.0.1:4999/back?here=1#x")),
        ("invalid_redirect_uri", ("redirect_uri", "http://127.0.0.1:4999@evil.example/back?here=1")),
        ("invalid_request", ("state", &*"x".repeat(3_000))),
        ("invalid_request", ("more", &*"x".repeat(17_000))),
    ] {
        let url = stage.authorize(&client, &[changed]);
        for mut browser in [Browser::new(), stage.ann().await] {
            let answer = browser.get(&url).await;
            assert_eq!((answer.status.as_u16(), answer.location()), (400, None), "{changed:?}");
            assert!(answer.body.contains(at), "{changed:?}: {}", answer.body);
        }
    }
    for twice in ["client_id", "redirect_uri", "state"] {
        let mut url = stage.authorize(&client, &[]);
        url.query_pairs_mut().append_pair(twice, BACK);
        let answer = stage.ann().await.get(&url).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (400, None), "{twice}");
    }
    assert!(stage.refusals().await.iter().all(|(door, _)| door == "authorize"));
}

#[tokio::test]
async fn other_errors_reach_the_client_once_the_member_has_signed_in() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let cases = [
        ("unsupported_response_type", ("response_type", "token")),
        ("invalid_request", ("response_type", "")),
        ("invalid_request", ("response_mode", "fragment")),
        ("invalid_request", ("code_challenge", "")),
        ("invalid_request", ("code_challenge", "short")),
        ("invalid_request", ("code_challenge_method", "plain")),
        ("invalid_request", ("code_challenge_method", "")),
        ("invalid_scope", ("scope", "admin")),
        ("invalid_target", ("resource", "https://other.example/mcp")),
        ("request_not_supported", ("request", "e30.e30.")),
        ("request_uri_not_supported", ("request_uri", "https://evil.example/")),
    ];
    for (error, changed) in cases {
        let url = stage.authorize(&client, &[changed]);
        // A browser without a session is not sent to a client, whatever the client asks for.
        let anonymous = Browser::new().get(&url).await.location().unwrap();
        assert_eq!((anonymous.path(), anonymous.origin()), ("/sign-in", stage.url.origin()), "{changed:?}");

        let answer = stage.ann().await.get(&url).await;
        let to = answer.location().unwrap();
        assert!(answer.status == 303 && to.as_str().starts_with(&format!("{BACK}&")), "{to}");
        assert_eq!(parameter(&to, "error").as_deref(), Some(error), "{changed:?}");
        assert_eq!(parameter(&to, "state").as_deref(), Some("the state"));
        assert_eq!(parameter(&to, "iss").as_deref(), Some(stage.url.as_str().trim_end_matches('/')));
        assert_eq!(parameter(&to, "code"), None);
    }
    assert_eq!(stage.refusals().await.len(), cases.len());
}

#[tokio::test]
async fn a_user_who_must_sign_in_first_comes_back_to_the_same_request() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let url = stage.authorize(&client, &[]);
    let to = Browser::new().get(&url).await.location().unwrap();
    let back = parameter(&to, "to").unwrap();
    assert_eq!(stage.at(&back), url);
    assert_eq!(stage.ann().await.get(&stage.at(&back)).await.status, 200);
}

#[tokio::test]
async fn programs_on_the_user_s_machine_may_choose_their_port() {
    let stage = Stage::new().await;
    let client = stage.client_called("A client", "http://127.0.0.1/back").await;
    let url = stage.authorize(&client, &[("redirect_uri", "http://127.0.0.1:51234/back")]);
    let mut ann = stage.ann().await;
    let page = ann.get(&url).await;
    let to = stage.allow(&mut ann, &page).await.location().unwrap();
    assert!(to.as_str().starts_with("http://127.0.0.1:51234/back?code="), "{to}");
}
