//! Signs and reads heads. A head is a signed statement about an exported audit log at some time. It names the last row
//! of the log with its hash, and lists the objects (files) with the rows since the previous head.

use std::fmt;

use chrono::{DateTime, Utc};
use jsonwebtoken::{Algorithm, Header, Validation, dangerous::insecure_decode_claims, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolrack_store::audit::{ChainEnd, hex};

use super::key::{PublicKey, SigningKey};

/// The `typ` of a head (RFC 7515, 4.1.9), which no other signed statement has.
const TYPE: &str = "toolrack-audit-head";

/// An audit log of a team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogName {
    /// The log of the daemon itself: sign-ins, members, refused requests.
    Team,
    /// The log of the tenant with this id.
    Tenant(String),
}

/// The folder of the log's objects in the object store.
impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Team => f.write_str("team"),
            Self::Tenant(id) => write!(f, "tenants/{id}"),
        }
    }
}

/// A signed statement about a log at some time: it lists the new objects of the log. Each head continues where the one
/// before it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Head {
    /// The log: `team` or `tenants/ID`.
    pub log: String,
    /// The number of the head. The first head of a log has the number 1.
    pub number: u64,
    /// When the head was signed.
    pub at: DateTime<Utc>,
    /// SHA-256 of the signed text of the head before this one, in hexadecimal digits. `None` for the first head.
    pub previous: Option<String>,
    /// The end of the chain before the first row of the objects: `SEQ:HASH`.
    pub after: String,
    /// The end of the chain after the last row of the objects.
    pub end: String,
    /// The objects that were written since the head before this one, in the order of their rows.
    pub objects: Vec<NamedObject>,
}

/// An object that a head names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NamedObject {
    /// The name of the object in the object store.
    pub name: String,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
    /// The length of the content, in bytes.
    pub bytes: u64,
    /// The number of the first row in the object.
    pub first: u64,
    /// The number of the last row in the object.
    pub last: u64,
}

impl NamedObject {
    /// The object of `log` with this content.
    pub(super) fn new(log: &LogName, (first, last): (u64, u64), content: &[u8]) -> Self {
        let name = format!("{log}/rows/{first:019}-{last:019}.jsonl");
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Self { name, sha256: sha256(content), bytes, first, last }
    }
}

/// The name of the head with this number.
pub(super) fn head_name(log: &LogName, number: u64) -> String {
    format!("{log}/heads/{number:010}.jws")
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

impl Head {
    /// The field `end`, if it can be read.
    pub(super) fn end(&self) -> Option<ChainEnd> {
        self.end.parse().ok()
    }

    /// The field `after`, if it can be read.
    pub(super) fn after(&self) -> Option<ChainEnd> {
        self.after.parse().ok()
    }

    /// Signs the head. The same head and key always make the same text.
    pub(super) fn sign(&self, key: &SigningKey) -> Option<String> {
        let mut header = Header::new(Algorithm::EdDSA);
        (header.typ, header.kid) = (Some(TYPE.to_owned()), Some(key.public().id()));
        encode(&header, self, &key.encoding_key).ok()
    }

    /// Reads a head that one of `keys` has signed. Returns the head and that key, or what is wrong with the text.
    pub(super) fn read(text: &str, keys: &[PublicKey]) -> Result<(Self, PublicKey), String> {
        let header = decode_header(text).map_err(|_| "is no signed head".to_owned())?;
        if header.typ.as_deref() != Some(TYPE) || header.alg != Algorithm::EdDSA || header.crit.is_some() {
            return Err("is no signed head".to_owned());
        }
        let kid = header.kid.unwrap_or_default();
        let Some(key) = keys.iter().find(|key| key.id() == kid) else {
            let kid = toolrack_host::text::for_line(&toolrack_host::text::clip(&kid, 64)).into_owned();
            return Err(format!("is signed with another key: `{kid}`"));
        };
        let decoded = decode::<Self>(text, &key.decoding_key(), &validation());
        Ok((decoded.map_err(|_| "has a wrong signature".to_owned())?.claims, *key))
    }

    /// Reads a head without checking its signature.
    pub(super) fn unverified(text: &str) -> Option<Self> {
        insecure_decode_claims(text).ok()
    }
}

/// Returns the checks for a head. Unlike a token, a head has no time of expiry and no audience.
fn validation() -> Validation {
    let mut rules = Validation::new(Algorithm::EdDSA);
    rules.required_spec_claims.clear();
    (rules.validate_exp, rules.validate_aud) = (false, false);
    rules
}
