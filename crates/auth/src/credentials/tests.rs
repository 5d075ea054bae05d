use super::*;

fn tokens(life: u64) -> Tokens {
    Tokens { access: "a".into(), refresh: None, scopes: Vec::new(), received: 1_000, expires: Some(1_000 + life) }
}

#[test]
fn a_token_is_old_a_minute_before_its_end_or_in_the_last_fifth_of_a_short_life() {
    assert!(!tokens(3_600).expires_soon(4_539) && tokens(3_600).expires_soon(4_540));
    assert!(!tokens(10).expires_soon(1_007) && tokens(10).expires_soon(1_008));
    assert!(!tokens(10).has_expired(1_009) && tokens(10).has_expired(1_010));
    assert!(!Tokens { expires: None, ..tokens(1) }.expires_soon(u64::MAX));
}

#[test]
fn a_response_without_a_usable_bearer_token_is_an_error() {
    let of = |json: Value| Tokens::from_answer(&json, &["asked".into()], false);
    let token = of(serde_json::json!({"access_token": "a", "token_type": "Bearer", "expires_in": 5})).unwrap();
    assert_eq!((token.scopes, token.expires), (vec!["asked".to_owned()], Some(token.received + 5)));
    for refused in [
        serde_json::json!({"access_token": "a", "token_type": "DPoP"}),
        serde_json::json!({"access_token": "a\nb", "token_type": "bearer"}),
        serde_json::json!({"access_token": "", "token_type": "bearer"}),
        serde_json::json!({"access_token": "a".repeat(MAX_TOKEN_BYTES + 1), "token_type": "bearer"}),
    ] {
        assert!(of(refused).is_err());
    }
}

#[test]
fn a_token_that_must_be_bound_is_never_a_bearer_token() {
    let of = |kind: &str| {
        Tokens::from_answer(&serde_json::json!({ "access_token": "a", "token_type": kind }), &[], true).is_ok()
    };
    assert!(of("DPoP") && of("dpop") && !of("Bearer") && !of(""));
}

fn credentials(key: bool, secret: Option<&str>, tokens: Option<Tokens>) -> Credentials {
    let metadata = serde_json::json!({ "authorization_endpoint": "https://as/a", "token_endpoint": "https://as/t" });
    Credentials {
        issuer: "https://as".into(),
        resource: "https://h/mcp".into(),
        client: Client {
            id: "me".into(),
            secret: secret.map(Into::into),
            redirect_uri: "http://127.0.0.1:1/".into(),
            registered: true,
            in_doubt: false,
        },
        tokens,
        requested: vec!["a".into()],
        key: key.then(|| ProofKey::generate().unwrap()),
        metadata: serde_json::from_value(metadata).unwrap(),
    }
}

#[test]
fn stored_credentials_are_read_back_and_damaged_ones_count_as_signed_out() {
    let refresh = Tokens { refresh: Some("r".into()), scopes: vec!["s".into()], ..tokens(60) };
    for kept in [credentials(true, Some("cs"), Some(refresh)), credentials(false, None, None)] {
        let bytes = kept.to_bytes();
        let again = Credentials::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        assert_eq!(again.secrets(), kept.secrets());
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            assert!(Credentials::from_bytes(&bytes[..cut]).is_none(), "{cut}");
        }
    }
    for odd in ["null", "{}", "[]", "\u{feff}{}", "7"] {
        assert!(Credentials::from_bytes(odd.as_bytes()).is_none(), "{odd}");
    }
}

#[test]
fn a_token_of_before_there_were_keys_is_a_bearer_token() {
    let old = serde_json::to_value(credentials(false, None, Some(tokens(60)))).unwrap();
    assert!(old.get("key").is_none());
    let read = Credentials::from_bytes(old.to_string().as_bytes()).unwrap();
    assert_eq!(read.authorization_header().unwrap(), "Bearer a");
}

