//! Which model answers: what was typed, else the first provider whose key is there. Never one that was only found.

use std::sync::Arc;

use toolrack_agent::model::{
    Key, Model, Scripted, Wire,
    local::{self, LocalServer},
    provider::{BadSelector, CUSTOM, PROVIDERS, Provider, Selector},
};
use toolrack_config::Environment;

use crate::{
    args::{ModelArgs, WireName},
    error::{Exit, Failure, in_words, with_causes},
};

/// A model that reads its answers from a file: `mock/FILE`.
const MOCK: &str = "mock/";

impl From<WireName> for Wire {
    fn from(name: WireName) -> Self {
        match name {
            WireName::Anthropic => Self::Anthropic,
            WireName::OpenaiChat => Self::OpenAiChat,
            WireName::OpenaiResponses => Self::OpenAiResponses,
            WireName::Gemini => Self::Gemini,
        }
    }
}

/// The model that `args` ask for.
///
/// # Errors
/// With the exit code of models, when there is none or it cannot be used; of usage, when what was typed names none.
pub(crate) async fn chosen(args: &ModelArgs, environment: &Environment) -> Result<Arc<dyn Model>, Failure> {
    if let Some(path) = args.model.as_deref().and_then(|model| model.strip_prefix(MOCK)) {
        return scripted(path);
    }
    let selector = selector(args, environment).await?;
    let key_variable = match &args.key_env {
        Some(name) => Some(name.as_str()),
        None => Provider::find(&selector.provider).and_then(|known| known.key_variable),
    };
    let key = key_variable.and_then(|name| key(environment, name));
    if let (Some(name), None) = (&args.key_env, &key) {
        return Err(Failure::usage(format!("--key-env: the variable {name} is not set")));
    }
    let mut settings = selector.settings(args.base_url.as_deref(), key);
    if let Some(wire) = args.wire {
        settings.wire = wire.into();
    }
    settings.connect().map_err(|error| {
        let hint = key_variable.map(|name| format!("set {name}, or take another model with --model"));
        Failure { hint, ..Failure::new(Exit::Model, error.code(), with_causes(&error)) }
    })
}

async fn selector(args: &ModelArgs, environment: &Environment) -> Result<Selector, Failure> {
    if let Some(model) = &args.model {
        // With an address, a bare name is enough.
        let named = model.parse().or_else(|error| match (&error, &args.base_url) {
            (BadSelector::UnknownProvider { .. }, Some(_)) => format!("{CUSTOM}/{model}").parse(),
            _ => Err(error),
        });
        return named.map_err(|error| Failure::usage(format!("--model: {error}")));
    }
    if let Some(url) = &args.base_url {
        return only_model_at(url).await;
    }
    let with_key = PROVIDERS.iter().find(|known| {
        known.default_model.is_some() && known.key_variable.is_some_and(|name| key(environment, name).is_some())
    });
    match with_key {
        Some(known) => known.name.parse().map_err(|error: BadSelector| Failure::usage(error.to_string())),
        None => Err(none(&local::running().await)),
    }
}

fn key(environment: &Environment, name: &str) -> Option<Key> {
    let value = environment.get(name)?.to_str()?.trim();
    (!value.is_empty()).then(|| Key::new(value))
}

/// A server that has one model needs no name for it.
async fn only_model_at(url: &str) -> Result<Selector, Failure> {
    let found = local::running_at([(CUSTOM, url.to_owned())]).await;
    let models: Vec<_> = found.into_iter().flat_map(|server| server.models).map(|model| model.name).collect();
    match models.as_slice() {
        [only] => format!("{CUSTOM}/{only}").parse().map_err(|error: BadSelector| Failure::usage(error.to_string())),
        [] => Err(Failure::usage("which model? the server at --base-url does not say what it has")
            .hint("name it with --model")),
        several => Err(Failure::usage("which model? the server at --base-url has several")
            .hint(format!("take one with --model: {}", several.join(", ")))),
    }
}

/// What to do where there is no model: nothing is used that nobody asked for.
fn none(running: &[LocalServer]) -> Failure {
    let keys: Vec<_> = PROVIDERS.iter().filter(|known| known.default_model.is_some()).collect();
    let names: Vec<_> = keys.iter().filter_map(|known| known.key_variable).take(3).collect();
    let found = running.iter().find_map(|server| {
        let able = server.models.iter().find(|model| model.tools != Some(false)).or_else(|| server.models.first())?;
        Some(format!("{}/{}", server.provider, able.name))
    });
    let hint = match found {
        Some(model) => format!(
            "set {}, or use what runs here: toolrack ask --model {model} … (tools work without a model: toolrack call)",
            names.join(", ")
        ),
        None => format!("set {}, or name a local one with --model ollama/NAME", names.join(", ")),
    };
    Failure::new(Exit::Model, "NO_MODEL", "no model is configured").hint(hint)
}

fn scripted(path: &str) -> Result<Arc<dyn Model>, Failure> {
    let script = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--model: cannot read {path}: {}", in_words(&error))))?;
    let model = Scripted::from_json(&script)
        .map_err(|error| Failure::usage(format!("--model: {path} is no script: {}", with_causes(&error))))?;
    Ok(Arc::new(model))
}
