//! The authorization server: what it checks, and its faults.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use toolrack_testkit::authorization::{AuthorizationFault, CLIENT, CLIENT_SECRET, Counts, FakeAuthorization};

use crate::{call, text};

const BACK: &str = "http://127.0.0.1:9/back";
/// The verifier and its challenge in RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A client that makes each request of a sign-in by itself, without a library for OAuth.
struct Client<'a> {
    server: &'a FakeAuthorization,
    http: reqwest::Client,
    id: String,
}

type Fields<'a> = &'a [(&'a str, &'a str)];

/// Returns the fields of a valid request, with those of `changes` in place of the same names.
fn with<'a>(valid: Fields<'a>, changes: Fields<'a>) -> BTreeMap<&'a str, &'a str> {
    valid.iter().chain(changes).copied().collect()
}

impl<'a> Client<'a> {
    async fn new(server: &'a FakeAuthorization) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let body = json!({ "redirect_uris": [BACK], "client_name": "test" }).to_string();
        let registered = http.post(server.issuer() + "/register").body(body).send().await.unwrap();
        assert_eq!(registered.status(), 201);
        let registered: Value = serde_json::from_slice(&registered.bytes().await.unwrap()).unwrap();
        Self { server, http, id: registered["client_id"].as_str().unwrap().to_owned() }
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(self.server.issuer() + path).send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    /// Sends the valid request of a sign-in, with these changes. Returns the parameters with which the server redirects
    /// back; `None` if the server shows an error instead.
    async fn authorize(&self, changes: Fields<'_>) -> Option<BTreeMap<String, String>> {
        let resource = self.server.mcp_url();
        let valid = [
            ("response_type", "code"),
            ("client_id", &self.id),
            ("redirect_uri", BACK),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "s1"),
            ("resource", &resource),
        ];
        let mut url = url::Url::parse(&(self.server.issuer() + "/authorize")).unwrap();
        url.query_pairs_mut().extend_pairs(with(&valid, changes));
        let answer = self.http.get(url).send().await.unwrap();
        let back = answer.headers().get("location")?.to_str().unwrap();
        Some(url::Url::parse(back).unwrap().query_pairs().into_owned().collect())
    }

    async fn token(&self, form: BTreeMap<&str, &str>) -> Value {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let request = self.http.post(self.server.issuer() + "/token").body(body.finish());
        let answer = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    /// Signs in, and sends the valid request for tokens, with these changes.
    async fn exchange(&self, changes: Fields<'_>) -> Value {
        let code = self.authorize(&[]).await.unwrap().remove("code").unwrap();
        let resource = self.server.mcp_url();
        let valid = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", BACK),
            ("client_id", &self.id),
            ("code_verifier", VERIFIER),
            ("resource", &resource),
        ];
        self.token(with(&valid, changes)).await
    }

