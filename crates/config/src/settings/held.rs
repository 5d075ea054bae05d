//! Compares the row of each setting with the reader.

use serde_json::{Value as Json, json};

use super::*;
use crate::{
    entry::{Report, decode},
    rows::{DEFAULTS, Kind, MODEL, POLICY, PRICE, PROFILE, PROFILE_LIMITS, RULE, Row, SHOW, samples::sample},
};

fn read(text: &str) -> (Settings, Vec<Problem>) {
    let context = ReadContext { agent: Some("a"), ..ReadContext::default() };
    Settings::read(&Document::new(Some("toolrack.toml".into()), text), context)
}

/// Each table with the text before its fields.
const TABLES: &[(&Table, &str)] = &[
    (TOOLRACK, ""),
    (TOOLS, "[tools]\n"),
    (MODEL, "[model]\n"),
    (SESSIONS, "[sessions]\n"),
    (AUDIT, "[audit]\n"),
    (EGRESS, "[egress]\n"),
    (SERVE, "[serve]\n"),
    (POLICY, "[policy]\n"),
    (RULE, "[[policy.rules]]\n"),
    (PROFILE, "[[profiles]]\nname = \"a\"\n"),
    (SHOW, "[[profiles]]\nname = \"a\"\n[[profiles.show]]\ntool = \"sample/tool\"\n"),
    (AGENT, "[[agents]]\nid = \"a\"\n"),
];

