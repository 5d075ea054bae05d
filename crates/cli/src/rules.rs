//! The rules about calls while the program runs: the rules of the files, and those that the user adds.

use std::sync::Arc;

use arc_swap::ArcSwap;
use toolrack_host::{
    Gate, GateRequest, Pattern, Policy, Verdict,
    policy::{Effect, Rule},
};

/// A policy that changes. The user's last decision is used: an allow rule removes an earlier deny rule with the same
/// pattern, and vice versa. Rules in a file are changed there.
#[derive(Debug)]
pub(crate) struct LiveRules(ArcSwap<Policy>);

impl LiveRules {
    pub(crate) fn new(policy: Policy) -> Self {
        Self(ArcSwap::from_pointee(policy))
    }

    /// Replaces the policy.
    pub(crate) fn replace(&self, policy: Policy) {
        self.0.store(Arc::new(policy));
    }

    /// Lets tools that match run without a question.
    pub(crate) fn allow(&self, pattern: Pattern) {
        self.say(Effect::Allow, Effect::Deny, pattern);
    }

    /// Denies tools that match.
    pub(crate) fn deny(&self, pattern: Pattern) {
        self.say(Effect::Deny, Effect::Allow, pattern);
    }

    fn say(&self, now: Effect, no_more: Effect, pattern: Pattern) {
        self.0.rcu(|policy| {
            let mut changed = Policy::clone(policy);
            changed.take_back(no_more, &pattern);
            changed.rule(Rule::new(now, pattern.clone()))
        });
    }
}

impl Gate for LiveRules {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        self.0.load().judge(request)
    }
}
