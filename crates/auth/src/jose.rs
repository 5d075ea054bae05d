//! Signed JWTs (RFC 7515, RFC 7519), as far as a client needs them: it signs and never verifies.
//!
//! They use the cryptography that TLS brings along (`aws-lc-rs`): a library for all of JOSE would add half a megabyte
//! for one line of text.

use aws_lc_rs::{
    rand::{self, SystemRandom},
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
        Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding,
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::{clock::now, error::AuthError};

/// How long a client assertion is valid, in seconds.
const LIFE: u64 = 60;

/// The key of a client.
pub(crate) enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<rsa::KeyPair>),
}

fn wrong(why: &str) -> AuthError {
    AuthError::Config { why: format!("`oauth.private_key` {why}") }
}

impl SigningKey {
    /// Reads a private key: PKCS#8, PKCS#1 or SEC 1, in PEM.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, AuthError> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| wrong("is no private key in PEM, without a passphrase"))?;
        let bytes = der.secret_der();
        let ec = |algorithm: &'static EcdsaSigningAlgorithm| match &der {
            PrivateKeyDer::Sec1(_) => EcdsaKeyPair::from_private_key_der(algorithm, bytes).ok(),
            _ => EcdsaKeyPair::from_pkcs8(algorithm, bytes).ok(),
        };
        let rsa = || match &der {
            PrivateKeyDer::Pkcs1(_) => rsa::KeyPair::from_der(bytes).ok(),
            _ => rsa::KeyPair::from_pkcs8(bytes).ok(),
        };
        let key = ec(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256);
        let key = key.or_else(|| ec(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384));
        let key = key.or_else(|| Ed25519KeyPair::from_pkcs8(bytes).ok().map(Self::Ed25519));
        let key = key.or_else(|| rsa().map(|key| Self::Rsa(Box::new(key))));
        key.ok_or_else(|| {
            wrong("is of no kind that is known here: P-256, P-384, Ed25519 or RSA with 2048 bits or more")
        })
    }

    /// The algorithm (RFC 7518, 3.1; RFC 8037) that is used where these are `offered`; `None`: the server lists none.
    fn algorithm(&self, offered: Option<&[Value]>) -> Result<&'static str, AuthError> {
        let known: &[&'static str] = match self {
            Self::P256(_) => &["ES256"],
            Self::P384(_) => &["ES384"],
            Self::Ed25519(_) => &["EdDSA", "Ed25519"],
            Self::Rsa(_) => &["RS256", "PS256"],
        };
        let Some(offered) = offered else {
            return Ok(known[0]);
        };
        let is_offered = |name: &&&'static str| offered.iter().any(|offered| offered.as_str() == Some(**name));
        let chosen = known.iter().find(is_offered).copied();
        chosen.ok_or_else(|| wrong(&format!("is for {}, which its authorization server does not take", known[0])))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        Some(match self {
            Self::P256(key) | Self::P384(key) => key.sign(&random, message).ok()?.as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let encoding: &'static dyn RsaEncoding =
                    if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(encoding, &random, message, &mut signature).ok()?;
                signature
            }
        })
    }

    /// The client assertion for the authorization server `audience` (RFC 7523, 2.2 and 3). `offered` are the algorithms
    /// that the server takes.
    pub(crate) fn statement(&self, who: &Who<'_>, offered: Option<&[Value]>) -> Result<String, AuthError> {
        let algorithm = self.algorithm(offered)?;
        let mut header = json!({ "alg": algorithm, "typ": "JWT" });
        if let Some(id) = who.key_id {
            header["kid"] = id.into();
        }
        let now = now();
        let claims = json!({
            "iss": who.client, "sub": who.client, "aud": who.audience,
            "iat": now, "exp": now.saturating_add(LIFE), "jti": unique()?,
        });
        compact(&header, &claims, |message| self.sign(algorithm, message))
    }
}

/// The subject and the audience of an assertion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) client: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) key_id: Option<&'a str>,
}

/// A JWT in its compact form (RFC 7515, 7.1).
pub(crate) fn compact(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<String, AuthError> {
    let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
    let signature =
        sign(token.as_bytes()).ok_or_else(|| AuthError::Unavailable { why: "nothing can be signed".into() })?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

/// A unique id: 128 random bits.
pub(crate) fn unique() -> Result<String, AuthError> {
    let mut bytes = [0; 16];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| AuthError::Unavailable { why: "the system gives no random numbers".into() })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
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
    fn a_statement_says_who_to_whom_and_for_how_long_and_is_signed() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let key = SigningKey::from_pem(&pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref())).unwrap();
        let who = Who { client: "me", audience: "https://as.example", key_id: Some("k1") };
        let token = key.statement(&who, None).unwrap();
        assert_eq!(part(&token, 0), json!({ "alg": "ES256", "typ": "JWT", "kid": "k1" }));
        let claims = part(&token, 1);
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("me"), &json!("me"), &json!("https://as.example"))
        );
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), LIFE);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let public = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref()).unwrap();
        public.verify_sig(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        assert_ne!(part(&key.statement(&who, None).unwrap(), 1)["jti"], claims["jti"]);
    }

    #[test]
    fn every_usual_kind_of_key_is_read_and_signs_as_it_is_asked_to() {
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
            let who = Who { client: "me", audience: "x", key_id: None };
            assert_eq!(part(&key.statement(&who, None).unwrap(), 0)["alg"], algorithm);
            if algorithm == "RS256" {
                assert_eq!(part(&key.statement(&who, Some(&[json!("PS256")])).unwrap(), 0)["alg"], "PS256");
            }
            let error = key.statement(&who, Some(&[json!("HS256")])).unwrap_err();
            assert!(error.to_string().contains(algorithm), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_told_without_repeating_it() {
        for wrong in ["", "canary", "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----"] {
            let error = SigningKey::from_pem(wrong).err().unwrap();
            assert!(error.to_string().contains("oauth.private_key"), "{error}");
            assert!(!error.to_string().contains("canary") && !error.to_string().contains("Y2Fu"), "{error}");
        }
    }
}
