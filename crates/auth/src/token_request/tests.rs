use aws_lc_rs::signature::Ed25519KeyPair;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use toolrack_host::spec::TextOrFile;

use super::*;

const ENDPOINT: &str = "https://as.example/token";

fn oauth(client: Option<&str>, key: bool) -> OAuth {
    let der = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()));
    OAuth {
        client_id: client.map(str::to_owned),
        private_key: TextOrFile { text: key.then_some(pem), file: None },
        ..OAuth::default()
    }
}

fn metadata(more: Value) -> AuthorizationMetadata {
    let mut all = json!({ "authorization_endpoint": "https://as.example/a", "token_endpoint": ENDPOINT });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn signer(assertion: bool, proof: bool) -> RequestSigner {
    let assertion =
        ClientAssertion::of(&oauth(Some("me"), assertion), "https://as.example", &metadata(json!({}))).unwrap();
    let proof_key = proof.then(|| ProofKey::generate().unwrap());
    RequestSigner { endpoint: ENDPOINT.parse().unwrap(), assertion, proof_key }
}

fn post(url: &str, form: &str) -> Request<Vec<u8>> {
    let request = Request::post(url).header(header::CONTENT_LENGTH, form.len());
    request.body(form.as_bytes().to_vec()).unwrap()
}

fn pairs(request: &Request<Vec<u8>>) -> Vec<(String, String)> {
    url::form_urlencoded::parse(request.body()).into_owned().collect()
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn only_a_post_to_the_token_endpoint_gets_any_of_it() {
    let signer = signer(true, true);
    assert!(signer.is_for(&post(ENDPOINT, "")));
    for url in [
        "https://as.example/token/",
        "https://as.example/token?x=1",
        "https://as.example/register",
        "https://other.example/token",
        "http://as.example/token",
        "https://as.example:8443/token",
    ] {
        assert!(!signer.is_for(&post(url, "")), "{url}");
    }
    assert!(!signer.is_for(&Request::get(ENDPOINT).body(Vec::new()).unwrap()));
}

#[test]
fn an_assertion_follows_the_form_that_is_there_and_no_two_are_the_same() {
    let signer = signer(true, false);
    let mut ids = Vec::new();
    for form in ["grant_type=x&code=a%26b", ""] {
        let authenticated = signer.authenticated(&post(ENDPOINT, form), None).unwrap();
        let pairs = pairs(&authenticated);
        let value = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("code"), (!form.is_empty()).then_some("a&b"));
        assert_eq!(value("client_assertion_type"), Some(ASSERTION_TYPE));
        let claims = claims(value("client_assertion").unwrap());
        assert_eq!((&claims["sub"], &claims["aud"]), (&json!("me"), &json!("https://as.example")));
        ids.push(claims["jti"].clone());
        assert!(authenticated.headers().get(header::CONTENT_LENGTH).is_none(), "the form has grown");
        assert!(authenticated.headers().get(PROOF_HEADER).is_none());
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_proof_is_of_the_endpoint_with_the_nonce_that_is_wanted() {
    let signer = signer(false, true);
    let nonce = Nonce::from_header(&http::HeaderValue::from_static("n1")).unwrap();
    for (nonce, named) in [(None, Value::Null), (Some(&nonce), json!("n1"))] {
        let mut request = post(ENDPOINT, "a=b");
        request.headers_mut().insert(PROOF_HEADER, http::HeaderValue::from_static("old"));
        let authenticated = signer.authenticated(&request, nonce).unwrap();
        let proofs: Vec<_> = authenticated.headers().get_all(PROOF_HEADER).iter().collect();
        assert_eq!(proofs.len(), 1);
        let claims = claims(proofs[0].to_str().unwrap());
        assert_eq!((&claims["htm"], &claims["htu"], &claims["nonce"]), (&json!("POST"), &json!(ENDPOINT), &named));
        assert_eq!(authenticated.body(), b"a=b", "without an assertion the form stays");
        assert!(authenticated.headers().contains_key(header::CONTENT_LENGTH));
    }
}

#[test]
fn an_assertion_needs_a_client_and_its_key() {
    for (client, key, is_there) in [(Some("me"), true, true), (Some("me"), false, false), (None, true, false)] {
        let assertion = ClientAssertion::of(&oauth(client, key), "https://as.example", &metadata(json!({})));
        assert_eq!(assertion.unwrap().is_some(), is_there, "{client:?} {key}");
    }
}

#[test]
fn a_key_whose_algorithms_the_server_refuses_is_an_error_before_anything_is_sent() {
    for (offered, works) in
        [(json!(["EdDSA"]), true), (json!(["RS256"]), false), (json!([]), false), (json!("RS256"), true)]
    {
        let metadata = metadata(json!({ "token_endpoint_auth_signing_alg_values_supported": offered }));
        let assertion = ClientAssertion::of(&oauth(Some("me"), true), "https://as.example", &metadata).unwrap();
        let signer = RequestSigner { endpoint: ENDPOINT.parse().unwrap(), assertion, proof_key: None };
        assert_eq!(signer.authenticated(&post(ENDPOINT, ""), None).is_ok(), works, "{offered}");
    }
}

fn answer(status: u16, nonce: Option<&str>, body: &str) -> Response<Vec<u8>> {
    let answer = Response::builder().status(status);
    let answer = nonce.map_or(Response::builder().status(status), |nonce| answer.header(NONCE_HEADER, nonce));
    answer.body(body.as_bytes().to_vec()).unwrap()
}

#[test]
fn a_nonce_is_taken_only_where_proofs_are_sent_and_if_it_can_be_one() {
    for (with_proof, nonce, is_taken) in [
        (true, Some("n1"), true),
        (true, None, false),
        (true, Some("a b"), false),
        (true, Some(""), false),
        (false, Some("n1"), false),
    ] {
        assert_eq!(signer(false, with_proof).nonce_in(&answer(200, nonce, "")).is_some(), is_taken, "{nonce:?}");
    }
}

#[test]
fn only_the_error_about_a_nonce_asks_for_one() {
    let error = r#"{"error": "use_dpop_nonce"}"#;
    for (status, body, wants) in [
        (400, error, true),
        (401, error, true),
        (200, error, false),
        (403, error, false),
        (500, error, false),
        (400, r#"{"error": "invalid_grant", "error_description": "use_dpop_nonce"}"#, false),
        (400, "use_dpop_nonce", false),
        (400, "", false),
        (400, "[]", false),
    ] {
        assert_eq!(wants_nonce(&answer(status, None, body)), wants, "{status} {body}");
    }
}
