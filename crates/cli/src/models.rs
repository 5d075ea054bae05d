//! Chooses the model that answers: the one on the command line, else the configured one, else the default model of the
//! first provider whose key is set. A wire is the API format of a provider.
//!
//! Toolrack never uses a local model just because it found one.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    sync::Arc,
};

use toolrack_agent::{
    Limits,
    model::{
        Bounds, Key, Model, Price, Scripted, Wire,
        local::{self, LocalServer},
        provider::{BadSelector, CUSTOM, PROVIDERS, Provider, Selector},
    },
};
use toolrack_config::{Environment, Interpolate, Loaded, ModelChoice, PriceChoice, RequestBounds};

use crate::{
    args::{LimitArgs, ModelArgs, TalkArgs, WireName},
    error::{Exit, Failure, in_words, with_causes},
};

/// The prefix of the name of a test model that reads its answers from a file: `mock/FILE`.
const MOCK_PREFIX: &str = "mock/";

/// Converts the name on the command line into the wire (the API format of a provider).
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

/// A model, and the limits of one turn with the model (a message, and all that the model does until it has answered).
#[derive(Debug)]
pub(crate) struct SelectedModel {
    pub(crate) model: Arc<dyn Model>,
    /// The most tokens of one answer; `None` for the maximum that the model has.
    pub(crate) max_tokens: Option<NonZeroU32>,
    pub(crate) limits: Limits,
    /// Whether the price of the model is known.
    pub(crate) has_price: bool,
}

/// Everything that is needed to find a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelContext {
    pub(crate) environment: Environment,
    /// Fills in the placeholders of settings.
    pub(crate) interpolate: Arc<Interpolate>,
    /// The file in which a model is configured.
    pub(crate) file: PathBuf,
}

/// A setting of the model that can have placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelSetting {
    BaseUrl,
    /// A secret.
    Key,
}

impl ModelSetting {
    /// Returns the name of the setting in `toolrack.toml`.
    fn name(self) -> &'static str {
        match self {
            Self::BaseUrl => "model.base_url",
            Self::Key => "model.key",
        }
    }
}

impl ModelContext {
    /// Returns the value of a setting, with its placeholders filled in. If it is a secret, output hides it from now on.
    async fn setting(&self, setting: ModelSetting, text: Option<&String>) -> Result<Option<String>, Failure> {
        let Some(text) = text else {
            return Ok(None);
        };
        let is_secret = setting == ModelSetting::Key;
        let value = self.interpolate.setting(setting.name(), text, is_secret).await.map(Some);
        value.map_err(|error| Failure::config(error.to_string()).hint("`toolrack config show` shows the setting"))
    }
}

/// The settings of the command line, and those of the configuration. A setting of the command line wins.
#[derive(Clone, Debug)]
pub(crate) struct ModelOptions {
    pub(crate) model: ModelArgs,
    pub(crate) limits: LimitArgs,
    /// The settings in `toolrack.toml`.
    pub(crate) configured: ModelChoice,
}

/// Checks whether `name` can be the name of a model.
///
/// # Errors
/// A message for the user.
pub(crate) fn check_name(name: &str, has_base_url: bool) -> Result<(), String> {
    if name.starts_with(MOCK_PREFIX) {
        return Ok(());
    }
    parse_name(name, has_base_url).map(drop).map_err(|error| error.to_string())
}

