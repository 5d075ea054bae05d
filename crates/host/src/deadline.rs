//! Computes deadlines from time limits of any length.

use std::time::Duration;

use tokio::time::Instant;

/// A longer limit counts as this one, 100 years: the sum of a moment and a very long time would overflow.
const MAX_LIMIT: Duration = Duration::from_hours(100 * 365 * 24);

/// Returns the moment `limit` after `start`; at most 100 years after it.
pub(crate) fn deadline(start: Instant, limit: Duration) -> Instant {
    start + limit.min(MAX_LIMIT)
}