#[test]
fn a_token_is_sent_under_the_scheme_of_its_kind_and_never_printed() {
    let header = |key| credentials(key, None, Some(tokens(60))).authorization_header().unwrap();
    assert_eq!(
        (header(true), header(false)),
        (HeaderValue::from_static("DPoP a"), HeaderValue::from_static("Bearer a"))
    );
    assert!(header(true).is_sensitive() && header(false).is_sensitive());
    assert!(credentials(true, None, None).authorization_header().is_none(), "what was revoked is sent to no server");
    let odd = Tokens { access: "a\nb".into(), ..tokens(60) };
    assert!(credentials(false, None, Some(odd)).authorization_header().is_none());
}

#[test]
fn every_secret_of_a_sign_in_is_known_as_one() {
    let refresh = Tokens { access: "canary-1".into(), refresh: Some("canary-2".into()), ..tokens(60) };
    let all = credentials(true, Some("canary-3"), Some(refresh));
    let key = all.key.as_ref().unwrap().secret();
    assert_eq!(all.secrets(), ["canary-1", "canary-2", "canary-3", key]);
    assert_eq!(credentials(false, None, None).secrets(), [""; 0]);
    // Each secret is stored in one place only.
    let text = String::from_utf8(all.to_bytes()).unwrap();
    assert!(all.secrets().iter().all(|secret| text.matches(secret).count() == 1), "{text}");
}

#[test]
fn an_answer_is_read_with_all_that_servers_write_into_it() {
    let answer = |more: Value| {
        let mut all = serde_json::json!({"access_token": "a", "token_type": "bearer"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Tokens::from_answer(&all, &["asked".into()], false)
    };
    for (more, scopes) in [
        (serde_json::json!({}), &["asked"][..]),
        (serde_json::json!({"scope": ""}), &["asked"]),
        (serde_json::json!({"scope": null}), &["asked"]),
        (serde_json::json!({"scope": "a b"}), &["a", "b"]),
        (serde_json::json!({"scope": " a  b "}), &["a", "b"]),
    ] {
        assert_eq!(answer(more.clone()).unwrap().scopes, scopes, "{more}");
    }
    for (more, life) in [
        (serde_json::json!({}), None),
        (serde_json::json!({"expires_in": 0}), Some(0)),
        (serde_json::json!({"expires_in": 60}), Some(60)),
        (serde_json::json!({"expires_in": -1}), None),
        (serde_json::json!({"expires_in": null}), None),
        (serde_json::json!({"expires_in": "soon"}), None),
    ] {
        let tokens = answer(more.clone()).unwrap();
        assert_eq!(tokens.expires.map(|expires| expires - tokens.received), life, "{more}");
    }
    assert_eq!(answer(serde_json::json!({"expires_in": u64::MAX})).unwrap().expires, Some(u64::MAX), "no overflow");
    assert_eq!(answer(serde_json::json!({"refresh_token": ""})).unwrap().refresh, None);
    assert!(answer(serde_json::json!({"refresh_token": "r".repeat(MAX_TOKEN_BYTES + 1)})).is_err());
    assert!(answer(serde_json::json!({"refresh_token": "r".repeat(MAX_TOKEN_BYTES)})).is_ok());
    for none in [
        serde_json::json!(null),
        serde_json::json!([]),
        serde_json::json!({"token_type": "bearer"}),
        serde_json::json!({"access_token": 7}),
    ] {
        let error = Tokens::from_answer(&none, &[], false).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the authorization server issued no usable token: the answer contains no access token"
        );
    }
}

#[test]
fn a_renewable_token_is_renewed_early_and_any_other_is_used_until_it_expires() {
    let renewable = Tokens { refresh: Some("r".into()), ..tokens(600) };
    for (now, with_refresh, without) in
        [(1_000, false, false), (1_540, true, false), (1_599, true, false), (1_600, true, true)]
    {
        assert_eq!(renewable.is_stale(now), with_refresh, "{now}");
        assert_eq!(tokens(600).is_stale(now), without, "{now}");
    }
    // If the clock was set back, no token counts as expired.
    assert!(!renewable.is_stale(0));
    assert!(tokens(0).is_stale(1_000));
}
