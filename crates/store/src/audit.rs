//! Stores the audit log of calls, connections, trust and answers. The log is an append-only chain: the hash of each row
//! covers all rows before it.
//!
//! The hash of a row is SHA-256 of these bytes: the hash of the previous row (32 zero bytes for the first row), the
//! number and the time of the row (eight bytes each, the most significant first), and the stored body of the row. The
//! end of the chain is also stored separately, so that the check notices when the newest rows are missing. The store
//! deletes (forgets) the oldest rows after some time. It then adds a row that records this, with the hash from which
//! the chain continues.
//!
//! A program that can write to the whole file can replace the chain by another valid one. The only protection is a copy
//! of the [end of the chain](ChainEnd) where that program cannot write.

mod chain;
mod entry;
mod export;
mod exported;
mod retention;
mod verify;
mod writer;

use toolrack_host::Decision;

pub(crate) use chain::append;
pub use chain::{BadChainEnd, ChainEnd, hex};
pub use entry::{DoorRefusal, Entry};
pub use export::{AuditExport, AuditRows};
pub use exported::ExportedRow;
pub use retention::AuditRetention;
#[cfg(feature = "postgres")]
pub(crate) use verify::verify;
pub use verify::{Break, Chain};
pub use writer::{AuditLog, AuditWriter, Hide};

use crate::{Store, StoreError, database::QueryBuilder, rows::TextBytes};

/// The maximum number of rows that one query returns.
const MAX_ROWS: usize = 10_000;

/// The maximum size of arguments that are stored in full, in bytes. For larger arguments, the row has only the hash and
/// the size.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

/// A row of the log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditRow {
    /// The number of the row. The first row that was ever written has the number 1.
    pub seq: u64,
    /// When the event happened, in milliseconds since 1970.
    pub at: i64,
    /// The event, parsed from `body`. Another program may have changed it: [`Store::verify_audit`] checks that.
    pub entry: Entry,
    /// The stored bytes of the entry, as text.
    pub body: String,
    /// The hash over this row and all rows before it: 32 bytes, unless another program changed the file.
    pub hash: Vec<u8>,
}

impl AuditRow {
    /// Returns the end of the chain after this row; `None` if its hash has another length.
    #[must_use]
    pub fn end(&self) -> Option<ChainEnd> {
        Some(ChainEnd { seq: self.seq, hash: self.hash.as_slice().try_into().ok()? })
    }
}

/// Which rows to read.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only rows about this server.
    pub server: Option<String>,
    /// Only rows about this tool.
    pub tool: Option<String>,
    /// Only events of this agent.
    pub agent: Option<String>,
    /// Only events at this time or later, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only calls that did not run because a rule or a user denied them, or because there was no user to ask.
    pub denied: bool,
    /// Only rows with smaller numbers.
    pub before: Option<u64>,
    /// Only rows with greater numbers.
    pub after: u64,
    /// The maximum number of rows, up to 10,000. The default, 0, finds none.
    pub limit: usize,
}

/// The number, time, body and hash of a row. The body is bytes, because another program may have stored something there
/// that is not text.
type Row = (i64, i64, TextBytes, Vec<u8>);

impl From<Row> for AuditRow {
    fn from((seq, at, TextBytes(body), hash): Row) -> Self {
        let body = String::from_utf8_lossy(&body).into_owned();
        // A body that another program changed becomes an empty entry: `verify_audit` reports it.
        let entry = serde_json::from_str(&body).unwrap_or_default();
        Self { seq: u64::try_from(seq).unwrap_or_default(), at, entry, body, hash }
    }
}

/// Converts the number of a row to the type of its column.
fn seq_column(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

impl Store {
    /// Returns the newest rows that match `query`. The oldest row comes first.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
        let mut rows = self.audit_rows(query, "DESC").await?;
        rows.reverse();
        Ok(rows)
    }

    /// Returns the oldest rows that match `query`, in their order. With `after`, this reads all rows, page by page.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn oldest_audit_rows(&self, query: &AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
        self.audit_rows(query, "ASC").await
    }

    /// Returns the first rows that match `query`, in the order of their numbers: `ASC` or `DESC`.
    async fn audit_rows(&self, query: &AuditQuery, order: &'static str) -> Result<Vec<AuditRow>, StoreError> {
        let mut builder = QueryBuilder::new("SELECT seq, at, body, hash FROM audit WHERE seq > ");
        builder.push_bind(seq_column(query.after));
        if let Some(before) = query.before {
            builder.push(" AND seq < ").push_bind(seq_column(before));
        }
        if let Some(since) = query.since {
            builder.push(" AND at >= ").push_bind(since);
        }
        if let Some(server) = &query.server {
            builder.push(" AND server = ").push_bind(server);
        }
        if let Some(tool) = &query.tool {
            builder.push(" AND tool = ").push_bind(tool);
        }
        if let Some(agent) = &query.agent {
            builder.push(" AND agent = ").push_bind(agent);
        }
        if query.denied {
            builder.push(" AND kind = 'call' AND decision NOT IN (");
            builder.push_list(Decision::YES.iter().map(|decision| decision.word())).push(")");
        }
        builder.push(" ORDER BY seq ").push(order).push(" LIMIT ");
        builder.push_bind(i64::try_from(query.limit.min(MAX_ROWS)).unwrap_or(i64::MAX));
        let rows: Vec<Row> = builder.build().fetch_all(&mut self.begin_read("reading the audit log").await?).await?;
        Ok(rows.into_iter().map(AuditRow::from).collect())
    }
}

#[cfg(test)]
mod tests;
