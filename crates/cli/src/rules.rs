//! Holds the rules about calls while the program runs: the rules of the files, and those that the user adds.

use std::sync::Arc;

use arc_swap::ArcSwap;
use toolrack_host::{
    Gate, GateRequest, Pattern, Policy, Verdict,
    policy::{Effect, Rule},
};

/// A policy that changes. The user's last decision counts: an allow rule removes an earlier deny rule with the same
/// pattern, and vice versa. Only rules that were added here are removed; a rule of a file can be changed only in that
/// file.
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

    /// Lets tools that match `pattern` run without a question.
    pub(crate) fn allow(&self, pattern: Pattern) {
        self.set_rule(Effect::Allow, Effect::Deny, pattern);
    }

    /// Denies calls of tools that match `pattern`.
    pub(crate) fn deny(&self, pattern: Pattern) {
        self.set_rule(Effect::Deny, Effect::Allow, pattern);
    }

    /// Adds a rule with `effect`, and removes a rule with the `opposite` effect for the same pattern.
    fn set_rule(&self, effect: Effect, opposite: Effect, pattern: Pattern) {
        self.0.rcu(|policy| {
            let mut new_policy = Policy::clone(policy);
            new_policy.take_back(opposite, &pattern);
            new_policy.rule(Rule::new(effect, pattern.clone()))
        });
    }
}

impl Gate for LiveRules {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        self.0.load().judge(request)
    }
}
