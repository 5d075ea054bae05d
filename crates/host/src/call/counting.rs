//! Counts what each caller uses, and refuses what goes beyond a quota.

use std::{fmt, time::Duration};

use tokio::time::sleep;

use super::CallContext;
use crate::{
    quota::{OverQuota, Quantity},
    spec::ServerName,
    witness::{Caller, Fact},
};

/// How long the host holds back a refusal. So a caller that tries again and again does not take the time that the host
/// needs for others.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// Counts what each caller uses, and refuses what goes beyond a quota. Must not block.
///
/// The host asks this before it sends a call, after the gate has allowed the call. (The gate decides whether a call may
/// run, or leaves that to a user.) Calls that the gate or the user refuses do not count.
pub trait Quotas: Send + Sync {
    /// Begins `work` of `caller`.
    ///
    /// # Errors
    /// [`OverQuota`]. The work is then not counted.
    fn begin(&self, caller: &Caller, work: Work) -> Result<Admitted, OverQuota>;
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
    /// Returns whether the work uses this quantity, so that it cannot begin once the quota for it is used up.
    #[must_use]
    pub fn uses(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Calls => self == Self::Call,
            Quantity::ResultBytes => matches!(self, Self::Call | Self::Read),
            Quantity::Tokens | Quantity::Dollars => self == Self::Model,
        }
    }
}

/// Counts what one piece of admitted work uses. The host drops it when the work ends.
pub trait UsageMeter: Send + Sync {
    /// Counts what the work has used, in addition to the call that [`Quotas::begin`] has counted. The amount may go
    /// beyond a quota, because it is known only now.
    fn used(&self, quantity: Quantity, amount: u64);
}

/// Work that no quota refused. The host drops this when the work ends.
pub struct Admitted(Option<Box<dyn UsageMeter>>);

impl Admitted {
    /// Work that no quota bounds.
    pub const UNBOUNDED: Self = Self(None);

    /// Creates admitted work whose use `meter` counts; `meter` is dropped when the work ends.
    pub fn counted_by(meter: impl UsageMeter + 'static) -> Self {
        Self(Some(Box::new(meter)))
    }

    /// Counts what the work has used.
    pub fn used(&self, quantity: Quantity, amount: u64) {
        if let Some(meter) = &self.0 {
            meter.used(quantity, amount);
        }
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("is_bounded", &self.0.is_some()).finish()
    }
}

impl CallContext {
    /// Begins work, unless a quota of the caller is used up. A host without quotas admits all work.
    pub(crate) fn begin(&self, caller: &Caller, work: Work) -> Result<Admitted, OverQuota> {
        self.quotas.as_ref().map_or(Ok(Admitted::UNBOUNDED), |quotas| quotas.begin(caller, work))
    }

    /// Begins work as [`Self::begin`] does, but returns a refusal only after [`REFUSAL_PAUSE`].
    pub(crate) async fn admit_work(&self, caller: &Caller, work: Work) -> Result<Admitted, OverQuota> {
        let result = self.begin(caller, work);
        if result.is_err() {
            sleep(REFUSAL_PAUSE).await;
        }
        result
    }

    /// Records that a quota refused something other than a call.
    pub(crate) fn report_over_quota(
        &self,
        caller: &Caller,
        server: Option<&ServerName>,
        what: &str,
        over_quota: &OverQuota,
    ) {
        if let Some(witness) = &self.witness {
            let (caller, server) = (caller.clone(), server.cloned());
            witness.record(Fact::OverQuota { caller, server, what: what.to_owned(), why: over_quota.to_string() });
        }
    }
}
