//! Reads `sandbox` of an entry: the files and ports that the server, a child process, may use, and its limits.

use std::time::Duration;

use toolrack_host::spec::{Ports, Sandbox};

use super::{
    fields::{Field, Fields, MAX_DURATION},
    transport::check_template,
};
use crate::{
    node::{Member, Value},
    problem::Problem,
    rows::{SANDBOX, SANDBOX_LIMITS, SpecSetting, Table},
};

/// The maximum number of ports in one list.
const MAX_PORTS: usize = 256;

const KIB: u64 = 1024;

/// Reads `sandbox = true`, or an object with the fields of [`SANDBOX`]. An unknown field is an error: a sandbox with a
/// hole is worse than none, because the user trusts it.
pub(super) fn sandbox(fields: &mut Fields<'_, '_, '_>) -> Option<Box<Sandbox>> {
    let field = fields.take("sandbox")?;
    let members = match &field.node.value {
        Value::Bool(false) => return None,
        Value::Bool(true) => return Some(Box::default()),
        Value::Map(members) if is_vs_code_sandbox(members) => {
            let problem = Problem::warning("this is a sandbox of VS Code's, and the server runs without one");
            let hint = "`\"sandbox\": true` gives it one of Toolrack's";
            fields.report().add(problem.field(field.name).hint(hint), field.name_span);
            return None;
        }
        Value::Map(members) => members,
        _ => {
            fields.report_invalid::<()>(field, "true, false or an object, such as `{ \"read\": [\"~/notes\"] }`");
            return None;
        }
    };
    let mut sandbox = Sandbox::default();
    let mut inner_fields = Fields::new(SANDBOX, members, fields.report());
    sandbox.read = paths(&mut inner_fields, "read");
    sandbox.write = paths(&mut inner_fields, "write");
    ports(&mut inner_fields, "connect", &mut sandbox.connect);
    ports(&mut inner_fields, "bind", &mut sandbox.bind);
    for row in SANDBOX.rows {
        if let Some(SpecSetting::SandboxFlag(flag_in)) = row.sets
            && let Some(field) = inner_fields.take(row.key)
        {
            // A value that is no flag is an error, so no server runs with the default.
            *flag_in(&mut sandbox) = inner_fields.flag(field).unwrap_or_default();
        }
    }
    limits(&mut inner_fields, SANDBOX_LIMITS, r#"{ "processes": 64 }"#, |limit_fields| {
        read_limits(limit_fields, &mut sandbox)
    });
    report_unknown(&mut inner_fields, "sandbox.");
    Some(Box::new(sandbox))
}

/// Returns whether this is VS Code's `sandbox`, which has other names and another meaning.
fn is_vs_code_sandbox(members: &[Member]) -> bool {
    !members.is_empty() && members.iter().all(|member| matches!(&*member.name, "filesystem" | "network"))
}

/// Reads the object `limits`. `read` takes the fields that it knows; every other field is an error.
pub(super) fn limits(
    fields: &mut Fields<'_, '_, '_>,
    table: &'static Table,
    example: &str,
    read: impl FnOnce(&mut Fields<'_, '_, '_>),
) {
    let Some(field) = fields.take("limits") else { return };
    match field.node.members() {
        Some(members) => {
            let mut limit_fields = Fields::new(table, members, fields.report());
            read(&mut limit_fields);
            report_unknown(&mut limit_fields, &format!("{}.", table.title));
        }
        None => drop(fields.report_invalid::<()>(field, &format!("an object, such as `{example}`"))),
    }
}

/// Reports every remaining field as an error.
pub(super) fn report_unknown(fields: &mut Fields<'_, '_, '_>, prefix: &str) {
    for (_, field) in fields.take_rest() {
        let message = format!("`{prefix}{}` is not a known field", field.name);
        let problem = Problem::error(message).field(field.name);
        fields.report().add(problem.hint("Toolrack cannot enforce a bound that it does not know"), field.name_span);
    }
}

fn paths(fields: &mut Fields<'_, '_, '_>, name: &str) -> Vec<String> {
    let Some(field) = fields.take(name) else { return Vec::new() };
    let mut items = fields.texts(field);
    for item in &mut items {
        item.name = format!("sandbox.{}", item.name);
        if item.value.trim().is_empty() {
            let message = format!("`{}` is empty", item.name);
            fields.report().error(item.span, &item.name, message);
        }
        check_template(fields, item);
    }
    items.into_iter().map(|item| item.value).collect()
}

/// Reads a list of ports, or `"any"`.
fn ports(fields: &mut Fields<'_, '_, '_>, name: &str, ports: &mut Ports) {
    let Some(field) = fields.take(name) else { return };
    let parsed_ports = match &field.node.value {
        Value::Text(word) if word == "any" => Some(Ports::Any),
        Value::List(items) if items.len() <= MAX_PORTS => {
            let port = |item: &crate::node::Node| match &item.value {
                Value::Number(number) => number.as_u64().and_then(|port| u16::try_from(port).ok()),
                _ => None,
            };
            items.iter().map(port).collect::<Option<_>>().map(Ports::Only)
        }
        _ => None,
    };
    match parsed_ports {
        Some(parsed_ports) => *ports = parsed_ports,
        None => drop(fields.report_invalid::<()>(field, "a list of TCP ports, such as `[443, 5432]`, or \"any\"")),
    }
}

fn read_limits(fields: &mut Fields<'_, '_, '_>, sandbox: &mut Sandbox) {
    if let Some(field) = fields.take("memory") {
        sandbox.memory =
            size(field).or_else(|| fields.report_invalid(field, "a size of 1 MiB or more, such as `\"512MiB\"`"));
    }
    // Only this limit has a default, which stays if the field is absent.
    if fields.has("processes") {
        sandbox.processes = fields.number("processes").and_then(|count| u32::try_from(count).ok());
    }
    sandbox.files = fields.number("files");
    if let Some(cpu) = fields.duration("cpu") {
        sandbox.cpu = Some(cpu.clamp(Duration::from_secs(1), MAX_DURATION));
    }
}

/// Reads a number of bytes, or a text with `KiB`, `MiB` or `GiB`; `None` for any other value, and for less than 1 MiB,
/// the lowest limit of memory.
pub(super) fn size(field: Field<'_>) -> Option<u64> {
    let bytes = match &field.node.value {
        Value::Number(number) => number.as_u64()?,
        Value::Text(text) => {
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let unit = match text[digits..].trim() {
                "" => 1,
                "KiB" => KIB,
                "MiB" => KIB * KIB,
                "GiB" => KIB * KIB * KIB,
                _ => return None,
            };
            text[..digits].parse::<u64>().ok()?.checked_mul(unit)?
        }
        _ => return None,
    };
    (bytes >= KIB * KIB).then_some(bytes)
}
