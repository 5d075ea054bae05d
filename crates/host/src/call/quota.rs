//! Quotas: how many calls each caller may make.

use std::{any::Any, fmt, time::Duration};

use crate::witness::Caller;

/// Counts calls for each caller, and refuses those beyond a bound. Must not block.
///
/// The host asks it about a call that the gate, and the user where the gate requires it, have allowed, before it sends
/// anything. What the gate refuses counts for nothing.
pub trait Quotas: Send + Sync {
    /// Counts a call of `caller`.
    ///
    /// # Errors
    /// [`OverQuota`], and then the call counts for nothing.
    fn count(&self, caller: &Caller) -> Result<Place, OverQuota>;
}

impl fmt::Debug for dyn Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Quotas")
    }
}

/// The place of one call among those that run at once. The host drops it when the call ends.
pub struct Place(Option<Box<dyn Any + Send + Sync>>);

impl Place {
    /// A place that is free again when `held` is dropped.
    pub fn holding(held: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(held)))
    }

    /// A place of which there is no end.
    pub(crate) const UNBOUNDED: Self = Self(None);
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("is_bounded", &self.0.is_some()).finish()
    }
}

/// A call that a quota refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{quota}, and that is used up: it is free again in {} s", .retry_after.as_secs().max(1))]
pub struct OverQuota {
    /// The quota, in words: `a member of acme may make 60 calls in a minute (limits.each_member.calls_per_minute)`.
    pub quota: String,
    /// When the call may succeed.
    pub retry_after: Duration,
}
