//! Reads the model settings of `toolrack.toml`: `[model]`, and `[agents.model]` for one agent.

use std::{
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

use serde_json::{Map, Value as Json, json};
use toolrack_host::Wire;

use crate::{
    document::Document,
    mask::{self, hide_literals},
    node::{Node, Value},
    placeholder::{self, Piece},
    problem::Problem,
    rows::{self, MODEL, PRICE, SECONDS_RANGE},
    suggest::intended_name,
};

/// Checks whether a text names a model, and returns the reason if not. The caller provides the check, because this
/// crate knows no model providers. `has_base_url` says whether the file also sets `base_url`.
pub type CheckName = fn(name: &str, has_base_url: bool) -> Result<(), String>;

/// The model, the settings to reach it, and the limits of a turn (one message of the user and all answers to it). A
/// field is `None` if the file does not set it.
///
/// Its `Debug` is [`view`](Self::view), which shows no secret.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelChoice {
    /// `provider/name` (`name`).
    pub name: Option<String>,
    /// The address, if it is not the provider's; may hold placeholders (`base_url`).
    pub base_url: Option<String>,
    /// The wire format (the format of the provider's API), if it is not the provider's usual one (`wire`).
    pub wire: Option<Wire>,
    /// The API key: only placeholders, never a literal key (`key`).
    pub key: Option<String>,
    /// How many tokens fit into the model's context, input and output together (`context_tokens`).
    pub context_tokens: Option<NonZeroU64>,
    /// The price of the model (`price`).
    pub price: Option<PriceChoice>,
    /// The maximum number of tokens in one answer (`max_tokens`).
    pub max_tokens: Option<NonZeroU32>,
    /// The maximum number of answers in one turn (`max_rounds`).
    pub max_rounds: Option<NonZeroU32>,
    /// The maximum number of tokens of all answers in one turn, input and output together (`max_total_tokens`).
    pub max_total_tokens: Option<NonZeroU64>,
    /// The maximum cost of all answers in one turn, in US dollars; more than 0 (`max_cost`).
    pub max_cost: Option<f64>,
    /// Whether the model may write scripts that call tools (`code`).
    pub code: Option<bool>,
    /// The limits of each request.
    pub bounds: RequestBounds,
    /// Members for the body of every request (`extra_body`).
    pub extra_body: Map<String, Json>,
    /// Whether the settings have no errors. If they have errors, send no request to a model: a limit on its costs, or
    /// the address that the user meant, may be missing.
    pub is_valid: bool,
}

/// The limits of a request to the model. A field is `None` if the file does not set it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RequestBounds {
    /// The longest time to connect (`connect_timeout`).
    pub connect_timeout: Option<Duration>,
    /// The longest silence before the first word of a streamed answer (`first_token_timeout`).
    pub first_token_timeout: Option<Duration>,
    /// The longest silence after the first word (`silence_timeout`).
    pub silence_timeout: Option<Duration>,
    /// The longest time for a request with all its tries and waits (`total_timeout`).
    pub total_timeout: Option<Duration>,
    /// The maximum size of the response of one answer, in bytes (`max_response_bytes`).
    pub max_response_bytes: Option<NonZeroU64>,
    /// How many times a failed request is tried again (`max_retries`).
    pub max_retries: Option<u32>,
}

impl RequestBounds {
    /// Returns these limits, overridden by those of `overrides`.
    fn overlaid(self, overrides: Self) -> Self {
        Self {
            connect_timeout: overrides.connect_timeout.or(self.connect_timeout),
            first_token_timeout: overrides.first_token_timeout.or(self.first_token_timeout),
            silence_timeout: overrides.silence_timeout.or(self.silence_timeout),
            total_timeout: overrides.total_timeout.or(self.total_timeout),
            max_response_bytes: overrides.max_response_bytes.or(self.max_response_bytes),
            max_retries: overrides.max_retries.or(self.max_retries),
        }
    }

