//! Makes rows of the fields that the host's crate defines. A row has the static facts of a field. The host defines the
//! key and the documentation of such a field, and the setting of a [`ServerSpec`](toolrack_host::ServerSpec).
//!
//! These functions run at compile time, so they use loops in place of iterators.

use toolrack_host::spec::{Field, FieldKind};

use super::{Kind, Row, SpecSetting};

/// The names that other programs have for these fields.
const ALIASES: &[(&str, &[(&str, &str)])] = &[("call_timeout", &[("tool_timeout", "Codex")])];

/// Returns the rows of `fields`.
pub(super) const fn rows<const N: usize>(fields: &[Field]) -> [Row; N] {
    let mut rows = [Row::new("", Kind::Flag, ""); N];
    let mut index = 0;
    while index < N {
        rows[index] = row(fields[index]);
        index += 1;
    }
    rows
}

/// Returns the row of a field of the host.
const fn row(field: Field) -> Row {
    let kind = match field.kind {
        FieldKind::Flag => Kind::Flag,
        FieldKind::Texts => Kind::Texts,
        FieldKind::Time => Kind::Time,
        FieldKind::Number { min, max } => Kind::Whole { min, max },
        FieldKind::Words(words) => Kind::Words(words),
        _ => Kind::Text,
    };
    let row = Row::new(field.key, kind, field.about).servers(field.servers).otherwise(field.otherwise);
    let row = row.sets(SpecSetting::Field(field));
    let mut index = 0;
    while index < ALIASES.len() {
        if is_equal(ALIASES[index].0, field.key) {
            return row.aliases(ALIASES[index].1);
        }
        index += 1;
    }
    row
}

/// Returns whether two texts are equal. `==` cannot run at compile time.
const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    one.len() == other.len()
}

/// Returns the number of rows in `groups`.
pub(super) const fn count(groups: &[&[Row]]) -> usize {
    let (mut total, mut index) = (0, 0);
    while index < groups.len() {
        total += groups[index].len();
        index += 1;
    }
    total
}

/// Returns all rows of `groups`, one group after the other.
pub(super) const fn all_rows<const N: usize>(groups: &[&[Row]]) -> [Row; N] {
    let mut rows = [Row::new("", Kind::Flag, ""); N];
    let (mut row_count, mut group) = (0, 0);
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            rows[row_count] = groups[group][index];
            (row_count, index) = (row_count + 1, index + 1);
        }
        group += 1;
    }
    rows
}
