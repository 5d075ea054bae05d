//! Stores the *cleaned* forms of a tool's input schema: one for each model provider, as that provider accepts it. Each
//! form is made on first use and stored with the tool, so that all catalogs with this tool share it.

use std::sync::{Arc, OnceLock};

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::schema::{Provider, clean};

/// The schemas of one tool, one for each [`Provider`]. Each is computed on first use, because most are never used.
#[derive(Debug, Default)]
pub(crate) struct CleanedSchemas(OnceLock<Box<[OnceLock<CleanedSchema>; Provider::ALL.len()]>>);

/// A schema for one provider.
#[derive(Debug)]
pub(crate) struct CleanedSchema {
    pub(crate) json: Arc<RawValue>,
    /// Whether the schema has any property: Gemini refuses a schema without properties.
    pub(crate) has_properties: bool,
}

impl CleanedSchemas {
    /// Returns the schema for `provider`. `raw` is the schema as the server wrote it, and must be the same in each
    /// call.
    pub(crate) fn get(&self, provider: Provider, raw: &RawValue) -> &CleanedSchema {
        let schemas = self.0.get_or_init(Box::default);
        let index = match provider {
            Provider::OpenAi => 0,
            Provider::Anthropic => 1,
            Provider::Gemini => 2,
            Provider::None => 3,
        };
        schemas[index].get_or_init(|| CleanedSchema::new(provider, raw))
    }
}

impl CleanedSchema {
    fn new(provider: Provider, raw: &RawValue) -> Self {
        // JSON that nests deeper than 128 levels cannot be read, and counts as no schema.
        let schema: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let cleaned = clean(&schema, provider).schema;
        let has_properties =
            cleaned.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
        let json = match provider {
            Provider::None => raw.to_owned(),
            _ => to_raw_value(&cleaned).unwrap_or_else(|_| raw.to_owned()),
        };
        Self { json: json.into(), has_properties }
    }
}
