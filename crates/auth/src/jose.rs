//! Signs JWTs (RFC 7515, RFC 7519). A client never verifies them.
//!
//! This module uses `aws-lc-rs`, which TLS needs anyway. A full JOSE library would add half a megabyte to the program.

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
const ASSERTION_SECONDS: u64 = 60;

/// The private key with which a client signs its assertions.
pub(crate) enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<rsa::KeyPair>),
}

/// Returns the error that `oauth.private_key` cannot be used. In its message, `why` follows the name of the setting.
fn bad_key(why: &str) -> AuthError {
    AuthError::Config { why: format!("`oauth.private_key` {why}") }
}

impl SigningKey {
    /// Reads a private key in PEM: PKCS#8, PKCS#1 or SEC 1. A key that is encrypted with a passphrase is an error.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, AuthError> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| bad_key("must be a private key in PEM that is not encrypted with a passphrase"))?;
        let bytes = der.secret_der();
        let parse_ec = |algorithm: &'static EcdsaSigningAlgorithm| match &der {
            PrivateKeyDer::Sec1(_) => EcdsaKeyPair::from_private_key_der(algorithm, bytes).ok(),
            _ => EcdsaKeyPair::from_pkcs8(algorithm, bytes).ok(),
        };
        let parse_rsa = || match &der {
            PrivateKeyDer::Pkcs1(_) => rsa::KeyPair::from_der(bytes).ok(),
            _ => rsa::KeyPair::from_pkcs8(bytes).ok(),
        };
        let key = parse_ec(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256);
        let key = key.or_else(|| parse_ec(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384));
        let key = key.or_else(|| Ed25519KeyPair::from_pkcs8(bytes).ok().map(Self::Ed25519));
        let key = key.or_else(|| parse_rsa().map(|key| Self::Rsa(Box::new(key))));
        key.ok_or_else(|| bad_key("is of an unsupported kind: use P-256, P-384, Ed25519 or RSA with 2048 bits or more"))
    }

    /// Returns the algorithm (RFC 7518, 3.1; RFC 8037) to sign with. `offered` are the algorithms that the server
    /// accepts; `None` if the server lists no algorithms.
    fn algorithm(&self, offered: Option<&[Value]>) -> Result<&'static str, AuthError> {
        let supported: &[&'static str] = match self {
            Self::P256(_) => &["ES256"],
            Self::P384(_) => &["ES384"],
            Self::Ed25519(_) => &["EdDSA", "Ed25519"],
            Self::Rsa(_) => &["RS256", "PS256"],
        };
        let Some(offered) = offered else {
            return Ok(supported[0]);
        };
        let is_offered = |name: &&&'static str| offered.iter().any(|offered| offered.as_str() == Some(**name));
        let algorithm = supported.iter().find(is_offered).copied();
        algorithm
            .ok_or_else(|| bad_key(&format!("is for {}, which its authorization server does not accept", supported[0])))
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

    /// Returns a client assertion with `claims` (RFC 7523, 2.2 and 3). `offered` are the algorithms that the server
    /// accepts; `None` if the server lists no algorithms.
    pub(crate) fn assertion(
        &self,
        claims: &AssertionClaims<'_>,
        offered: Option<&[Value]>,
    ) -> Result<String, AuthError> {
        let algorithm = self.algorithm(offered)?;
        let mut header = json!({ "alg": algorithm, "typ": "JWT" });
        if let Some(id) = claims.key_id {
            header["kid"] = id.into();
        }
        let now = now();
        let claims = json!({
            "iss": claims.client, "sub": claims.client, "aud": claims.audience,
            "iat": now, "exp": now.saturating_add(ASSERTION_SECONDS), "jti": unique_id()?,
        });
        compact_jwt(&header, &claims, |message| self.sign(algorithm, message))
    }
}

/// The claims of an assertion that depend on the sign-in: the client is issuer and subject, and the authorization
/// server is the audience. The id of the key goes into the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssertionClaims<'a> {
    pub(crate) client: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) key_id: Option<&'a str>,
}

/// Returns a JWT in its compact form (RFC 7515, 7.1).
pub(crate) fn compact_jwt(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<String, AuthError> {
    let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
    let signature = sign(token.as_bytes()).ok_or_else(|| AuthError::Unavailable { why: "signing failed".into() })?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

/// Returns a unique id: 128 random bits.
pub(crate) fn unique_id() -> Result<String, AuthError> {
    let mut bytes = [0; 16];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| AuthError::Unavailable { why: "the system provides no random numbers".into() })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests;
