//! Makes the rows of those fields that the crate of the host defines itself, with their keys, their documentation and the
//! settings of [`ServerSpec`](toolrack_host::ServerSpec) that they set.
//!
//! These functions run at compile time, so they use loops in place of iterators.

use toolrack_host::spec::{Field, FieldKind};

use super::{Kind, Row, SpecSetting};

/// The names that other programs have for these fields.
const ALIASES: &[(&str, &[(&str, &str)])] = &[("call_timeout", &[("tool_timeout", "Codex")])];

/// Returns the rows of `fields`.
pub(super) const fn rows<const N: usize>(fields: &[Field]) -> [Row; N] {
    let mut rows = [Row::new("", Kind::Flag, ""); N];
    let mut at = 0;
    while at < N {
        rows[at] = row(fields[at]);
        at += 1;
    }
    rows
}

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
    let mut at = 0;
    while at < ALIASES.len() {
        if is_same(ALIASES[at].0, field.key) {
            return row.aliases(ALIASES[at].1);
        }
        at += 1;
    }
    row
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    one.len() == other.len()
}

/// Returns the number of rows in `parts`.
pub(super) const fn count(parts: &[&[Row]]) -> usize {
    let (mut rows, mut part) = (0, 0);
    while part < parts.len() {
        rows += parts[part].len();
        part += 1;
    }
    rows
}

/// Returns all rows of `parts`, one part after the other.
pub(super) const fn joined<const N: usize>(parts: &[&[Row]]) -> [Row; N] {
    let mut rows = [Row::new("", Kind::Flag, ""); N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            rows[at] = parts[part][row];
            (at, row) = (at + 1, row + 1);
        }
        part += 1;
    }
    rows
}
