//! Writes and reads rows in the form in which they leave the database, so that other programs can check them.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    AuditRow,
    chain::{ChainEnd, hex, parse_hash, row_hash},
};

/// A row as it is stored, with its hash. As JSON, it is one line.
#[derive(Debug, Serialize)]
pub struct ExportedRow<'a> {
    seq: u64,
    /// The time of the event, in RFC 3339, UTC.
    at: String,
    /// The same time in milliseconds since 1970.
    at_ms: i64,
    /// The body of the row, byte by byte; a JSON string if the body was changed and is no longer JSON.
    body: Body<'a>,
    hash: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl<'a> From<&'a AuditRow> for ExportedRow<'a> {
    fn from(row: &'a AuditRow) -> Self {
        let json = serde_json::from_str::<&RawValue>(&row.body).ok();
        // Line breaks between members would break the row into several lines.
        let json = json.filter(|json| !json.get().contains(char::is_control));
        let body = json.map_or(Body::Text(&row.body), Body::Json);
        // Only a row that was changed has a time that is no date; `at_ms` shows it as it is.
        let at = DateTime::from_timestamp_millis(row.at).unwrap_or_default();
        let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        Self { seq: row.seq, at, at_ms: row.at, body, hash: hex(&row.hash) }
    }
}

/// The fields of an exported row that its hash covers, and the hash.
#[derive(Deserialize)]
struct ParsedRow<'a> {
    seq: u64,
    at_ms: i64,
    #[serde(borrow)]
    body: &'a RawValue,
    hash: &'a str,
}

impl ChainEnd {
    /// Reads the row in `line`, a line of an export. Returns the end of the chain after that row if its hash is right
    /// and it directly follows this end.
    #[must_use]
    pub fn after_line(&self, line: &str) -> Option<Self> {
        let row: ParsedRow<'_> = serde_json::from_str(line).ok()?;
        let (seq, hash) = (i64::try_from(row.seq).ok()?, parse_hash(row.hash)?);
        let follows = self.seq.checked_add(1) == Some(row.seq)
            && row_hash(&self.hash, seq, row.at_ms, row.body.get().as_bytes()) == hash;
        follows.then_some(Self { seq: row.seq, hash })
    }

    /// Reads the row in `line`, a line of an export. Returns the end of the chain after that row, without checking its
    /// hash.
    #[must_use]
    pub fn after_unchecked_line(line: &str) -> Option<Self> {
        let row: ParsedRow<'_> = serde_json::from_str(line).ok()?;
        // No row of the database has a larger number, and the number of the next one must exist.
        i64::try_from(row.seq).ok()?;
        Some(Self { seq: row.seq, hash: parse_hash(row.hash)? })
    }
}
