//! The rows of the host's bounds: the host has their keys, their documentation and their places.

use toolrack_host::spec::{Bound, BoundPlace};

use super::{Kind, Row, Sets};

/// The names that other programs have for bounds.
const ALIASES: &[(&str, &[(&str, &str)])] = &[("call_timeout", &[("tool_timeout", "Codex")])];

/// Returns the rows of `bounds`.
pub(super) const fn bounds<const N: usize>(bounds: &[Bound]) -> [Row; N] {
    let mut rows = [Row::new("", Kind::Flag, ""); N];
    let mut at = 0;
    while at < N {
        rows[at] = row(bounds[at]);
        at += 1;
    }
    rows
}

const fn row(bound: Bound) -> Row {
    let (kind, sets) = match bound.place {
        BoundPlace::Time(field) => (Kind::Time, Sets::Time(field)),
        BoundPlace::Number { least, most, field } => (Kind::Whole { least, most }, Sets::Number(field)),
    };
    let row = Row::new(bound.key, kind, bound.about).sets(sets);
    let mut at = 0;
    while at < ALIASES.len() {
        if is_same(ALIASES[at].0, bound.key) {
            return row.also(ALIASES[at].1);
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

/// Returns all rows of `parts`, one part behind the other.
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
