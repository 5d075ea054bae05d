//! Reads the tables `[store]` (a Postgres database instead of files) and `[replicas]` of the team file.

use std::{fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};

/// The database with the rows of the team and of all its tenants. Without this table, the team and each tenant have a
/// SQLite file in their own folders.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreTable {
    /// The URL of the database.
    pub url: StoreUrl,
    /// The maximum number of connections of this process.
    pub most_connections: Option<NonZeroU32>,
    /// How long the first connection may take, and also how long the command that prints the URL may take.
    #[serde(default, deserialize_with = "time")]
    pub connect_timeout: Option<Duration>,
    /// How long an operation waits for a free connection, or for the database to come back.
    #[serde(default, deserialize_with = "time")]
    pub acquire_timeout: Option<Duration>,
    /// How long the schema may take to be brought up to date.
    #[serde(default, deserialize_with = "time")]
    pub migration_timeout: Option<Duration>,
    /// How long one statement may take.
    #[serde(default, deserialize_with = "time")]
    pub statement_timeout: Option<Duration>,
    /// How long a writer waits for other writers of its tenant.
    #[serde(default, deserialize_with = "time")]
    pub lock_timeout: Option<Duration>,
    /// How long a transaction may stand still before the database ends it.
    #[serde(default, deserialize_with = "time")]
    pub idle_transaction_timeout: Option<Duration>,
    /// Whether connections keep prepared statements.
    pub prepared_statements: Option<bool>,
}

impl StoreTable {
    /// The database at `url`, with the default times.
    #[must_use]
    pub fn at(url: StoreUrl) -> Self {
        Self {
            url,
            most_connections: None,
            connect_timeout: None,
            acquire_timeout: None,
            migration_timeout: None,
            statement_timeout: None,
            lock_timeout: None,
            idle_transaction_timeout: None,
            prepared_statements: None,
        }
    }
}

/// `[replicas]` of the team file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicasTable {
    /// How long a replica without a new heartbeat counts as alive.
    #[serde(default, deserialize_with = "time")]
    pub heartbeat_timeout: Option<Duration>,
    /// How long a request waits for a replica that serves its tenant.
    #[serde(default, deserialize_with = "time")]
    pub takeover_timeout: Option<Duration>,
}

/// The URL of a database, or where the URL comes from. The URL may contain a password.
#[derive(Clone)]
pub enum StoreUrl {
    /// `postgres://…`, or a placeholder such as `${NAME}`.
    Text(String),
    /// A file that contains the URL. A relative path begins in the folder of the team file.
    File(UrlFile),
    /// A program that prints the URL, and its arguments.
    Command(UrlCommand),
}

/// `{ file = "…" }`
#[derive(Clone, Debug)]
pub struct UrlFile {
    /// The file.
    pub file: PathBuf,
}

/// `{ command = ["…"] }`
#[derive(Clone, Debug)]
pub struct UrlCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl<'de> Deserialize<'de> for StoreUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StoreUrlVisitor)
    }
}

/// Reads a [`StoreUrl`]. Its errors never contain the value, which may be a secret.
struct StoreUrlVisitor;

impl<'de> Visitor<'de> for StoreUrlVisitor {
    type Value = StoreUrl;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL, { file = \"…\" } or { command = [\"…\"] }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StoreUrl, E> {
        Ok(StoreUrl::Text(text.to_owned()))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<StoreUrl, M::Error> {
        let invalid_url = || M::Error::custom("`url` is a URL, { file = \"…\" } or { command = [\"…\"] }");
        let url = match map.next_key::<String>()?.as_deref() {
            Some("file") => StoreUrl::File(UrlFile { file: map.next_value().map_err(|_| invalid_url())? }),
            Some("command") => StoreUrl::Command(UrlCommand { command: map.next_value().map_err(|_| invalid_url())? }),
            _ => return Err(invalid_url()),
        };
        match map.next_key::<String>()? {
            None => Ok(url),
            Some(_) => Err(invalid_url()),
        }
    }
}

/// Shows only which variant it is, and no part of a URL.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(***)",
            Self::File(_) => "File(***)",
            Self::Command(_) => "Command(***)",
        })
    }
}

/// A time in the team file: a number of seconds, or a text such as `5s` or `500ms`.
#[derive(Deserialize)]
#[serde(untagged)]
enum TimeSetting {
    Whole(u32),
    Seconds(f64),
    Text(String),
}

/// A day, in seconds: the longest time of most settings.
const DAY: f64 = 86_400.0;

/// Reads a time of up to a day. Never returns `None`; the type is an `Option` because most of these settings are
/// optional.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time_up_to(deserializer, DAY, "write a time such as 5, \"5s\" or \"500ms\", from 1ms to a day")
}

/// Reads a time of up to a year. Never returns `None`; the type is an `Option` because these settings are optional.
pub(super) fn long_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time_up_to(deserializer, 365.0 * DAY, "write a time such as \"7d\" or \"12h\", from 1ms to 365d")
}

/// Reads a time between a millisecond and `longest` seconds. `why` is the message for all other values.
fn time_up_to<'de, D: Deserializer<'de>>(
    deserializer: D,
    longest: f64,
    why: &str,
) -> Result<Option<Duration>, D::Error> {
    let invalid = || D::Error::custom(why);
    let seconds = match TimeSetting::deserialize(deserializer).map_err(|_| invalid())? {
        TimeSetting::Whole(seconds) => f64::from(seconds),
        TimeSetting::Seconds(seconds) => seconds,
        TimeSetting::Text(text) => parse_seconds(text.trim()).ok_or_else(invalid)?,
    };
    if !(0.001..=longest).contains(&seconds) {
        return Err(invalid());
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Reads a number with a unit, in seconds. A number without a unit is in seconds.
fn parse_seconds(text: &str) -> Option<f64> {
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => DAY,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * unit_seconds)
}
