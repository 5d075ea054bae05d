//! Lists the sizes and prices of models, as their providers published them.
//!
//! The maintainers replace the table as a whole when prices change. A model that is not in it works, but its size and
//! its cost are unknown. Prices are list prices for the standard tier, short contexts and caches of five minutes.
//!
//! Source: the catalogue of rig-core 0.44.0, which comes from models.dev, as of 2026-10-07.

use crate::model::settings::Price;

/// A known model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KnownModel {
    /// The provider.
    pub provider: &'static str,
    /// The name. A name that continues with a date is the same model.
    pub name: &'static str,
    /// How many tokens fit into the model's context, input and output together.
    pub context_tokens: u64,
    /// The maximum number of tokens of one answer.
    pub max_output: u32,
    /// The price.
    pub price: Price,
}

impl KnownModel {
    /// Finds a provider's model by its name, with or without a date at its end.
    #[must_use]
    pub fn find(provider: &str, model: &str) -> Option<&'static Self> {
        // Fewer than four digits are a version: `claude-opus-5-5` is another model than `claude-opus-5`.
        let is_date_suffix = |suffix: &str| {
            suffix
                .strip_prefix(['-', '@'])
                .is_some_and(|date| date.len() >= 4 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
        };
        let provider_models = || KNOWN_MODELS.iter().filter(|known| known.provider == provider);
        provider_models()
            .find(|known| known.name == model)
            .or_else(|| provider_models().find(|known| model.strip_prefix(known.name).is_some_and(is_date_suffix)))
    }
}

/// Creates a known model. The array holds the US dollars for a million tokens of input, of output, read from the cache
/// and written into the cache.
const fn known(
    provider: &'static str,
    name: &'static str,
    context_tokens: u64,
    max_output: u32,
    [input, output, cached_read, cache_write]: [f64; 4],
) -> KnownModel {
    let price = Price { input, output, cached_read, cache_write };
    KnownModel { provider, name, context_tokens, max_output, price }
}