    /// Returns the limits by key, for [`ModelChoice::view`]: times in seconds.
    fn view(&self) -> [(&'static str, Option<Json>); 6] {
        let seconds = |time: Option<Duration>| time.map(|time| json!(time.as_secs_f64()));
        [
            ("connect_timeout", seconds(self.connect_timeout)),
            ("first_token_timeout", seconds(self.first_token_timeout)),
            ("silence_timeout", seconds(self.silence_timeout)),
            ("total_timeout", seconds(self.total_timeout)),
            ("max_response_bytes", self.max_response_bytes.map(|bytes| json!(bytes))),
            ("max_retries", self.max_retries.map(|count| json!(count))),
        ]
    }
}

/// The price of a million tokens, in US dollars; each 0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PriceChoice {
    /// The price of input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input that is read from a cache. By default, the price of input.
    pub cached_read: f64,
    /// The price of input that is written into a cache. By default, the price of input.
    pub cache_write: f64,
}

impl PriceChoice {
    /// Creates prices without a discount for cached input.
    #[must_use]
    pub const fn flat(input: f64, output: f64) -> Self {
        Self { input, output, cached_read: input, cache_write: input }
    }
}

impl Default for ModelChoice {
    /// Returns valid settings with no setting made.
    fn default() -> Self {
        Self {
            name: None,
            base_url: None,
            wire: None,
            key: None,
            context_tokens: None,
            price: None,
            max_tokens: None,
            max_rounds: None,
            max_total_tokens: None,
            max_cost: None,
            code: None,
            bounds: RequestBounds::default(),
            extra_body: Map::new(),
            is_valid: true,
        }
    }
}

impl std::fmt::Debug for ModelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { is_valid, .. } = self;
        f.debug_struct("ModelChoice").field("view", &self.view()).field("is_valid", is_valid).finish()
    }
}

impl ModelChoice {
    /// Creates the settings of a file that cannot be read: invalid.
    pub(crate) fn unreadable() -> Self {
        Self { is_valid: false, ..Self::default() }
    }

    /// Reads `node`, and returns its problems. `path` is its table: `model`, or `agents.model`.
    pub(crate) fn read(
        document: &Document,
        path: &str,
        node: &Node,
        check_name: Option<CheckName>,
    ) -> (Self, Vec<Problem>) {
        let mut table = Table { document, path, node, problems: Vec::new() };
        table.report_unknown_keys(MODEL);
        let mut choice = Self {
            base_url: table.base_url(),
            wire: table.wire(),
            key: table.key(),
            context_tokens: table.count("context_tokens"),
            price: table.price(),
            max_tokens: table.count("max_tokens").and_then(|count| table.checked_u32("max_tokens", count)),
            max_rounds: table.count("max_rounds").and_then(|count| table.checked_u32("max_rounds", count)),
            max_total_tokens: table.count("max_total_tokens"),
            max_cost: table.dollars("max_cost", f64::MIN_POSITIVE, "an amount of US dollars above 0"),
            code: table.flag("code"),
            bounds: table.bounds(),
            extra_body: table.extra_body(),
            ..Self::default()
        };
        choice.name = table.name(choice.base_url.is_some(), check_name);
        choice.is_valid = !table.problems.iter().any(Problem::is_error);
        (choice, table.problems)
    }

    /// Returns these settings, overridden by the settings of `overrides`. If `overrides` names another model or
    /// address, the key and the other settings for reaching the model are not inherited: the key of one provider must
    /// not go to another.
    #[must_use]
    pub fn overlaid(self, overrides: Self) -> Self {
        let base = if overrides.name.is_some() || overrides.base_url.is_some() {
            self.without_access(&overrides)
        } else {
            self
        };
        let mut extra_body = base.extra_body;
        extra_body.extend(overrides.extra_body);
        Self {
            name: overrides.name.or(base.name),
            base_url: overrides.base_url.or(base.base_url),
            wire: overrides.wire.or(base.wire),
            key: overrides.key.or(base.key),
            context_tokens: overrides.context_tokens.or(base.context_tokens),
            price: overrides.price.or(base.price),
            max_tokens: overrides.max_tokens.or(base.max_tokens),
            max_rounds: overrides.max_rounds.or(base.max_rounds),
            max_total_tokens: overrides.max_total_tokens.or(base.max_total_tokens),
            max_cost: overrides.max_cost.or(base.max_cost),
            code: overrides.code.or(base.code),
            bounds: base.bounds.overlaid(overrides.bounds),
            extra_body,
            is_valid: base.is_valid && overrides.is_valid,
        }
    }

