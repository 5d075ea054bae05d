//! Makes JSON Schemas (draft 2020-12) of the files with servers and settings, for editors, and a reference page of all
//! fields, for users.
//!
//! Both are made from the rows that the reader uses. They are stored in `docs/`, and a test fails if they are out of
//! date.

mod page;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::rows::{ENTRY, Kind, NOTES, Row, TOOLRACK, Table};

pub use page::reference;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema of `.mcp.json` and `mcp.json`.
#[must_use]
pub fn servers() -> Json {
    let mut schema = Schema::default();
    let servers = json!({ "type": "object", "additionalProperties": schema.entry() });
    let mut root = object([
        ("$schema", json!(DRAFT)),
        ("title", json!("Servers of Toolrack, and of other programs that use MCP")),
        (
            "description",
            json!(
                "Every field can also be written in camelCase and in kebab-case, and under the names that other programs \
                 have for it."
            ),
        ),
        ("type", json!("object")),
    ]);
    let servers_objects =
        [("mcpServers", "Servers by their names."), ("servers", "Servers by their names, as VS Code writes them.")];
    let mut properties = object([("$schema", json!({ "type": "string" }))]);
    for (key, description) in servers_objects {
        let mut servers_object = servers.clone();
        servers_object["description"] = json!(description);
        properties.insert(key.to_owned(), servers_object);
    }
    root.insert("properties".to_owned(), Json::Object(properties));
    root.insert("$defs".to_owned(), schema.into_defs());
    Json::Object(root)
}

