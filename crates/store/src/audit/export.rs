//! Records which rows of the audit log were exported, that is, copied to a place outside of the database, such as a
//! folder or a bucket. Another crate does the export itself, in rounds.
//!
//! Several processes may want to export to the same place. Only one of them begins, because the database records when
//! the next round may begin. Each round ends with a head: a signed text that covers all rows so far. The database
//! stores the head before the round writes any row to the place. So after a crash, the next process writes the same
//! again.

use std::time::Duration;

use super::{
    AuditRow, Break, Row,
    chain::{self, ChainEnd, NO_ROW_HASH},
    seq_column,
    verify::{ChainWalker, chain_start, row_number},
};
use crate::{
    Store, StoreError,
    database::{Transaction, query},
};

/// The name of the operation in error messages.
const OPERATION: &str = "exporting the audit log";

/// How far the audit log was written to a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditExport {
    /// The signed text of the newest head whose rows have all arrived there.
    pub head: Option<String>,
    /// The next head, whose rows may not all have arrived.
    pub pending: Option<String>,
    /// The number of the last row that [`Self::head`] covers.
    pub last_exported: u64,
    /// The number of the newest row of the log.
    pub newest: u64,
    /// Whether this process must export now. If not, another process exports, or has done so a short time ago.
    pub is_due: bool,
    /// If no export is due: the time until a process may begin the next one.
    pub due_in: Option<Duration>,
}

/// Consecutive rows of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRows {
    /// The end of the chain before the first of these rows.
    pub after: ChainEnd,
    /// The rows. The hash of each follows from the row before it.
    pub rows: Vec<AuditRow>,
}

/// The columns `head`, `pending`, `seq` and `due_at`.
type ExportRow = (Option<String>, Option<String>, i64, i64);

