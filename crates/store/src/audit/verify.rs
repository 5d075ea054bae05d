//! Verifies that the audit log's chain is whole. The hash of each row must follow from the row before it, and no row
//! may be missing. The chain must end at the row that the head, the single row of `audit_head`, names.

use super::{
    Entry, Row,
    chain::{self, ChainEnd, Head, NO_ROW_HASH, parse_hash, row_hash},
};
use crate::{
    Store, StoreError,
    database::{Transaction, query, query_scalar},
    rows::TextBytes,
};

/// The maximum number of rows that one query reads.
const PAGE_ROWS: i64 = 1_000;

/// A chain that passed the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// How many rows there are.
    pub rows: u64,
    /// The number of the first row. The store deleted the rows before it because of their age or number.
    pub first: u64,
    /// The end of the chain. Keep a copy elsewhere, to prove later that the chain was not replaced.
    pub end: ChainEnd,
}

/// Where and how a chain is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Break {
    /// A row does not continue the chain. Its content, its number or its hash was changed, or the row before it was
    /// changed together with its hash.
    #[error("row {seq} is not what was written, or is not in its place")]
    Changed {
        /// The number of the first such row.
        seq: u64,
    },
    /// Rows are missing.
    #[error("{} missing", Missing(*.from, *.to))]
    Missing {
        /// The number of the first missing row.
        from: u64,
        /// The number of the last missing row.
        to: u64,
    },
    /// The stored end of the chain was removed or changed.
    #[error("the end of the chain is not what was written: it ends at row {seq}")]
    End {
        /// The number of the newest row; 0 if there is none.
        seq: u64,
    },
    /// The hash of a row differs from the hash that was recorded elsewhere for the same row.
    #[error("row {seq} is not the one whose hash was given")]
    HashMismatch {
        /// The number of the row.
        seq: u64,
    },
    /// The store has deleted the row whose hash was recorded elsewhere, so the hashes cannot be compared.
    #[error("row {seq} was deleted at the age that the settings set, so it cannot be compared with the given hash")]
    Forgotten {
        /// The number of the row.
        seq: u64,
    },
}

/// Displays the numbers of the first and the last missing row.
struct Missing(u64, u64);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(from, to) = self;
        if from == to { write!(f, "row {from} is") } else { write!(f, "rows {from} to {to} are") }
    }
}

impl Break {
    /// Returns the number of the first wrong or missing row. For [`Self::End`], returns the number of the newest row,
    /// and for [`Self::Forgotten`], the number of the deleted row.
    #[must_use]
    pub fn row(&self) -> u64 {
        match self {
            Self::Changed { seq } | Self::End { seq } | Self::HashMismatch { seq } | Self::Forgotten { seq } => *seq,
            Self::Missing { from, .. } => *from,
        }
    }
}

impl Store {
    /// Checks every row, and that the chain passes through `known_end`, an earlier end of it. Other processes may write
    /// meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. A broken chain is not an error, but a [`Break`].
    pub async fn verify_audit(&self, known_end: Option<ChainEnd>) -> Result<Result<Chain, Break>, StoreError> {
        let operation = "verifying the audit log";
        // All queries of this transaction see the same rows, even if other processes add some.
        let mut transaction = self.begin_snapshot(operation).await?;
        verify(&mut transaction, known_end).await
    }
}

