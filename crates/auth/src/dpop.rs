//! Tokens that are bound to a key (RFC 9449): a stolen token is useless without that key.
//!
//! Each request carries a proof that its sender has the key. The proof is a JWT that names the method, the URL and the
//! token of the request, and is valid once. A server can demand a nonce in the proof.

use std::sync::Arc;

use aws_lc_rs::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::{
    clock::now,
    error::AuthError,
    jose::{compact_jwt, unique_id},
};

/// The maximum number of bytes in a nonce. It has a bound because every request repeats it in a header.
const MAX_NONCE_BYTES: usize = 1024;

/// The key to which the tokens of one sign-in are bound. It is a key of P-256, because every server with DPoP accepts
/// ES256. It is stored together with the tokens, as PKCS#8 in base64.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ProofKey(Arc<KeyForms>);

/// A key and its encodings.
struct KeyForms {
    pair: EcdsaKeyPair,
    /// PKCS#8 in base64.
    encoded: String,
    /// The public key: the coordinates `x` and `y` in base64.
    point: [String; 2],
}

/// The error for a stored key that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the key of a sign-in cannot be read")]
pub(crate) struct UnreadableKey;

impl TryFrom<String> for ProofKey {
    type Error = UnreadableKey;

    fn try_from(encoded: String) -> Result<Self, UnreadableKey> {
        let bytes = URL_SAFE_NO_PAD.decode(&encoded).map_err(|_| UnreadableKey)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes).map_err(|_| UnreadableKey)?;
        // The public key is an uncompressed point: the byte 4, then x, then y (SEC 1, 2.3.3).
        let (x, y) = pair.public_key().as_ref().get(1..65).ok_or(UnreadableKey)?.split_at(32);
        let point = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        Ok(Self(Arc::new(KeyForms { pair, encoded, point })))
    }
}

impl From<ProofKey> for String {
    fn from(key: ProofKey) -> Self {
        key.0.encoded.clone()
    }
}

impl ProofKey {
    /// Makes a new key.
    pub(crate) fn generate() -> Result<Self, AuthError> {
        let generation_error = || AuthError::Unavailable { why: "no key could be generated".to_owned() };
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| generation_error())?;
        let encoded = URL_SAFE_NO_PAD.encode(pair.to_pkcs8v1().map_err(|_| generation_error())?.as_ref());
        Self::try_from(encoded).map_err(|_| generation_error())
    }

    /// Returns the stored form of the key, which is a secret: PKCS#8 in base64.
    pub(crate) fn secret(&self) -> &str {
        &self.0.encoded
    }

    /// Returns the public key as a JWK (RFC 7517).
    fn jwk(&self) -> Value {
        let [x, y] = &self.0.point;
        json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y })
    }

    /// Returns the thumbprint of the key (RFC 7638): the hash of its members in alphabetical order.
    pub(crate) fn thumbprint(&self) -> String {
        let [x, y] = &self.0.point;
        let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        URL_SAFE_NO_PAD.encode(digest(&SHA256, members.as_bytes()))
    }

    /// Returns the value of the `DPoP` header for one request (RFC 9449, 4.2). `token` is the access token of the
    /// request, and `nonce` is the nonce that the server demands, if it demands one.
    pub(crate) fn proof(
        &self,
        method: &str,
        url: &Url,
        token: Option<&str>,
        nonce: Option<&Nonce>,
    ) -> Result<HeaderValue, AuthError> {
        let header = json!({ "alg": "ES256", "typ": "dpop+jwt", "jwk": self.jwk() });
        let mut claims = json!({ "jti": unique_id()?, "htm": method, "htu": proof_url(url), "iat": now() });
        if let Some(token) = token {
            claims["ath"] = URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes())).into();
        }
        if let Some(Nonce(nonce)) = nonce {
            claims["nonce"] = nonce.as_str().into();
        }
        let sign = |message: &[u8]| Some(self.0.pair.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec());
        let proof = HeaderValue::try_from(compact_jwt(&header, &claims, sign)?);
        let mut proof =
            proof.map_err(|_| AuthError::Unavailable { why: "a proof does not fit into a header".into() })?;
        proof.set_sensitive(true);
        Ok(proof)
    }
}

/// Returns the URL for a proof: without query and fragment (RFC 9449, 4.2), and without user and password.
fn proof_url(url: &Url) -> String {
    crate::store::resource(url).into()
}

/// A nonce that a server wants in proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nonce(String);

impl Nonce {
    /// Returns the nonce of a `DPoP-Nonce` header. `None` if it has characters that are not allowed (RFC 9449, 8.1),
    /// is empty, or is longer than [`MAX_NONCE_BYTES`].
    pub(crate) fn from_header(value: &HeaderValue) -> Option<Self> {
        let value = value.to_str().ok()?;
        let has_allowed_characters = value.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
        ((1..=MAX_NONCE_BYTES).contains(&value.len()) && has_allowed_characters).then(|| Self(value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};

    use super::*;

    fn part(token: &HeaderValue, index: usize) -> Value {
        let part = token.to_str().unwrap().split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_proof_names_its_request_and_token_and_is_unique() {
        let key = ProofKey::generate().unwrap();
        let url = Url::parse("https://me:pw@h.example/mcp?key=canary#x").unwrap();
        let nonce = Nonce::from_header(&HeaderValue::from_static("n-1")).unwrap();
        let proof = key.proof("POST", &url, Some("token"), Some(&nonce)).unwrap();
        assert_eq!(part(&proof, 0), json!({ "alg": "ES256", "typ": "dpop+jwt", "jwk": key.jwk() }));
        let claims = part(&proof, 1);
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://h.example/mcp")));
        // SHA-256 of `token`, computed by another program.
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        assert_eq!(claims["nonce"], "n-1");
        let (message, signature) = proof.to_str().unwrap().rsplit_once('.').unwrap();
        let public = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.0.pair.public_key().as_ref()).unwrap();
        public.verify_sig(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let other = key.proof("POST", &url, Some("token"), Some(&nonce)).unwrap();
        assert_ne!(part(&other, 1)["jti"], claims["jti"]);
        assert!(part(&key.proof("GET", &url, None, None).unwrap(), 1).get("nonce").is_none());
    }

    #[test]
    fn a_stored_key_is_read_back_unchanged() {
        let key = ProofKey::generate().unwrap();
        let encoded = serde_json::to_string(&key).unwrap();
        let decoded: ProofKey = serde_json::from_str(&encoded).unwrap();
        assert_eq!(decoded.thumbprint(), key.thumbprint());
        assert!(serde_json::from_str::<ProofKey>("\"AAAA\"").is_err());
    }

    #[test]
    fn a_nonce_is_short_and_of_plain_characters() {
        for (value, fits) in [("abc-_.~", true), ("", false), ("a b", false), ("a\"b", false), ("a\\b", false)] {
            assert_eq!(Nonce::from_header(&HeaderValue::from_str(value).unwrap()).is_some(), fits, "{value:?}");
        }
        let long = |bytes: usize| Nonce::from_header(&HeaderValue::from_str(&"x".repeat(bytes)).unwrap());
        assert!(long(MAX_NONCE_BYTES).is_some() && long(MAX_NONCE_BYTES + 1).is_none());
    }
}
