//! Reads and writes the Ed25519 keys that sign and verify heads (the signed files that list exported objects).

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The beginning of an Ed25519 public key in DER (RFC 8410, 4), before its 32 bytes.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Why a text is not a key of the expected kind. Each message continues the name of the setting or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    /// The text is no Ed25519 private key as PKCS#8 in PEM.
    #[error("is no private key: write one as `openssl genpkey -algorithm ed25519` does")]
    Private,
    /// The text is no Ed25519 public key.
    #[error("is no public key of Ed25519, in PEM or as JWK")]
    Public,
}

/// The private key that signs heads.
pub struct SigningKey {
    /// The key in the form that `jsonwebtoken` signs with.
    pub(super) encoding_key: EncodingKey,
    public: PublicKey,
}

/// Shows nothing of the private key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads an Ed25519 private key: PKCS#8 in PEM.
    ///
    /// # Errors
    /// [`BadKey::Private`] for every other text.
    pub fn from_pem(pem: &str) -> Result<Self, BadKey> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| BadKey::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| BadKey::Private)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| BadKey::Private)?;
        Ok(Self { encoding_key: EncodingKey::from_ed_der(der.secret_pkcs8_der()), public: PublicKey(public) })
    }

    /// Returns the public half of the key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

/// A public key that verifies heads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.id()).finish()
    }
}

/// The members of a JWK that say which key it is (RFC 8037).
#[derive(Deserialize)]
struct Jwk<'a> {
    crv: &'a str,
    kty: &'a str,
    x: &'a str,
}

impl PublicKey {
    /// Reads an Ed25519 key, in PEM or as JWK.
    ///
    /// # Errors
    /// [`BadKey::Public`] for every other text.
    pub fn read(text: &str) -> Result<Self, BadKey> {
        Self::from_jwk(text).or_else(|| Self::from_pem(text)).ok_or(BadKey::Public)
    }

    fn from_jwk(text: &str) -> Option<Self> {
        let jwk: Jwk<'_> = serde_json::from_str(text).ok()?;
        let is_ed25519 = (jwk.kty, jwk.crv) == ("OKP", "Ed25519");
        let bytes = URL_SAFE_NO_PAD.decode(jwk.x).ok()?;
        is_ed25519.then_some(Self(bytes.try_into().ok()?))
    }

    fn from_pem(text: &str) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).ok()?;
        Some(Self(der.strip_prefix(&SPKI_PREFIX)?.try_into().ok()?))
    }

    /// Returns the key as JWK, with its id: one line, with a line feed.
    #[must_use]
    pub fn to_jwk(self) -> String {
        // The same key always gives the same bytes, because the export never replaces an object by a different one.
        let required_members = self.required_members();
        let open_object = required_members.trim_end_matches('}');
        format!("{open_object},\"alg\":\"EdDSA\",\"use\":\"sig\",\"kid\":\"{}\"}}\n", self.id())
    }

    /// Returns the id of the key: the SHA-256 thumbprint of the JWK (RFC 7638), in base64url.
    #[must_use]
    pub fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.required_members()))
    }

    /// The JSON whose hash is the thumbprint. It is written by hand, because the hash depends on the order and on each
    /// byte (RFC 7638, 3.2).
    fn required_members(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0);
        format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{x}\"}}")
    }

    /// Returns the key in the form that `jsonwebtoken` verifies with.
    pub(super) fn decoding_key(&self) -> DecodingKey {
        // Despite its name, this function takes the 32 bytes of the key, and no DER around them.
        DecodingKey::from_ed_der(&self.0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Made with `openssl genpkey -algorithm ed25519`, and `openssl pkey -pubout`.
    pub(crate) const PRIVATE: &str = r"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIPCMr14KjPAYDlZ0YqBZVozQseNWpRtN8SWzm7+hyxAR
-----END PRIVATE KEY-----
";
    const PUBLIC: &str = r"-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAxqFe3OTpoDLeYe7VyW52e6V0SY7uPBqWHTEdP/bBh4M=
-----END PUBLIC KEY-----
";

    #[test]
    fn a_key_of_openssl_is_read_and_its_public_half_is_the_same_in_pem_and_as_jwk() {
        let key = SigningKey::from_pem(PRIVATE).unwrap();
        assert_eq!(PublicKey::read(PUBLIC), Ok(key.public()));
        assert_eq!(PublicKey::read(&key.public().to_jwk()), Ok(key.public()));
        assert!(!format!("{key:?}").contains("encoding"));
        for other in ["", "{}", PRIVATE, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
            assert_eq!(PublicKey::read(other), Err(BadKey::Public), "{other}");
        }
        assert_eq!(SigningKey::from_pem(PUBLIC).unwrap_err(), BadKey::Private);
    }

    #[test]
    fn the_id_of_a_key_is_the_thumbprint_of_rfc_8037() {
        let jwk = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        assert_eq!(PublicKey::read(jwk).unwrap().id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
