use super::*;

#[test]
fn the_header_that_names_metadata_leads() {
    let values = ["Basic realm=x", "Bearer", "Bearer resource_metadata=\"https://h/m\""].map(str::to_owned);
    assert_eq!(primary_header(&values), Some(values[2].as_str()));
    assert_eq!(primary_header(&values[..2]), Some("Bearer"));
    assert_eq!(primary_header(&values[..1]), Some("Basic realm=x"));
    assert_eq!(primary_header(&[]), None);
}

#[test]
fn missing_scopes_are_those_of_a_challenge_about_scopes() {
    let url = Url::parse("https://h/mcp").unwrap();
    let missing = "Bearer error=\"insufficient_scope\", scope=\"a b:write\"".to_owned();
    assert_eq!(missing_scopes(&[missing], &url), ["a", "b:write"]);
    assert!(missing_scopes(&["Bearer error=\"invalid_token\", scope=\"a\"".to_owned()], &url).is_empty());
    assert_eq!(union(&["a".into(), "b".into()], &["b".into(), "c".into()]), ["a", "b", "c"]);
}

fn all(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn the_scheme_of_a_challenge_is_read_in_any_case_and_odd_values_are_none() {
    for (values, lead) in [
        (&["Basic", "BEARER error=\"x\""][..], Some("BEARER error=\"x\"")),
        (&["Basic", "bearer"], Some("bearer")),
        (&["\u{fc}\u{fc}\u{fc}\u{fc}", "Bearer"], Some("Bearer")),
        (&["", "b"], Some("")),
        // Metadata leads, whatever the scheme.
        (&["Bearer", "DPoP resource_metadata=\"https://h/m\""], Some("DPoP resource_metadata=\"https://h/m\"")),
    ] {
        assert_eq!(primary_header(&all(values)), lead, "{values:?}");
    }
}

#[test]
fn a_server_takes_only_bound_tokens_when_it_names_no_other_scheme() {
    for (values, is_bound) in [
        (&["DPoP algs=\"ES256\""][..], true),
        (&["dpop", "DPOP error=\"use_dpop_nonce\""], true),
        (&["DPoP", "Bearer"], false),
        (&["Bearer"], false),
        (&["DP"], false),
        (&["\u{fc}\u{fc}\u{fc}"], false),
        (&[], false),
    ] {
        assert_eq!(requires_bound_tokens(&all(values)), is_bound, "{values:?}");
    }
}

#[test]
fn a_scope_is_of_plain_characters() {
    for scope in ["a", "files:read", "https://h/x.y", "!", "[~]", "#", "^"] {
        assert!(is_scope(scope), "{scope:?}");
    }
    for scope in ["", " ", "a b", "a\"b", "a\\b", "a\nb", "\u{7f}", "\u{fc}"] {
        assert!(!is_scope(scope), "{scope:?}");
    }
}

#[test]
fn scopes_that_cannot_be_ones_are_not_asked_for() {
    let url = Url::parse("https://h/mcp").unwrap();
    let named =
        |scope: &str| missing_scopes(&all(&[&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")]), &url);
    assert_eq!(named("  a   b "), ["a", "b"]);
    assert_eq!(named("a \u{fc} b"), ["a", "b"]);
    assert!(named("").is_empty());
    let second =
        all(&["Bearer error=\"invalid_token\", scope=\"x\"", "Bearer error=\"insufficient_scope\", scope=\"y\""]);
    assert_eq!(missing_scopes(&second, &url), ["y"]);
    assert!(missing_scopes(&[], &url).is_empty());
}
