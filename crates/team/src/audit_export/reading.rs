//! Reads the rows of a log from the database, and makes objects (files) of them.

use std::collections::VecDeque;

use toolrack_store::{
    Store,
    audit::{AuditRow, ChainEnd, ExportedRow},
};

use super::{
    exporter::ExportError,
    head::{LogName, NamedObject},
};

/// The number of rows that one query reads.
const PAGE_ROWS: usize = 500;

/// How large an object may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectBounds {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// Reads the rows of a log in their order, each with its hash checked.
pub(super) struct RowReader<'a> {
    store: &'a Store,
    /// The end of the chain before the first row.
    pub(super) after: ChainEnd,
    /// The end of the chain after the last row that was read from the database.
    read_up_to: ChainEnd,
    /// The rows that were read, and are in no object yet.
    page: VecDeque<AuditRow>,
}

impl<'a> RowReader<'a> {
    /// Reads the rows after `end`, or if that is `None`, all rows. The field `after` is later than `end` if the store
    /// has deleted rows after `end` because of their age.
    pub(super) async fn starting_after(store: &'a Store, end: Option<ChainEnd>) -> Result<Self, ExportError> {
        let read = store.audit_after(end, PAGE_ROWS).await??;
        let mut rows = Self { store, after: read.after, read_up_to: read.after, page: VecDeque::new() };
        rows.add(read.rows);
        Ok(rows)
    }

    /// Adds rows that were read from the database.
    fn add(&mut self, rows: Vec<AuditRow>) {
        self.read_up_to = rows.last().and_then(AuditRow::end).unwrap_or(self.read_up_to);
        self.page.extend(rows);
    }

    /// Reads more rows, if all that were read are in objects. If the store has deleted the next rows meanwhile, adds
    /// none.
    async fn fill(&mut self) -> Result<(), ExportError> {
        if self.page.is_empty() {
            let read = self.store.audit_after(Some(self.read_up_to), PAGE_ROWS).await??;
            if read.after == self.read_up_to {
                self.add(read.rows);
            }
        }
        Ok(())
    }

    /// Makes the next object, within `bounds`, but with one row at least. `None` if there are no more rows.
    pub(super) async fn next_object(
        &mut self,
        log: &LogName,
        bounds: ObjectBounds,
    ) -> Result<Option<PreparedObject>, ExportError> {
        let (mut content, mut rows, mut first, mut end) = (Vec::new(), 0, 0, None);
        loop {
            self.fill().await?;
            let Some(row) = self.page.front() else { break };
            let line = line(row)?;
            if rows == bounds.rows || (rows > 0 && content.len() + line.len() > bounds.bytes) {
                break;
            }
            if rows == 0 {
                first = row.seq;
            }
            end = row.end();
            content.extend_from_slice(&line);
            rows += 1;
            self.page.pop_front();
        }
        let object = |end: ChainEnd| {
            let object = NamedObject::new(log, (first, end.seq), &content);
            PreparedObject { object, content, end }
        };
        Ok(end.map(object))
    }
}

/// An object with its content.
pub(super) struct PreparedObject {
    pub(super) object: NamedObject,
    pub(super) content: Vec<u8>,
    /// The end of the chain after the last row of the object.
    pub(super) end: ChainEnd,
}

/// A row as a line of an object: JSON and a line break.
fn line(row: &AuditRow) -> Result<Vec<u8>, ExportError> {
    let mut line = serde_json::to_vec(&ExportedRow::from(row)).map_err(|_| ExportError::Unwritable)?;
    line.push(b'\n');
    Ok(line)
}
