//! Reads the limits of an entry (the configuration of one server): times, sizes and the number of attempts to
//! reconnect.
//!
//! [`crate::rows`] has a row of facts for each field. Some rows also say which setting of the [`ServerSpec`] the field
//! sets, and those fields are all read here.

use std::time::Duration;

use toolrack_host::{
    ServerSpec,
    spec::{FieldValue, Retry, Timeouts},
};

use super::fields::{Field, Fields, MAX_DURATION};
use crate::{
    node::{Node, Value},
    problem::Problem,
    rows::{ATTEMPTS, ENTRY, Kind, Row, SpecSetting},
};

/// Reads `timeout`, whose meaning differs between programs: see [`Fields::take_milliseconds`].
pub(super) fn read_timeout(fields: &mut Fields<'_, '_, '_>, timeouts: &mut Timeouts) {
    if let Some(field) = fields.take_object("timeout") {
        read_opencode_timeouts(fields, field, timeouts);
    }
    if let Some(call_time) = fields.take_milliseconds("timeout") {
        (timeouts.call, timeouts.call_total) = (call_time, call_time);
    }
    if let Some(startup) = fields.duration("timeout") {
        timeouts.startup = startup;
    }
}

/// Reads the fields of the selected rows, as far as a row of the host says which setting the field sets.
pub(super) fn read_rows(fields: &mut Fields<'_, '_, '_>, spec: &mut ServerSpec, is_selected: impl Fn(&Row) -> bool) {
    for row in ENTRY.rows.iter().filter(|row| is_selected(row)) {
        let setting = match row.sets {
            Some(SpecSetting::SameAs(key)) => ENTRY.row(key).and_then(|row| row.sets),
            setting => setting,
        };
        if let Some(SpecSetting::Field(field)) = setting {
            read_row(fields, row, |value| (field.set)(spec, value));
        }
    }
}

/// Reads the field of `row`, and passes its value to `set` if it is of the row's kind.
fn read_row(fields: &mut Fields<'_, '_, '_>, row: &Row, mut set: impl FnMut(FieldValue<'_>) -> bool) {
    let value = match row.kind {
        Kind::Words(_) => {
            // For an unknown word, `set` returns `false`, and `word` reports an error.
            fields.word(row.key, |word| set(FieldValue::Text(word)).then_some(()));
            return;
        }
        Kind::Text => {
            let text = fields.take(row.key).and_then(|field| fields.text(field));
            text.map(|text| set(FieldValue::Text(&text)));
            return;
        }
        Kind::Texts => {
            let items = fields.take(row.key).map(|field| fields.texts(field));
            let texts = items.map(|items| items.into_iter().map(|item| item.value).collect::<Vec<_>>());
            texts.map(|texts| set(FieldValue::Texts(&texts)));
            return;
        }
        Kind::Flag => fields.take(row.key).and_then(|field| fields.flag(field)).map(FieldValue::Flag),
        Kind::Time => fields.duration(row.key).map(FieldValue::Time),
        // All other rows of the host are whole numbers.
        _ => fields.number(row.key).map(FieldValue::Number),
    };
    // `set` refuses only a value of another kind, and this value is of the row's kind.
    value.map(set);
}

/// Reads the object of opencode's version 2, in milliseconds.
fn read_opencode_timeouts(fields: &mut Fields<'_, '_, '_>, field: Field<'_>, timeouts: &mut Timeouts) {
    for member in field.node.members().unwrap_or_default() {
        let field_path = format!("{}.{}", field.name, member.name);
        let affected: &mut [&mut Duration] = match member.name.as_str() {
            "startup" => &mut [&mut timeouts.startup],
            "catalog" => &mut [&mut timeouts.list],
            "execution" => &mut [&mut timeouts.call],
            "request" => &mut [&mut timeouts.list, &mut timeouts.call],
            _ => {
                let problem = Problem::error(format!("`{field_path}` is not a known field")).field(field_path);
                fields.report().add(problem.hint("write a time, such as `30` or `\"30s\"`"), &member.name_span);
                continue;
            }
        };
        match milliseconds(&member.node) {
            Some(duration) => affected.iter_mut().for_each(|timeout| **timeout = duration),
            None => {
                let message = format!("`{field_path}` must be a number of milliseconds, up to 24 h");
                fields.report().add(Problem::error(message).field(field_path), &member.node.span);
            }
        }
    }
}

fn milliseconds(node: &Node) -> Option<Duration> {
    let Value::Number(number) = &node.value else {
        return None;
    };
    let duration = Duration::try_from_secs_f64(number.as_f64()? / 1000.0).ok()?;
    (!duration.is_zero() && duration <= MAX_DURATION).then_some(duration)
}

/// Reads `retry`, the number of attempts to reconnect: `"off"` and `false` mean none, `"on"` and `true` the default.
pub(super) fn read_retry(fields: &mut Fields<'_, '_, '_>, retry: &mut Retry) {
    let Some(field) = fields.take("retry") else {
        return;
    };
    let attempts = match &field.node.value {
        Value::Bool(false) => Some(0),
        Value::Bool(true) => Some(u64::from(retry.attempts)),
        Value::Text(word) if word == "off" => Some(0),
        Value::Text(word) if word == "on" => Some(u64::from(retry.attempts)),
        _ => fields.whole_number(field, ATTEMPTS),
    };
    if let Some(attempts) = attempts {
        retry.attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    }
}
