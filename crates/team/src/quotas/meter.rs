//! Measures how much of a quota is used. A meter is one quota with its used amount.
//!
//! A quota has a window of time. In a window of a minute, the used amount decreases continuously. The longer windows
//! begin at full hours, at midnight or at the first of the month (UTC), and the used amount is then zero again. A quota
//! of concurrent work has no window of time: work takes a place in it until the work ends.

use std::time::Duration;

use chrono::{DateTime, Datelike as _, Days, Months, NaiveTime, TimeDelta, Timelike as _, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;
use toolrack_host::{Quantity, Quota, quota::Window};

/// How long work should wait before it tries again, if a quota of concurrent work has no free place.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The maximum number of minutes for which overuse keeps a quota of a minute used up: a day. Without this bound, one
/// wrong report, such as a huge number of tokens from a model provider, would keep work waiting for years.
const MAX_MINUTES_OF_OVERUSE: f64 = 24.0 * 60.0;

/// The tolerance when amounts are compared, because fractions of them are not exact.
const TOLERANCE: f64 = 1e-6;

/// A clock that shows dates and never goes back. When the machine's clock is set back, this one goes on by tokio's
/// clock, which tests can control.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time that this clock last showed, and the same time on the clock of tokio.
    last_shown: Mutex<(DateTime<Utc>, Instant)>,
}

impl Clock {
    /// Creates a clock that shows `time` now.
    pub(super) fn at(time: DateTime<Utc>) -> Self {
        Self { last_shown: Mutex::new((time, Instant::now())) }
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.now_at_least(Utc::now())
    }

    /// Returns the time, while the clock of the machine shows `machine_time`.
    fn now_at_least(&self, machine_time: DateTime<Utc>) -> DateTime<Utc> {
        let mut last_shown = self.last_shown.lock();
        let (shown_time, shown_instant) = *last_shown;
        let instant = Instant::now();
        let passed = TimeDelta::from_std(instant.duration_since(shown_instant)).unwrap_or_default();
        // After a suspension of the machine, tokio's clock is behind the machine's.
        let time = (shown_time + passed).max(machine_time);
        // Without this, the clock could go back. A meter that is already at a later time would then stand still until
        // the clock reaches that time again.
        *last_shown = (time, instant);
        time
    }
}

/// A quota, and how much of it was used at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meter {
    quota: Quota,
    /// The amount that is used. In a quota of a minute, it decreases continuously. In a longer window, it is zero again
    /// when a new window begins.
    used: f64,
    /// The time at which `used` was right.
    measured_at: DateTime<Utc>,
}

impl Meter {
    /// Creates a meter with the amount `used` at this time.
    #[must_use]
    pub fn new(quota: Quota, used: f64, at: DateTime<Utc>) -> Self {
        Self { quota, used: clamped(quota, used), measured_at: at }
    }

    /// Returns its quota.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the amount as of the last [`Self::advance`], rounded up.
    #[must_use]
    pub fn used(&self) -> u64 {
        round_up(self.used)
    }

    /// Returns the exact amount, and the time for which it is right.
    #[must_use]
    pub fn reading(&self) -> (f64, DateTime<Utc>) {
        (self.used, self.measured_at)
    }

    /// Returns whether the amount still counts after a restart. The amount of a quota of concurrent work does not.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        !self.is_at_once()
    }

    /// Returns which fraction of the quota this amount is.
    pub(super) fn fraction(&self, amount: u64) -> f64 {
        to_f64(amount) / limit_of(self.quota)
    }

    /// Brings the amount up to date at `now`. Does nothing if `now` is in the past.
    pub fn advance(&mut self, now: DateTime<Utc>) {
        if now <= self.measured_at {
            return;
        }
        self.used = match self.quota.window() {
            Window::Minute => (self.used - to_seconds(now - self.measured_at) * limit_of(self.quota) / 60.0).max(0.0),
            window if window_end(window, self.measured_at).is_some_and(|end| end <= now) => 0.0,
            _ => self.used,
        };
        self.measured_at = now;
    }

    /// Returns how long to wait before more can be used. `None` if more can be used now. Call [`Self::advance`] before.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let missing_amount = self.used + 1.0 - limit_of(self.quota);
        if missing_amount <= TOLERANCE {
            return None;
        }
        Some(match self.quota.window() {
            Window::AtOnce => RETRY_AFTER,
            Window::Minute => Duration::from_secs_f64(missing_amount * 60.0 / limit_of(self.quota)),
            _ => self.renews_at().and_then(|end| (end - self.measured_at).to_std().ok()).unwrap_or(RETRY_AFTER),
        })
    }

    /// Returns when the whole quota is free again. `None` if nothing is used, or if the time depends on work under way.
    #[must_use]
    pub fn renews_at(&self) -> Option<DateTime<Utc>> {
        if self.used <= TOLERANCE {
            return None;
        }
        match self.quota.window() {
            Window::Minute => {
                let wait = Duration::from_secs_f64(self.used * 60.0 / limit_of(self.quota));
                Some(self.measured_at + TimeDelta::from_std(wait).unwrap_or_default())
            }
            window => window_end(window, self.measured_at),
        }
    }

    /// Counts `amount`.
    pub(super) fn add(&mut self, amount: u64) {
        self.used = clamped(self.quota, self.used + to_f64(amount));
    }

    /// Frees a place in a quota of concurrent work.
    pub(super) fn free_place(&mut self) {
        self.used = (self.used - 1.0).max(0.0);
    }

    pub(super) fn measures(&self, quantity: Quantity) -> bool {
        self.quota.quantity() == quantity
    }

    /// Returns whether this is a quota of concurrent work.
    pub(super) fn is_at_once(&self) -> bool {
        self.quota.window() == Window::AtOnce
    }

    pub(super) fn is_unused(&self) -> bool {
        self.used <= TOLERANCE
    }
}

