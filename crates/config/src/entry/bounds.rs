//! Bounds of time, size and attempts.

use std::time::Duration;

use toolrack_host::{
    ServerSpec,
    spec::{Limits, Retry, Start, Timeouts},
};

use super::fields::{Field, Fields, MAX_DURATION};
use crate::{
    node::{Node, Value},
    problem::Problem,
};

/// The largest message or output that can be configured: 1 GiB.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// The smallest: a limit below this is a mistake in the unit.
const MIN_BYTES: u64 = 1024;

/// The largest number of things that can be configured.
const MAX_COUNT: u64 = 1_000_000;

/// The most attempts to reconnect that can be configured.
const MAX_ATTEMPTS: u64 = 1000;

pub(super) fn timeouts(fields: &mut Fields<'_, '_, '_>, timeouts: &mut Timeouts) {
    if let Some(field) = fields.take_object("timeout") {
        opencode_timeouts(fields, field, timeouts);
    }
    if let Some(whole) = fields.take_milliseconds("timeout") {
        (timeouts.call, timeouts.call_total) = (whole, whole);
    }
    let mut set = |names: &[&str], bound: &mut Duration| {
        let duration = fields.duration(names);
        *bound = duration.unwrap_or(*bound);
        duration.is_some()
    };
    set(&["timeout"], &mut timeouts.startup);
    set(&["startup_timeout"], &mut timeouts.startup);
    set(&["list_timeout"], &mut timeouts.list);
    set(&["call_timeout", "tool_timeout"], &mut timeouts.call);
    set(&["shutdown_timeout"], &mut timeouts.shutdown);
    if !set(&["max_call_time"], &mut timeouts.call_total) {
        // The default must not cut short what the entry allows.
        timeouts.call_total = timeouts.call_total.max(timeouts.call);
    }
}

/// The object of version 2 of opencode, in milliseconds.
fn opencode_timeouts(fields: &mut Fields<'_, '_, '_>, field: Field<'_>, timeouts: &mut Timeouts) {
    for member in field.node.members().unwrap_or_default() {
        let place = format!("{}.{}", field.name, member.name);
        let bounds: &mut [&mut Duration] = match member.name.as_str() {
            "startup" => &mut [&mut timeouts.startup],
            "catalog" => &mut [&mut timeouts.list],
            "execution" => &mut [&mut timeouts.call],
            "request" => &mut [&mut timeouts.list, &mut timeouts.call],
            _ => {
                let problem = Problem::error(format!("`{place}` is not a known field")).field(place);
                fields.report().add(problem.hint("write a time, such as `30` or `\"30s\"`"), &member.name_at);
                continue;
            }
        };
        match milliseconds(&member.node) {
            Some(duration) => bounds.iter_mut().for_each(|bound| **bound = duration),
            None => {
                let message = format!("`{place}` must be a number of milliseconds, up to 24 h");
                fields.report().add(Problem::error(message).field(place), &member.node.at);
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

pub(super) fn limits(fields: &mut Fields<'_, '_, '_>, limits: &mut Limits) {
    let mut set = |name: &str, least: u64, bound: &mut usize| {
        if let Some(field) = fields.take(&[name])
            && let Some(bytes) = fields.count(field, least..=MAX_BYTES)
        {
            *bound = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
    };
    set("max_message_bytes", MIN_BYTES, &mut limits.message_bytes);
    set("max_list_bytes", MIN_BYTES, &mut limits.listing_bytes);
    set("max_output_bytes", 1, &mut limits.output_bytes);
    if let Some(field) = fields.take(&["max_schema_depth"])
        && let Some(levels) = fields.count(field, 1..=Limits::MOST_SCHEMA_DEPTH as u64)
    {
        limits.schema_depth = usize::try_from(levels).unwrap_or(usize::MAX);
    }
}

/// Where a bound is in [`Limits`].
type Count = fn(&mut Limits) -> &mut usize;

/// Bounds that are numbers of things, by the names of their fields.
pub(crate) const COUNTS: &[(&str, Count)] = &[
    ("max_list_pages", |limits| &mut limits.pages),
    ("max_list_items", |limits| &mut limits.items),
    ("max_calls_in_flight", |limits| &mut limits.in_flight),
    ("max_server_requests", |limits| &mut limits.server_requests),
];

pub(super) fn counts(fields: &mut Fields<'_, '_, '_>, limits: &mut Limits) {
    for (name, bound) in COUNTS {
        if let Some(field) = fields.take(&[name])
            && let Some(count) = fields.count(field, 1..=MAX_COUNT)
        {
            *bound(limits) = usize::try_from(count).unwrap_or(usize::MAX);
        }
    }
}

/// `max_response_bytes` is `max_message_bytes` for HTTP servers, by the name that HTTP clients know.
pub(super) fn response_bytes(fields: &mut Fields<'_, '_, '_>, limits: &mut Limits) {
    if let Some(field) = fields.take(&["max_response_bytes"])
        && let Some(bytes) = fields.count(field, MIN_BYTES..=MAX_BYTES)
    {
        limits.message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
}

/// `"off"` and `false` never reconnect; a number is the attempts.
pub(super) fn retry(fields: &mut Fields<'_, '_, '_>, retry: &mut Retry) {
    let Some(field) = fields.take(&["retry"]) else {
        return;
    };
    let attempts = match &field.node.value {
        Value::Bool(false) => Some(0),
        Value::Bool(true) => Some(u64::from(retry.attempts)),
        Value::Text(word) if word == "off" => Some(0),
        Value::Text(word) if word == "on" => Some(u64::from(retry.attempts)),
        _ => fields.count(field, 0..=MAX_ATTEMPTS),
    };
    if let Some(attempts) = attempts {
        retry.attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    }
}

/// When the server is started, and when it is stopped for want of use.
pub(super) fn start(fields: &mut Fields<'_, '_, '_>, spec: &mut ServerSpec) {
    spec.idle_stop = fields.duration(&["idle_stop"]);
    let Some(field) = fields.take(&["start"]) else {
        return;
    };
    match field.node.as_text() {
        Some("lazy") => spec.start = Start::Lazy,
        Some("eager") => spec.start = Start::Eager,
        _ => {
            let message = "`start` must be \"eager\" or \"lazy\"";
            fields.report().error(&field.node.at, field.name, message);
        }
    }
}
