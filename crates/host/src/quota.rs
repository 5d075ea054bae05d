//! Defines quotas as plain data: how much of a quantity a caller may use within a window of time.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};

/// Billionths of a dollar in a dollar.
const BILLIONTHS_PER_DOLLAR: f64 = 1e9;

/// The largest count that a quota may set: 2^53 − 1. Programs that read JSON numbers as doubles read all whole numbers
/// up to this one exactly.
const MAX_COUNT: f64 = 9_007_199_254_740_991.0;

/// The longest part of an unknown name that an error repeats, in bytes.
const MAX_SHOWN_NAME_BYTES: usize = 64;

/// What a quota counts. Amounts are whole numbers: of calls, bytes and tokens, and of billionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Calls of tools.
    Calls,
    /// The bytes of the results of calls, and of resources and prompts that are read.
    ResultBytes,
    /// Tokens of models, input and output.
    Tokens,
    /// The cost of models, in billionths of a US dollar.
    Dollars,
}

/// The time in which a quota may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Window {
    /// No span of time: the quota limits what is under way at one moment.
    AtOnce,
    /// A minute. What was used becomes free again little by little.
    Minute,
    /// An hour of the clock, such as 14:00 to 15:00. The whole amount is free again when the next hour begins.
    Hour,
    /// A day, from midnight to midnight in UTC.
    Day,
    /// A month of the calendar, in UTC.
    Month,
}

/// The names of all quotas, as a file writes them.
const QUOTA_NAMES: [(&str, Quantity, Window); 17] = {
    use Quantity::{Calls, Dollars, ResultBytes, Tokens};
    use Window::{AtOnce, Day, Hour, Minute, Month};
    [
        ("calls_at_once", Calls, AtOnce),
        ("calls_per_minute", Calls, Minute),
        ("calls_per_hour", Calls, Hour),
        ("calls_per_day", Calls, Day),
        ("calls_per_month", Calls, Month),
        ("result_bytes_per_minute", ResultBytes, Minute),
        ("result_bytes_per_hour", ResultBytes, Hour),
        ("result_bytes_per_day", ResultBytes, Day),
        ("result_bytes_per_month", ResultBytes, Month),
        ("tokens_per_minute", Tokens, Minute),
        ("tokens_per_hour", Tokens, Hour),
        ("tokens_per_day", Tokens, Day),
        ("tokens_per_month", Tokens, Month),
        ("dollars_per_minute", Dollars, Minute),
        ("dollars_per_hour", Dollars, Hour),
        ("dollars_per_day", Dollars, Day),
        ("dollars_per_month", Dollars, Month),
    ]
};

impl Quantity {
    /// Returns the stable word for this quantity.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::ResultBytes => "result_bytes",
            Self::Tokens => "tokens",
            Self::Dollars => "dollars",
        }
    }

    /// Returns an amount as a number for programs: dollars with a fraction, everything else whole.
    #[must_use]
    pub fn number(self, amount: u64) -> Value {
        if self == Self::Dollars { json!(dollars(amount)) } else { json!(amount) }
    }
}

/// Returns US dollars as an amount of [`Quantity::Dollars`].
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
pub fn billionths(dollars: f64) -> u64 {
    (dollars * BILLIONTHS_PER_DOLLAR).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "a billionth of a dollar more or less makes no difference to users")]
fn dollars(billionths: u64) -> f64 {
    billionths as f64 / BILLIONTHS_PER_DOLLAR
}

impl Window {
    /// Returns the stable word for this window.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::Minute => "in a minute",
            Self::Hour => "in an hour",
            Self::Day => "in a day",
            Self::Month => "in a month",
        }
    }
}

/// A limit of a quantity in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quota {
    name: &'static str,
    quantity: Quantity,
    window: Window,
    /// How much may be used, in the unit of `quantity`.
    limit: u64,
}

/// The reason why a quota is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadQuota {
    /// No quota has this name.
    #[error(
        "`{name}` is not a quota: write `calls_at_once`, or one of `calls`, `result_bytes`, `tokens` and `dollars` with \
         `_per_minute`, `_per_hour`, `_per_day` or `_per_month`"
    )]
    Unknown {
        /// The name, safe to print.
        name: String,
    },
    /// The number cannot be a limit.
    #[error("`{name}` must be {must}")]
    Number {
        /// The name of the quota.
        name: &'static str,
        /// The requirement for the number.
        must: &'static str,
    },
}