#[rustfmt::skip]
const KNOWN_MODELS: &[KnownModel] = &[
    known("anthropic", "claude-fable-5-1", 1_000_000, 128_000, [10.0, 50.0, 0.25, 12.5]),
    known("anthropic", "claude-fable-5", 1_000_000, 128_000, [10.0, 50.0, 1.0, 12.5]),
    known("anthropic", "claude-haiku-4-5", 200_000, 64_000, [1.0, 5.0, 0.1, 1.25]),
    known("anthropic", "claude-opus-4-5", 200_000, 64_000, [5.0, 25.0, 0.5, 6.25]),
    known("anthropic", "claude-opus-4-6", 1_000_000, 128_000, [5.0, 25.0, 0.5, 6.25]),
    known("anthropic", "claude-opus-4-7", 1_000_000, 128_000, [5.0, 25.0, 0.5, 6.25]),
    known("anthropic", "claude-opus-4-8", 1_000_000, 128_000, [5.0, 25.0, 0.5, 6.25]),
    known("anthropic", "claude-opus-5-5", 1_000_000, 128_000, [4.0, 20.0, 0.2, 5.0]),
    known("anthropic", "claude-opus-5", 1_000_000, 128_000, [5.0, 25.0, 0.5, 6.25]),
    known("anthropic", "claude-sonnet-4-5", 1_000_000, 64_000, [3.0, 15.0, 0.3, 3.75]),
    known("anthropic", "claude-sonnet-4-6", 1_000_000, 128_000, [3.0, 15.0, 0.3, 3.75]),
    known("anthropic", "claude-sonnet-5-5", 1_000_000, 128_000, [2.0, 10.0, 0.2, 2.5]),
    known("anthropic", "claude-sonnet-5", 1_000_000, 128_000, [2.0, 10.0, 0.2, 2.5]),
    known("openai", "gpt-4.1", 1_047_576, 32_768, [2.0, 8.0, 0.5, 2.0]),
    known("openai", "gpt-4.1-mini", 1_047_576, 32_768, [0.4, 1.6, 0.1, 0.4]),
    known("openai", "gpt-4o", 128_000, 16_384, [2.5, 10.0, 1.25, 2.5]),
    known("openai", "gpt-4o-mini", 128_000, 16_384, [0.15, 0.6, 0.075, 0.15]),
    known("openai", "gpt-5", 400_000, 128_000, [1.25, 10.0, 0.125, 1.25]),
    known("openai", "gpt-5-mini", 400_000, 128_000, [0.25, 2.0, 0.025, 0.25]),
    known("openai", "gpt-5-nano", 400_000, 128_000, [0.05, 0.4, 0.005, 0.05]),
    known("openai", "gpt-5.1", 400_000, 128_000, [1.25, 10.0, 0.125, 1.25]),
    known("openai", "gpt-5.2", 400_000, 128_000, [1.75, 14.0, 0.175, 1.75]),
    known("openai", "gpt-5.3-codex", 400_000, 128_000, [1.75, 14.0, 0.175, 1.75]),
    known("openai", "gpt-5.4", 1_050_000, 128_000, [2.5, 15.0, 0.25, 2.5]),
    known("openai", "gpt-5.4-mini", 400_000, 128_000, [0.75, 4.5, 0.075, 0.75]),
    known("openai", "gpt-5.4-nano", 400_000, 128_000, [0.2, 1.25, 0.02, 0.2]),
    known("openai", "gpt-5.5", 1_050_000, 128_000, [5.0, 30.0, 0.5, 5.0]),
    known("openai", "gpt-5.6", 1_050_000, 128_000, [4.0, 20.0, 0.4, 5.0]),
    known("openai", "gpt-5.6-luna", 1_050_000, 128_000, [0.2, 1.2, 0.02, 0.25]),
    known("openai", "gpt-5.6-sol", 1_050_000, 128_000, [4.0, 20.0, 0.4, 5.0]),
    known("openai", "gpt-5.6-terra", 1_050_000, 128_000, [2.0, 12.0, 0.2, 2.5]),
    known("openai", "gpt-6-astra", 1_050_000, 128_000, [10.0, 50.0, 1.0, 12.5]),
    known("openai", "gpt-6-luna", 1_050_000, 128_000, [0.1, 0.5, 0.01, 0.125]),
    known("openai", "gpt-6-sol", 1_050_000, 128_000, [2.0, 10.0, 0.2, 2.5]),
    known("openai", "gpt-6.1-sol", 1_050_000, 128_000, [2.0, 10.0, 0.1, 2.5]),
    known("openai", "o3", 200_000, 100_000, [2.0, 8.0, 0.5, 2.0]),
    known("deepseek", "deepseek-flash", 1_000_000, 393_216, [0.15, 0.6, 0.003, 0.15]),
    known("deepseek", "deepseek-v4-flash", 1_000_000, 393_216, [0.15, 0.6, 0.003, 0.15]),
    known("deepseek", "deepseek-v4-pro", 1_000_000, 393_216, [0.66, 1.98, 0.022, 0.66]),
    known("gemini", "gemini-2.5-flash", 1_048_576, 65_536, [0.3, 2.5, 0.03, 0.3]),
    known("gemini", "gemini-2.5-flash-lite", 1_048_576, 65_536, [0.1, 0.4, 0.01, 0.1]),
    known("gemini", "gemini-2.5-pro", 1_048_576, 65_536, [1.25, 10.0, 0.125, 1.25]),
    known("gemini", "gemini-3-flash-preview", 1_048_576, 65_536, [0.5, 3.0, 0.05, 0.5]),
    known("gemini", "gemini-3.1-flash-lite", 1_048_576, 65_536, [0.25, 1.5, 0.025, 0.25]),
    known("gemini", "gemini-3.1-pro-preview", 1_048_576, 65_536, [2.0, 12.0, 0.2, 2.0]),
    known("gemini", "gemini-3.5-flash", 1_048_576, 65_536, [1.5, 9.0, 0.15, 1.5]),
    known("gemini", "gemini-3.5-flash-lite", 1_048_576, 65_536, [0.3, 2.5, 0.03, 0.3]),
    known("gemini", "gemini-3.6-flash", 1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75]),
    known("gemini", "gemini-3.7-flash", 1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75]),
    known("gemini", "gemini-3.8-flash", 1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75]),
    known("gemini", "gemini-flash-latest", 1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75]),
    known("gemini", "gemini-flash-lite-latest", 1_048_576, 65_536, [0.3, 2.5, 0.03, 0.3]),
    known("groq", "openai/gpt-oss-120b", 131_072, 65_536, [0.15, 0.6, 0.075, 0.15]),
    known("groq", "openai/gpt-oss-20b", 131_072, 65_536, [0.075, 0.3, 0.0375, 0.075]),
    known("groq", "llama-3.3-70b-versatile", 131_072, 32_768, [0.59, 0.79, 0.59, 0.59]),
    known("mistral", "codestral-latest", 256_000, 4_096, [0.3, 0.9, 0.03, 0.3]),
    known("mistral", "mistral-large-latest", 262_144, 262_144, [0.5, 1.5, 0.05, 0.5]),
    known("mistral", "mistral-medium-latest", 262_144, 262_144, [1.5, 7.5, 0.15, 1.5]),
    known("mistral", "mistral-small-latest", 256_000, 256_000, [0.15, 0.6, 0.015, 0.15]),
    known("xai", "grok-4.3", 1_000_000, 30_000, [1.25, 2.5, 0.2, 1.25]),
    known("xai", "grok-4.5", 500_000, 500_000, [2.0, 6.0, 0.3, 2.0]),
    known("xai", "grok-4.6", 500_000, 500_000, [2.0, 6.0, 0.5, 2.0]),
    known("xai", "grok-4.7", 500_000, 500_000, [2.0, 6.0, 0.5, 2.0]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Provider;

    #[test]
    fn every_row_is_of_a_known_provider_and_has_plausible_numbers() {
        for (at, known) in KNOWN_MODELS.iter().enumerate() {
            let name = format!("{}/{}", known.provider, known.name);
            assert!(Provider::find(known.provider).is_some(), "{name}");
            let is_same = |other: &KnownModel| (other.provider, other.name) == (known.provider, known.name);
            assert_eq!(KNOWN_MODELS.iter().position(is_same), Some(at), "{name} stands twice");
            assert!(u64::from(known.max_output) <= known.context_tokens, "{name}");
            let Price { input, output, cached_read, cache_write } = known.price;
            assert!(0.0 < cached_read && cached_read <= input && input <= cache_write, "{name}");
            assert!(input <= output, "{name}");
        }
    }

    #[test]
    fn only_a_date_at_the_end_of_a_name_is_the_same_model() {
        let found = |name: &str| KnownModel::find("anthropic", name).map(|known| known.name);
        for dated in ["claude-opus-5", "claude-opus-5-20260801", "claude-opus-5@2026-08-01"] {
            assert_eq!(found(dated), Some("claude-opus-5"), "{dated}");
        }
        // Each row wins for its own name, whatever stands before it in the table.
        assert_eq!(found("claude-opus-5-5"), Some("claude-opus-5-5"));
        for other in ["claude-opus-5-6", "claude-opus-5-fast", "claude-opus-5-123", "claude-opus-520260801", "opus", ""]
        {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(KnownModel::find("openai", "claude-opus-5"), None);
    }
}
