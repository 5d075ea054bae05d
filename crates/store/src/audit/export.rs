//! Which rows were written outside of the database, for a program that does so now and then.
//!
//! Several processes may try: one begins, because the row of a place says when the next may. A head is stored before
//! any of it is written, so that a process that takes over writes the same once more.

use std::time::Duration;

use super::{
    AuditRow, Break, Row,
    chain::{self, ChainEnd, NO_ROW},
    number,
    verify::{Walk, base, count},
};
use crate::{
    Store, StoreError,
    database::{Transaction, query},
};

const DOING: &str = "exporting the audit log";

/// How far the audit log was written to a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditExport {
    /// The newest head that is there, as it was signed.
    pub head: Option<String>,
    /// The next one, of which not everything may be there yet.
    pub pending: Option<String>,
    /// The last row that [`Self::head`] covers.
    pub through: u64,
    /// The number of the newest row of the log.
    pub newest: u64,
    /// Whether this process is to write: no other one does so now or has done so a short time ago.
    pub is_due: bool,
    /// How long until the next process may begin, if it is not due.
    pub due_in: Option<Duration>,
}

/// Rows that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditStretch {
    /// The end of the chain before the first of them.
    pub after: ChainEnd,
    /// The rows, each of which fits to the one before it.
    pub rows: Vec<AuditRow>,
}

type ExportRow = (Option<String>, Option<String>, i64, i64);

