//! The settings to reach a model, as plain data.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use toolrack_host::text;

use super::{Model, Usage, Wire, error::ModelError, error::ModelErrorKind, online, provider};

/// A key for a provider's API. It is never printed, not even by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Creates a key, without the spaces and line ends around it.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The bounds of a request. An error about a bound calls it by the name in backticks below.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bounds {
    /// `connect_timeout`: the longest time to connect. Default 10 s.
    pub connect: Duration,
    /// `first_token_timeout`: the longest silence before the first word of a streamed answer. Default 120 s, because
    /// local servers first load their model and read the whole prompt; 300 s with an API that sends nothing while a
    /// model thinks (see [`Bounds::for_wire`]).
    pub first_token: Duration,
    /// `silence_timeout`: the longest silence after the first word. Default 30 s; 300 s with an API that sends nothing
    /// while a model thinks.
    pub silence: Duration,
    /// `total_timeout`: the longest time for the request with all its tries and waits. Default 10 minutes.
    pub total: Duration,
    /// `max_response_bytes`: the maximum size of the response of one answer. Default 32 MiB.
    pub response_bytes: usize,
    /// How many times a failed request is tried again. Default 4.
    pub retries: u32,
    /// The wait before the second try. Each further wait is twice as long. Default 500 ms.
    pub first_pause: Duration,
    /// The longest wait before a try. If a provider asks to wait longer, the request fails instead. Default 60 s.
    pub longest_pause: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_token: Duration::from_secs(120),
            silence: Duration::from_secs(30),
            total: Duration::from_secs(600),
            response_bytes: 32 * 1024 * 1024,
            retries: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
        }
    }
}

impl Bounds {
    /// Returns the defaults for a wire (the API format of a provider). While a model thinks, Anthropic sends pings, and
    /// servers with OpenAI's chat API send comments or the thinking. OpenAI Responses and Gemini then send nothing, for
    /// minutes.
    #[must_use]
    pub fn for_wire(wire: Wire) -> Self {
        let defaults = Self::default();
        match wire {
            Wire::Anthropic | Wire::OpenAiChat => defaults,
            Wire::OpenAiResponses | Wire::Gemini => {
                let thinking_time = Duration::from_secs(300);
                Self { first_token: thinking_time, silence: thinking_time, ..defaults }
            }
        }
    }
}

/// The price of a million tokens, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Price {
    /// Input that is neither read from nor written into a cache.
    pub input: f64,
    /// Output, thinking included.
    pub output: f64,
    /// Input read from a cache.
    pub cached_read: f64,
    /// Input written into a cache.
    pub cache_write: f64,
}

impl Price {
    /// Creates prices without a discount for cached input.
    #[must_use]
    pub const fn flat(input: f64, output: f64) -> Self {
        Self { input, output, cached_read: input, cache_write: input }
    }

    /// Returns the price of this usage, in US dollars.
    #[must_use]
    pub fn cost_of(&self, usage: &Usage) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "no model has 2^53 tokens")]
        let cost = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        let uncached = usage.input.saturating_sub(usage.cached_read).saturating_sub(usage.cache_write);
        cost(uncached, self.input)
            + cost(usage.output, self.output)
            + cost(usage.cached_read, self.cached_read)
            + cost(usage.cache_write, self.cache_write)
    }
}

/// The settings to reach a model. [`provider::Selector::settings`] makes them from the table of providers, the caller
/// may change them, and [`connect`](Self::connect) uses them. `Debug` prints neither the address nor the headers, which
/// may hold secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelSettings {
    /// The provider's name: the part of [`Model::name`] before the slash.
    pub provider: String,
    /// The model's name, sent unchanged.
    pub model: String,
    /// The model's wire.
    pub wire: Wire,
    /// The address. An address without a path gets the usual path (`/v1`, for Gemini `/v1beta`).
    pub base_url: String,
    /// The key; local servers need none.
    pub key: Option<Key>,
    /// The name of the variable that usually holds the key. The error for a missing key names it.
    pub key_variable: Option<String>,
    /// Further headers of each request. Their values are never printed.
    pub headers: Vec<(String, Key)>,
    /// How many tokens fit into the model's context, input and output together.
    pub context_tokens: Option<u64>,
    /// The maximum number of tokens of an answer, if a request does not set one.
    pub max_tokens: Option<u32>,
    /// The price of the model.
    pub price: Option<Price>,
    /// Members for the body of every request; see [`Request::extra_body`](super::Request::extra_body).
    pub extra_body: Map<String, Value>,
    /// Whether to mark the conversation for the provider's cache, if the provider caches only on request (Anthropic).
    /// Default `true`.
    pub prompt_cache: bool,
    /// The bounds of requests.
    pub bounds: Bounds,
}

impl fmt::Debug for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings").field("name", &self.name()).field("wire", &self.wire).finish_non_exhaustive()
    }
}

impl ModelSettings {
    /// Creates the settings for a model at an address, with defaults for everything else.
    pub fn new(provider: impl Into<String>, model: impl Into<String>, wire: Wire, base_url: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            wire,
            base_url: base_url.into(),
            key: None,
            key_variable: None,
            headers: Vec::new(),
            context_tokens: None,
            max_tokens: None,
            price: None,
            extra_body: Map::new(),
            prompt_cache: true,
            bounds: Bounds::for_wire(wire),
        }
    }

    /// Returns `provider/name`, safe to print.
    #[must_use]
    pub fn name(&self) -> String {
        text::for_line(&text::clip(&format!("{}/{}", self.provider, self.model), 200)).into_owned()
    }

    /// Returns a model to send requests to. Sends nothing yet.
    ///
    /// # Errors
    /// [`ModelErrorKind::Settings`] if a key is needed and missing, or the address is invalid.
    pub fn connect(self) -> Result<Arc<dyn Model>, ModelError> {
        let name = self.name();
        let dialect = provider::dialect(&self.provider);
        online::connect(self, dialect).map_err(|why| ModelError {
            model: name,
            attempts: 0,
            kind: ModelErrorKind::Settings { why },
        })
    }
}

#[cfg(test)]
mod tests;