impl ModelOptions {
    /// Returns the chosen model, and its limits.
    ///
    /// # Errors
    /// [`Exit::Model`] when there is no model or it cannot be used; [`Exit::Usage`] when the command line or the
    /// configuration does not name a model correctly, or when there is a limit on the cost but the price is not known.
    pub(crate) async fn choose(&self, model_context: &ModelContext) -> Result<SelectedModel, Failure> {
        if !self.configured.is_valid {
            let message = format!("the settings of the model in {} cannot be used", model_context.file.display());
            return Err(Failure::config(message).hint("correct the problems that are reported above"));
        }
        let choice = self.configured.clone().overlaid(self.command_line_choice());
        let (model, has_price) = match choice.name.as_deref().and_then(|name| name.strip_prefix(MOCK_PREFIX)) {
            // A test model costs nothing.
            Some(path) => (scripted(path)?, true),
            None => connect(&choice, self.model.key_env.as_deref(), model_context).await?,
        };
        if let (Some(_), false) = (choice.max_cost, has_price) {
            let message =
                format!("the price of {} is not known, so a limit on its cost would never be reached", model.name());
            let hint = "say what a million tokens cost with `--price INPUT,OUTPUT` or `[model] price = { input = …, output = … }` \
                        in toolrack.toml, or leave the limit out";
            return Err(Failure::new(Exit::Usage, "PRICE_UNKNOWN", message).hint(hint));
        }
        let mut limits = Limits::default();
        limits.rounds = choice.max_rounds.map_or(limits.rounds, NonZeroU32::get);
        limits.tokens = choice.max_total_tokens.map(NonZeroU64::get);
        limits.cost = choice.max_cost;
        Ok(SelectedModel { model, max_tokens: choice.max_tokens, limits, has_price })
    }

    pub(crate) fn from_arguments(args: &TalkArgs, loaded: &Loaded) -> Self {
        Self { model: args.model.clone(), limits: args.limits, configured: loaded.settings.model.clone() }
    }

    /// Returns these options with the model `name` instead. Keeps the address, the wire and the key variable of the
    /// command line only if the new model has the same provider: otherwise its key would go to the address of another
    /// provider. Keeps the price only for the same model. [`Self::choose`] does the same with the configured settings.
    pub(crate) fn with_model(&self, name: String) -> Self {
        let ModelArgs { model: typed_model, base_url, key_env, wire, max_tokens, price } = self.model.clone();
        let provider = |name: &str| parse_name(name, base_url.is_some()).ok().map(|selector| selector.provider);
        let typed_provider = match typed_model.as_ref().or(self.configured.name.as_ref()) {
            Some(model) => provider(model),
            // With only an address, the model is the one at that address, of the provider `custom`.
            None => base_url.as_ref().map(|_| CUSTOM.to_owned()),
        };
        let is_same_provider = typed_provider.is_some() && provider(&name) == typed_provider;
        let price = price.filter(|_| typed_model.as_ref() == Some(&name));
        let model = match is_same_provider {
            true => ModelArgs { model: Some(name), base_url, key_env, wire, max_tokens, price },
            false => ModelArgs { model: Some(name), max_tokens, price, ..ModelArgs::default() },
        };
        Self { model, ..self.clone() }
    }

    /// Returns the options of a command without model arguments: those in the environment variables that `ask` reads,
    /// too, and those in the configuration.
    pub(crate) fn without_arguments(configured: ModelChoice, environment: &Environment) -> Self {
        let variable = |name| environment.get(name)?.to_str().filter(|value| !value.is_empty()).map(ToOwned::to_owned);
        let (model, base_url) = (variable("TOOLRACK_MODEL"), variable("TOOLRACK_BASE_URL"));
        Self { model: ModelArgs { model, base_url, ..ModelArgs::default() }, limits: LimitArgs::default(), configured }
    }

    /// Returns the name of the chosen model, without creating the model; `None` if there is none or the configuration
    /// is invalid.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.model.model.as_ref().or(self.configured.name.as_ref());
        name.filter(|_| self.configured.is_valid).cloned()
    }

    /// Returns the options of the command line in the form of the configuration.
    fn command_line_choice(&self) -> ModelChoice {
        let mut choice = ModelChoice::default();
        choice.name.clone_from(&self.model.model);
        // In the configuration `$` begins a placeholder, and `$$` is a plain `$`.
        choice.base_url = self.model.base_url.as_ref().map(|url| url.replace('$', "$$"));
        choice.wire = self.model.wire.map(Into::into);
        choice.max_tokens = self.model.max_tokens;
        choice.price = self.model.price.map(|(input, output)| PriceChoice::flat(input, output));
        choice.max_rounds = self.limits.max_rounds;
        choice.max_total_tokens = self.limits.max_total_tokens;
        choice.max_cost = self.limits.max_cost;
        choice
    }
}

