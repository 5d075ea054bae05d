//! The current time in the unit of tokens and proofs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