impl Store {
    /// Returns how far the audit log was exported to `place`. If an export is due, reserves it for this process: no
    /// other process begins one before `reservation` has passed.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn begin_audit_export(&self, place: &str, reservation: Duration) -> Result<AuditExport, StoreError> {
        let export = self.audit_export(place).await?;
        // A log without rows has nothing to export. Most calls end here, and take no lock.
        if !export.is_due || export.newest == 0 {
            return Ok(AuditExport { is_due: false, ..export });
        }
        let mut transaction = self.begin_durably(OPERATION).await?;
        let now = transaction.now_millis().await?;
        let reserve = query(
            "INSERT INTO audit_exports (place, seq, due_at, hold_until) VALUES ($1, 0, $2, 0) ON CONFLICT (place) \
             DO UPDATE SET due_at = excluded.due_at WHERE audit_exports.due_at <= $3",
        );
        let is_due =
            reserve.bind(place).bind(now + milliseconds(reservation)).bind(now).execute(&mut transaction).await? > 0;
        transaction.commit().await?;
        let export = self.audit_export(place).await?;
        Ok(AuditExport { is_due, due_in: export.due_in.filter(|_| !is_due), ..export })
    }

    /// Reads how far the audit log was exported to `place`.
    async fn audit_export(&self, place: &str) -> Result<AuditExport, StoreError> {
        let mut transaction = self.begin_snapshot(OPERATION).await?;
        let now = transaction.now_millis().await?;
        let newest = chain::read_head(&mut transaction).await?.map_or(0, |head| row_number(head.seq));
        let row: Option<ExportRow> = query("SELECT head, pending, seq, due_at FROM audit_exports WHERE place = $1")
            .bind(place)
            .fetch_optional(&mut transaction)
            .await?;
        let Some((head, pending, seq, due_at)) = row else {
            return Ok(AuditExport { newest, is_due: true, ..AuditExport::default() });
        };
        let due_in = u64::try_from(due_at.saturating_sub(now))
            .ok()
            .filter(|remaining| *remaining > 0)
            .map(Duration::from_millis);
        Ok(AuditExport { head, pending, last_exported: row_number(seq), newest, is_due: due_in.is_none(), due_in })
    }

    /// Stores `pending` as the head to export next, in place of a head whose export was not finished. Returns `false`,
    /// and stores nothing, if `head` is no longer the newest exported head.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn plan_audit_export(
        &self,
        place: &str,
        head: Option<&str>,
        pending: Option<&str>,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin_durably(OPERATION).await?;
        let set_pending = query("UPDATE audit_exports SET pending = $2 WHERE place = $1 AND coalesce(head, '') = $3");
        // An empty text stands for no head, because in SQL, NULL does not equal NULL.
        let set_pending = set_pending.bind(place).bind(pending).bind(head.unwrap_or_default());
        let changed_rows = set_pending.execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(changed_rows > 0)
    }

    /// Records that the head `pending` and all rows up to `last_row` have arrived; does nothing if another head is
    /// pending by now. Until `hold` has passed, the store deletes no row after `last_row`.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_exported_head(
        &self,
        place: &str,
        pending: &str,
        last_row: u64,
        hold: Duration,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_durably(OPERATION).await?;
        let now = transaction.now_millis().await?;
        query(
            "UPDATE audit_exports SET head = pending, pending = NULL, seq = $3, hold_until = $4 \
             WHERE place = $1 AND pending = $2",
        )
        .bind(place)
        .bind(pending)
        .bind(seq_column(last_row))
        .bind(now + milliseconds(hold))
        .execute(&mut transaction)
        .await?;
        transaction.commit().await
    }

    /// Ends the export that [`Self::begin_audit_export`] began: the next one may begin after `pause`.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn release_audit_export(&self, place: &str, pause: Duration) -> Result<(), StoreError> {
        let mut transaction = self.begin_durably(OPERATION).await?;
        let now = transaction.now_millis().await?;
        let set_due_at = query("UPDATE audit_exports SET due_at = $2 WHERE place = $1");
        set_due_at.bind(place).bind(now + milliseconds(pause)).execute(&mut transaction).await?;
        transaction.commit().await
    }

    /// Reads at most `max_rows` rows after `end`, or the oldest rows if `end` is `None`. Checks that no other program
    /// has changed them. If the store has deleted rows after `end` because of their age, continues with the oldest row
    /// that is left.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. A broken chain is not an error, but a [`Break`].
    pub async fn audit_after(
        &self,
        end: Option<ChainEnd>,
        max_rows: usize,
    ) -> Result<Result<AuditRows, Break>, StoreError> {
        let mut transaction = self.begin_snapshot(OPERATION).await?;
        let (first_seq, hash_before) = chain_start(&mut transaction).await?.unwrap_or((1, NO_ROW_HASH));
        let start = ChainEnd { seq: row_number(first_seq - 1), hash: hash_before };
        let after = end.filter(|end| end.seq >= start.seq).unwrap_or(start);
        let select_page = query("SELECT seq, at, body, hash FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");
        let select_page = select_page.bind(seq_column(after.seq)).bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
        let rows: Vec<Row> = select_page.fetch_all(&mut transaction).await?;
        let mut walker = ChainWalker { next_seq: seq_column(after.seq) + 1, previous_hash: after.hash };
        for row in &rows {
            if let Err(chain_break) = walker.check_next(row) {
                return Ok(Err(chain_break));
            }
        }
        // Without further rows, `after` must be the end that the log records.
        if rows.is_empty()
            && let Some(chain_break) = compare_end(&mut transaction, after).await?
        {
            return Ok(Err(chain_break));
        }
        Ok(Ok(AuditRows { after, rows: rows.into_iter().map(AuditRow::from).collect() }))
    }
}

/// Returns how the stored end of the log differs from `expected`; `None` if it does not.
async fn compare_end(transaction: &mut Transaction, expected: ChainEnd) -> Result<Option<Break>, StoreError> {
    let Some(head) = chain::read_head(transaction).await? else {
        return Ok(Some(Break::End { seq: expected.seq }));
    };
    let end = ChainEnd { seq: row_number(head.seq), hash: head.hash };
    Ok(match end.seq.cmp(&expected.seq) {
        std::cmp::Ordering::Less => Some(Break::Missing { from: end.seq + 1, to: expected.seq }),
        std::cmp::Ordering::Greater => Some(Break::Missing { from: expected.seq + 1, to: end.seq }),
        std::cmp::Ordering::Equal => (end != expected).then_some(Break::HashMismatch { seq: expected.seq }),
    })
}

/// Returns the number of the last row that all places have. Rows up to it may be deleted. `None` if no place waits for
/// rows.
pub(super) async fn last_row_exported_everywhere(transaction: &mut Transaction) -> Result<Option<i64>, StoreError> {
    let now = transaction.now_millis().await?;
    let lowest_seq = query("SELECT min(seq) FROM audit_exports WHERE hold_until > $1");
    let lowest_seq: Option<(Option<i64>,)> = lowest_seq.bind(now).fetch_optional(transaction).await?;
    Ok(lowest_seq.and_then(|(seq,)| seq))
}

fn milliseconds(time: Duration) -> i64 {
    // Only half of the range: callers add the current time.
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2)
}
