//! The JSON lines of exported rows, with which other programs can check the chain.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    AuditRow,
    chain::{ChainEnd, hex, parse_hash, row_hash},
};

/// A row in the form in which it is exported: one line of JSON, with the stored body and the hash.
#[derive(Debug, Serialize)]
pub struct ExportedRow<'a> {
    seq: u64,
    /// The time of the event, in RFC 3339, UTC.
    at: String,
    /// The same time in milliseconds since 1970.
    at_ms: i64,
    /// The stored bytes of the body; a JSON string if another program changed the body and it is no longer JSON.
    body: Body<'a>,
    hash: String,
}

/// The body of a row, as it is written to a line.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl<'a> From<&'a AuditRow> for ExportedRow<'a> {
    fn from(row: &'a AuditRow) -> Self {
        let json = serde_json::from_str::<&RawValue>(&row.body).ok();
        // A body with line breaks between its members would take several lines.
        let json = json.filter(|json| !json.get().contains(char::is_control));
        let body = json.map_or(Body::Text(&row.body), Body::Json);
        // Only a row that another program changed has a time that is no date. `at_ms` has the time as it is stored.
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
    /// Reads the row in `line`, a line of an export. Returns the end of the chain after that row. `None` if the hash of
    /// the row is wrong, or if the row does not directly follow this end.
    #[must_use]
    pub fn after_line(&self, line: &str) -> Option<Self> {
        let row: ParsedRow<'_> = serde_json::from_str(line).ok()?;
        let (seq, hash) = (i64::try_from(row.seq).ok()?, parse_hash(row.hash)?);
        let continues_chain = self.seq.checked_add(1) == Some(row.seq)
            && row_hash(&self.hash, seq, row.at_ms, row.body.get().as_bytes()) == hash;
        continues_chain.then_some(Self { seq: row.seq, hash })
    }

    /// Reads the row in `line`, a line of an export. Returns the end of the chain after that row, without a check of
    /// the hash. `None` if the line has no row.
    #[must_use]
    pub fn after_unchecked_line(line: &str) -> Option<Self> {
        let row: ParsedRow<'_> = serde_json::from_str(line).ok()?;
        // The database has no larger number, and the number of the next row must exist, too.
        i64::try_from(row.seq).ok()?;
        Some(Self { seq: row.seq, hash: parse_hash(row.hash)? })
    }
}
