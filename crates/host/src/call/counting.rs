//! The trait that counts what each caller uses, and refuses what goes beyond a quota.

use std::fmt;

use crate::{
    quota::{OverQuota, Quantity},
    witness::Caller,
};

/// Counts what each caller uses, and refuses what goes beyond a quota. Must not block.
///
/// The host asks it about a call that the gate, and the user where the gate requires it, have allowed, before it sends
/// anything. Calls that the gate refuses do not count.
pub trait Quotas: Send + Sync {
    /// Begins `work` of `caller`.
    ///
    /// # Errors
    /// [`OverQuota`], and then the work counts for nothing.
    fn begin(&self, caller: &Caller, work: Work) -> Result<Place, OverQuota>;
}

impl fmt::Debug for dyn Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Quotas")
    }
}

/// The kinds of work that quotas bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// A call of a tool.
    Call,
    /// The reading of a resource or a prompt.
    Read,
    /// A request to a model, for a turn of a conversation.
    Model,
}

impl Work {
    /// Returns whether the work uses this quantity, so that it cannot begin once that is used up.
    #[must_use]
    pub fn uses(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Calls => self == Self::Call,
            Quantity::ResultBytes => matches!(self, Self::Call | Self::Read),
            Quantity::Tokens | Quantity::Dollars => self == Self::Model,
        }
    }
}

/// Work that was allowed to begin. Its end is when this is dropped.
pub trait UnderWay: Send + Sync {
    /// Counts what the work has used, beside the one call that it may be. It may go beyond a quota, because it is known
    /// only now.
    fn used(&self, quantity: Quantity, amount: u64);
}

/// The place of work that was allowed to begin. The host drops it when the work ends.
pub struct Place(Option<Box<dyn UnderWay>>);

impl Place {
    /// A place of which there is no end, for work that no quota bounds.
    pub const UNBOUNDED: Self = Self(None);

    /// A place that is free again when `work` is dropped.
    pub fn holding(work: impl UnderWay + 'static) -> Self {
        Self(Some(Box::new(work)))
    }

    /// Counts what the work has used.
    pub fn used(&self, quantity: Quantity, amount: u64) {
        if let Some(work) = &self.0 {
            work.used(quantity, amount);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("is_bounded", &self.0.is_some()).finish()
    }
}