/// Returns the end of the window that contains this time.
fn window_end(window: Window, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let date = time.date_naive();
    let midnight = date.and_time(NaiveTime::MIN).and_utc();
    match window {
        Window::Hour => Some(midnight + TimeDelta::hours(i64::from(time.hour()) + 1)),
        Window::Day => midnight.checked_add_days(Days::new(1)),
        Window::Month => date.with_day(1)?.and_time(NaiveTime::MIN).and_utc().checked_add_months(Months::new(1)),
        // `AtOnce` and `Minute` have no windows that begin anew.
        _ => None,
    }
}

/// Returns a time span in seconds. A negative one counts as zero.
fn to_seconds(span: TimeDelta) -> f64 {
    span.to_std().unwrap_or_default().as_secs_f64()
}

/// Returns the limit, or 1 for a stored limit of 0, which no file can set.
fn limit_of(quota: Quota) -> f64 {
    to_f64(quota.limit()).max(1.0)
}

/// Returns `used`, but at least 0, and for a quota of a minute at most the overuse that it allows.
fn clamped(quota: Quota, used: f64) -> f64 {
    let used = used.max(0.0);
    match quota.window() {
        Window::Minute => used.min(limit_of(quota) * MAX_MINUTES_OF_OVERUSE),
        _ => used,
    }
}

#[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53, or so large that one more does not matter")]
fn to_f64(amount: u64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an amount is never negative")]
fn round_up(amount: f64) -> u64 {
    (amount - TOLERANCE).ceil().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn meter(name: &str, most: f64, used: f64, at: &str) -> Meter {
        Meter::new(Quota::read(name, most).unwrap(), used, time(at))
    }

    #[test]
    fn a_quota_of_a_minute_refills_continuously_and_longer_ones_at_full_hours_days_and_months() {
        let mut minute = meter("calls_per_minute", 6.0, 6.0, "2100-01-01T10:00:00Z");
        assert_eq!(minute.wait(), Some(Duration::from_secs(10)));
        minute.advance(time("2100-01-01T10:00:10Z"));
        assert_eq!((minute.used(), minute.wait()), (5, None));
        for (name, renews, before) in [
            ("calls_per_hour", "2100-01-31T23:00:00Z", "2100-01-31T22:59:59Z"),
            ("calls_per_day", "2100-02-01T00:00:00Z", "2100-01-31T23:59:59Z"),
            ("calls_per_month", "2100-02-01T00:00:00Z", "2100-01-31T23:59:59Z"),
        ] {
            let mut meter = meter(name, 6.0, 6.0, "2100-01-31T22:15:00Z");
            assert_eq!(meter.renews_at(), Some(time(renews)));
            meter.advance(time(before));
            assert_eq!((meter.used(), meter.wait()), (6, Some(Duration::from_secs(1))), "{name}");
            meter.advance(time(renews));
            assert_eq!((meter.used(), meter.wait(), meter.renews_at()), (0, None, None), "{name}");
        }
    }

    #[test]
    fn overuse_counts_against_the_next_minute_but_not_against_the_next_hour() {
        let mut minute = meter("result_bytes_per_minute", 100.0, 0.0, "2100-01-01T10:00:00Z");
        minute.add(200);
        assert_eq!(minute.wait(), Some(Duration::from_secs_f64(60.6)));
        let mut hour = meter("result_bytes_per_hour", 100.0, 0.0, "2100-01-01T10:59:00Z");
        hour.add(200);
        assert_eq!(hour.wait(), Some(Duration::from_secs(60)));
        hour.advance(time("2100-01-01T11:00:00Z"));
        assert_eq!(hour.used(), 0);
    }

    #[test]
    fn no_amount_keeps_a_quota_of_a_minute_used_up_for_longer_than_a_day() {
        let mut minute = meter("tokens_per_minute", 1_000.0, 0.0, "2100-01-01T10:00:00Z");
        minute.add(u64::MAX);
        let stored = meter("tokens_per_minute", 1_000.0, 1e18, "2100-01-01T10:00:00Z");
        for meter in [minute, stored] {
            assert!(meter.wait().unwrap() <= Duration::from_hours(24), "{:?}", meter.wait());
            assert_eq!(meter.renews_at(), Some(time("2100-01-02T10:00:00Z")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_the_machine_that_jumps_ahead_and_back_stops_no_minute() {
        let (right, wrong) = ("2100-01-01T10:00:00Z", "2100-01-02T10:00:00Z");
        let clock = Clock::at(time(right));
        let mut minute = meter("calls_per_minute", 6.0, 6.0, right);
        minute.advance(clock.now_at_least(time(wrong)));
        minute.add(6);
        tokio::time::advance(Duration::from_secs(10)).await;
        let now = clock.now_at_least(time("2100-01-01T10:00:10Z"));
        assert_eq!(now, time("2100-01-02T10:00:10Z"));
        minute.advance(now);
        assert_eq!((minute.used(), minute.wait()), (5, None));
    }

    #[test]
    fn a_clock_that_goes_back_frees_no_quota() {
        let mut minute = meter("calls_per_minute", 6.0, 6.0, "2100-01-01T10:00:00Z");
        minute.advance(time("2100-01-01T09:00:00Z"));
        assert_eq!(minute.used(), 6);
        let mut day = meter("calls_per_day", 6.0, 6.0, "2100-01-02T00:00:01Z");
        day.advance(time("2100-01-01T23:00:00Z"));
        assert_eq!(day.used(), 6);
    }
}
