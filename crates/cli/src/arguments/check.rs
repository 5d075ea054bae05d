//! Checks arguments against the tool's schema, before anything is sent.

use serde_json::{Map, Value};
use toolrack_host::{Mismatch, MismatchKind, Unfit, Validator, plainly_fits};

use super::{
    BadArguments,
    slips::{argument_meant_for, property_meant_by},
};

/// Checks that `arguments` fit `schema`, the tool's whole input schema.
///
/// Arguments are accepted if the schema cannot be used or the check would take too long: the server checks them itself.
pub(crate) async fn check(arguments: &Map<String, Value>, schema: Value) -> Result<(), BadArguments> {
    let arguments = Value::Object(arguments.clone());
    if plainly_fits(&schema, &arguments) {
        return Ok(());
    }
    // The work is bounded, but on this thread it would delay the handling of Ctrl-C.
    let check_task = tokio::task::spawn_blocking(move || mismatches(&arguments, &schema));
    match check_task.await {
        Ok(mismatches) if !mismatches.is_empty() => Err(BadArguments::Mismatches { mismatches }),
        _ => Ok(()),
    }
}

fn mismatches(arguments: &Value, schema: &Value) -> Vec<String> {
    match Validator::compile(schema).map(|validator| validator.validate(arguments)) {
        Ok(Err(Unfit::Mismatch { mismatches })) => {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            mismatches.iter().map(|mismatch| describe(mismatch, &arguments, schema)).collect()
        }
        // The arguments fit, or the schema cannot be used.
        _ => Vec::new(),
    }
}

fn describe(mismatch: &Mismatch, arguments: &Map<String, Value>, schema: &Value) -> String {
    // The JSON Pointer `/a/0` is shown as `a.0`.
    let place = mismatch.place.trim_start_matches('/').replace('/', ".");
    match &mismatch.kind {
        MismatchKind::Missing { property } if place.is_empty() => match argument_meant_for(property, arguments, schema)
        {
            Some(given_name) => format!("`{property}` is missing (`{given_name}` is given)"),
            None => format!("`{property}` is missing"),
        },
        MismatchKind::Unexpected { names } if place.is_empty() => {
            let names: Vec<_> = names.iter().map(|name| no_such_argument(name, arguments, schema)).collect();
            names.join(", ")
        }
        _ if place.is_empty() => mismatch.message.clone(),
        _ => format!("`{place}`: {}", mismatch.message),
    }
}

fn no_such_argument(name: &str, arguments: &Map<String, Value>, schema: &Value) -> String {
    match property_meant_by(name, arguments, schema) {
        Some(similar_name) => format!("there is no `{name}` (did you mean `{similar_name}`?)"),
        None => format!("there is no `{name}`"),
    }
}
