//! Limits how often something is reported.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// Allows a fixed number of reports per second, and counts the dropped ones.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: u16,
    created_at: Instant,
    /// The current second in one integer, so that it changes atomically: its start, in milliseconds since `created_at`,
    /// and, in the lowest 16 bits, the number of allowed reports.
    second: AtomicU64,
    dropped_count: AtomicU64,
}

impl RateLimiter {
    pub(crate) fn new(per_second: u16) -> Self {
        Self { per_second, created_at: Instant::now(), second: AtomicU64::new(0), dropped_count: AtomicU64::new(0) }
    }

    /// Allows one more report, and returns how many reports were dropped since the last allowed report; `None` if the
    /// rate is exceeded.
    pub(crate) fn allow(&self) -> Option<u64> {
        let now = u64::try_from(self.created_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let update = self.second.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |second| {
            let (start, count) = (second >> 16, second & u64::from(u16::MAX));
            // Another thread may have begun a new second after this thread read the clock, so `now` may be earlier.
            let (start, count) = if now.saturating_sub(start) >= 1_000 { (now, 0) } else { (start, count) };
            (count < u64::from(self.per_second)).then_some(start << 16 | (count + 1))
        });
        if update.is_err() {
            self.dropped_count.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.dropped_count.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_over_the_rate_are_counted_and_reported_with_the_next_one() {
        let rate = RateLimiter::new(2);
        let counts: Vec<_> = (0..5).map(|_| rate.allow()).collect();
        assert_eq!(counts, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((rate.allow(), rate.allow(), rate.allow()), (Some(3), Some(0), None));
    }
}
