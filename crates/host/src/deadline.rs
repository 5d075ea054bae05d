//! Computes deadlines from time limits of any length.

use std::time::Duration;

use tokio::time::Instant;

/// A longer limit counts as this one: the sum of a moment and a very long time would overflow.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Returns the moment `limit` after `start`, or a moment that no program lives to see if `limit` is very long.
pub(crate) fn deadline(start: Instant, limit: Duration) -> Instant {
    start + limit.min(LONGEST)
}
