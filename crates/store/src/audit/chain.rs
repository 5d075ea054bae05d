//! Adds rows to the end of the audit log's chain. The hash of each row covers all rows before it. The single row of the
//! table `audit_head`, the head, says where the chain begins and ends.

use std::{fmt, str::FromStr};

use chrono::Utc;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};

use super::Entry;
use crate::{
    Store, StoreError,
    database::{QueryBuilder, Transaction, query, query_scalar, values},
};

/// The maximum number of rows that one statement adds.
const MAX_ROWS_PER_INSERT: usize = 32;

/// The hash that stands for the previous row in the hash of the first row.
pub(super) const NO_ROW_HASH: [u8; 32] = [0; 32];

/// The end of a chain, at present or at an earlier time: the number and the hash of its newest row. Its text is
/// `SEQ:HASH`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainEnd {
    /// The row's number; 0 when there is none.
    pub seq: u64,
    /// The row's hash.
    pub hash: [u8; 32],
}

impl fmt::Display for ChainEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, hex(&self.hash))
    }
}

impl fmt::Debug for ChainEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not of the form `SEQ:HASH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the number of a row, a colon, and 64 hexadecimal digits")]
pub struct BadChainEnd;

impl FromStr for ChainEnd {
    type Err = BadChainEnd;

    fn from_str(text: &str) -> Result<Self, BadChainEnd> {
        let (seq, digits) = text.split_once(':').ok_or(BadChainEnd)?;
        let seq = seq.parse().map_err(|_| BadChainEnd)?;
        let hash = parse_hash(digits).ok_or(BadChainEnd)?;
        Ok(Self { seq, hash })
    }
}

/// Returns `bytes` as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Reads a hash from its digits.
pub(super) fn parse_hash(digits: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?.try_into().ok()
}

/// Computes the hash of a row, as the [module](super) describes. `previous_hash` is the hash of the row before it.
pub(super) fn row_hash(previous_hash: &[u8; 32], seq: i64, at: i64, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(previous_hash);
    hash.update(seq.to_be_bytes());
    hash.update(at.to_be_bytes());
    hash.update(body);
    hash.finalize().into()
}

/// The row of `audit_head`, which records the state of the chain.
pub(super) struct Head {
    /// The number of the newest row.
    pub(super) seq: i64,
    /// The hash of the newest row.
    pub(super) hash: [u8; 32],
    /// The number of the oldest row that was not deleted.
    pub(super) kept_from: i64,
    /// When the store last looked for old rows to delete, in milliseconds since 1970. After 0, the next write looks
    /// again.
    pub(super) forgot_at: i64,
}

/// Reads the [`Head`]; `None` if it was removed or damaged.
pub(super) async fn read_head(connection: &mut Transaction) -> Result<Option<Head>, StoreError> {
    let row: Option<(i64, Vec<u8>, i64, i64)> =
        query("SELECT seq, hash, kept_from, forgot_at FROM audit_head").fetch_optional(connection).await?;
    Ok(row.and_then(|(seq, hash, kept_from, forgot_at)| {
        Some(Head { seq, hash: hash.try_into().ok()?, kept_from, forgot_at })
    }))
}

impl Store {
    /// Begins a chain without rows, unless there is one.
    #[cfg(feature = "postgres")]
    pub(crate) async fn begin_audit(&self) -> Result<(), StoreError> {
        let operation = "beginning the audit log";
        if read_head(&mut self.begin_read(operation).await?).await?.is_some() {
            return Ok(());
        }
        // If there are rows but no head, the chain is broken. A new head would conceal that.
        let insert_head = query(
            "INSERT INTO audit_head (id, seq, hash, kept_from, forgot_at) \
             SELECT 1, 0, $1, 1, 0 WHERE NOT EXISTS (SELECT 1 FROM audit) ON CONFLICT DO NOTHING",
        );
        self.write(insert_head.bind(&NO_ROW_HASH[..]), operation).await.map(drop)
    }

    /// Adds `entry`, in a transaction of its own.
    pub(crate) async fn record(&self, entry: Entry) -> Result<(), StoreError> {
        let operation = "writing the audit log";
        let mut transaction = self.begin(operation).await?;
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await
    }
}

/// Adds `entries`, each with its time, to the end of the chain. The caller must hold a write transaction, so that no
/// other process adds rows meanwhile.
pub(crate) async fn append(connection: &mut Transaction, entries: &[(i64, Entry)]) -> Result<(), StoreError> {
    // Without its head, the chain is broken, which the check reports. New entries are stored even then.
    let Head { mut seq, mut hash, .. } = match read_head(connection).await? {
        Some(head) => head,
        None => restart_chain(connection).await?,
    };
    let mut rows = Vec::with_capacity(entries.len());
    for (at, entry) in entries {
        let body = serde_json::to_string(entry)
            .map_err(|error| connection.context().error(sqlx::Error::Encode(Box::new(error))))?;
        seq += 1;
        hash = row_hash(&hash, seq, *at, body.as_bytes());
        rows.push((seq, *at, body, hash));
    }
    let mut remaining = &rows[..];
    while !remaining.is_empty() {
        // The largest power of two: so there are few different statements to prepare, and few to execute.
        let batch_size = 1 << remaining.len().min(MAX_ROWS_PER_INSERT).ilog2();
        let (batch, rest) = remaining.split_at(batch_size);
        insert(connection, batch).await?;
        remaining = rest;
    }
    query("UPDATE audit_head SET seq = $1, hash = $2").bind(seq).bind(&hash[..]).execute(connection).await?;
    Ok(())
}

/// Inserts rows: the number, the time, the body and the hash of each.
async fn insert(connection: &mut Transaction, rows: &[(i64, i64, String, [u8; 32])]) -> Result<(), StoreError> {
    let mut builder = QueryBuilder::new("INSERT INTO audit (seq, at, body, hash) ");
    builder.push_values(rows.iter().map(|(seq, at, body, hash)| values![*seq, *at, body, &hash[..]]));
    builder.build().execute(connection).await.map(drop)
}

/// Writes a new [`Head`] that continues after the newest row. Does not continue from the hash of that row, so that the
/// check still finds the break.
async fn restart_chain(connection: &mut Transaction) -> Result<Head, StoreError> {
    let seq: i64 = query_scalar("SELECT coalesce(max(seq), 0) FROM audit").fetch_one(connection).await?;
    query(
        "INSERT INTO audit_head (id, seq, hash, kept_from, forgot_at) VALUES (1, $1, $2, 1, 0) ON CONFLICT (id) \
         DO UPDATE SET seq = excluded.seq, hash = excluded.hash, kept_from = 1, forgot_at = 0",
    )
    .bind(seq)
    .bind(&NO_ROW_HASH[..])
    .execute(connection)
    .await?;
    Ok(Head { seq, hash: NO_ROW_HASH, kept_from: 1, forgot_at: 0 })
}