    /// Returns these settings without the settings for reaching the model. These stay if `overrides` names the same
    /// model at the same address.
    fn without_access(self, overrides: &Self) -> Self {
        let is_same = |new: &Option<String>, old: &Option<String>| new.is_none() || new == old;
        if is_same(&overrides.name, &self.name) && is_same(&overrides.base_url, &self.base_url) {
            return self;
        }
        let (base_url, wire, key, context_tokens, price) = (None, None, None, None, None);
        let name = self.name.filter(|_| overrides.name.is_none());
        let (bounds, extra_body) = (RequestBounds::default(), Map::new());
        Self { name, base_url, wire, key, context_tokens, price, bounds, extra_body, ..self }
    }

    /// Returns the settings by key, safe to print; `null` when there are none.
    #[must_use]
    pub fn view(&self) -> Json {
        let price_view = |price: &PriceChoice| {
            json!({
                "input": price.input, "output": price.output, "cached_read": price.cached_read,
                "cache_write": price.cache_write,
            })
        };
        let extra_body_view = |members: &Map<String, Json>| {
            let is_secret = false; // Only values below the name of a secret are hidden as a whole.
            hide_secrets(&Json::Object(members.clone()), is_secret)
        };
        let fields = [
            ("name", self.name.as_ref().map(|name| json!(name))),
            ("base_url", self.base_url.as_deref().map(|url| json!(mask::hide_in_argument(url)))),
            ("wire", self.wire.map(|wire| json!(wire.as_str()))),
            ("key", self.key.as_deref().map(|key| json!(hide_literals(key, placeholder::BareName::Literal)))),
            ("context_tokens", self.context_tokens.map(|count| json!(count))),
            ("price", self.price.as_ref().map(price_view)),
            ("max_tokens", self.max_tokens.map(|count| json!(count))),
            ("max_rounds", self.max_rounds.map(|count| json!(count))),
            ("max_total_tokens", self.max_total_tokens.map(|count| json!(count))),
            ("max_cost", self.max_cost.map(|cost| json!(cost))),
            ("code", self.code.map(|code| json!(code))),
            ("extra_body", (!self.extra_body.is_empty()).then(|| extra_body_view(&self.extra_body))),
        ];
        let fields = fields.into_iter().chain(self.bounds.view());
        let fields: Map<_, _> = fields.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        if fields.is_empty() { Json::Null } else { Json::Object(fields) }
    }
}

/// Returns `value` with everything below the name of a secret hidden. With `is_secret`, `value` is below such a name.
fn hide_secrets(value: &Json, is_secret: bool) -> Json {
    match value {
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| {
                // A number under such a name is usually a limit, such as `max_completion_tokens`.
                let is_secret = is_secret || (!value.is_number() && mask::is_secret_name(name));
                (name.clone(), hide_secrets(value, is_secret))
            })
            .collect::<Map<_, _>>()
            .into(),
        Json::Array(values) => values.iter().map(|value| hide_secrets(value, is_secret)).collect(),
        Json::String(text) if is_secret => json!(hide_literals(text, placeholder::BareName::Literal)),
        Json::Number(_) if is_secret => json!(mask::HIDDEN),
        Json::String(text) => json!(mask::hide_in_argument(text)),
        value => value.clone(),
    }
}

