//! `[audit_export]` of the team file: where the audit logs are written to.

use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use url::Url;

use super::store::{long_time, time};

/// The place to which the daemon writes all audit logs of the team, and how.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditExportTable {
    /// The place.
    pub to: ExportTarget,
    /// The private key that signs, Ed25519 in PEM: a placeholder such as `${secret:audit-key}`.
    pub signing_key: String,
    /// How often rows are written, and a head that signs them. An hour by default.
    #[serde(default = "every", deserialize_with = "round")]
    pub every: Duration,
    /// How often a head is written for a log that has no new rows. A day by default.
    #[serde(default, deserialize_with = "long_time")]
    pub idle_every: Option<Duration>,
    /// The most rows of one object. 10,000 by default.
    pub rows_per_object: Option<NonZeroU32>,
    /// The most bytes of one object; a longer row is one of its own. 16 MiB by default.
    pub bytes_per_object: Option<NonZeroU32>,
    /// How long writing one object may take. 30 s by default.
    #[serde(default, deserialize_with = "time")]
    pub timeout: Option<Duration>,
    /// How many times writing is tried again in one round. 5 by default.
    pub retries: Option<u32>,
    /// How long after a failed round the next one begins. A minute by default.
    #[serde(default, deserialize_with = "time")]
    pub retry_after: Option<Duration>,
    /// How long rows that were not written are kept, whatever the settings of the audit log say. Seven days by default.
    #[serde(default, deserialize_with = "long_time")]
    pub hold: Option<Duration>,
}

/// Everything but the key, which may be there in the clear.
impl fmt::Debug for AuditExportTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditExportTable").field("to", &self.to).field("every", &self.every).finish_non_exhaustive()
    }
}

fn every() -> Duration {
    Duration::from_hours(1)
}

/// The shortest time between two heads.
const SHORTEST: Duration = Duration::from_secs(1);

fn round<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let every = time(from)?.unwrap_or_else(every);
    if every < SHORTEST {
        return Err(D::Error::custom("write a time such as \"1h\" or \"15m\", from 1s to a day"));
    }
    Ok(every)
}

/// A place for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportTarget {
    /// A folder of this machine: `file:///srv/audit`.
    Folder(PathBuf),
}

impl fmt::Display for ExportTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for ExportTarget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let why = || D::Error::custom("`to` is a folder of this machine, such as \"file:///srv/audit\"");
        let url = Url::parse(&String::deserialize(from)?).map_err(|_| why())?;
        let is_plain = url.host().is_none() && url.query().is_none() && url.fragment().is_none();
        match url.scheme() {
            "file" if is_plain && url.path() != "/" => url.to_file_path().map(Self::Folder).map_err(|()| why()),
            _ => Err(why()),
        }
    }
}
