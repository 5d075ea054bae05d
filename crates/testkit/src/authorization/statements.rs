//! Checks clients that sign in with a key instead of a secret (`private_key_jwt`: OpenID Connect Core, 9; RFC 7523, 3).
//! Such a client sends a statement about itself (a client assertion), which it has signed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    encoding::AsDer as _,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
    },
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::Value;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The maximum number of seconds until a statement expires.
const MAX_LIFE_SECONDS: u64 = 300;

/// The keys of clients, and the received statements.
#[derive(Debug, Default)]
pub(super) struct Statements {
    keys: BTreeMap<String, Vec<u8>>,
    used_ids: BTreeSet<String>,
}

impl Statements {
    /// Makes a key for a client, and returns the private key in PEM.
    pub(super) fn make_key(&mut self, client: &str) -> String {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = pair.unwrap_or_else(|error| panic!("no key: {error}"));
        self.keys.insert(client.to_owned(), pair.public_key().as_ref().to_vec());
        let der: aws_lc_rs::encoding::EcPrivateKeyRfc5915Der<'_> =
            pair.private_key().as_der().unwrap_or_else(|error| panic!("no key: {error}"));
        format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()))
    }

    /// Checks that a client with a key sends a valid statement for `audience`. A client without a key needs none.
    pub(super) fn check(
        &mut self,
        client: &str,
        audience: &str,
        form: &BTreeMap<String, String>,
    ) -> Result<(), &'static str> {
        let Some(key) = self.keys.get(client) else {
            return Ok(());
        };
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if field("client_assertion_type") != ASSERTION_TYPE {
            return Err("no statement");
        }
        let (message, signature) = field("client_assertion").rsplit_once('.').ok_or("no JWT")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "no signature")?;
        let verified = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message.as_bytes(), &signature);
        verified.map_err(|_| "another key")?;
        let claims = message.split_once('.').and_then(|(_, claims)| URL_SAFE_NO_PAD.decode(claims).ok());
        let claims: Value = claims.and_then(|claims| serde_json::from_slice(&claims).ok()).ok_or("no claims")?;
        if claims["iss"] != client || claims["sub"] != client || claims["aud"] != audience {
            return Err("the statement is of another client or for another audience");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if claims["exp"].as_u64().is_none_or(|end| end <= now || end > now + MAX_LIFE_SECONDS) {
            return Err("the statement has expired, or is valid for too long");
        }
        // As long as 96 random bits in Base64.
        let id = claims["jti"].as_str().filter(|id| id.len() >= 16).ok_or("the `jti` is missing or too short")?;
        if self.used_ids.insert(id.to_owned()) { Ok(()) } else { Err("the statement was used before") }
    }
}