impl Quota {
    /// Reads a quota from its name, such as `calls_per_minute`, and its number as a file writes it: dollars with a
    /// fraction, everything else whole.
    ///
    /// # Errors
    /// [`BadQuota`], if there is no such quota, or if the number is out of its bounds.
    pub fn read(name: &str, number: f64) -> Result<Self, BadQuota> {
        let row = QUOTA_NAMES.iter().find(|(quota_name, ..)| *quota_name == name);
        let &(name, quantity, window) = row.ok_or_else(|| {
            let name = crate::text::for_line(&crate::text::clip(name, MAX_SHOWN_NAME_BYTES)).into_owned();
            BadQuota::Unknown { name }
        })?;
        let limit = match quantity {
            Quantity::Dollars if number > 0.0 && number <= MAX_COUNT / BILLIONTHS_PER_DOLLAR => {
                // A smaller number would be rounded to a limit of 0, which allows nothing.
                billionths(number).max(1)
            }
            Quantity::Dollars => return Err(BadQuota::Number { name, must: "a number of dollars above 0" }),
            _ if (1.0..=MAX_COUNT).contains(&number) && number.fract() == 0.0 => to_count(number),
            _ => return Err(BadQuota::Number { name, must: "a whole number from 1 on" }),
        };
        Ok(Self { name, quantity, window, limit })
    }

    /// Creates the quota of this name with this amount, in the unit of its [`Quantity`] (billionths, for dollars);
    /// `None` if there is no such quota. Any amount is accepted.
    #[must_use]
    pub fn from_name_and_limit(name: &str, limit: u64) -> Option<Self> {
        let &(name, quantity, window) = QUOTA_NAMES.iter().find(|(quota_name, ..)| *quota_name == name)?;
        Some(Self { name, quantity, window, limit })
    }

    /// Returns the name of the quota, as a file writes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what the quota counts.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// Returns the time in which the quota may be used.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns how much may be used, in the unit of its [`Quantity`].
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its caller has checked the number")]
fn to_count(number: f64) -> u64 {
    number as u64
}

/// Says what may be done: `make 60 calls in a minute`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, time) = (self.limit, self.window.in_words());
        let plural = if limit == 1 { "" } else { "s" };
        match (self.quantity, self.window) {
            (Quantity::Calls, Window::AtOnce) => write!(f, "run {limit} call{plural} {time}"),
            (Quantity::Calls, _) => write!(f, "make {limit} call{plural} {time}"),
            (Quantity::ResultBytes, _) => write!(f, "receive {limit} byte{plural} of results {time}"),
            (Quantity::Tokens, _) => write!(f, "use {limit} token{plural} of models {time}"),
            (Quantity::Dollars, _) => write!(f, "spend ${} on models {time}", dollars(limit)),
        }
    }
}

impl Quota {
    /// Says how much is used, for people: `60 of 100 calls in a minute`.
    #[must_use]
    pub fn used_in_words(&self, used: u64) -> String {
        let (limit, time) = (self.limit, self.window.in_words());
        match self.quantity {
            Quantity::Calls => format!("{used} of {limit} calls {time}"),
            Quantity::ResultBytes => format!("{used} of {limit} bytes of results {time}"),
            Quantity::Tokens => format!("{used} of {limit} tokens {time}"),
            Quantity::Dollars => format!("${:.4} of ${} {time}", dollars(used), dollars(limit)),
        }
    }
}

/// Quotas that apply together, at most one of each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaSet(Vec<Quota>);

impl QuotaSet {
    /// Adds a quota. It replaces one with the same name.
    #[must_use]
    pub fn with(mut self, quota: Quota) -> Self {
        self.add(quota);
        self
    }

    /// Adds a quota. It replaces one with the same name.
    pub fn add(&mut self, quota: Quota) {
        self.0.retain(|other| other.name != quota.name);
        self.0.push(quota);
    }

    /// Returns all quotas.
    pub fn iter(&self) -> impl Iterator<Item = Quota> + '_ {
        self.0.iter().copied()
    }

    /// Returns whether there are no quotas, so that nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads a table of names and numbers.
impl<'de> Deserialize<'de> for QuotaSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuotaSetVisitor;
        impl<'de> Visitor<'de> for QuotaSetVisitor {
            type Value = QuotaSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of quotas")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<QuotaSet, A::Error> {
                let mut quotas = QuotaSet::default();
                while let Some(name) = table.next_key::<String>()? {
                    quotas.add(Quota::read(&name, table.next_value()?).map_err(A::Error::custom)?);
                }
                Ok(quotas)
            }
        }
        deserializer.deserialize_map(QuotaSetVisitor)
    }
}

/// A quota that is used up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}, and this quota is used up: it is free again in {}", wait_in_words(*.retry_after))]
#[non_exhaustive]
pub struct OverQuota {
    /// The quota, in words: `a member of acme may make 60 calls in a minute (limits.each_member.calls_per_minute)`.
    pub words: String,
    /// The setting, such as `limits.each_member.calls_per_minute`.
    pub setting: String,
    /// The quota.
    pub quota: Quota,
    /// How much is used, in the unit of the quota's [`Quantity`].
    pub used: u64,
    /// How long to wait until a part of the quota is free again.
    pub retry_after: Duration,
}

