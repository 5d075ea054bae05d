//! Copies the rows of a table of SQLite into the same table of Postgres.

use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Row as _, SqlSafeStr as _, sqlite::SqliteRow};

use super::{
    Connection, Transaction,
    query::{QueryBuilder, Value, query},
};
use crate::StoreError;

/// The maximum number of rows that one statement inserts.
const MAX_BATCH_ROWS: usize = 100;

/// The number of bytes from which a batch of rows is inserted, even if it has fewer than [`MAX_BATCH_ROWS`].
const BATCH_BYTES: usize = 1024 * 1024;

/// A column that is copied.
struct Column {
    name: String,
    kind: ColumnKind,
}

/// The types of the columns, as Postgres has them.
#[derive(Clone, Copy)]
enum ColumnKind {
    Integer,
    Real,
    Bool,
    Text,
    Bytes,
}

/// Returns the columns of `table` to copy: all except the tenant and those that Postgres fills in itself.
async fn columns(table: &str, transaction: &mut Transaction) -> Result<Vec<Column>, StoreError> {
    let columns: Vec<(String, String)> = query(
        "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = $1 \
         AND table_schema = current_schema() AND column_name <> 'of_tenant' AND is_generated = 'NEVER' \
         AND is_identity = 'NO' ORDER BY ordinal_position",
    )
    .bind(table)
    .fetch_all(transaction)
    .await?;
    let column_kind = |data_type: &str| match data_type {
        "bigint" => ColumnKind::Integer,
        "double precision" => ColumnKind::Real,
        "boolean" => ColumnKind::Bool,
        "bytea" => ColumnKind::Bytes,
        _ => ColumnKind::Text,
    };
    Ok(columns.into_iter().map(|(name, data_type)| Column { name, kind: column_kind(&data_type) }).collect())
}

/// Copies all rows of `table`, and returns how many there were.
pub(crate) async fn copy(table: &str, source: &mut Transaction, target: &mut Transaction) -> Result<u64, StoreError> {
    let columns = columns(table, target).await?;
    let mut select = QueryBuilder::new("SELECT ");
    push_names(&mut select, &columns).push(" FROM ").push_name(table);
    if table == "server_log" {
        // The ids of these rows are not copied: Postgres assigns new ones, in the order in which the rows are added.
        select.push(" ORDER BY id");
    }
    let context = source.context().clone();
    let Connection::Sqlite(connection) = source.connection() else {
        return Err(context.error(sqlx::Error::Configuration("the rows to copy are not in a SQLite file".into())));
    };
    let mut rows = sqlx::query(AssertSqlSafe(select.into_sql()).into_sql_str()).fetch(connection);
    let (mut copied_rows, mut batch, mut batch_bytes) = (0, Vec::new(), 0);
    while let Some(row) = rows.try_next().await.map_err(|error| context.error(error))? {
        let values = row_values(&row, &columns).map_err(|error| context.error(error))?;
        batch_bytes += values.iter().map(value_size).sum::<usize>();
        batch.push(values);
        copied_rows += 1;
        if batch.len() == MAX_BATCH_ROWS || batch_bytes >= BATCH_BYTES {
            insert(table, &columns, std::mem::take(&mut batch), target).await?;
            batch_bytes = 0;
        }
    }
    if !batch.is_empty() {
        insert(table, &columns, batch, target).await?;
    }
    Ok(copied_rows)
}

/// Returns how many rows of `table` the transaction sees.
pub(crate) async fn count(table: &str, transaction: &mut Transaction) -> Result<i64, StoreError> {
    let mut count = QueryBuilder::new("SELECT count(*) FROM ");
    count.push_name(table);
    Ok(count.build().fetch_one::<(i64,)>(transaction).await?.0)
}

/// Deletes all rows of `table`.
pub(crate) async fn clear(table: &str, transaction: &mut Transaction) -> Result<(), StoreError> {
    let mut delete = QueryBuilder::new("DELETE FROM ");
    delete.push_name(table);
    delete.build().execute(transaction).await.map(drop)
}

/// Adds the names of the columns to a statement, with commas between them.
fn push_names<'a>(query: &'a mut QueryBuilder, columns: &[Column]) -> &'a mut QueryBuilder {
    for (index, column) in columns.iter().enumerate() {
        query.push(if index == 0 { "" } else { ", " }).push_name(&column.name);
    }
    query
}

/// Inserts rows with one statement.
async fn insert(
    table: &str,
    columns: &[Column],
    rows: Vec<Vec<Value>>,
    target: &mut Transaction,
) -> Result<(), StoreError> {
    let mut insert = QueryBuilder::new("INSERT INTO ");
    push_names(insert.push_name(table).push(" ("), columns).push(") VALUES ");
    for (index, row) in rows.into_iter().enumerate() {
        insert.push(if index == 0 { "(" } else { ", (" }).push_list(row).push(")");
    }
    insert.build().execute(target).await.map(drop)
}

/// Returns the values of a row with the types of Postgres's columns, regardless of the types that SQLite reports.
fn row_values(row: &SqliteRow, columns: &[Column]) -> sqlx::Result<Vec<Value>> {
    let read_value = |(index, column): (usize, &Column)| {
        Ok(match column.kind {
            ColumnKind::Integer => Value::Integer(row.try_get_unchecked(index)?),
            ColumnKind::Real => Value::Real(row.try_get_unchecked(index)?),
            ColumnKind::Bool => Value::Bool(row.try_get_unchecked(index)?),
            ColumnKind::Text => Value::Text(row.try_get_unchecked(index)?),
            ColumnKind::Bytes => Value::Bytes(row.try_get_unchecked(index)?),
        })
    };
    columns.iter().enumerate().map(read_value).collect()
}

/// Returns about how many bytes a value needs in a statement.
fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.as_ref().map_or(0, String::len),
        Value::Bytes(bytes) => bytes.as_ref().map_or(0, Vec::len),
        _ => 8,
    }
}