/// Returns a model behind HTTP, and whether its price is known. `key_env` is the variable of `--key-env`.
async fn connect(
    choice: &ModelChoice,
    key_env: Option<&str>,
    model_context: &ModelContext,
) -> Result<(Arc<dyn Model>, bool), Failure> {
    let environment = &model_context.environment;
    let base_url = model_context.setting(ModelSetting::BaseUrl, choice.base_url.as_ref()).await?;
    let selector = selector(choice.name.as_deref(), base_url.as_deref(), environment).await?;
    let provider = Provider::find(&selector.provider);
    let key_variable = key_env.or(provider.and_then(|provider| provider.key_variable));
    let key = match model_context.setting(ModelSetting::Key, choice.key.as_ref()).await? {
        // A variable that the command line names wins over the configured key.
        Some(value) if key_env.is_none() => Some(Key::new(value)),
        _ => key_variable.and_then(|name| key_in_variable(environment, name)),
    };
    if let (Some(name), None) = (key_env, &key) {
        return Err(Failure::usage(format!("--key-env: the variable {name} is not set")));
    }
    let mut settings = selector.settings(base_url.as_deref(), key);
    if let Some(wire) = choice.wire {
        settings.wire = wire;
        // Of the other settings, only `max_tokens` depends on the wire, and each wire accepts it.
        settings.bounds = Bounds::for_wire(wire);
    }
    apply_bounds(choice.bounds, &mut settings.bounds);
    settings.context_tokens = choice.context_tokens.map(NonZeroU64::get).or(settings.context_tokens);
    if let Some(price) = choice.price {
        settings.price = Some(price_of(price));
    }
    settings.extra_body.clone_from(&choice.extra_body);
    // The models of a local provider cost nothing; at another address, the price is not known.
    let has_price = settings.price.is_some() || (provider.is_some_and(Provider::is_local) && base_url.is_none());
    let model = settings.connect().map_err(|error| {
        // A missing key is the usual reason.
        let hint = key_variable.map(|name| format!("set {name}, or use another model with --model"));
        Failure { hint, ..Failure::new(Exit::Model, error.code(), with_causes(&error)) }
    })?;
    Ok((model, has_price))
}

/// Replaces the bounds that the configuration sets.
fn apply_bounds(configured: RequestBounds, bounds: &mut Bounds) {
    bounds.connect = configured.connect_timeout.unwrap_or(bounds.connect);
    bounds.first_token = configured.first_token_timeout.unwrap_or(bounds.first_token);
    bounds.silence = configured.silence_timeout.unwrap_or(bounds.silence);
    bounds.total = configured.total_timeout.unwrap_or(bounds.total);
    bounds.retries = configured.max_retries.unwrap_or(bounds.retries);
    if let Some(bytes) = configured.max_response_bytes {
        bounds.response_bytes = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
    }
}

fn price_of(choice: PriceChoice) -> Price {
    let mut price = Price::flat(choice.input, choice.output);
    (price.cached_read, price.cache_write) = (choice.cached_read, choice.cache_write);
    price
}

/// Parses the name of a model. If the user gives an address, the name needs no provider.
fn parse_name(name: &str, has_base_url: bool) -> Result<Selector, BadSelector> {
    name.parse().or_else(|error| match (&error, has_base_url) {
        (BadSelector::UnknownProvider { .. }, true) => format!("{CUSTOM}/{name}").parse(),
        _ => Err(error),
    })
}

/// Returns the model with this name, else the only model at `base_url`, else the default model of the first provider
/// whose key is set.
async fn selector(name: Option<&str>, base_url: Option<&str>, environment: &Environment) -> Result<Selector, Failure> {
    if let Some(name) = name {
        // `check_name` has already refused a wrong name in a file.
        return parse_name(name, base_url.is_some()).map_err(|error| Failure::usage(format!("--model: {error}")));
    }
    if let Some(url) = base_url {
        return only_model_at(url).await;
    }
    match Provider::first_with_key(|name| key_in_variable(environment, name).is_some()) {
        Some(provider) => provider.name.parse().map_err(|error: BadSelector| {
            let hint = format!("name it with --model {}/NAME", provider.name);
            Failure::new(Exit::Model, "NO_MODEL", error.to_string()).hint(hint)
        }),
        None => Err(no_model(&local::find_servers().await)),
    }
}