/// Checks every row that the transaction sees, and that the chain passes through `known_end`.
pub(crate) async fn verify(
    connection: &mut Transaction,
    known_end: Option<ChainEnd>,
) -> Result<Result<Chain, Break>, StoreError> {
    let head = chain::read_head(connection).await?;
    let chain_start = chain_start(connection).await?;
    let mut walker = ChainWalker {
        next_seq: chain_start.map_or(1, |(first_seq, _)| first_seq),
        previous_hash: chain_start.map_or(NO_ROW_HASH, |(_, hash)| hash),
    };
    let first_seq = walker.next_seq;
    // The number 0 stands for a chain without rows, with which each chain began.
    let mut has_passed_known_end = known_end.is_none_or(|known_end| known_end.seq == 0);
    // Also reads rows whose number is 0 or less, so that `check_next` refuses them: a chain has no such rows.
    let mut after_seq = i64::MIN;
    loop {
        let select_page = query("SELECT seq, at, body, hash FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");
        let rows: Vec<Row> = select_page.bind(after_seq).bind(PAGE_ROWS).fetch_all(connection).await?;
        let Some((newest_seq, ..)) = rows.last() else { break };
        after_seq = *newest_seq;
        for row in &rows {
            if let Err(chain_break) = walker.check_next(row) {
                return Ok(Err(chain_break));
            }
            let (seq, ..) = row;
            if let Some(known_end) = known_end.filter(|known_end| known_end.seq == row_number(*seq)) {
                if known_end.hash != walker.previous_hash {
                    return Ok(Err(Break::HashMismatch { seq: known_end.seq }));
                }
                has_passed_known_end = true;
            }
        }
    }
    let last_seq = row_number(walker.next_seq - 1);
    let Some(head) = head else {
        return Ok(Err(Break::End { seq: last_seq }));
    };
    if head.seq >= walker.next_seq {
        return Ok(Err(Break::Missing { from: row_number(walker.next_seq), to: row_number(head.seq) }));
    }
    if differs_from_rows(&head, &walker, first_seq) {
        return Ok(Err(Break::End { seq: last_seq }));
    }
    match known_end {
        Some(known_end) if !has_passed_known_end && known_end.seq > last_seq => {
            Ok(Err(Break::Missing { from: last_seq + 1, to: known_end.seq }))
        }
        Some(known_end) if !has_passed_known_end => Ok(Err(Break::Forgotten { seq: known_end.seq })),
        _ => {
            let end = ChainEnd { seq: last_seq, hash: walker.previous_hash };
            Ok(Ok(Chain {
                rows: (last_seq + 1).saturating_sub(row_number(first_seq)),
                first: row_number(first_seq),
                end,
            }))
        }
    }
}

/// Returns whether the stored head differs from the rows along which `walker` has walked.
fn differs_from_rows(head: &Head, walker: &ChainWalker, first_seq: i64) -> bool {
    head.seq != walker.next_seq - 1 || head.hash != walker.previous_hash || head.kept_from != first_seq
}

/// Returns the number of the first row that was not forgotten (deleted), and the hash of the row before it. Both come
/// from the newest `forgot` row, which is itself a part of the chain. `None` if no row was forgotten.
pub(super) async fn chain_start(connection: &mut Transaction) -> Result<Option<(i64, [u8; 32])>, StoreError> {
    let body: Option<TextBytes> =
        query_scalar("SELECT body FROM audit WHERE kind = 'forgot' ORDER BY seq DESC LIMIT 1")
            .fetch_optional(connection)
            .await?;
    let entry = body.and_then(|TextBytes(body)| serde_json::from_slice::<Entry>(&body).ok());
    Ok(entry.and_then(|entry| {
        let first_seq = i64::try_from(entry.through?).ok()?.checked_add(1)?;
        Some((first_seq, parse_hash(entry.base.as_deref()?)?))
    }))
}

/// Converts the stored number of a row. A negative number becomes 0: only another program can have stored it.
pub(super) fn row_number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}

/// Walks along the chain, and checks row after row.
pub(super) struct ChainWalker {
    /// The number that the next row must have.
    pub(super) next_seq: i64,
    /// The hash of the row before it.
    pub(super) previous_hash: [u8; 32],
}

impl ChainWalker {
    /// Checks that `row` is the next one of a valid chain.
    pub(super) fn check_next(&mut self, (seq, at, body, hash): &Row) -> Result<(), Break> {
        if *seq > self.next_seq {
            return Err(Break::Missing { from: row_number(self.next_seq), to: row_number(*seq - 1) });
        }
        let computed_hash = row_hash(&self.previous_hash, *seq, *at, &body.0);
        if *seq < self.next_seq || computed_hash[..] != hash[..] {
            return Err(Break::Changed { seq: row_number(*seq) });
        }
        self.previous_hash = computed_hash;
        self.next_seq += 1;
        Ok(())
    }
}
