//! What is signed: where a log ended at some time, and the objects that led there.

use std::fmt;

use chrono::{DateTime, Utc};
use jsonwebtoken::{Algorithm, Header, Validation, dangerous::insecure_decode_claims, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolrack_store::audit::{ChainEnd, hex};

use super::key::{PublicKey, SigningKey};

/// The type of a head (RFC 7515, 4.1.9), which no other signed statement has.
const TYPE: &str = "toolrack-audit-head";

/// An audit log of a team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogName {
    /// That of the daemon itself: sign-ins, members, refused requests.
    Team,
    /// That of a tenant.
    Tenant(String),
}

/// The folder of its objects.
impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Team => f.write_str("team"),
            Self::Tenant(id) => write!(f, "tenants/{id}"),
        }
    }
}

/// A signed statement: until then, the log consisted of this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Head {
    /// The log: `team` or `tenants/ID`.
    pub log: String,
    /// Its number: the first head of a log is 1.
    pub number: u64,
    /// When it was signed.
    pub at: DateTime<Utc>,
    /// SHA-256 of the head before it, as that was written.
    pub previous: Option<String>,
    /// The end of the chain before the first row of the objects: `SEQ:HASH`.
    pub after: String,
    /// The end of the chain after their last row.
    pub end: String,
    /// The objects since the head before it, in their order.
    pub objects: Vec<NamedObject>,
}

/// An object of a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NamedObject {
    /// Its name.
    pub name: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// The number of its first row.
    pub first: u64,
    /// The number of its last row.
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
    /// The end of the chain, if it is one.
    pub(super) fn end(&self) -> Option<ChainEnd> {
        self.end.parse().ok()
    }

    pub(super) fn after(&self) -> Option<ChainEnd> {
        self.after.parse().ok()
    }

    /// Signs it. The same head and key make the same text.
    pub(super) fn sign(&self, key: &SigningKey) -> Option<String> {
        let mut header = Header::new(Algorithm::EdDSA);
        (header.typ, header.kid) = (Some(TYPE.to_owned()), Some(key.public().id()));
        encode(&header, self, &key.encoding).ok()
    }

    /// Reads the head that one of `keys` has signed, and says which one.
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
        let read = decode::<Self>(text, &key.decoding(), &rules());
        Ok((read.map_err(|_| "has a wrong signature".to_owned())?.claims, *key))
    }

    /// Reads a head without a look at its signature.
    pub(super) fn unverified(text: &str) -> Option<Self> {
        insecure_decode_claims(text).ok()
    }
}

/// A head never ends, and is for all.
fn rules() -> Validation {
    let mut rules = Validation::new(Algorithm::EdDSA);
    rules.required_spec_claims.clear();
    (rules.validate_exp, rules.validate_aud) = (false, false);
    rules
}
