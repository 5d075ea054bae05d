//! Lists the providers that Toolrack knows by name, and the models whose size and price it knows.
//!
//! A provider is plain data: an address, a wire (the format of the API), and the environment variable that holds the
//! key. The chat wire is the API of OpenAI's Chat Completions, which many providers and local servers have. `models`
//! has the sizes and prices of models, as the providers published them.

use std::{fmt, str::FromStr};

use toolrack_host::text;

use super::{
    Wire,
    settings::{Key, ModelSettings},
};

mod models;

pub use models::KnownModel;

/// A provider of models.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// The name that users write.
    pub name: &'static str,
    /// The wire of the provider, unless the settings name another.
    pub wire: Wire,
    /// The URL to which the wire appends its paths: without a slash at the end, and with a version except for
    /// Anthropic.
    pub base_url: &'static str,
    /// The environment variable that usually holds the key; `None` if the provider needs no key.
    pub key_variable: Option<&'static str>,
    /// The model to use if the user names no model; `None` if there is no default.
    pub default_model: Option<&'static str>,
    /// How the provider's servers differ from other servers of the chat wire.
    dialect: Dialect,
}

const fn provider(name: &'static str, wire: Wire, base_url: &'static str) -> Provider {
    Provider { name, wire, base_url, key_variable: None, default_model: None, dialect: COMMON_DIALECT }
}

impl Provider {
    const fn with_key(self, key_variable: &'static str, default_model: Option<&'static str>) -> Self {
        Self { key_variable: Some(key_variable), default_model, ..self }
    }

    const fn with_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Returns the provider of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Returns the provider to use if the user names neither a model nor an address: the first one whose key is set.
    /// Providers with a default model come first. If the returned provider has no default model, parsing its name as a
    /// [`Selector`] fails with [`BadSelector::NoModel`]. `is_set` says whether an environment variable holds a key.
    #[must_use]
    pub fn first_with_key(is_set: impl Fn(&str) -> bool) -> Option<&'static Self> {
        let providers_with_key = || PROVIDERS.iter().filter(|provider| provider.key_variable.is_some_and(&is_set));
        providers_with_key().find(|provider| provider.default_model.is_some()).or_else(|| providers_with_key().next())
    }

    /// Returns whether the provider runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.base_url.starts_with("http://127.0.0.1")
    }
}

/// All providers. Each row holds everything that Toolrack knows about that provider. The providers with keys come
/// first, in the order in which Toolrack looks for the keys.
pub const PROVIDERS: &[Provider] = &[
    provider("anthropic", Wire::Anthropic, "https://api.anthropic.com")
        .with_key("ANTHROPIC_API_KEY", Some("claude-sonnet-5-5")),
    provider("openai", Wire::OpenAiResponses, "https://api.openai.com/v1")
        .with_key("OPENAI_API_KEY", Some("gpt-6.1-sol"))
        .with_dialect(Dialect { max_tokens_name: "max_completion_tokens", ..COMMON_DIALECT }),
    provider("deepseek", Wire::OpenAiChat, "https://api.deepseek.com/v1")
        .with_key("DEEPSEEK_API_KEY", Some("deepseek-flash")),
    provider("gemini", Wire::Gemini, "https://generativelanguage.googleapis.com/v1beta")
        .with_key("GEMINI_API_KEY", Some("gemini-flash-latest")),
    // It offers the models of many providers, so none is the default.
    provider("openrouter", Wire::OpenAiChat, "https://openrouter.ai/api/v1").with_key("OPENROUTER_API_KEY", None),
    provider("mistral", Wire::OpenAiChat, "https://api.mistral.ai/v1")
        .with_key("MISTRAL_API_KEY", Some("mistral-medium-latest"))
        // Refuses `reasoning_content` (422), and reports usage without being asked.
        .with_dialect(Dialect {
            wants_reasoning_back: false,
            requests_usage: false,
            needs_short_ids: true,
            user_after_results: false,
            ..COMMON_DIALECT
        }),
    provider("groq", Wire::OpenAiChat, "https://api.groq.com/openai/v1")
        .with_key("GROQ_API_KEY", Some("openai/gpt-oss-120b"))
        // Refuses unknown members of a message.
        .with_dialect(Dialect { wants_reasoning_back: false, ..COMMON_DIALECT }),
    provider("xai", Wire::OpenAiChat, "https://api.x.ai/v1").with_key("XAI_API_KEY", Some("grok-4.7")),
    provider("ollama", Wire::OpenAiChat, "http://127.0.0.1:11434/v1"),
    provider("llamacpp", Wire::OpenAiChat, "http://127.0.0.1:8080/v1"),
    provider("lmstudio", Wire::OpenAiChat, "http://127.0.0.1:1234/v1"),
];

