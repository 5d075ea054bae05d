use serde_json::json;
use toolrack_host::spec::TextOrFile;

use super::*;

const ENDPOINT: &str = "https://as.example/token";

fn oauth(client: Option<&str>, secret: Option<&str>) -> OAuth {
    OAuth { client_id: client.map(str::to_owned), client_secret: secret.map(str::to_owned), ..OAuth::default() }
}

fn pairs(request: &Request<Vec<u8>>) -> Vec<(String, String)> {
    url::form_urlencoded::parse(request.body()).into_owned().collect()
}

#[test]
fn a_client_secret_goes_into_the_header_unless_the_server_takes_only_the_form() {
    let basic_header = Some(crate::revoke::basic_authorization("me", "s&cret"));
    for (client, secret, secret_in_form, header, form) in [
        (Some("me"), Some("s&cret"), false, basic_header, &[][..]),
        (Some("me"), Some("s&cret"), true, None, &[("client_id", "me"), ("client_secret", "s&cret")]),
        (Some("me"), None, false, None, &[("client_id", "me")]),
        (Some("me"), None, true, None, &[("client_id", "me")]),
        (None, None, false, None, &[]),
        (None, Some("s&cret"), false, None, &[]),
    ] {
        let oauth = oauth(client, secret);
        let form_of = Form { secret_in_form, ..Form::new("client_credentials", &oauth) };
        let request =
            form_of.with_field("scope", "a b").with_field("resource", "").request(&ENDPOINT.parse().unwrap()).unwrap();
        let sent = request.headers().get(http::header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(sent, header, "{client:?} {secret:?} {secret_in_form}");
        let first = [("grant_type", "client_credentials"), ("scope", "a b")];
        let expected: Vec<_> =
            first.iter().chain(form).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(pairs(&request), expected, "what is empty is left out");
        assert_eq!((request.method(), request.uri().to_string()), (&Method::POST, ENDPOINT.to_owned()));
        assert_eq!(request.headers()[http::header::CONTENT_TYPE], "application/x-www-form-urlencoded");
    }
}

#[test]
fn both_halves_of_a_basic_header_are_written_as_in_a_form() {
    use base64::Engine as _;
    for (id, secret, inside) in [
        ("me", "secret", "me:secret"),
        ("a:b", "c d", "a%3Ab:c+d"),
        ("\u{fc}", "%&=+", "%C3%BC:%25%26%3D%2B"),
        ("", "", ":"),
    ] {
        let header = crate::revoke::basic_authorization(id, secret);
        let decoded = base64::engine::general_purpose::STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(decoded, inside.as_bytes());
    }
}

#[test]
fn a_server_that_lists_only_the_form_gets_its_secrets_there() {
    for (methods, in_forms) in [
        (json!(["client_secret_post"]), true),
        (json!(["client_secret_post", "private_key_jwt"]), true),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["client_secret_basic"]), false),
        (json!(["none"]), false),
        (json!([]), false),
        (json!("client_secret_post"), false),
        (json!(null), false),
        (json!([7, "client_secret_post"]), true),
    ] {
        let metadata = json!({
            "authorization_endpoint": "https://as.example/a", "token_endpoint": ENDPOINT,
            "token_endpoint_auth_methods_supported": methods,
        });
        assert_eq!(takes_secrets_in_forms(&serde_json::from_value(metadata).unwrap()), in_forms, "{methods}");
    }
}

#[test]
fn every_secret_of_a_request_is_one_that_its_errors_do_not_repeat() {
    let with = OAuth {
        assertion: TextOrFile { text: Some("the-assertion".into()), file: None },
        ..oauth(Some("me"), Some("the-secret"))
    };
    assert_eq!(Form::new("x", &with).secrets, ["the-secret", "the-assertion"]);
    assert!(Form::new("x", &oauth(Some("me"), None)).secrets.is_empty());
}

#[test]
fn only_a_passing_failure_of_a_token_endpoint_can_be_tried_again() {
    let oauth = oauth(Some("me"), None);
    let form = Form::new("client_credentials", &oauth);
    for (status, code) in [
        (400, "SIGN_IN_NO_TOKEN"),
        (401, "SIGN_IN_NO_TOKEN"),
        (404, "SIGN_IN_NO_TOKEN"),
        (408, "SIGN_IN_UNAVAILABLE"),
        (429, "SIGN_IN_UNAVAILABLE"),
        (500, "SIGN_IN_UNAVAILABLE"),
        (503, "SIGN_IN_UNAVAILABLE"),
    ] {
        let error = form.response_error(StatusCode::from_u16(status).unwrap(), &json!({ "error": "slow_down" }), "it");
        assert_eq!(error.code(), code, "{status}");
        assert!(error.to_string().contains("slow_down"), "{error}");
    }
}