/// Returns the key in the variable `name`, if that is not empty.
fn key_in_variable(environment: &Environment, name: &str) -> Option<Key> {
    let value = environment.get(name)?.to_str()?.trim();
    (!value.is_empty()).then(|| Key::new(value))
}

/// Returns the only model of the server at `url`. With several models, the user has to name one.
async fn only_model_at(url: &str) -> Result<Selector, Failure> {
    let servers = local::find_servers_at([(CUSTOM, url.to_owned())]).await;
    let models: Vec<_> = servers.into_iter().flat_map(|server| server.models).map(|model| model.name).collect();
    match models.as_slice() {
        [only] => format!("{CUSTOM}/{only}").parse().map_err(|error: BadSelector| Failure::usage(error.to_string())),
        [] => Err(Failure::usage("which model? the server at --base-url does not name its models")
            .hint("name it with --model")),
        several => Err(Failure::usage("which model? the server at --base-url has several")
            .hint(format!("choose one with --model: {}", several.join(", ")))),
    }
}

/// Returns the failure for a user without a model. The hint of the failure names a model of one of the `local_servers`,
/// which run on this machine. That model is used only if the user chooses it.
fn no_model(local_servers: &[LocalServer]) -> Failure {
    let providers = PROVIDERS.iter().filter(|provider| provider.default_model.is_some());
    // A few examples are enough.
    let names: Vec<_> = providers.filter_map(|provider| provider.key_variable).take(3).collect();
    let local_model = local_servers.iter().find_map(|server| {
        let tool_model = server.models.iter().find(|model| model.tools != Some(false));
        let model = tool_model.or_else(|| server.models.first())?;
        Some(format!("{}/{}", server.provider, model.name))
    });
    let hint = match local_model {
        Some(model) => format!(
            "set {}, or use what runs here: toolrack ask --model {model} … (tools work without a model: toolrack call)",
            names.join(", ")
        ),
        None => format!("set {}, or name a local one with --model ollama/NAME", names.join(", ")),
    };
    Failure::new(Exit::Model, "NO_MODEL", "no model is configured").hint(hint)
}

/// Returns the model that reads its answers from the file at `path`.
fn scripted(path: &str) -> Result<Arc<dyn Model>, Failure> {
    let script = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--model: cannot read {path}: {}", in_words(&error))))?;
    let model = Scripted::from_json(&script)
        .map_err(|error| Failure::usage(format!("--model: {path}: {}", with_causes(&error))))?;
    Ok(Arc::new(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_provider_gets_neither_the_address_nor_the_key_of_the_command_line() {
        let options = |typed: Option<&str>| ModelOptions {
            model: ModelArgs {
                model: typed.map(Into::into),
                base_url: Some("http://127.0.0.1:8080".into()),
                key_env: Some("OWN_KEY".into()),
                price: Some((1.0, 2.0)),
                ..ModelArgs::default()
            },
            limits: LimitArgs::default(),
            configured: ModelChoice::default(),
        };
        for (typed, chosen, keeps_access, keeps_price) in [
            (Some("custom/a"), "custom/a", true, true),
            (Some("custom/a"), "custom/b", true, false),
            (Some("a"), "b", true, false),
            (Some("a"), "anthropic/claude-sonnet-5-5", false, false),
            (None, "custom/b", true, false),
            (None, "openai", false, false),
            (Some("openai/x"), "openai/y", true, false),
            (Some("openai/x"), "anthropic", false, false),
        ] {
            let ModelArgs { model, base_url, key_env, price, .. } = options(typed).with_model(chosen.into()).model;
            assert_eq!(model.as_deref(), Some(chosen));
            let access = (base_url.is_some(), key_env.is_some(), price.is_some());
            assert_eq!(access, (keeps_access, keeps_access, keeps_price), "{typed:?} {chosen}");
        }
    }
}
