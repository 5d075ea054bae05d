//! Returns a sample value for each field, other than its default. Only tests use it.

use serde_json::{Value as Json, json};

use super::{Kind, Row};

/// Sample texts of fields that do not accept every value of their kind.
const SAMPLES_BY_KEY: &[(&str, &str)] = &[
    ("account", "sample"),
    ("base_url", "https://sample"),
    ("bearer_token_env_var", "SAMPLE"),
    ("cwd", "/sample"),
    ("grant", "client_credentials"),
    ("key", "${SAMPLE}"),
    ("naming", "tool"),
    ("network", "bridge"),
    ("proxy", "off"),
    ("token_url", "https://sample"),
    ("type", "sse"),
    ("url", "https://sample"),
    ("user", "1000"),
    ("wire", "anthropic"),
];

/// Returns a value for the field; `None` for an object of other fields, which have their own samples.
pub(crate) fn sample(row: &Row) -> Option<Json> {
    if let Some((_, text)) = SAMPLES_BY_KEY.iter().find(|(key, _)| *key == row.key) {
        return Some(json!(text));
    }
    match row.key {
        "env_http_headers" => return Some(json!({ "X-Sample": "SAMPLE" })),
        "for" => return Some(json!(["group:sample"])),
        "mounts" => return Some(json!(["/sample:/sample"])),
        "tmpfs" => return Some(json!(["/sample"])),
        _ => {}
    }
    sample_of_kind(&row.kind, row.default_value().as_ref())
}

fn sample_of_kind(kind: &Kind, default: Option<&Json>) -> Option<Json> {
    Some(match kind {
        Kind::Text => json!("sample"),
        Kind::Flag => json!(default != Some(&json!(true))),
        Kind::Words(words) => json!(words.iter().rev().find(|word| default != Some(&json!(word)))?),
        Kind::Whole { min, .. } => json!(if *min > 77 { 2077 } else { 77 }),
        Kind::Number { .. } => json!(1.5),
        Kind::Numbers(numbers) => json!(numbers.last()?),
        Kind::Time | Kind::Milliseconds => json!(77),
        Kind::Size { .. } => json!("512MiB"),
        Kind::Texts => json!(["sample"]),
        Kind::Ports { .. } => json!([77]),
        Kind::Map | Kind::Object => json!({ "SAMPLE": "sample" }),
        Kind::Either(kinds) => return sample_of_kind(kinds.first()?, default),
        Kind::Table(_) | Kind::Tables(_) | Kind::Entries | Kind::NamedEntries => return None,
    })
}

/// Returns a value for the field that contains `text`; `None` if the field takes no text.
pub(crate) fn with_text(row: &Row, text: &str) -> Option<Json> {
    fn value(kind: &Kind, text: &str) -> Option<Json> {
        match kind {
            Kind::Text => Some(json!(text)),
            Kind::Texts => Some(json!([text])),
            Kind::Map => Some(json!({ "SAMPLE": text })),
            Kind::Either(kinds) => kinds.iter().find_map(|kind| value(kind, text)),
            _ => None,
        }
    }
    value(&row.kind, text)
}
