//! Rows as structs. sqlx's own derive compiles SQLite a second time for the machine that builds, for one pattern.

/// Reads each column into the field of its name; behind `flatten`, a field that is a row of its own.
macro_rules! from_row {
    ($row:ident { $($column:ident),+ $(,)? } $(flatten $part:ident)?) => {
        impl sqlx::FromRow<'_, sqlx::sqlite::SqliteRow> for $row {
            fn from_row(row: &sqlx::sqlite::SqliteRow) -> sqlx::Result<Self> {
                Ok(Self {
                    $($column: sqlx::Row::try_get(row, stringify!($column))?,)+
                    $($part: sqlx::FromRow::from_row(row)?,)?
                })
            }
        }
    };
}

pub(crate) use from_row;
