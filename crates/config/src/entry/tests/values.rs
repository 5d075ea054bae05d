//! Invalid values of fields: each makes its entry invalid, and the error names the field but does not show the value.

use super::*;
use crate::rows::{CONTAINER, CONTAINER_LIMITS, ENTRY, Kind, OAUTH, Row, SANDBOX_LIMITS, TOOL_LISTS, Table};

/// Each table with the entry that its fields stand in, and their place.
fn tables() -> Vec<(&'static Table, Json, &'static [&'static str])> {
    let contained = json!({ "command": "x", "container": { "image": "x" } });
    vec![
        (ENTRY, json!({ "command": "x" }), &[]),
        (ENTRY, json!({ "url": "https://x" }), &[]),
        (TOOL_LISTS, json!({ "command": "x" }), &["tools"]),
        (SANDBOX_LIMITS, json!({ "command": "x" }), &["sandbox", "limits"]),
        (CONTAINER, contained.clone(), &["container"]),
        (CONTAINER_LIMITS, contained, &["container", "limits"]),
        (OAUTH, json!({ "url": "https://x" }), &["oauth"]),
    ]
}

/// Each field with an entry that it can stand in.
fn fields() -> impl Iterator<Item = (&'static Row, Json, &'static [&'static str])> {
    tables().into_iter().flat_map(|(table, entry, place)| {
        let of = if entry.get("url").is_some() { FieldScope::Http } else { FieldScope::Stdio };
        let fits = move |row: &&Row| row.servers == FieldScope::Any || row.servers == of;
        table.rows.iter().filter(fits).map(move |row| (row, entry.clone(), place))
    })
}

/// `entry` with this field, at its place.
fn with(entry: &Json, place: &[&str], key: &str, value: Json) -> Json {
    let mut entry = entry.clone();
    let mut at = &mut entry;
    for name in place {
        if !at[*name].is_object() {
            at[*name] = json!({});
        }
        at = &mut at[*name];
    }
    at[key] = value;
    entry
}

/// Values of other kinds than this one.
fn wrong(kind: &Kind) -> Vec<Json> {
    let text = || json!("canary canary");
    match kind {
        Kind::Text => vec![json!(1), json!(true), json!(["canary"]), json!({ "canary": "canary" })],
        Kind::Flag => vec![json!("canary"), json!(1), json!(0), json!([]), json!({})],
        Kind::Words(_) => vec![text(), json!(""), json!(1), json!(true), json!(["canary"])],
        Kind::Whole { min, max } => {
            let below = min.checked_sub(1).map_or(json!(-1), |below| json!(below));
            vec![
                below,
                json!(max + 1),
                json!(u64::MAX),
                json!(-1),
                json!(*min as f64 + 0.5),
                text(),
                json!(true),
                json!([1]),
            ]
        }
        Kind::Time => vec![
            json!(0),
            json!(-1),
            json!(86_401),
            json!(1e300),
            text(),
            json!(""),
            json!("1d"),
            json!(true),
            json!([1]),
        ],
        Kind::Texts => vec![json!(1), json!({ "canary": "x" }), json!([["canary"]]), json!([{}])],
        Kind::Map => vec![json!(["canary"]), text(), json!(1), json!({ "A": ["canary"] }), json!({ "A": {} })],
        Kind::Ports { .. } => vec![json!([65_536]), json!([-1]), json!(["canary"]), json!(443), json!([1.5])],
        Kind::Object | Kind::Table(_) => vec![text(), json!(1), json!(["canary"])],
        _ => Vec::new(),
    }
}

#[test]
fn a_value_of_another_kind_costs_the_entry_names_the_field_and_is_not_repeated() {
    let mut tried = 0;
    for (row, entry, place) in fields() {
        for value in wrong(&row.kind) {
            let full = with(&entry, place, row.key, value.clone());
            let about = format!("{}/{} = {value}", place.join("/"), row.key);
            let (decoded, problems) = read(&full);
            assert!(matches!(decoded, Decoded::Broken), "{about}: {decoded:?}");
            let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
            let names = |problem: &&&Problem| {
                problem.message.contains(row.key) || problem.field.as_ref().is_some_and(|field| field.contains(row.key))
            };
            assert!(errors.iter().any(|problem| names(&problem)), "{about}: {errors:?}");
            let reported: String = problems.iter().map(ToString::to_string).collect();
            assert!(!reported.contains("canary"), "{about}: {reported}");
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn a_number_at_its_bounds_is_taken() {
    let mut tried = 0;
    for (row, entry, place) in fields() {
        let Some((min, max)) = row.kind.bounds() else { continue };
        for number in [min, max] {
            let full = with(&entry, place, row.key, json!(number));
            let (decoded, problems) = read(&full);
            let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
            assert!(matches!(decoded, Decoded::Server(_)) && errors.is_empty(), "{full}: {errors:?}");
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn a_time_is_taken_up_to_a_day_in_every_spelling_of_its_name() {
    for (row, entry, place) in fields().filter(|(row, ..)| matches!(row.kind, Kind::Time)) {
        for (key, value) in [
            (row.key.to_owned(), json!("1ms")),
            (row.key.to_owned(), json!(86_400)),
            (row.key.to_owned(), json!("24h")),
            (format!("{}_s", row.key), json!(86_400)),
            (format!("{}_seconds", row.key), json!(1)),
            (format!("{}_ms", row.key), json!(86_400_000)),
            (format!("{}Ms", row.key), json!(1)),
        ] {
            let full = with(&entry, place, &key, value);
            let (decoded, problems) = read(&full);
            assert!(matches!(decoded, Decoded::Server(_)) && problems.is_empty(), "{full}: {problems:?}");
        }
        let late = with(&entry, place, &format!("{}_ms", row.key), json!(86_400_001));
        assert!(matches!(read(&late).0, Decoded::Broken), "{late}");
    }
}

#[test]
fn null_is_as_if_the_field_were_not_there() {
    for (row, entry, place) in fields().filter(|(row, ..)| !row.is_required) {
        // Skips the field that decides the type of the server.
        if entry.get(row.key).is_some() {
            continue;
        }
        let absent = place.split_last().map_or(entry.clone(), |(last, above)| {
            with(
                &entry,
                above,
                last,
                entry.pointer(&format!("/{}", place.join("/"))).cloned().unwrap_or_else(|| json!({})),
            )
        });
        let (without, with_null) = (read(&absent), read(&with(&entry, place, row.key, Json::Null)));
        assert_eq!(format!("{without:?}"), format!("{with_null:?}"), "{}/{}", place.join("/"), row.key);
    }
}

fn schema() -> toolrack_host::Validator {
    toolrack_host::Validator::compile(&crate::schema::servers()).expect("a schema")
}

fn file_of(entry: &Json) -> Json {
    json!({ "mcpServers": { "x": entry } })
}

#[test]
fn an_editor_with_the_schema_marks_each_wrong_value_except_a_time_that_is_too_long() {
    let (schema, mut tried) = (schema(), 0);
    for (row, entry, place) in fields() {
        for value in wrong(&row.kind) {
            // The limit of a time depends on the unit in the name, but one schema is for all names of a field.
            let is_too_long = matches!(row.kind, Kind::Time) && value.as_f64().is_some_and(|time| time > 86_400.0);
            let full = with(&entry, place, row.key, value);
            assert_eq!(schema.validate(&file_of(&full)).is_err(), !is_too_long, "{full}");
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn the_schema_takes_a_number_and_a_time_at_their_bounds() {
    let (schema, mut tried) = (schema(), 0);
    for (row, entry, place) in fields() {
        let numbers = row.kind.bounds().map(|(min, max)| [json!(min), json!(max)]);
        let times = matches!(row.kind, Kind::Time).then(|| [json!("1ms"), json!("24h")]);
        for value in numbers.into_iter().chain(times).flatten() {
            let full = with(&entry, place, row.key, value);
            assert!(schema.validate(&file_of(&full)).is_ok(), "{full}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

/// Reads `limits.memory` of a table, and returns it as the view shows it; `None` if it is an error.
fn memory(table: &str, value: &Json) -> Option<u64> {
    let entry = match table {
        "sandbox" => json!({ "command": "x", "sandbox": { "limits": { "memory": value } } }),
        _ => json!({ "command": "x", "container": { "image": "x", "limits": { "memory": value } } }),
    };
    let (Decoded::Server(spec), _) = read(&entry) else { return None };
    let Transport::Stdio(stdio) = spec.transport else { panic!("{entry}") };
    stdio.sandbox.and_then(|sandbox| sandbox.memory).or(stdio.container.map(|container| container.memory))
}

#[test]
fn a_size_is_a_number_of_bytes_or_has_a_binary_unit_and_is_never_rounded_or_wrapped() {
    const MIB: u64 = 1 << 20;
    for (value, bytes) in [
        (json!(MIB), Some(MIB)),
        (json!(MIB - 1), None),
        (json!("1048576"), Some(MIB)),
        (json!("1MiB"), Some(MIB)),
        (json!("1024KiB"), Some(MIB)),
        (json!("1023KiB"), None),
        (json!("2 GiB"), Some(2048 * MIB)),
        (json!("2GiB "), Some(2048 * MIB)),
        (json!("017MiB"), Some(17 * MIB)),
        (json!(u64::MAX), Some(u64::MAX)),
        (json!("17179869183GiB"), Some(u64::MAX - (1024 * MIB - 1))),
        (json!("17179869184GiB"), None),
        (json!("99999999999999999999"), None),
        (json!("1.5GiB"), None),
        (json!("-1GiB"), None),
        (json!("+1GiB"), None),
        (json!("1gib"), None),
        (json!("1GB"), None),
        (json!("GiB"), None),
        (json!(""), None),
        (json!(" 1GiB"), None),
        (json!(1.5e9), None),
        (json!(-1), None),
        (json!(true), None),
    ] {
        assert_eq!(memory("sandbox", &value), bytes, "{value}");
        // An engine takes no less than 6 MiB.
        assert_eq!(memory("container", &value), bytes.filter(|bytes| *bytes >= 6 * MIB), "{value}");
    }
    assert_eq!((memory("container", &json!("6MiB")), memory("container", &json!(6 * MIB - 1))), (Some(6 * MIB), None));
}

#[test]
fn ports_and_processors_have_bounds() {
    let ports = |ports: Vec<u32>| read(&json!({ "command": "x", "sandbox": { "connect": ports } })).0;
    assert!(matches!(ports((1..=256).collect()), Decoded::Server(_)));
    assert!(matches!(ports((1..=257).collect()), Decoded::Broken));
    for (cpus, millicpus) in [
        (json!(0.01), Some(10)),
        (json!(0.0099), None),
        (json!(1.5), Some(1500)),
        (json!(1024), Some(1_024_000)),
        (json!(1024.001), None),
        (json!("2"), None),
    ] {
        let entry = json!({ "command": "x", "container": { "image": "x", "limits": { "cpus": cpus } } });
        let read = match read(&entry).0 {
            Decoded::Server(spec) => match spec.transport {
                Transport::Stdio(stdio) => stdio.container.unwrap().millicpus,
                other => panic!("{other:?}"),
            },
            _ => None,
        };
        assert_eq!(read, millicpus, "{cpus}");
    }
}