/// The name for a provider that Toolrack does not know. The user gives its address, and Toolrack assumes that it has
/// the chat wire (the API of OpenAI's Chat Completions).
pub const CUSTOM: &str = "custom";

/// The differences between servers of the chat wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The name of the member that bounds the tokens of an answer.
    pub(super) max_tokens_name: &'static str,
    /// Whether a message of the model with calls must contain the `reasoning_content` that came with them.
    pub(super) wants_reasoning_back: bool,
    /// Whether the server reports the usage of a stream only if the request asks for it.
    pub(super) requests_usage: bool,
    /// Whether ids of calls must have exactly nine characters, each a letter or a digit.
    pub(super) needs_short_ids: bool,
    /// Whether a message of the user may follow the results of calls, without an answer of the model between them.
    pub(super) user_after_results: bool,
}

/// The most common dialect.
const COMMON_DIALECT: Dialect = Dialect {
    max_tokens_name: "max_tokens",
    wants_reasoning_back: true,
    requests_usage: true,
    needs_short_ids: false,
    user_after_results: true,
};

/// Returns the dialect of a provider; the most common dialect for an unknown provider.
pub(super) fn dialect(provider: &str) -> Dialect {
    Provider::find(provider).map_or(COMMON_DIALECT, |provider| provider.dialect)
}

/// A model as users name it: `provider/name`. Only the first slash separates: `openrouter/anthropic/claude-opus-5` is
/// OpenRouter's `anthropic/claude-opus-5`. When parsed, a provider alone means its default model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selector {
    /// The provider, one of [`PROVIDERS`] or [`CUSTOM`].
    pub provider: String,
    /// The model's name, sent unchanged.
    pub model: String,
}

/// The maximum size of a quote of the user's text in an error, in bytes.
const QUOTE_BYTES: usize = 200;

/// The reason why a text selects no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSelector {
    /// The part before the slash, or the whole text if there is no slash, names no provider.
    #[error("`{given}` names no provider; write provider/model with one of {}, {CUSTOM}", ProviderNames)]
    UnknownProvider {
        /// The text, safe to print.
        given: String,
    },
    /// The text names only a provider, and the provider has no default model.
    #[error("which model of {provider}? write {provider}/model")]
    NoModel {
        /// The provider.
        provider: String,
    },
}

/// Shows the names of all providers, separated by commas.
struct ProviderNames;

impl fmt::Display for ProviderNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        f.write_str(&names.join(", "))
    }
}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(selector: &str) -> Result<Self, BadSelector> {
        let selector = selector.trim();
        let (provider, model) = selector.split_once('/').unwrap_or((selector, ""));
        let known_provider = Provider::find(provider);
        if known_provider.is_none() && provider != CUSTOM {
            let quoted_selector = text::for_line(&text::clip(selector, QUOTE_BYTES)).into_owned();
            return Err(BadSelector::UnknownProvider { given: quoted_selector });
        }
        let model = match (model, known_provider.and_then(|known| known.default_model)) {
            ("", Some(default)) => default,
            ("", None) => return Err(BadSelector::NoModel { provider: provider.to_owned() }),
            (model, _) => model,
        };
        Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", text::Safe(&self.provider), text::Safe(&self.model)))
    }
}