impl OverQuota {
    /// Creates the refusal that `who` (`a member of acme`) gets when `used`, in the unit of the quota, reaches `quota`.
    /// `setting` is the key that sets the quota, in the file `place` (`the team file`).
    #[must_use]
    pub fn new(who: &str, setting: String, place: &str, (quota, used): (Quota, u64), retry_after: Duration) -> Self {
        let words = format!("{who} may {quota} (`{setting}` of {place})");
        Self { words, setting, quota, used, retry_after }
    }

    /// Returns how long to wait before trying again, in whole seconds: rounded up, and at least 1.
    #[must_use]
    pub fn retry_after_seconds(&self) -> u64 {
        whole_seconds(self.retry_after)
    }

    /// Returns what a program needs to know: the setting, how much of the limit is used, and how long to wait before
    /// trying again.
    #[must_use]
    pub fn data(&self) -> Map<String, Value> {
        let number = |amount| self.quota.quantity.number(amount);
        Map::from_iter([
            ("quota".to_owned(), json!(self.setting)),
            ("quantity".to_owned(), json!(self.quota.quantity.word())),
            ("window".to_owned(), json!(self.quota.window.word())),
            ("used".to_owned(), number(self.used)),
            ("limit".to_owned(), number(self.quota.limit)),
            ("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds())),
        ])
    }
}

/// Returns a time to wait in whole seconds: rounded up, and at least 1.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Returns a time to wait as a text for users, rounded up.
fn wait_in_words(wait: Duration) -> String {
    match whole_seconds(wait) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds @ ..172_800 => format!("{} h", seconds.div_ceil(3600)),
        seconds => format!("{} days", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_parsed_from_name_and_number_and_describes_itself() {
        for (name, number, limit, words) in [
            ("calls_at_once", 2.0, 2, "run 2 calls at once"),
            ("calls_per_minute", 60.0, 60, "make 60 calls in a minute"),
            ("result_bytes_per_hour", 1_000.0, 1_000, "receive 1000 bytes of results in an hour"),
            ("tokens_per_day", 5.0, 5, "use 5 tokens of models in a day"),
            ("dollars_per_month", 2.5, 2_500_000_000, "spend $2.5 on models in a month"),
        ] {
            let quota = Quota::read(name, number).unwrap();
            assert_eq!((quota.name(), quota.limit(), quota.to_string().as_str()), (name, limit, words));
        }
    }

    #[test]
    fn each_name_says_quantity_and_window_and_none_is_left_out() {
        for (name, quantity, window) in QUOTA_NAMES {
            let expected = match window {
                Window::AtOnce => "calls_at_once".to_owned(),
                _ => format!("{}_per_{}", quantity.word(), window.word()),
            };
            assert_eq!(name, expected);
        }
        assert_eq!(QUOTA_NAMES.len(), 4 * 4 + 1);
    }

    #[test]
    fn an_invalid_quota_is_refused_with_a_reason() {
        for (name, number, why) in [
            ("calls_per_week", 1.0, "is not a quota"),
            ("calls_per_minute", 0.0, "whole number from 1 on"),
            ("calls_per_minute", 1.5, "whole number from 1 on"),
            ("tokens_per_day", -1.0, "whole number from 1 on"),
            ("tokens_per_day", f64::NAN, "whole number from 1 on"),
            ("dollars_per_day", 0.0, "dollars above 0"),
            ("dollars_per_day", f64::INFINITY, "dollars above 0"),
        ] {
            let error = Quota::read(name, number).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(name), "{error}");
        }
        let set = serde_json::from_str::<QuotaSet>(r#"{"calls_per_minute": 3, "calls_at_once": 1}"#).unwrap();
        assert_eq!(set.iter().map(|quota| quota.limit()).collect::<Vec<_>>(), [3, 1]);
        assert!(serde_json::from_str::<QuotaSet>(r#"{"calls_per_minute": 0}"#).is_err());
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_too_early() {
        for (millis, words) in [
            (0, "1 s"),
            (1_001, "2 s"),
            (119_500, "2 min"),
            (3_601_000, "61 min"),
            (7_201_000, "3 h"),
            (172_801_000, "3 days"),
        ] {
            assert_eq!(wait_in_words(Duration::from_millis(millis)), words);
        }
    }

    #[test]
    fn a_refusal_says_its_numbers_in_words_and_as_data() {
        let quota = Quota::read("dollars_per_day", 1.5).unwrap();
        let over = OverQuota::new(
            "a member",
            "limits.x".to_owned(),
            "the team file",
            (quota, 1_600_000_000),
            Duration::from_millis(1_500),
        );
        let expected = json!({
            "quota": "limits.x", "quantity": "dollars", "window": "day", "used": 1.6, "limit": 1.5, "retryAfterSeconds": 2,
        });
        assert_eq!(Value::Object(over.data()), expected);
        let words = "a member may spend $1.5 on models in a day (`limits.x` of the team file), and this quota \
                     is used up: it is free again in 2 s";
        assert_eq!(over.to_string(), words);
    }
}
