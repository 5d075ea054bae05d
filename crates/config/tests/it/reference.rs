//! What is made from the rows of fields: `docs/mcp.schema.json`, `docs/toolrack.schema.json` and `docs/reference.md`.
//!
//! `TOOLRACK_RENEW=1 cargo nextest run -p toolrack-config reference` writes them anew.

use std::{fs, path::PathBuf};

use serde_json::{Value as Json, json};
use toolrack_config::schema;
use toolrack_host::{Unfit, Validator};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds a file of `docs/` to `made`, or renews it.
fn hold(name: &str, made: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("TOOLRACK_RENEW").is_some() {
        fs::write(&path, made).expect("a file");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let line = stored.lines().zip(made.lines()).position(|(stored, made)| stored != made);
    let says = "is not what the rows say: TOOLRACK_RENEW=1 cargo nextest run -p toolrack-config reference";
    assert!(stored == made, "docs/{name} {says} (line {})", line.map_or(0, |line| line + 1));
}

fn pretty(schema: &Json) -> String {
    serde_json::to_string_pretty(schema).expect("JSON") + "\n"
}

#[test]
fn the_schemas_and_the_reference_page_are_generated_from_the_rows() {
    hold("mcp.schema.json", &pretty(&schema::servers()));
    hold("toolrack.schema.json", &pretty(&schema::settings()));
    hold("reference.md", &schema::reference());
}

fn validator(schema: &Json) -> Validator {
    Validator::compile(schema).expect("a schema that can be used")
}

/// What a schema says against a value.
fn errors(validator: &Validator, value: &Json) -> Vec<String> {
    match validator.validate(value) {
        Ok(()) => Vec::new(),
        Err(Unfit::Mismatch { mismatches }) => mismatches.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
    }
}

fn from_toml(text: &str) -> Json {
    fn convert(item: &toml_edit::Item) -> Json {
        if let Some(table) = item.as_table_like() {
            return table
                .iter()
                .map(|(key, item)| (key.to_owned(), convert(item)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        if let Some(tables) = item.as_array_of_tables() {
            return tables.iter().map(|table| convert(&toml_edit::Item::Table(table.clone()))).collect();
        }
        match item.as_value().expect("a value") {
            toml_edit::Value::Array(items) => items.iter().map(|item| convert(&item.clone().into())).collect(),
            toml_edit::Value::String(text) => json!(text.value()),
            toml_edit::Value::Integer(number) => json!(number.value()),
            toml_edit::Value::Float(number) => json!(number.value()),
            toml_edit::Value::Boolean(flag) => json!(flag.value()),
            other => panic!("{other}"),
        }
    }
    convert(text.parse::<toml_edit::DocumentMut>().expect("TOML").as_item())
}

/// The blocks of the guide in this language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let pages = fs::read_dir(root().join("docs/guide")).expect("the guide");
    let pages: Vec<_> = pages.map(|page| page.expect("a page").path()).collect();
    let pages = pages.iter().filter(|page| page.extension().is_some_and(|kind| kind == "md"));
    let texts: Vec<_> = pages.map(|page| fs::read_to_string(page).expect("a page")).collect();
    let blocks = texts.iter().flat_map(|text| text.split(&fence).skip(1));
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_examples_of_the_guide_fit_the_schemas() {
    let settings = validator(&schema::settings());
    let tables = blocks("toml");
    assert!(tables.len() >= 4, "{tables:?}");
    for text in tables {
        assert_eq!(errors(&settings, &from_toml(&text)), [""; 0], "{text}");
    }
    let servers = validator(&schema::servers());
    let fields = blocks("json");
    assert!(fields.len() >= 3, "{fields:?}");
    for text in fields {
        let members: Json = serde_json::from_str(&format!("{{ {text} }}")).expect(&text);
        // Some are an entry with its name, the others a field of one.
        let entries = match members.get("sandbox").or(members.get("container")) {
            Some(_) => {
                let mut entry = members.clone();
                entry["command"] = json!("x");
                json!({ "x": entry })
            }
            None => members,
        };
        assert_eq!(errors(&servers, &json!({ "mcpServers": entries })), [""; 0], "{text}");
    }
}

#[test]
fn the_files_of_other_programs_fit_the_schemas() {
    let (servers, settings) = (validator(&schema::servers()), validator(&schema::settings()));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/examples");
    let mut checked = 0;
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a text");
        // The rest of such a file is Codex's own.
        let of_codex = |file: Json| file.get("mcp_servers").map(|servers| json!({ "mcp_servers": servers }));
        let errors = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => {
                let file = from_toml(&text);
                errors(&settings, &of_codex(file.clone()).unwrap_or(file))
            }
            _ => errors(&servers, &jsonc(&text)),
        };
        assert_eq!(errors, [""; 0], "{}", path.display());
        checked += 1;
    }
    assert!(checked >= 15, "{checked}");
}

/// JSON with comments and commas at the end, as editors take it.
fn jsonc(text: &str) -> Json {
    jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default()).expect("JSON")
}

#[test]
fn the_schema_refuses_whatever_the_reader_refuses() {
    let servers = validator(&schema::servers());
    for (entry, is_right) in [
        (json!({ "command": "x", "startup_timeout": "30s", "listTimeout": 3, "call-timeout_ms": 20 }), true),
        (json!({ "serverUrl": "https://x", "http_headers": { "A": 1 }, "openTimeoutMs": 5 }), true),
        (json!({ "enabled": false }), true),
        (json!({ "command": "x", "sandbox": { "connect": "any", "limits": { "memory": "1GiB" } }, "cwd": null }), true),
        (json!({ "command": "x", "unknown": [] }), true),
        (json!({}), false),
        (json!({ "args": ["x"] }), false),
        (json!({ "command": 1 }), false),
        (json!({ "command": "x", "pins": "no" }), false),
        (json!({ "command": "x", "startupTimeout": "30 days" }), false),
        (json!({ "command": "x", "max_message_bytes": 8 }), false),
        (json!({ "command": "x", "sandbox": { "conect": [443] } }), false),
        (json!({ "command": "x", "container": { "engine": "docker" } }), false),
        (json!({ "url": "https://x", "oauth": { "grant": "none" } }), false),
    ] {
        let value = json!({ "mcpServers": { "x": entry } });
        assert_eq!(errors(&servers, &value).is_empty(), is_right, "{value}");
        let loaded = super::load_text("mcp.json", value.to_string());
        let problems = loaded.problems.iter().filter(|problem| problem.is_error());
        assert_eq!(problems.count() == 0, is_right, "{value}: {:?}", loaded.problems);
    }
}