/// Writes JSON as TOML.
fn toml(value: &Json) -> String {
    match value {
        Json::Object(members) => {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("{name} = {}", toml(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns a sample value that this setting accepts.
fn value(table: &Table, key: &str, sample: Json) -> Json {
    match (table.title, key) {
        ("egress", "allow") => serde_json::json!(["10.0.0.0/8"]),
        ("policy" | "policy.rules", "allow" | "confirm" | "deny") => serde_json::json!("sample/*"),
        ("policy.rules", "who") => serde_json::json!("group:sample"),
        _ => sample,
    }
}

#[test]
fn each_setting_is_read_and_applied() {
    let schema = toolrack_host::Validator::compile(&crate::schema::settings()).expect("a schema");
    let mut checked_count = 0;
    for (table, head) in TABLES {
        // A rule needs a pattern.
        let rule = if table.title == "policy.rules" { "confirm = \"x/*\"\n" } else { "" };
        // The head has what a table needs.
        let last_table = head.rsplit("[[").next().unwrap_or_default();
        for row in table.rows.iter().filter(|row| !last_table.contains(&format!("\n{} = ", row.key))) {
            let Some(sample) = sample(row) else { continue };
            let is_effect = ["allow", "confirm", "deny"].contains(&row.key);
            let required_fields = if is_effect { "" } else { rule };
            let (before, _) = read(&format!("{head}{required_fields}"));
            let text = format!("{head}{required_fields}{} = {}\n", row.key, toml(&value(table, row.key, sample)));
            let (settings, problems) = read(&text);
            assert_eq!(problems, [], "{text}");
            assert_ne!(settings, before, "{text}");
            let document = Document::new(Some("toolrack.toml".into()), &text);
            let file = dialect::parse(&document).expect("TOML").expect("a value").to_json();
            assert!(schema.validate(&file).is_ok(), "{text}");
            checked_count += 1;
        }
    }
    assert!(checked_count > 40, "{checked_count}");
}

#[test]
fn an_absent_setting_equals_its_documented_default() {
    for (table, head) in TABLES {
        for row in table.rows {
            let Some(default) = row.default_value() else { continue };
            let text = format!("{head}{} = {}\n", row.key, toml(&default));
            assert_eq!(read(&text), read(head), "{text}");
        }
    }
}

/// Values that are not of this kind.
fn wrong(kind: &Kind) -> Vec<Json> {
    // The numbers just outside of the bounds, if TOML can write them.
    let outside = |least: u64, most: u64| {
        let above = most.checked_add(1).filter(|above| i64::try_from(*above).is_ok()).map(|above| json!(above));
        let below = least.checked_sub(1).map_or(json!(-1), |below| json!(below));
        [Some(below), above].into_iter().flatten()
    };
    match kind {
        Kind::Text => vec![json!(1), json!(true), json!(["x"]), json!({ "x": "x" })],
        Kind::Flag => vec![json!("true"), json!(1), json!([])],
        Kind::Words(_) => vec![json!("canary"), json!(""), json!(1), json!(true), json!(["x"])],
        Kind::Whole { min, max } => {
            outside(*min, *max).chain([json!(-1), json!(1.5), json!("1"), json!(true), json!([1])]).collect()
        }
        Kind::Number { min, max } => {
            let above = if *max < f64::MAX { json!(max + 1.0) } else { json!("canary") };
            vec![json!(min - 0.0005), above, json!("1"), json!(true), json!([1])]
        }
        Kind::Numbers(numbers) => vec![json!(numbers[0] + 1), json!(0), json!("64"), json!(true)],
        Kind::Texts => vec![json!(1), json!([1]), json!([true]), json!([["x"]]), json!({ "x": "x" })],
        Kind::Ports { .. } => vec![json!([0]), json!([65_536]), json!([-1]), json!(["443"]), json!([1.5]), json!(443)],
        Kind::Object | Kind::Table(_) => vec![json!("canary"), json!(1), json!([1])],
        Kind::Tables(_) | Kind::NamedEntries => vec![json!("canary"), json!(1), json!([1]), json!({})],
        Kind::Entries => vec![json!("canary"), json!(1), json!([]), json!({ "x": 1 })],
        // Values that are of neither kind.
        Kind::Either([Kind::Text, Kind::Texts]) => vec![json!(1), json!(true), json!([1]), json!([["x"]]), json!({})],
        Kind::Either([Kind::Words(_), Kind::Table(_)]) => vec![json!("canary"), json!(1), json!([])],
        _ => panic!("{kind:?} has no values here"),
    }
}

/// The values at the bounds of this kind.
fn at_the_bounds(kind: &Kind) -> Vec<Json> {
    match kind {
        Kind::Whole { min, max } => {
            let max = (*max).min(i64::MAX.unsigned_abs());
            vec![json!(min), json!(max)]
        }
        Kind::Number { min, max } if *max < f64::MAX => vec![json!(min), json!(max)],
        Kind::Numbers(numbers) => numbers.iter().map(|number| json!(number)).collect(),
        Kind::Words(words) => words.iter().map(|word| json!(word)).collect(),
        _ => Vec::new(),
    }
}

/// Each setting with the text before it, and with the fields that its table also needs.
fn settings() -> impl Iterator<Item = (&'static Table, &'static Row, &'static str, &'static str)> {
    let more: [(&Table, &str); 3] = [
        (DEFAULTS, "[defaults]\n"),
        (PRICE, "[model]\n[model.price]\ninput = 1\noutput = 1\n"),
        (PROFILE_LIMITS, "[[profiles]]\nname = \"a\"\n[profiles.limits]\n"),
    ];
    TABLES.iter().copied().chain(more).flat_map(|(table, head)| {
        let own = head.rsplit("[[").next().unwrap_or_default();
        let is_free = move |row: &&Row| !own.contains(&format!("\n{} = ", row.key));
        table.rows.iter().filter(is_free).map(move |row| {
            let is_effect = ["allow", "confirm", "deny"].contains(&row.key);
            let rest = if table.title == "policy.rules" && !is_effect { "confirm = \"x/*\"\n" } else { "" };
            (table, row, head, rest)
        })
    })
}

/// The errors of both readers of a file: of its settings, and of its servers.
fn errors(text: &str) -> Vec<Problem> {
    let document = Document::new(Some("toolrack.toml".into()), text);
    let (_, mut problems) = read(text);
    match dialect::servers(&document) {
        Ok(servers) => {
            problems.extend(servers.problems);
            for raw_entry in servers.entries {
                let mut report = Report::new(Some(&document), &raw_entry.name);
                decode(&raw_entry, &mut report);
                problems.extend(report.into_problems());
            }
        }
        Err(problem) => problems.push(*problem),
    }
    problems.retain(Problem::is_error);
    problems
}

#[test]
fn an_editor_with_the_schema_marks_exactly_the_wrong_values_that_are_errors() {
    let schema = toolrack_host::Validator::compile(&crate::schema::settings()).expect("a schema");
    let (mut tried, mut differ) = (0, Vec::new());
    for (_, row, head, rest) in settings() {
        for value in wrong(&row.kind) {
            let text = format!("{head}{rest}{} = {}\n", row.key, toml(&value));
            let document = Document::new(None, &text);
            let file = dialect::toml::parse(&document).expect("TOML").to_json();
            let (is_error, is_marked) = (!errors(&text).is_empty(), schema.validate(&file).is_err());
            if !is_error || !is_marked {
                differ.push((is_error, is_marked, text));
            }
            tried += 1;
        }
    }
    assert!(differ.is_empty(), "(error, marked): {differ:#?}");
    assert!(tried > 250, "{tried}");
}

#[test]
fn a_setting_at_its_bounds_is_taken_by_the_reader_and_the_schema() {
    let schema = toolrack_host::Validator::compile(&crate::schema::settings()).expect("a schema");
    let mut tried = 0;
    for (_, row, head, rest) in settings() {
        for value in at_the_bounds(&row.kind) {
            let text = format!("{head}{rest}{} = {}\n", row.key, toml(&value));
            let document = Document::new(None, &text);
            let file = dialect::toml::parse(&document).expect("TOML").to_json();
            assert_eq!(errors(&text), [], "{text}");
            assert!(schema.validate(&file).is_ok(), "{text}");
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn the_error_of_a_wrong_setting_names_the_setting_and_its_line() {
    // An error in one of many entries or tables names that one.
    let is_one = |row: &Row| !matches!(row.kind, Kind::Tables(_) | Kind::Entries | Kind::NamedEntries);
    for (table, row, head, rest) in settings().filter(|(_, row, ..)| is_one(row)) {
        for value in wrong(&row.kind) {
            let text = format!("# a comment\n{head}{rest}{} = {}\n", row.key, toml(&value));
            let last = text.lines().count();
            let errors = errors(&text);
            let names = |problem: &&Problem| {
                let field = problem.field.as_deref().unwrap_or_default();
                problem.message.contains(row.key) || field.contains(row.key) || field.contains(table.title)
            };
            let named = errors.iter().find(names).unwrap_or_else(|| panic!("{text}{errors:?}"));
            assert_eq!(named.line, Some(last), "{text}{named:?}");
            assert!(!named.to_string().contains("canary"), "{text}{named:?}");
        }
    }
}
