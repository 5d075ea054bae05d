//! Builds and runs statements. Each statement is written once, for SQLite and Postgres.
//!
//! Statements use only SQL that both databases have, and their placeholders are `$1`, `$2`, …. A [`Row`] can be read
//! from either database.

use std::convert::identity;

use sqlx::{AssertSqlSafe, FromRow, SqlSafeStr as _, SqlStr, Sqlite, sqlite::SqliteRow};
#[cfg(feature = "postgres")]
use sqlx::{Postgres, postgres::PgRow};

#[cfg(feature = "postgres")]
use super::postgres::{with_tenant_in_keys, with_time_limit, without_nul};
use super::{Connection, Transaction};
use crate::StoreError;

/// A type that holds a row of a statement's result.
#[cfg(not(feature = "postgres"))]
pub(crate) trait Row: for<'r> FromRow<'r, SqliteRow> + Send + Unpin {}

#[cfg(not(feature = "postgres"))]
impl<R: for<'r> FromRow<'r, SqliteRow> + Send + Unpin> Row for R {}

/// A type that holds a row of a statement's result, from either database.
#[cfg(feature = "postgres")]
pub(crate) trait Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

#[cfg(feature = "postgres")]
impl<R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> Row for R {}

/// A value for a placeholder. A null has a type, too, because Postgres requires it.
#[derive(Debug)]
pub(crate) enum Value {
    Integer(Option<i64>),
    Real(Option<f64>),
    Bool(Option<bool>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

/// A type whose values can be given for a placeholder.
pub(crate) trait Bind {
    /// The null of this type.
    const NULL: Value;

    /// Converts `self` to the value for the placeholder.
    fn value(self) -> Value;
}

/// Implements [`Bind`] for each type. `TYPE => VARIANT(|value| EXPRESSION)` converts a value of the type to that
/// variant of [`Value`], which then contains the value of the expression.
macro_rules! impl_bind {
    ($($type:ty => $variant:ident(|$this:ident| $value:expr)),+ $(,)?) => {$(
        impl Bind for $type {
            const NULL: Value = Value::$variant(None);

            fn value(self) -> Value {
                let $this = self;
                Value::$variant(Some($value))
            }
        }
    )+};
}

impl_bind! {
    i64 => Integer(|value| value),
    u32 => Integer(|value| value.into()),
    f64 => Real(|value| value),
    bool => Bool(|value| value),
    String => Text(|value| value),
    &str => Text(|value| value.to_owned()),
    &String => Text(|value| value.clone()),
    &&str => Text(|value| (*value).to_owned()),
    Vec<u8> => Bytes(|value| value),
    &[u8] => Bytes(|value| value.to_owned()),
}

impl<T: Bind> Bind for Option<T> {
    const NULL: Value = T::NULL;

    fn value(self) -> Value {
        self.map_or(Self::NULL, T::value)
    }
}

impl Bind for &Option<String> {
    const NULL: Value = Value::Text(None);

    fn value(self) -> Value {
        Value::Text(self.clone())
    }
}

/// Binds values to a statement of sqlx. If `$convert_text` is given, it converts each text first.
macro_rules! bind_all {
    ($query:expr, $values:expr) => {
        bind_all!($query, $values, identity)
    };
    ($query:expr, $values:expr, $convert_text:expr) => {
        $values.into_iter().fold($query, |query, value| match value {
            Value::Integer(value) => query.bind(value),
            Value::Real(value) => query.bind(value),
            Value::Bool(value) => query.bind(value),
            Value::Text(value) => query.bind(value.map($convert_text)),
            Value::Bytes(value) => query.bind(value),
        })
    };
}

/// Runs a statement on the connection of a transaction, on either database, and converts the result. Builds the
/// statement with the function `$function` of sqlx, and runs it with the method `$method`.
macro_rules! run {
    ($statement:ident, $transaction:ident, $function:ident $(<$row:ty>)? . $method:ident => $convert:expr) => {{
        let result = match $transaction.connection() {
            Connection::Sqlite(connection) => {
                let query = bind_all!(sqlx::$function::<Sqlite $(, $row)?>($statement.sql), $statement.values);
                query.$method(connection).await.map($convert)
            }
            #[cfg(feature = "postgres")]
            Connection::Postgres(session) => {
                let sql = for_postgres($statement.sql);
                let query = bind_all!(sqlx::$function::<Postgres $(, $row)?>(sql), $statement.values, without_nul);
                let (connection, limit, keeps_statements) = session.start_statement();
                let result =
                    Box::pin(with_time_limit(limit, query.persistent(keeps_statements).$method(connection))).await;
                session.end_statement(result).map($convert)
            }
        };
        result.map_err(|error| $transaction.context().error(error))
    }};
}

/// A statement with the values of its placeholders.
#[derive(Debug)]
pub(crate) struct Query {
    sql: SqlStr,
    values: Vec<Value>,
}

/// A statement that returns one column.
#[derive(Debug)]
pub(crate) struct ScalarQuery(Query);

/// Creates a statement, whose values are then bound.
pub(crate) fn query(sql: &'static str) -> Query {
    Query { sql: SqlStr::from_static(sql), values: Vec::new() }
}

/// Creates a statement that returns one column, whose values are then bound.
pub(crate) fn query_scalar(sql: &'static str) -> ScalarQuery {
    ScalarQuery(query(sql))
}

impl Query {
    /// Adds the value of the next placeholder.
    pub(crate) fn bind(mut self, value: impl Bind) -> Self {
        self.values.push(value.value());
        self
    }

    /// Runs the statement, and returns how many rows it has changed.
    pub(crate) async fn execute(self, transaction: &mut Transaction) -> Result<u64, StoreError> {
        run!(self, transaction, query.execute => |result| result.rows_affected())
    }

    pub(crate) async fn fetch_all<R: Row>(self, transaction: &mut Transaction) -> Result<Vec<R>, StoreError> {
        run!(self, transaction, query_as<R>.fetch_all => identity)
    }

    pub(crate) async fn fetch_optional<R: Row>(self, transaction: &mut Transaction) -> Result<Option<R>, StoreError> {
        run!(self, transaction, query_as<R>.fetch_optional => identity)
    }

    /// Runs the statement, and returns its row. An error if there is no row.
    pub(crate) async fn fetch_one<R: Row>(self, transaction: &mut Transaction) -> Result<R, StoreError> {
        let row = self.fetch_optional(transaction).await?;
        row.ok_or_else(|| transaction.context().error(sqlx::Error::RowNotFound))
    }
}

/// Returns the statement with the changes that Postgres needs.
#[cfg(feature = "postgres")]
fn for_postgres(sql: SqlStr) -> SqlStr {
    match with_tenant_in_keys(sql.as_str()) {
        Some(postgres_sql) => AssertSqlSafe(postgres_sql).into_sql_str(),
        None => sql,
    }
}

impl ScalarQuery {
    pub(crate) fn bind(self, value: impl Bind) -> Self {
        Self(self.0.bind(value))
    }

    pub(crate) async fn fetch_all<T>(self, transaction: &mut Transaction) -> Result<Vec<T>, StoreError>
    where
        (T,): Row,
    {
        Ok(self.0.fetch_all::<(T,)>(transaction).await?.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn fetch_optional<T>(self, transaction: &mut Transaction) -> Result<Option<T>, StoreError>
    where
        (T,): Row,
    {
        Ok(self.0.fetch_optional::<(T,)>(transaction).await?.map(|(value,)| value))
    }

    pub(crate) async fn fetch_one<T>(self, transaction: &mut Transaction) -> Result<T, StoreError>
    where
        (T,): Row,
    {
        Ok(self.0.fetch_one::<(T,)>(transaction).await?.0)
    }
}

/// Converts the values of one row, of different types, to an array of [`Value`].
macro_rules! values {
    ($($value:expr),+ $(,)?) => {
        [$($crate::database::Bind::value($value)),+]
    };
}

pub(crate) use values;

/// Builds a statement from parts. Push only SQL of this program, and bind all other values: this excludes SQL
/// injection.
#[derive(Debug)]
pub(crate) struct QueryBuilder {
    sql: String,
    values: Vec<Value>,
}

impl QueryBuilder {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }

    pub(crate) fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Pushes the name of a table or a column, in quotes.
    #[cfg(feature = "postgres")]
    pub(crate) fn push_name(&mut self, name: &str) -> &mut Self {
        self.sql.push('"');
        self.sql.push_str(&name.replace('"', "\"\""));
        self.push("\"")
    }

    /// Returns the text of the statement, without its values.
    #[cfg(feature = "postgres")]
    pub(crate) fn into_sql(self) -> String {
        self.sql
    }

    /// Pushes the next placeholder, and adds its value.
    pub(crate) fn push_bind(&mut self, value: impl Bind) -> &mut Self {
        self.values.push(value.value());
        self.sql.push('$');
        self.sql.push_str(&self.values.len().to_string());
        self
    }

    /// Pushes placeholders for `values`, with commas between them. If there are none, pushes `NULL`, so that `IN
    /// (NULL)` finds no row.
    pub(crate) fn push_list<T: Bind>(&mut self, values: impl IntoIterator<Item = T>) -> &mut Self {
        let mut is_empty = true;
        for value in values {
            self.push(if is_empty { "" } else { ", " }).push_bind(value);
            is_empty = false;
        }
        self.push(if is_empty { "NULL" } else { "" })
    }

    /// Pushes `VALUES` and a row of placeholders for each of `rows`.
    pub(crate) fn push_values<const N: usize>(&mut self, rows: impl IntoIterator<Item = [Value; N]>) -> &mut Self {
        for (index, row) in rows.into_iter().enumerate() {
            self.push(if index == 0 { "VALUES (" } else { ", (" }).push_list(row).push(")");
        }
        self
    }

    pub(crate) fn build(self) -> Query {
        Query { sql: AssertSqlSafe(self.sql).into_sql_str(), values: self.values }
    }
}

impl Bind for Value {
    // Not used: only an `Option<Value>` would bind this null.
    const NULL: Value = Value::Text(None);

    fn value(self) -> Value {
        self
    }
}
