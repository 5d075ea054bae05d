//! Proofs of possession of a key (DPoP, RFC 9449), which the fake authorization server checks as a real one has to.

use std::collections::BTreeSet;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The request for which a proof must be made, and the access token in that request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProofTarget<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    /// `None` at the token endpoint, where the client has no token yet.
    pub(super) token: Option<&'a str>,
}

/// Why a proof is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofError {
    /// The proof is missing, malformed, or for another request or token. Contains the reason.
    Invalid(&'static str),
    /// The proof was used before.
    Replayed,
}

/// A valid proof.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    /// The thumbprint of its key (RFC 7638).
    pub(super) key: String,
    pub(super) nonce: Option<String>,
}

/// The received proofs, by their ids.
#[derive(Debug, Default)]
pub(super) struct Proofs(BTreeSet<String>);

impl Proofs {
    /// Checks the one proof of a request (RFC 9449, 4.3).
    pub(super) fn check(&mut self, headers: &HeaderMap, target: ProofTarget<'_>) -> Result<Proof, ProofError> {
        let invalid = ProofError::Invalid;
        let mut proof_headers = headers.get_all("dpop").iter();
        let (Some(proof), None) = (proof_headers.next().and_then(|proof| proof.to_str().ok()), proof_headers.next())
        else {
            return Err(invalid("there must be exactly one proof"));
        };
        let (message, signature) = proof.rsplit_once('.').ok_or(invalid("no JWT"))?;
        let (header, claims) = message.split_once('.').ok_or(invalid("no JWT"))?;
        let (header, claims) =
            (decode_json(header).ok_or(invalid("no header"))?, decode_json(claims).ok_or(invalid("no claims"))?);
        let jwk = &header["jwk"];
        if header["typ"] != "dpop+jwt" || header["alg"] != "ES256" || !jwk["d"].is_null() {
            return Err(invalid("the header is wrong"));
        }
        let coordinate = |name: &str| jwk[name].as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let (x, y) = coordinate("x").zip(coordinate("y")).ok_or(invalid("no key"))?;
        // The byte 4 says that both coordinates follow, uncompressed.
        let point = [&[4][..], &x, &y].concat();
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| invalid("no signature"))?;
        let verified = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message.as_bytes(), &signature);
        verified.map_err(|_| invalid("the signature does not match"))?;
        if claims["htm"] != target.method || claims["htu"] != target.url {
            return Err(invalid("the proof is for another request"));
        }
        let hash = target.token.map(|token| URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
        if claims["ath"].as_str() != hash.as_deref() {
            return Err(invalid("the proof is for another token"));
        }
        // At least 96 random bits (RFC 9449, 4.2), which are 16 characters of Base64.
        let id =
            claims["jti"].as_str().filter(|id| id.len() >= 16).ok_or(invalid("the `jti` is missing or too short"))?;
        if !self.0.insert(id.to_owned()) {
            return Err(ProofError::Replayed);
        }
        let text = |name: &str| jwk[name].as_str().unwrap_or_default();
        let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text("x"), text("y"));
        let key = URL_SAFE_NO_PAD.encode(Sha256::digest(members));
        Ok(Proof { key, nonce: claims["nonce"].as_str().map(str::to_owned) })
    }
}

/// Decodes the header or the claims of a JWT.
fn decode_json(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
