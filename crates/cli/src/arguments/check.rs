//! Checks arguments against the tool's schema, before anything is sent.

use serde_json::{Map, Value};
use toolrack_host::{Misfit, MisfitKind, Unfit, Validator, plainly_fits};

use super::{
    BadArguments,
    slips::{given_for, meant},
};

/// Whether `arguments` fit `schema`, the tool's whole input schema.
///
/// A schema that cannot be used, or would take too long, refuses nothing: the server checks for itself.
pub(crate) async fn check(arguments: &Map<String, Value>, schema: Value) -> Result<(), BadArguments> {
    let arguments = Value::Object(arguments.clone());
    if plainly_fits(&schema, &arguments) {
        return Ok(());
    }
    // The work is bounded, but could still keep Ctrl-C from being heard.
    let check = tokio::task::spawn_blocking(move || misfits(&arguments, &schema));
    match check.await {
        Ok(misfits) if !misfits.is_empty() => Err(BadArguments::Misfits { misfits }),
        _ => Ok(()),
    }
}

fn misfits(arguments: &Value, schema: &Value) -> Vec<String> {
    match Validator::compile(schema).map(|validator| validator.validate(arguments)) {
        Ok(Err(Unfit::Mismatch { misfits })) => {
            let given = arguments.as_object().cloned().unwrap_or_default();
            misfits.iter().map(|misfit| in_words(misfit, &given, schema)).collect()
        }
        _ => Vec::new(),
    }
}

fn in_words(misfit: &Misfit, given: &Map<String, Value>, schema: &Value) -> String {
    let place = misfit.place.trim_start_matches('/').replace('/', ".");
    match &misfit.kind {
        MisfitKind::Missing { property } if place.is_empty() => match given_for(property, given, schema) {
            Some(other) => format!("`{property}` is missing (`{other}` is given)"),
            None => format!("`{property}` is missing"),
        },
        MisfitKind::Unexpected { names } if place.is_empty() => {
            let names: Vec<_> = names.iter().map(|name| no_such_argument(name, given, schema)).collect();
            names.join(", ")
        }
        _ if place.is_empty() => misfit.message.clone(),
        _ => format!("`{place}`: {}", misfit.message),
    }
}

fn no_such_argument(name: &str, given: &Map<String, Value>, schema: &Value) -> String {
    match meant(name, given, schema) {
        Some(meant) => format!("there is no `{name}` (did you mean `{meant}`?)"),
        None => format!("there is no `{name}`"),
    }
}
