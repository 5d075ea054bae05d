use std::time::Duration;

use toolrack_host::egress::Egress;
use url::Url;

use super::*;

fn not_let_out() -> Refused {
    let guard = Egress::default().guard_for_server(&Url::parse("https://mcp.example.com/mcp").unwrap());
    guard.check(&Url::parse("http://127.0.0.1:1/").unwrap()).unwrap_err()
}

/// One error of each kind, with its code, and whether there is a hint.
fn all() -> Vec<(AuthError, &'static str, bool)> {
    let why = || "w".to_owned();
    vec![
        (AuthError::Discovery { why: why() }, "SIGN_IN_UNKNOWN", true),
        (AuthError::NoPkce, "SIGN_IN_WITHOUT_PKCE", true),
        (AuthError::Unsafe { what: "token endpoint", why: why() }, "SIGN_IN_UNSAFE_URL", true),
        (AuthError::NotBound, "SIGN_IN_NEEDS_DPOP", false),
        (AuthError::NoClient { why: why() }, "SIGN_IN_NO_CLIENT", true),
        (AuthError::Refused { error: "access_denied".into(), description: why() }, "SIGN_IN_REFUSED", false),
        (AuthError::Callback { why: why() }, "SIGN_IN_BAD_CALLBACK", true),
        (AuthError::WrongIssuer { expected: "a".into(), received: "b".into() }, "SIGN_IN_WRONG_ISSUER", true),
        (AuthError::NoToken { why: why() }, "SIGN_IN_NO_TOKEN", true),
        (AuthError::Ended, "SIGN_IN_ENDED", true),
        (AuthError::Unavailable { why: why() }, "SIGN_IN_UNAVAILABLE", true),
        (AuthError::Egress(Box::new(not_let_out())), "EGRESS_REFUSED", true),
        (BrowserError::GivenUp.into(), "SIGN_IN_GIVEN_UP", false),
        (BrowserError::Port { port: 7, why: why() }.into(), "SIGN_IN_NO_PORT", false),
        (BrowserError::TimedOut { after: Duration::from_secs(300) }.into(), "SIGN_IN_TIMED_OUT", false),
        (TokenStoreError::new("w").into(), "TOKEN_STORE", false),
        (AuthError::Config { why: why() }, "UNRESOLVED_VALUE", false),
    ]
}

#[test]
fn every_error_has_a_code_of_its_own_and_a_next_step_or_says_it_itself() {
    let mut codes = std::collections::HashSet::new();
    for (error, code, has_hint) in all() {
        assert_eq!((error.code(), error.hint().is_some()), (code, has_hint), "{error}");
        assert!(codes.insert(code), "{code} is two errors");
        assert!(!error.to_string().contains('\n') && !error.to_string().is_empty());
    }
}

#[test]
fn an_error_repeats_the_server_s_reason_only_if_there_is_one() {
    let refused =
        |description: &str| AuthError::Refused { error: "access_denied".into(), description: description.into() };
    assert_eq!(refused("").to_string(), "the authorization server refused: access_denied");
    assert_eq!(refused("no").to_string(), "the authorization server refused: access_denied, no");
    let late = AuthError::from(BrowserError::TimedOut { after: Duration::from_secs(300) });
    assert_eq!(late.to_string(), "the browser did not return within 5 minutes");
}

#[test]
fn untrusted_text_in_an_error_is_one_short_safe_line_without_sent_secrets() {
    assert_eq!(quote("  a\u{1b}[31m\r\nb "), "a\\u{1b}[31m\\r\\nb");
    assert!(quote(&"x".repeat(10_000)).len() < MAX_QUOTE_BYTES + 10);
    let secrets = ["sec-ret", "assertion.with.dots", "abc"];
    let reason = "bad sec-ret and sec-ret, assertion.with.dots; abc";
    // A text of fewer than four letters occurs in too many words.
    assert_eq!(quote_without(reason, &secrets), "bad *** and ***, ***; abc");
    // The secret is hidden before the text is cut; otherwise its beginning would remain.
    let long = format!("{}sec-ret", "x".repeat(MAX_QUOTE_BYTES - 4));
    assert!(!quote_without(&long, &secrets).contains("sec"), "{}", quote_without(&long, &secrets));
}