    async fn refresh(&self, token: &Value) -> Value {
        let resource = self.server.mcp_url();
        let token = token["refresh_token"].as_str().unwrap_or_default();
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token),
            ("client_id", &self.id),
            ("resource", &resource),
        ];
        self.token(form.into()).await
    }

    /// Calls `echo`. Returns the status, and the text that `echo` returned or the challenge of the refusal.
    async fn echo(&self, token: &Value) -> (u16, String) {
        let request = self.http.post(self.server.mcp_url()).body(call(1, "echo", json!({ "text": "hi" })).to_string());
        let token = token["access_token"].as_str().unwrap_or_default();
        let request = request.header("accept", "application/json, text/event-stream").bearer_auth(token);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        if status == 200 {
            return (status, text(&serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()).to_owned());
        }
        (status, answer.headers()["www-authenticate"].to_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn a_client_that_follows_the_specification_gets_in() {
    let server = FakeAuthorization::start([]);
    let client = Client::new(&server).await;
    let (status, challenge) = client.echo(&json!({})).await;
    let document = server.issuer() + "/.well-known/oauth-protected-resource/mcp";
    assert_eq!((status, challenge.contains(&document)), (401, true), "{challenge}");
    let resource = client.get("/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(resource["resource"], server.mcp_url());
    assert_eq!(client.get("/.well-known/oauth-authorization-server").await["issuer"], server.issuer());

    let back = client.authorize(&[]).await.unwrap();
    assert_eq!((back["state"].as_str(), back["iss"].as_str()), ("s1", server.issuer().as_str()));
    let tokens = client.exchange(&[]).await;
    assert_eq!(client.echo(&tokens).await, (200, "hi".to_owned()));
    let counts = server.counts();
    let wanted = Counts { registrations: 1, authorizations: 2, exchanges: 1, admitted: 1, rejected: 1, ..counts };
    assert_eq!((counts, counts.refused), (wanted, 0));
    let first = server.requests().into_iter().find(|request| request.endpoint == "GET /authorize").unwrap();
    assert_eq!(first.parameter("code_challenge"), Some(CHALLENGE));
    assert!(server.issued_secrets().contains(&tokens["access_token"].as_str().unwrap().to_owned()));
}

#[tokio::test]
async fn the_server_checks_what_a_client_must_send() {
    let server = FakeAuthorization::start([]);
    let client = Client::new(&server).await;
    for differs in [
        ("client_id", "somebody"),
        ("redirect_uri", "nowhere"),
        ("response_type", "token"),
        ("code_challenge_method", "plain"),
        ("code_challenge", ""),
        ("resource", "http://127.0.0.1:9/mcp"),
    ] {
        assert_eq!(client.authorize(&[differs]).await, None, "{differs:?}");
    }
    for (differs, error) in [
        (("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXx"), "invalid_grant"),
        (("code_verifier", ""), "invalid_grant"),
        (("redirect_uri", "http://127.0.0.1:9/other"), "invalid_grant"),
        (("code", "guess"), "invalid_grant"),
        (("client_id", CLIENT), "invalid_client"),
        (("resource", ""), "invalid_target"),
        (("grant_type", "password"), "unsupported_grant_type"),
    ] {
        assert_eq!(client.exchange(&[differs]).await["error"], error, "{differs:?}");
    }
    assert_eq!((server.counts().exchanges, server.counts().refused), (0, 7));
}

#[tokio::test]
async fn a_refresh_token_is_valid_once_and_a_second_use_revokes_all_tokens_that_came_from_it() {
    let server = FakeAuthorization::start([]);
    let client = Client::new(&server).await;
    let first = client.exchange(&[]).await;
    server.expire_access_tokens();
    assert_eq!(client.echo(&first).await.0, 401);
    let second = client.refresh(&first).await;
    assert_eq!(client.echo(&second).await.0, 200);
    assert_eq!(client.refresh(&first).await["error"], "invalid_grant");
    assert_eq!(client.echo(&second).await.0, 401);
    assert_eq!(client.refresh(&second).await["error"], "invalid_grant");
    assert_eq!((server.counts().refreshes, server.counts().reused), (1, 1));

    let third = client.exchange(&[]).await;
    server.revoke();
    assert_eq!((client.echo(&third).await.0, &client.refresh(&third).await["error"]), (401, &json!("invalid_grant")));
}

#[tokio::test]
async fn a_client_with_a_secret_gets_tokens_for_itself_and_can_revoke_them() {
    let server = FakeAuthorization::start([]);
    let client = Client::new(&server).await;
    let resource = server.mcp_url();
    let form = |secret| {
        [
            ("grant_type", "client_credentials"),
            ("client_id", CLIENT),
            ("client_secret", secret),
            ("resource", resource.as_str()),
        ]
    };
    assert_eq!(client.token(form("wrong").into()).await["error"], "invalid_client");
    let tokens = client.token(form(CLIENT_SECRET).into()).await;
    assert_eq!(client.echo(&tokens).await.0, 200);
    let revoking = client.http.post(server.issuer() + "/revoke").basic_auth(CLIENT, Some(CLIENT_SECRET));
    let body = format!("token={}", tokens["access_token"].as_str().unwrap());
    assert_eq!(revoking.body(body).send().await.unwrap().status(), 200);
    assert_eq!((client.echo(&tokens).await.0, server.counts().revocations), (401, 1));
}

#[tokio::test]
async fn each_fault_of_metadata_does_what_its_name_says() {
    let server = FakeAuthorization::start([AuthorizationFault::issuer("https://example.com")]);
    let client = Client::new(&server).await;
    let of_server = "/.well-known/oauth-authorization-server";
    assert_eq!(client.get(of_server).await["issuer"], "https://example.com");
    server.set_faults([AuthorizationFault::no_pkce()]);
    assert_eq!(client.get(of_server).await.get("code_challenge_methods_supported"), None);
    server.set_faults([AuthorizationFault::sends_users_to("file:///bin/sh")]);
    assert_eq!(client.get(of_server).await["authorization_endpoint"], "file:///bin/sh");
    server.set_faults([
        AuthorizationFault::resource("https://example.com/mcp"),
        AuthorizationFault::HugeMetadata(3_000_000),
    ]);
    let resource = client.get("/.well-known/oauth-protected-resource").await;
    assert_eq!(resource["resource"], "https://example.com/mcp");
    assert_eq!(resource["filler"].as_str().unwrap().len(), 3_000_000);
    server.set_faults([AuthorizationFault::NoRegistration]);
    assert_eq!(client.get(of_server).await.get("registration_endpoint"), None);
    server.set_faults([AuthorizationFault::SlowMetadata(Duration::from_secs(3_600))]);
    let waiting = tokio::time::timeout(Duration::from_millis(100), client.get(of_server));
    assert!(waiting.await.is_err());
    server.set_faults([AuthorizationFault::MovedMetadata("http://169.254.169.254/".to_owned())]);
    let moved = client.http.get(server.issuer() + of_server).send().await.unwrap();
    assert_eq!(moved.headers()["location"], "http://169.254.169.254/");
    server.set_faults([AuthorizationFault::NoJson("<html>")]);
    let page = client.http.get(server.issuer() + of_server).send().await.unwrap();
    assert_eq!(page.text().await.unwrap(), "<html>");
}

#[tokio::test]
async fn each_fault_of_answers_and_tokens_does_what_its_name_says() {
    let server = FakeAuthorization::start([AuthorizationFault::Iss(None), AuthorizationFault::State("other")]);
    let client = Client::new(&server).await;
    let back = client.authorize(&[]).await.unwrap();
    assert_eq!((back.get("iss"), back["state"].as_str()), (None, "other"));
    server.set_faults([
        AuthorizationFault::Iss(Some("https://example.com".to_owned())),
        AuthorizationFault::Refuses("access_denied"),
    ]);
    let back = client.authorize(&[]).await.unwrap();
    assert_eq!((back["iss"].as_str(), back["error"].as_str()), ("https://example.com", "access_denied"));
    assert_eq!(back.get("code"), None);

    server.set_faults([
        AuthorizationFault::Expires(2),
        AuthorizationFault::Lives(5),
        AuthorizationFault::TokenType("DPoP"),
    ]);
    let tokens = client.exchange(&[]).await;
    assert_eq!((&tokens["expires_in"], &tokens["token_type"]), (&json!(5), &json!("DPoP")));
    let statuses = [client.echo(&tokens).await.0, client.echo(&tokens).await.0, client.echo(&tokens).await.0];
    assert_eq!(statuses, [200, 200, 401]);
    assert_eq!(client.echo(&client.refresh(&tokens).await).await.0, 200);

    server.set_faults([AuthorizationFault::WantsScope("write")]);
    let (status, challenge) = client.echo(&client.exchange(&[]).await).await;
    assert_eq!(status, 403);
    assert!(challenge.contains("error=\"insufficient_scope\", scope=\"tools write\""), "{challenge}");

    server.set_faults([AuthorizationFault::NoRefresh]);
    assert_eq!(client.exchange(&[]).await.get("refresh_token"), None);
    server.set_faults([AuthorizationFault::NoRotation]);
    let tokens = client.exchange(&[]).await;
    assert_eq!(client.refresh(&tokens).await["refresh_token"], tokens["refresh_token"]);
    server.set_faults([AuthorizationFault::TokenError("temporarily_unavailable")]);
    assert_eq!(client.exchange(&[]).await["error"], "temporarily_unavailable");
    server.set_faults([AuthorizationFault::SlowTokens(Duration::from_secs(3_600))]);
    assert!(tokio::time::timeout(Duration::from_millis(100), client.refresh(&tokens)).await.is_err());
}

#[test]
fn the_server_needs_no_runtime_of_the_test_and_ends_when_dropped() {
    let server = FakeAuthorization::start([AuthorizationFault::SentTo("javascript:alert(1)".to_owned())]);
    let address = server.issuer().trim_start_matches("http://").to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok());
    drop(server);
    assert!(std::net::TcpStream::connect(&address).is_err());
}
