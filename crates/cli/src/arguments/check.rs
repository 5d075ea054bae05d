//! Arguments against the tool's schema, before anything is sent.

use std::time::Duration;

use jsonschema::{PatternOptions, ValidationError, error::ValidationErrorKind};
use serde_json::{Map, Value};

use super::BadArguments;
use crate::suggest;

/// A schema is foreign: one that takes longer is left to the server.
const TIME: Duration = Duration::from_secs(1);
/// Misfits that are told.
const MAX_TOLD: usize = 5;
/// Characters of one misfit.
const MAX_MISFIT: usize = 300;

/// Whether `arguments` fit `schema`, the tool's whole input schema.
///
/// A schema that cannot be used, or takes too long, refuses nothing: the server checks for itself.
pub(crate) async fn check(arguments: &Map<String, Value>, schema: Value) -> Result<(), BadArguments> {
    let arguments = Value::Object(arguments.clone());
    let check = tokio::task::spawn_blocking(move || misfits(&arguments, &schema));
    match tokio::time::timeout(TIME, check).await {
        Ok(Ok(misfits)) if !misfits.is_empty() => Err(BadArguments::Misfits { misfits }),
        _ => Ok(()),
    }
}

fn misfits(arguments: &Value, schema: &Value) -> Vec<String> {
    let compiled = jsonschema::options().offline().with_pattern_options(PatternOptions::regex()).build(schema);
    let Ok(compiled) = compiled else {
        return Vec::new();
    };
    compiled.iter_errors(arguments).take(MAX_TOLD).map(|error| in_words(&error, schema)).collect()
}

fn in_words(error: &ValidationError<'_>, schema: &Value) -> String {
    let place = error.instance_path().to_string();
    let place = place.trim_start_matches('/').replace('/', ".");
    let top = place.is_empty();
    let mut words = match error.kind() {
        ValidationErrorKind::Required { property } if top => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } if top => {
            let names: Vec<_> = unexpected.iter().map(|name| no_such_argument(name, schema)).collect();
            names.join(", ")
        }
        _ if top => error.to_string(),
        _ => format!("`{place}`: {error}"),
    };
    if let Some((at, _)) = words.char_indices().nth(MAX_MISFIT) {
        words.truncate(at);
        words.push_str("...");
    }
    words
}

fn no_such_argument(name: &str, schema: &Value) -> String {
    let known = schema.get("properties").and_then(Value::as_object);
    let known = known.into_iter().flat_map(|known| known.keys().map(String::as_str));
    match suggest::closest(name, known) {
        Some(meant) => format!("there is no `{name}` (did you mean `{meant}`?)"),
        None => format!("there is no `{name}`"),
    }
}