/// Returns the schema of `toolrack.toml`.
#[must_use]
pub fn settings() -> Json {
    let mut schema = Schema::default();
    let mut root = object([("$schema", json!(DRAFT)), ("title", json!("Settings and servers of Toolrack"))]);
    root.extend(schema.with_one_spelling(TOOLRACK));
    root.insert("$defs".to_owned(), schema.into_defs());
    Json::Object(root)
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A schema that is being built.
#[derive(Debug, Default)]
struct Schema {
    /// The definitions, by name.
    defs: BTreeMap<String, Json>,
}

impl Schema {
    fn into_defs(self) -> Json {
        self.defs.into_iter().collect::<Map<_, _>>().into()
    }

    /// Returns a reference to the definition `name`, which `make` builds the first time.
    fn define(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Json) -> Json {
        if !self.defs.contains_key(name) {
            // Insert the name first, because a definition that refers to itself must not be built a second time.
            self.defs.insert(name.to_owned(), Json::Null);
            let definition = make(self);
            self.defs.insert(name.to_owned(), definition);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// Returns the schema of an entry.
    fn entry(&mut self) -> Json {
        self.define("entry", |schema| {
            let mut entry = schema.with_spellings("entry", ENTRY, NOTES.rows);
            let characteristic = ENTRY.rows.iter().filter(|row| row.is_characteristic).flat_map(spellings);
            entry.insert("anyOf".to_owned(), characteristic.map(|name| json!({ "required": [name] })).collect());
            Json::Object(entry)
        })
    }

    /// Returns the definition `name`: an object with the fields of `table`, whose names have several spellings, as in
    /// entries. Editors complete the key of each field, and check it under every name.
    fn with_spellings(&mut self, name: &str, table: &Table, additional_rows: &[Row]) -> Map<String, Json> {
        let mut properties = Map::new();
        let mut patterns = Map::new();
        let mut required = Vec::new();
        for row in table.rows.iter().chain(additional_rows) {
            properties.insert(row.key.to_owned(), self.row(row, true));
            let mut names: Vec<_> = spellings(row).into_iter().filter(|name| name != row.key).collect();
            if row.kind.is_time() {
                names.push(format!("({})([-_](s|secs?|seconds|ms)|S|Secs?|Seconds|Ms)", spellings(row).join("|")));
            }
            if !names.is_empty() {
                let pointer = format!("#/$defs/{name}/properties/{}", row.key);
                patterns.insert(format!("^({})$", names.join("|")), json!({ "$ref": pointer }));
            }
            if row.is_required {
                required.push(row.key);
            }
        }
        let mut schema = object([("type", json!("object")), ("properties", Json::Object(properties))]);
        if !patterns.is_empty() {
            schema.insert("patternProperties".to_owned(), Json::Object(patterns));
        }
        Self::finish(schema, table, &required)
    }

    /// Returns an object with the fields of `table`, whose names have one spelling.
    fn with_one_spelling(&mut self, table: &Table) -> Map<String, Json> {
        let properties: Map<_, _> = table.rows.iter().map(|row| (row.key.to_owned(), self.row(row, false))).collect();
        let required: Vec<_> = table.rows.iter().filter(|row| row.is_required).map(|row| row.key).collect();
        Self::finish(object([("type", json!("object")), ("properties", Json::Object(properties))]), table, &required)
    }

    /// Adds to `schema` the required fields of `table`, and whether other fields are allowed.
    fn finish(mut schema: Map<String, Json>, table: &Table, required: &[&str]) -> Map<String, Json> {
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        if table.is_closed {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        schema
    }

    /// Returns the schema of a field. `has_spellings` is `true` for a field of an entry, because its name has several
    /// spellings.
    fn row(&mut self, row: &Row, has_spellings: bool) -> Json {
        let kind = self.kind(&row.kind, has_spellings);
        // A field that is `null` counts as absent.
        let kind = if has_spellings { json!({ "anyOf": [kind, { "type": "null" }] }) } else { kind };
        let mut schema = object([("description", json!(row.about))]);
        schema.extend(row.default_value().map(|value| ("default".to_owned(), value)));
        if let Json::Object(kind) = kind {
            schema.extend(kind);
        }
        Json::Object(schema)
    }

    fn kind(&mut self, kind: &Kind, has_spellings: bool) -> Json {
        match kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Words(words) => json!({ "enum": words }),
            Kind::Whole { min, max } if *max == u64::MAX => json!({ "type": "integer", "minimum": min }),
            Kind::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Kind::Number { min, max } if *max >= f64::MAX => json!({ "type": "number", "minimum": min }),
            Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
            Kind::Numbers(numbers) => json!({ "enum": numbers }),
            Kind::Time => self.define("time", |_| time()),
            Kind::Milliseconds => json!({ "type": "number", "exclusiveMinimum": 0 }),
            Kind::Size { min } => json!({ "anyOf": [
                { "type": "integer", "minimum": min },
                { "type": "string", "pattern": r"^[0-9]+\s*(KiB|MiB|GiB)?\s*$" },
            ] }),
            Kind::Texts if has_spellings => self.define("texts", |_| {
                json!({ "type": "array", "items": { "type": ["string", "number", "boolean"] } })
            }),
            // Only the reader of entries accepts numbers and flags as texts.
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Ports { min } => {
                json!({ "type": "array", "items": { "type": "integer", "minimum": min, "maximum": u16::MAX } })
            }
            Kind::Map => self.define("map", |_| {
                json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean", "null"] } })
            }),
            Kind::Object => json!({ "type": "object" }),
            Kind::Table(table) => self.table(table, has_spellings),
            Kind::Tables(table) => json!({ "type": "array", "items": self.table(table, has_spellings) }),
            Kind::Entries => json!({ "type": "object", "additionalProperties": self.entry() }),
            Kind::NamedEntries => {
                json!({ "type": "array", "items": { "allOf": [self.entry(), { "required": ["name"] }] } })
            }
            Kind::Either(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(|kind| self.kind(kind, has_spellings)).collect();
                json!({ "anyOf": kinds })
            }
        }
    }

    fn table(&mut self, table: &'static Table, has_spellings: bool) -> Json {
        // `tools` of an entry and `tools` of the settings are different tables with the same title.
        let name = if has_spellings { format!("entry.{}", table.title) } else { table.title.to_owned() };
        let fields = |schema: &mut Self| {
            if has_spellings { schema.with_spellings(&name, table, &[]) } else { schema.with_one_spelling(table) }
        };
        self.define(&name, |schema| Json::Object(fields(schema)))
    }
}

/// Returns the schema of a time: a number in the unit of the field's name, or a text with a unit.
fn time() -> Json {
    json!({ "anyOf": [
        { "type": "number", "exclusiveMinimum": 0 },
        { "type": "string", "pattern": r"^\s*[0-9.]+\s*(ms|s|sec|m|min|h)?\s*$" },
    ] })
}

/// Returns all names of a field, each in snake_case, camelCase and kebab-case.
fn spellings(row: &Row) -> Vec<String> {
    let mut spellings = Vec::new();
    for name in row.names() {
        for name in [name.to_owned(), to_camel_case(name), name.replace('_', "-")] {
            if !spellings.contains(&name) {
                spellings.push(name);
            }
        }
    }
    spellings
}

fn to_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name + &initial.to_ascii_uppercase() + rest
    })
}
