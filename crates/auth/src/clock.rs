//! The current time in seconds since 1970, the unit of times in tokens and proofs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time in seconds since 1970; 0 if the clock is set to an earlier time.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
