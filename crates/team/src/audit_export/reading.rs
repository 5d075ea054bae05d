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
    /// The rows that were read from the database, and are in no object yet.
    unwritten: VecDeque<AuditRow>,
}

impl<'a> RowReader<'a> {
    /// Reads the rows after `end`, or if that is `None`, all rows. The field `after` is later than `end` if the store
    /// has deleted rows after `end` because of their age.
    pub(super) async fn starting_after(store: &'a Store, end: Option<ChainEnd>) -> Result<Self, ExportError> {
        let page = store.audit_after(end, PAGE_ROWS).await??;
        let mut reader = Self { store, after: page.after, read_up_to: page.after, unwritten: VecDeque::new() };
        reader.add(page.rows);
        Ok(reader)
    }

    /// Adds rows that were read from the database.
    fn add(&mut self, rows: Vec<AuditRow>) {
        self.read_up_to = rows.last().and_then(AuditRow::end).unwrap_or(self.read_up_to);
        self.unwritten.extend(rows);
    }

    /// Reads more rows, if all rows that were read are in objects. Adds no rows if the store has deleted the next rows
    /// meanwhile.
    async fn fill(&mut self) -> Result<(), ExportError> {
        if self.unwritten.is_empty() {
            let page = self.store.audit_after(Some(self.read_up_to), PAGE_ROWS).await??;
            if page.after == self.read_up_to {
                self.add(page.rows);
            }
        }
        Ok(())
    }

    /// Makes the next object, within `bounds`. A row that alone exceeds the bounds gets its own object. `None` if there
    /// are no more rows.
    pub(super) async fn next_object(
        &mut self,
        log: &LogName,
        bounds: ObjectBounds,
    ) -> Result<Option<PreparedObject>, ExportError> {
        let (mut content, mut row_count, mut first_row, mut end) = (Vec::new(), 0, 0, None);
        loop {
            self.fill().await?;
            let Some(row) = self.unwritten.front() else { break };
            let line = row_line(row)?;
            if row_count == bounds.rows || (row_count > 0 && content.len() + line.len() > bounds.bytes) {
                break;
            }
            if row_count == 0 {
                first_row = row.seq;
            }
            end = row.end();
            content.extend_from_slice(&line);
            row_count += 1;
            self.unwritten.pop_front();
        }
        let prepare = |end: ChainEnd| {
            let object = NamedObject::new(log, (first_row, end.seq), &content);
            PreparedObject { object, content, end }
        };
        Ok(end.map(prepare))
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
fn row_line(row: &AuditRow) -> Result<Vec<u8>, ExportError> {
    let mut line = serde_json::to_vec(&ExportedRow::from(row)).map_err(|_| ExportError::Unwritable)?;
    line.push(b'\n');
    Ok(line)
}