impl Store {
    /// Returns how far the audit log was written to `place`. If that is due, this process begins, and no other one does
    /// before `time` has passed.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn begin_audit_export(&self, place: &str, time: Duration) -> Result<AuditExport, StoreError> {
        let found = self.audit_export(place).await?;
        // A log without rows needs no place in any export. Most reads end here, and take no lock.
        if !found.is_due || found.newest == 0 {
            return Ok(AuditExport { is_due: false, ..found });
        }
        let mut transaction = self.begin_durably(DOING).await?;
        let now = transaction.clock().await?;
        let begun = query(
            "INSERT INTO audit_exports (place, seq, due_at, hold_until) VALUES ($1, 0, $2, 0) ON CONFLICT (place) \
             DO UPDATE SET due_at = excluded.due_at WHERE audit_exports.due_at <= $3",
        );
        let is_due = begun.bind(place).bind(now + milliseconds(time)).bind(now).execute(&mut transaction).await? > 0;
        transaction.commit().await?;
        let found = self.audit_export(place).await?;
        Ok(AuditExport { is_due, due_in: found.due_in.filter(|_| !is_due), ..found })
    }

    async fn audit_export(&self, place: &str) -> Result<AuditExport, StoreError> {
        let mut transaction = self.read_snapshot(DOING).await?;
        let now = transaction.clock().await?;
        let newest = chain::head(&mut transaction).await?.map_or(0, |head| count(head.seq));
        let row: Option<ExportRow> = query("SELECT head, pending, seq, due_at FROM audit_exports WHERE place = $1")
            .bind(place)
            .fetch_optional(&mut transaction)
            .await?;
        let Some((head, pending, seq, due_at)) = row else {
            return Ok(AuditExport { newest, is_due: true, ..AuditExport::default() });
        };
        let due_in = u64::try_from(due_at.saturating_sub(now)).ok().filter(|left| *left > 0).map(Duration::from_millis);
        Ok(AuditExport { head, pending, through: count(seq), newest, is_due: due_in.is_none(), due_in })
    }

    /// Stores the head that is to be written next, in the place of an earlier one of which that was not done. Returns
    /// whether `head` is still the newest one that is there.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn plan_audit_export(
        &self,
        place: &str,
        head: Option<&str>,
        pending: Option<&str>,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin_durably(DOING).await?;
        let planned = query("UPDATE audit_exports SET pending = $2 WHERE place = $1 AND coalesce(head, '') = $3");
        let planned = planned.bind(place).bind(pending).bind(head.unwrap_or_default());
        let planned = planned.execute(&mut transaction).await? > 0;
        transaction.commit().await?;
        Ok(planned)
    }

    /// Makes the pending head the newest one that is there, with rows up to `through`. For as long as `hold`, the store forgets
    /// no row after that one.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn finish_audit_export(
        &self,
        place: &str,
        pending: &str,
        through: u64,
        hold: Duration,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_durably(DOING).await?;
        let now = transaction.clock().await?;
        query(
            "UPDATE audit_exports SET head = pending, pending = NULL, seq = $3, hold_until = $4 \
             WHERE place = $1 AND pending = $2",
        )
        .bind(place)
        .bind(pending)
        .bind(number(through))
        .bind(now + milliseconds(hold))
        .execute(&mut transaction)
        .await?;
        transaction.commit().await
    }

    /// Ends what [`Self::begin_audit_export`] began: the next process may begin after `pause`.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn end_audit_export(&self, place: &str, pause: Duration) -> Result<(), StoreError> {
        let mut transaction = self.begin_durably(DOING).await?;
        let now = transaction.clock().await?;
        let end = query("UPDATE audit_exports SET due_at = $2 WHERE place = $1");
        end.bind(place).bind(now + milliseconds(pause)).execute(&mut transaction).await?;
        transaction.commit().await
    }

    /// Reads the next rows after `end`, or the oldest ones, and checks that they are what was written. Where the store has
    /// forgotten rows after `end`, it goes on behind them.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails. A broken chain is not an error, but a [`Break`].
    pub async fn audit_after(
        &self,
        end: Option<ChainEnd>,
        most: usize,
    ) -> Result<Result<AuditStretch, Break>, StoreError> {
        let mut transaction = self.read_snapshot(DOING).await?;
        let (first, before) = base(&mut transaction).await?.unwrap_or((1, NO_ROW));
        let oldest = ChainEnd { seq: count(first - 1), hash: before };
        let after = end.filter(|end| end.seq >= oldest.seq).unwrap_or(oldest);
        let page = query("SELECT seq, at, body, hash FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");
        let page = page.bind(number(after.seq)).bind(i64::try_from(most).unwrap_or(i64::MAX));
        let rows: Vec<Row> = page.fetch_all(&mut transaction).await?;
        let mut walk = Walk { next: number(after.seq) + 1, hash: after.hash };
        for row in &rows {
            if let Err(broken) = walk.step(row) {
                return Ok(Err(broken));
            }
        }
        if rows.is_empty()
            && let Some(broken) = cut_off(&mut transaction, after).await?
        {
            return Ok(Err(broken));
        }
        Ok(Ok(AuditStretch { after, rows: rows.into_iter().map(AuditRow::from).collect() }))
    }
}

/// How the log differs from one whose newest row is that of `after`.
async fn cut_off(transaction: &mut Transaction, after: ChainEnd) -> Result<Option<Break>, StoreError> {
    let Some(head) = chain::head(transaction).await? else {
        return Ok(Some(Break::End { seq: after.seq }));
    };
    let end = ChainEnd { seq: count(head.seq), hash: head.hash };
    Ok(match end.seq.cmp(&after.seq) {
        std::cmp::Ordering::Less => Some(Break::Missing { from: end.seq + 1, to: after.seq }),
        std::cmp::Ordering::Greater => Some(Break::Missing { from: after.seq + 1, to: end.seq }),
        std::cmp::Ordering::Equal => (end != after).then_some(Break::Other { seq: after.seq }),
    })
}

/// The last row that may be forgotten, because each place has those before it; `None` if no place waits for rows.
pub(super) async fn covered_everywhere(transaction: &mut Transaction) -> Result<Option<i64>, StoreError> {
    let now = transaction.clock().await?;
    let least = query("SELECT min(seq) FROM audit_exports WHERE hold_until > $1");
    let least: Option<(Option<i64>,)> = least.bind(now).fetch_optional(transaction).await?;
    Ok(least.and_then(|(seq,)| seq))
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 2)
}
