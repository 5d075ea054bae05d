//! Compares the row of each setting with the reader.

use serde_json::Value as Json;

use super::*;
use crate::rows::{MODEL, POLICY, PROFILE, RULE, SHOW, samples::sample};

fn read(text: &str) -> (Settings, Vec<Problem>) {
    let wanted = ReadContext { agent: Some("a"), ..ReadContext::default() };
    Settings::read(&Document::new(Some("toolrack.toml".into()), text), wanted)
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
    let mut held = 0;
    for (table, head) in TABLES {
        // A rule needs a pattern.
        let rule = if table.title == "policy.rules" { "confirm = \"x/*\"\n" } else { "" };
        // The head has what a table needs.
        let own = head.rsplit("[[").next().unwrap_or_default();
        for row in table.rows.iter().filter(|row| !own.contains(&format!("\n{} = ", row.key))) {
            let Some(sample) = sample(row) else { continue };
            let is_effect = ["allow", "confirm", "deny"].contains(&row.key);
            let rest = if is_effect { "" } else { rule };
            let (before, _) = read(&format!("{head}{rest}"));
            let text = format!("{head}{rest}{} = {}\n", row.key, toml(&value(table, row.key, sample)));
            let (settings, problems) = read(&text);
            assert_eq!(problems, [], "{text}");
            assert_ne!(settings, before, "{text}");
            let document = Document::new(Some("toolrack.toml".into()), &text);
            let file = dialect::parse(&document).expect("TOML").expect("a value").to_json();
            assert!(schema.validate(&file).is_ok(), "{text}");
            held += 1;
        }
    }
    assert!(held > 40, "{held}");
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