/// A table that is being read, and its problems.
struct Table<'a> {
    document: &'a Document,
    /// The path of the table in the file.
    path: &'a str,
    node: &'a Node,
    problems: Vec<Problem>,
}

impl Table<'_> {
    /// Reports that the value of `key` is invalid, at `node`: "`PATH.KEY` must be `expected`". An empty `key` means the
    /// table.
    fn report_invalid(&mut self, key: &str, expected: &str, node: &Node) {
        let field = if key.is_empty() { self.path.to_owned() } else { format!("{}.{key}", self.path) };
        let problem = Problem::error(format!("`{field}` must be {expected}")).field(field);
        self.problems
            .push(self.document.locate(problem.hint("correct it: until then, no model is asked"), node.span.clone()));
    }

    /// Reports unknown keys as errors, because a misspelt key may have been a limit.
    fn report_unknown_keys(&mut self, table: &rows::Table) {
        let Some(members) = self.node.members() else {
            return self.report_invalid("", "a table", self.node);
        };
        for member in members.iter().filter(|member| table.row(&member.name).is_none()) {
            let field = format!("{}.{}", self.path, member.name);
            let hint = match intended_name(&member.name, table.keys()) {
                Some(similar) => format!("did you mean `{}.{similar}`?", self.path),
                None => format!("there are {}", table.keys().join(", ")),
            };
            let problem = Problem::error(format!("`{field}` is not a known setting")).field(field).hint(hint);
            self.problems.push(self.document.locate(problem, member.name_span.clone()));
        }
    }

    /// Reads a text without white space at its ends, and its node for messages. An empty text is an error.
    fn text(&mut self, key: &str) -> Option<(String, Node)> {
        let member = self.node.get(key)?;
        match member.node.as_text().map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => Some((text.to_owned(), member.node.clone())),
            None => {
                self.report_invalid(key, "text", &member.node);
                None
            }
        }
    }

    fn name(&mut self, has_base_url: bool, check_name: Option<CheckName>) -> Option<String> {
        let (name, node) = self.text("name")?;
        match check_name.map_or(Ok(()), |check_name| check_name(&name, has_base_url)) {
            Ok(()) => Some(name),
            Err(why) => {
                self.report_invalid("name", &format!("the name of a model: {why}"), &node);
                None
            }
        }
    }

    fn base_url(&mut self) -> Option<String> {
        let (url, node) = self.text("base_url")?;
        let begins_with = |start: &str| url.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
        if let Err(error) = placeholder::check(&url) {
            self.report_invalid("base_url", &format!("a URL: {error}"), &node);
        } else if begins_with("http://") || begins_with("https://") || url.starts_with("${") {
            return Some(url);
        } else {
            self.report_invalid("base_url", "a URL of http or https", &node);
        }
        None
    }

    fn wire(&mut self) -> Option<Wire> {
        let (wire, node) = self.text("wire")?;
        match wire.parse() {
            Ok(wire) => Some(wire),
            Err(_) => {
                let names: Vec<_> = Wire::ALL.iter().map(|wire| format!("`{wire}`")).collect();
                self.report_invalid("wire", &format!("one of {}", names.join(", ")), &node);
                None
            }
        }
    }

    /// Reads the API key. It must be a placeholder, because files are copied, and more users and programs read them
    /// than variables.
    fn key(&mut self) -> Option<String> {
        let (key, node) = self.text("key")?;
        let pieces = placeholder::pieces(&key, placeholder::BareName::Literal);
        let is_variable =
            |piece: &Piece<'_>| matches!(piece, Piece::Variable { default: None | Some(""), .. } | Piece::Secret(_));
        match pieces {
            Ok(pieces) if pieces.iter().all(is_variable) => Some(key),
            _ => {
                self.report_invalid(
                    "key",
                    "a placeholder such as `${ANTHROPIC_API_KEY}`, and never the key itself",
                    &node,
                );
                None
            }
        }
    }

    fn count(&mut self, key: &str) -> Option<NonZeroU64> {
        let member = self.node.get(key)?;
        let number = match &member.node.value {
            Value::Number(number) => number.as_u64().and_then(NonZeroU64::new),
            _ => None,
        };
        if number.is_none() {
            self.report_invalid(key, "a whole number of 1 or more", &member.node);
        }
        number
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let member = self.node.get(key)?;
        let flag = match member.node.value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        };
        if flag.is_none() {
            self.report_invalid(key, "true or false", &member.node);
        }
        flag
    }

    /// Returns `count`, the value of `key`, as a smaller type, and reports an error if it is too large for it.
    fn checked_u32(&mut self, key: &str, count: NonZeroU64) -> Option<NonZeroU32> {
        let number = NonZeroU32::try_from(count).ok();
        if let (None, Some(member)) = (number, self.node.get(key)) {
            self.report_invalid(key, &format!("at most {}", u32::MAX), &member.node);
        }
        number
    }

    /// Reads a finite number of `min` or more. `expected` describes it in an error.
    fn dollars(&mut self, key: &str, min: f64, expected: &str) -> Option<f64> {
        let member = self.node.get(key)?;
        let number = match &member.node.value {
            Value::Number(number) => number.as_f64().filter(|number| number.is_finite() && *number >= min),
            _ => None,
        };
        if number.is_none() {
            self.report_invalid(key, expected, &member.node);
        }
        number
    }

    fn bounds(&mut self) -> RequestBounds {
        RequestBounds {
            connect_timeout: self.seconds("connect_timeout"),
            first_token_timeout: self.seconds("first_token_timeout"),
            silence_timeout: self.seconds("silence_timeout"),
            total_timeout: self.seconds("total_timeout"),
            max_response_bytes: self.count("max_response_bytes"),
            max_retries: self.count_from_zero("max_retries"),
        }
    }

    /// Reads a time of up to a day.
    fn seconds(&mut self, key: &str) -> Option<Duration> {
        let member = self.node.get(key)?;
        let seconds = match &member.node.value {
            Value::Number(number) => number.as_f64().filter(|seconds| SECONDS_RANGE.contains(seconds)),
            _ => None,
        };
        if seconds.is_none() {
            self.report_invalid(key, "a number of seconds, from 0.001 to 86400", &member.node);
        }
        seconds.map(Duration::from_secs_f64)
    }

    fn count_from_zero(&mut self, key: &str) -> Option<u32> {
        let member = self.node.get(key)?;
        let number = match &member.node.value {
            Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        if number.is_none() {
            self.report_invalid(key, &format!("a whole number from 0 to {}", u32::MAX), &member.node);
        }
        number
    }

    fn price(&mut self) -> Option<PriceChoice> {
        let member = self.node.get("price")?;
        let path = format!("{}.price", self.path);
        let mut table = Table { document: self.document, path: &path, node: &member.node, problems: Vec::new() };
        table.report_unknown_keys(PRICE);
        let expected = "US dollars for a million tokens, 0 or more";
        let [input, output, cached_read, cache_write] =
            ["input", "output", "cached_read", "cache_write"].map(|key| table.dollars(key, 0.0, expected));
        if table.problems.is_empty() && (input.is_none() || output.is_none()) {
            table.report_invalid("", "a table with `input` and `output`", &member.node);
        }
        let is_valid = table.problems.is_empty();
        let problems = table.problems;
        self.problems.extend(problems);
        let (input, output) = input.zip(output).filter(|_| is_valid)?;
        let (cached_read, cache_write) = (cached_read.unwrap_or(input), cache_write.unwrap_or(input));
        Some(PriceChoice { input, output, cached_read, cache_write })
    }

    fn extra_body(&mut self) -> Map<String, Json> {
        let Some(member) = self.node.get("extra_body") else {
            return Map::new();
        };
        match member.node.to_json() {
            Json::Object(members) => members,
            _ => {
                self.report_invalid("extra_body", "a table", &member.node);
                Map::new()
            }
        }
    }
}

#[cfg(test)]
mod tests;
