//! Macros that read rows as structs. The derive macro of sqlx does the same. But cargo would have to build SQLite a
//! second time, to run that macro at compile time.

/// Implements [`sqlx::FromRow`] for both databases: reads each column into the field of the same name. The field after
/// `flatten` is itself such a struct, which is read from other columns of the same row.
macro_rules! from_row {
    ($struct:ident { $($column:ident),+ $(,)? } $(flatten $nested:ident)?) => {
        $crate::rows::impl_from_row!(sqlx::sqlite::SqliteRow, $struct { $($column),+ } $(flatten $nested)?);
        #[cfg(feature = "postgres")]
        $crate::rows::impl_from_row!(sqlx::postgres::PgRow, $struct { $($column),+ } $(flatten $nested)?);
    };
}

/// Implements [`sqlx::FromRow`] for the rows of one database, for [`from_row`].
macro_rules! impl_from_row {
    ($row_type:ty, $struct:ident { $($column:ident),+ } $(flatten $nested:ident)?) => {
        impl sqlx::FromRow<'_, $row_type> for $struct {
            fn from_row(row: &$row_type) -> sqlx::Result<Self> {
                Ok(Self {
                    $($column: sqlx::Row::try_get(row, stringify!($column))?,)+
                    $($nested: sqlx::FromRow::from_row(row)?,)?
                })
            }
        }
    };
}

pub(crate) use {from_row, impl_from_row};

/// The bytes of a text column. SQLite does not check that they are UTF-8.
#[derive(Debug)]
pub(crate) struct TextBytes(pub(crate) Vec<u8>);

impl sqlx::Type<sqlx::Sqlite> for TextBytes {
    fn type_info() -> sqlx::sqlite::SqliteTypeInfo {
        <Vec<u8> as sqlx::Type<sqlx::Sqlite>>::type_info()
    }

    fn compatible(type_info: &sqlx::sqlite::SqliteTypeInfo) -> bool {
        <Vec<u8> as sqlx::Type<sqlx::Sqlite>>::compatible(type_info)
    }
}

impl<'r> sqlx::Decode<'r, sqlx::Sqlite> for TextBytes {
    fn decode(value: sqlx::sqlite::SqliteValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        <Vec<u8> as sqlx::Decode<'r, sqlx::Sqlite>>::decode(value).map(Self)
    }
}

#[cfg(feature = "postgres")]
impl sqlx::Type<sqlx::Postgres> for TextBytes {
    fn type_info() -> sqlx::postgres::PgTypeInfo {
        <String as sqlx::Type<sqlx::Postgres>>::type_info()
    }
}

#[cfg(feature = "postgres")]
impl<'r> sqlx::Decode<'r, sqlx::Postgres> for TextBytes {
    fn decode(value: sqlx::postgres::PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        value.as_bytes().map(|bytes| Self(bytes.to_owned()))
    }
}
