//! Reads the table `[audit_export]` of the team file, which says where the audit logs are exported to.

use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use url::Url;

use super::{
    BadTeamFile, check_url,
    store::{long_time, time},
};

/// Where the daemon exports all audit logs of the team to, and how.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditExportTable {
    /// The place.
    pub to: ExportTarget,
    /// How the bucket is reached, if the place is a bucket.
    pub s3: Option<S3Table>,
    /// The private key that signs the export, Ed25519 in PEM: a placeholder such as `${secret:audit-key}`.
    pub signing_key: String,
    /// How often the daemon exports new rows, each time with a head (a signed file that lists the written files). An
    /// hour by default.
    #[serde(default = "default_every", deserialize_with = "round_interval")]
    pub every: Duration,
    /// How often a head is written for a log that has no new rows. A day by default.
    #[serde(default, deserialize_with = "long_time")]
    pub idle_every: Option<Duration>,
    /// The maximum number of rows of one object. 10,000 by default.
    pub rows_per_object: Option<NonZeroU32>,
    /// The maximum size of one object, in bytes; a longer row gets its own object. 16 MiB by default.
    pub bytes_per_object: Option<NonZeroU32>,
    /// How long writing one object may take. 30 s by default.
    #[serde(default, deserialize_with = "time")]
    pub timeout: Option<Duration>,
    /// How many times writing is tried again in one round. 5 by default.
    pub retries: Option<u32>,
    /// How long after a failed round the next one begins. A minute by default.
    #[serde(default, deserialize_with = "time")]
    pub retry_after: Option<Duration>,
    /// How long rows that are not exported yet are kept, even if the settings of the audit log would delete them. Seven
    /// days by default.
    #[serde(default, deserialize_with = "long_time")]
    pub hold: Option<Duration>,
}

/// Leaves out the key, because the file may contain it in the clear.
impl fmt::Debug for AuditExportTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditExportTable").field("to", &self.to).field("every", &self.every).finish_non_exhaustive()
    }
}

impl AuditExportTable {
    /// Returns the name of the place. Under this name, the database stores how far each log was exported there. The
    /// same bucket at another endpoint is another place.
    #[must_use]
    pub fn place_name(&self) -> String {
        match self.s3.as_ref().and_then(|s3| s3.endpoint.as_ref()) {
            Some(endpoint) => format!("{} at {}", self.to, endpoint.origin().ascii_serialization()),
            None => self.to.to_string(),
        }
    }

    /// Checks that the settings of the table fit together.
    pub(super) fn check(&self) -> Result<(), BadTeamFile> {
        let invalid = |why: &'static str| Err(BadTeamFile::AuditExport { why });
        let s3 = match (&self.to, &self.s3) {
            (ExportTarget::Folder(_), None) => return Ok(()),
            (ExportTarget::Folder(_), Some(_)) => {
                return invalid("`s3` is only for a `to` such as \"s3://bucket/prefix\"");
            }
            (ExportTarget::Bucket { .. }, None) => {
                return invalid("a bucket needs the table `[audit_export.s3]` with its region and credentials");
            }
            (ExportTarget::Bucket { .. }, Some(s3)) => s3,
        };
        match (&s3.endpoint, &s3.region) {
            (None, None) => invalid("`s3.region` is missing: the region of the bucket, such as \"eu-central-1\""),
            (_, Some(region)) if !is_region(region) => {
                invalid("`s3.region` is no region: write one such as \"eu-central-1\"")
            }
            (Some(endpoint), _) => {
                check_url("audit_export.s3.endpoint", endpoint)?;
                match endpoint.path() {
                    "/" => Ok(()),
                    _ => invalid("`s3.endpoint` has a path: write only the scheme, the host and the port"),
                }
            }
            (None, Some(_)) => Ok(()),
        }
    }
}

/// Returns whether `text` can be a region, which is a part of the names of AWS's hosts.
fn is_region(text: &str) -> bool {
    let is_region_byte = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_region_byte) && !text.starts_with('-') && !text.ends_with('-')
}

/// `[audit_export.s3]`: how a bucket is reached.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Table {
    /// The address of a service that speaks S3, to which the name of the bucket is added as a path. AWS by default.
    pub endpoint: Option<Url>,
    /// The region of the bucket. AWS needs it; for other services, [`Self::DEFAULT_REGION`] by default.
    pub region: Option<String>,
    /// The id of the access key: a placeholder such as `${secret:audit-s3-id}`.
    pub access_key_id: String,
    /// The access key itself: a placeholder such as `${secret:audit-s3-key}`.
    pub secret_access_key: String,
    /// The token of temporary credentials: a placeholder.
    pub session_token: Option<String>,
}

impl S3Table {
    /// The region for a service that has no regions.
    pub const DEFAULT_REGION: &str = "us-east-1";
}

/// Leaves out the credentials, because the file may contain them in the clear.
impl fmt::Debug for S3Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.endpoint.as_ref().map(Url::as_str);
        f.debug_struct("S3Table").field("endpoint", &endpoint).field("region", &self.region).finish_non_exhaustive()
    }
}

fn default_every() -> Duration {
    Duration::from_hours(1)
}

/// The shortest allowed value of `every`.
const MIN_EVERY: Duration = Duration::from_secs(1);

fn round_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    // `time` never returns `None`.
    let every = time(deserializer)?.unwrap_or_else(default_every);
    if every < MIN_EVERY {
        return Err(D::Error::custom("write a time such as \"1h\" or \"15m\", from 1s to a day"));
    }
    Ok(every)
}

/// A place for objects: the files that an export writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportTarget {
    /// A folder of this machine: `file:///srv/audit`.
    Folder(PathBuf),
    /// A bucket of S3: `s3://bucket/prefix`.
    Bucket {
        /// The name of the bucket.
        bucket: String,
        /// The prefix of the names of all objects, without a `/` at its end; empty for the whole bucket.
        prefix: String,
    },
}

impl fmt::Display for ExportTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "file://{}", path.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

impl<'de> Deserialize<'de> for ExportTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let why = "`to` is a folder of this machine, such as \"file:///srv/audit\", or a bucket, such as \"s3://bucket/prefix\"";
        let target = text.strip_prefix("s3://").map_or_else(|| parse_folder(&text), parse_bucket);
        target.ok_or_else(|| D::Error::custom(why))
    }
}

fn parse_folder(text: &str) -> Option<ExportTarget> {
    let url = Url::parse(text).ok()?;
    let has_only_path = url.host().is_none() && url.query().is_none() && url.fragment().is_none();
    let is_folder = url.scheme() == "file" && has_only_path && url.path() != "/";
    is_folder.then(|| url.to_file_path().ok())?.map(ExportTarget::Folder)
}

/// Reads `BUCKET/PREFIX`. Accepts only names that S3 allows and that need no escaping in a URL.
fn parse_bucket(text: &str) -> Option<ExportTarget> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_name_byte = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
    let is_name = (3..=63).contains(&bucket.len())
        && bucket.bytes().all(is_name_byte)
        && !bucket.contains("..")
        && !bucket.starts_with(['-', '.'])
        && !bucket.ends_with(['-', '.']);
    let is_part_byte = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'=');
    let is_part = |part: &str| !part.is_empty() && !matches!(part, "." | "..") && part.bytes().all(is_part_byte);
    // A key of S3 has at most 1,024 bytes. Half of them are left for the names of objects.
    let is_prefix = prefix.is_empty() || (prefix.len() <= 512 && prefix.split('/').all(is_part));
    (is_name && is_prefix).then(|| ExportTarget::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}
