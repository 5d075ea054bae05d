//! Rows as structs. sqlx's own derive compiles SQLite a second time for the machine that builds, for one pattern.

/// Reads each column into the field of its name; behind `flatten`, a field that is a row of its own.
macro_rules! from_row {
    ($row:ident { $($column:ident),+ $(,)? } $(flatten $part:ident)?) => {
        $crate::rows::from_row_of!(sqlx::sqlite::SqliteRow, $row { $($column),+ } $(flatten $part)?);
    };
}

macro_rules! from_row_of {
    ($from:ty, $row:ident { $($column:ident),+ } $(flatten $part:ident)?) => {
        impl sqlx::FromRow<'_, $from> for $row {
            fn from_row(row: &$from) -> sqlx::Result<Self> {
                Ok(Self {
                    $($column: sqlx::Row::try_get(row, stringify!($column))?,)+
                    $($part: sqlx::FromRow::from_row(row)?,)?
                })
            }
        }
    };
}

pub(crate) use {from_row, from_row_of};
