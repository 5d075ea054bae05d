//! What may run without a question, as a person says while the program runs.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use toolrack_host::{Gate, GateRequest, Pattern, Rules, Verdict};

/// Rules to which others are added. What was said last counts: a tool that is allowed now is no longer denied by the same
/// words, and the other way round.
#[derive(Debug)]
pub(crate) struct LiveRules(RwLock<Rules>);

impl LiveRules {
    pub(crate) fn new(rules: Rules) -> Self {
        Self(RwLock::new(rules))
    }

    /// From now on, tools that match run unasked.
    pub(crate) fn allow(&self, pattern: Pattern) {
        let mut rules = self.write();
        rules.deny.retain(|denied| *denied != pattern);
        rules.allow.push(pattern);
    }

    /// From now on, tools that match do not run.
    pub(crate) fn deny(&self, pattern: Pattern) {
        let mut rules = self.write();
        rules.allow.retain(|allowed| *allowed != pattern);
        rules.deny.push(pattern);
    }

    fn read(&self) -> RwLockReadGuard<'_, Rules> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rules> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for LiveRules {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        self.read().judge(request)
    }
}