impl Selector {
    /// Returns the settings for this model, with size and prices from the tables. A `base_url` replaces the provider's
    /// address. The provider OpenAI then uses the chat wire, because most servers at other addresses are not OpenAI's.
    /// Without a `base_url`, a custom provider has an empty address, which [`ModelSettings::connect`] refuses.
    #[must_use]
    pub fn settings(&self, base_url: Option<&str>, key: Option<Key>) -> ModelSettings {
        let provider = Provider::find(&self.provider);
        let wire = match provider.map_or(Wire::OpenAiChat, |provider| provider.wire) {
            Wire::OpenAiResponses if base_url.is_some() => Wire::OpenAiChat,
            wire => wire,
        };
        let url = base_url.or(provider.map(|provider| provider.base_url)).unwrap_or_default();
        let mut settings = ModelSettings::new(&self.provider, &self.model, wire, url);
        settings.key = key;
        settings.key_variable = provider.and_then(|provider| provider.key_variable).map(ToOwned::to_owned);
        if let Some(model) = KnownModel::find(&self.provider, &self.model) {
            settings.context_tokens = Some(model.context_tokens);
            // The prices are valid only for the provider's own servers.
            settings.price = Some(model.price).filter(|_| base_url.is_none());
            // Only Anthropic requires a maximum; its wire has a default for unknown models. A large maximum costs
            // nothing unless the answer is long. The cap bounds the cost of an answer that does not end by itself.
            settings.max_tokens = (wire == Wire::Anthropic).then_some(model.max_output.min(32_000));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_slash_of_a_selector_counts() {
        let selected = |text: &str| text.parse::<Selector>().map(|s| (s.provider, s.model)).map_err(|e| e.to_string());
        let pair = |provider: &str, model: &str| Ok((provider.to_owned(), model.to_owned()));
        assert_eq!(selected("openrouter/anthropic/claude-opus-5"), pair("openrouter", "anthropic/claude-opus-5"));
        assert_eq!(selected(" ollama/qwen3:8b "), pair("ollama", "qwen3:8b"));
        assert_eq!(selected("anthropic"), pair("anthropic", "claude-sonnet-5-5"));
        assert_eq!(selected("custom/x"), pair("custom", "x"));
        assert_eq!(selected("ollama"), Err("which model of ollama? write ollama/model".into()));
        assert_eq!(selected("custom/"), Err("which model of custom? write custom/model".into()));
        let unknown = selected("gpt\u{1b}-5").unwrap_err();
        assert!(unknown.starts_with("`gpt\\u{1b}-5` names no provider; write provider/model with one of anthropic, "));
    }

    #[test]
    fn an_address_of_ones_own_speaks_chat_unless_it_is_anthropics() {
        let wire = |text: &str, url| text.parse::<Selector>().unwrap().settings(url, None).wire;
        assert_eq!(wire("openai/gpt-6-sol", None), Wire::OpenAiResponses);
        assert_eq!(wire("openai/gpt-6-sol", Some("http://127.0.0.1:9")), Wire::OpenAiChat);
        assert_eq!(wire("custom/m", Some("http://127.0.0.1:9")), Wire::OpenAiChat);
        assert_eq!(wire("anthropic/m", Some("http://127.0.0.1:9")), Wire::Anthropic);
    }

    #[test]
    fn a_known_model_has_size_and_price_with_or_without_a_date() {
        let settings = |text: &str, url| text.parse::<Selector>().unwrap().settings(url, None);
        let known = settings("anthropic/claude-haiku-4-5-20251001", None);
        assert_eq!((known.context_tokens, known.max_tokens), (Some(200_000), Some(32_000)));
        let mut usage = crate::Usage::default();
        (usage.input, usage.cached_read, usage.cache_write, usage.output) = (1_000_000, 500_000, 100_000, 10_000);
        let cost = known.price.unwrap().cost_of(&usage);
        assert!((cost - (0.4 + 0.05 + 0.125 + 0.05)).abs() < 1e-9, "{cost}");
        assert_eq!(
            settings("anthropic/claude-haiku-4-5", Some("http://127.0.0.1:9")).price,
            None,
            "prices hold only for its own servers"
        );
        assert_eq!(settings("openai/gpt-5-mini", None).price.unwrap().input, 0.25, "not that of gpt-5");
        let unknown = settings("openai/gpt-5-turbo", None);
        assert_eq!((unknown.context_tokens, unknown.price), (None, None));
    }

    #[test]
    fn the_key_of_every_provider_selects_it() {
        let selected = |keys: &[&str]| {
            let provider = Provider::first_with_key(|name| keys.contains(&name))?;
            Some(provider.name.parse::<Selector>().map(|s| s.to_string()).map_err(|error| error.to_string()))
        };
        for provider in PROVIDERS {
            let Some(key) = provider.key_variable else { continue };
            let name = provider.name;
            let expected = match provider.default_model {
                Some(model) => Ok(format!("{name}/{model}")),
                None => Err(format!("which model of {name}? write {name}/model")),
            };
            assert_eq!(selected(&[key]), Some(expected), "{key}");
        }
        assert_eq!(selected(&["XAI_API_KEY", "OPENROUTER_API_KEY"]), Some(Ok("xai/grok-4.7".to_owned())));
        assert_eq!(selected(&[]), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test reads a page of the guide")]
    fn the_guide_names_the_key_of_every_provider_in_the_order_of_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/agents.md");
        let page = std::fs::read_to_string(page).unwrap();
        let line = page.lines().find(|line| line.starts_with("export ")).unwrap();
        let is_of_variable = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
        let named = line.split(|c: char| !is_of_variable(c)).filter(|word| word.contains('_'));
        let keys = PROVIDERS.iter().filter_map(|provider| provider.key_variable);
        assert_eq!(named.collect::<Vec<_>>(), keys.collect::<Vec<_>>());
    }

    #[test]
    fn every_default_model_is_known() {
        for provider in PROVIDERS {
            if let Some(model) = provider.default_model {
                assert!(KnownModel::find(provider.name, model).is_some(), "{}/{model}", provider.name);
            }
            assert!(provider.base_url.parse::<url::Url>().is_ok());
            assert_eq!(provider.key_variable.is_none(), provider.is_local(), "{}", provider.name);
        }
    }
}
