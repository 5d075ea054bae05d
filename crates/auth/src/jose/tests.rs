use aws_lc_rs::{
    encoding::AsDer as _,
    signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, ParsedPublicKey},
};
use base64::engine::general_purpose::STANDARD;

use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn part(token: &str, at: usize) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap()).unwrap()).unwrap()
}

#[test]
fn an_assertion_has_issuer_audience_and_expiry_and_is_signed() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let key = SigningKey::from_pem(&pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref())).unwrap();
    let issued = AssertionClaims { client: "me", audience: "https://as.example", key_id: Some("k1") };
    let token = key.assertion(&issued, None).unwrap();
    assert_eq!(part(&token, 0), json!({ "alg": "ES256", "typ": "JWT", "kid": "k1" }));
    let claims = part(&token, 1);
    assert_eq!(
        (&claims["iss"], &claims["sub"], &claims["aud"]),
        (&json!("me"), &json!("me"), &json!("https://as.example"))
    );
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), ASSERTION_SECONDS);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let public = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref()).unwrap();
    public.verify_sig(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    assert_ne!(part(&key.assertion(&issued, None).unwrap(), 1)["jti"], claims["jti"]);
}

#[test]
fn every_usual_kind_of_key_is_read_and_signs() {
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let sec1 = p384.private_key().as_der().unwrap();
    let ed = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
    let rsa = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
    let rsa = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&rsa).unwrap();
    for (label, der, algorithm) in [
        ("PRIVATE KEY", p384.to_pkcs8v1().unwrap().as_ref(), "ES384"),
        ("EC PRIVATE KEY", sec1.as_ref(), "ES384"),
        ("PRIVATE KEY", ed.as_ref(), "EdDSA"),
        ("PRIVATE KEY", rsa.as_ref(), "RS256"),
    ] {
        let key = SigningKey::from_pem(&pem(label, der)).unwrap();
        let issued = AssertionClaims { client: "me", audience: "x", key_id: None };
        assert_eq!(part(&key.assertion(&issued, None).unwrap(), 0)["alg"], algorithm);
        if algorithm == "RS256" {
            assert_eq!(part(&key.assertion(&issued, Some(&[json!("PS256")])).unwrap(), 0)["alg"], "PS256");
        }
        let error = key.assertion(&issued, Some(&[json!("HS256")])).unwrap_err();
        assert!(error.to_string().contains(algorithm), "{error}");
    }
}

#[test]
fn an_invalid_key_is_reported_without_repeating_it() {
    for wrong in ["", "canary", "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----"] {
        let error = SigningKey::from_pem(wrong).err().unwrap();
        assert!(error.to_string().contains("oauth.private_key"), "{error}");
        assert!(!error.to_string().contains("canary") && !error.to_string().contains("Y2Fu"), "{error}");
    }
}

#[test]
fn of_the_algorithms_that_a_server_lists_the_first_that_fits_the_key_is_used() {
    let ed = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
    let ed = SigningKey::from_pem(&pem("PRIVATE KEY", ed.as_ref())).unwrap();
    for (offered, chosen) in [
        (None, Some("EdDSA")),
        (Some(vec![json!("EdDSA"), json!("Ed25519")]), Some("EdDSA")),
        // The newer name for the same (RFC 9864).
        (Some(vec![json!("ES256"), json!("Ed25519")]), Some("Ed25519")),
        (Some(vec![json!("eddsa")]), None),
        (Some(vec![json!(7), json!(null)]), None),
        (Some(Vec::new()), None),
    ] {
        assert_eq!(ed.algorithm(offered.as_deref()).ok(), chosen, "{offered:?}");
    }
    let issued = AssertionClaims { client: "me", audience: "x", key_id: None };
    let assertion = ed.assertion(&issued, None).unwrap();
    assert_eq!(part(&assertion, 0), json!({ "alg": "EdDSA", "typ": "JWT" }), "without a `kid` where none is set");
}

#[test]
fn a_key_is_read_with_the_line_ends_and_the_comments_of_the_file_that_it_is_in() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let plain = pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref());
    for written in [
        plain.replace('\n', "\r\n"),
        format!("Bag Attributes\n    friendlyName: me\n{plain}"),
        format!("\n\n{plain}\n\n"),
        plain.trim_end().to_owned(),
    ] {
        assert!(matches!(SigningKey::from_pem(&written), Ok(SigningKey::P256(_))), "{written}");
    }
}

#[test]
fn an_unusable_key_and_a_text_that_is_not_a_key_have_different_errors() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der = pair.to_pkcs8v1().unwrap();
    let why = |written: &str| SigningKey::from_pem(written).err().unwrap().to_string();
    let public = pem("PUBLIC KEY", pair.public_key().as_ref());
    let locked = pem("ENCRYPTED PRIVATE KEY", der.as_ref());
    for written in [public, locked, STANDARD.encode(der.as_ref())] {
        assert_eq!(
            why(&written),
            "`oauth.private_key` must be a private key in PEM that is not encrypted with a passphrase"
        );
    }
    let secp256k1 = EcdsaKeyPair::generate(&aws_lc_rs::signature::ECDSA_P521_SHA512_FIXED_SIGNING).unwrap();
    let other = pem("PRIVATE KEY", secp256k1.to_pkcs8v1().unwrap().as_ref());
    assert!(why(&other).contains("P-256, P-384, Ed25519 or RSA with 2048 bits or more"), "{}", why(&other));
    let cut = pem("PRIVATE KEY", &der.as_ref()[..40]);
    assert!(why(&cut).contains("is of an unsupported kind"), "{}", why(&cut));
}

#[test]
fn ids_are_never_the_same_and_fit_into_a_url() {
    let ids: std::collections::HashSet<String> = (0..1_000).map(|_| unique_id().unwrap()).collect();
    assert_eq!(ids.len(), 1_000);
    let fits =
        |id: &String| id.len() == 22 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    assert!(ids.iter().all(fits));
}

#[test]
fn a_token_is_signed_over_its_head_and_its_claims() {
    let mut signed = Vec::new();
    let token = compact_jwt(&json!({"alg": "x"}), &json!({"a": "\u{fc}"}), |message| {
        signed = message.to_vec();
        Some(vec![0xff, 0xfe])
    });
    let token = token.unwrap();
    assert_eq!(token.as_bytes()[..signed.len()], signed);
    assert_eq!((&token[signed.len()..], part(&token, 1)), (".__4", json!({"a": "\u{fc}"})));
    let failed = compact_jwt(&json!({}), &json!({}), |_| None).unwrap_err();
    assert_eq!((failed.code(), failed.to_string()), ("SIGN_IN_UNAVAILABLE", "signing failed".to_owned()));
}
