//! Decides by rules which calls run, which need a user's decision, and which never run.
//!
//! The order of rules does not matter. Among the rules that cover a call:
//!
//! 1. a rule that denies always wins;
//! 2. among the others, the most specific rule wins, as [`Rule::specificity`] defines it;
//! 3. among equally specific rules, one that confirms wins.
//!
//! If no rule covers a call, [`Policy::otherwise`] decides. With [`Policy::allow_read_only`], tools that only read then
//! run in any case. A call that a user [typed](Way::Cli) needs confirmation only if a rule requires it.
//!
//! A pattern without a `/` may name a tool in a spelling that users see; see [`Pattern`]. A rule that denies or
//! confirms then covers every tool that the pattern could mean. A rule that allows covers only the tools that it
//! certainly means.
//!
//! The rules of another source, such as a project, are [judged by themselves](Policy::stricter), and the stricter of
//! two verdicts counts. Such a source can deny and confirm, but never allow.

mod argument;
mod explained;
mod rule;

use std::sync::Arc;

pub use self::{
    argument::{ArgumentRule, BadRule},
    explained::{Explained, Matched, Part},
    rule::{Effect, Hints, Origin, Rule, Specificity},
};
use crate::{
    call::gate::{DefaultEffect, Gate, GateRequest, Verdict},
    glob::Pattern,
    witness::Way,
};

/// The reason why a typed call runs.
const TYPED_REASON: &str = "a user typed this call";

/// Decides about calls by rules. The [module](self) describes which rule wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    own_layer: Layer,
    /// Layers from other sources, which can only make the policy stricter.
    stricter_layers: Vec<Layer>,
    /// The reason why no call runs, if the rules could not be read.
    broken_why: Option<String>,
    /// The name of the agent that calls, for rules with a condition on it.
    agent: Option<Arc<str>>,
}

/// Rules that are judged together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Layer {
    /// The rules in order of precedence: the first that covers a call wins.
    rules: Vec<Arc<Rule>>,
    allow_read_only: bool,
    otherwise: DefaultEffect,
}

/// The values that conditions of rules are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleContext<'a> {
    agent: Option<&'a str>,
}

impl Policy {
    /// Creates a policy without rules: `otherwise` decides.
    #[must_use]
    pub fn new(otherwise: DefaultEffect) -> Self {
        Self { own_layer: Layer { otherwise, ..Layer::default() }, ..Self::default() }
    }

    /// Creates a policy that denies every call for this reason: a rule that cannot be read could deny any of them.
    #[must_use]
    pub fn broken(why: impl Into<String>) -> Self {
        Self { broken_why: Some(why.into()), ..Self::default() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        // Every further meaning of the pattern becomes a rule of its own, which `rules` leaves out.
        for reading in rule.readings() {
            self.own_layer.add(Arc::new(reading));
        }
        self.own_layer.add(Arc::new(rule));
        self
    }

    /// Adds a rule: calls that match run without a question.
    #[must_use]
    pub fn allow(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Allow, pattern))
    }

    /// Adds a rule: a user decides about calls that match.
    #[must_use]
    pub fn confirm(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Confirm, pattern))
    }

    /// Adds a rule: calls that match do not run.
    #[must_use]
    pub fn deny(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Deny, pattern))
    }

    /// Sets whether tools that change nothing, as their servers claim, run without a question. This applies to calls
    /// that no rule covers. Default `false`, because the host cannot verify the claim.
    #[must_use]
    pub fn allow_read_only(mut self, allow: bool) -> Self {
        self.own_layer.allow_read_only = allow;
        self
    }

    /// Sets the decision for calls that no rule covers.
    #[must_use]
    pub fn otherwise(mut self, otherwise: DefaultEffect) -> Self {
        self.own_layer.otherwise = otherwise;
        self
    }

    /// Adds the rules of a source that may only make the policy stricter: rules that allow are left out, and so is
    /// `allow_read_only`.
    #[must_use]
    pub fn stricter(mut self, other: &Self, otherwise: DefaultEffect) -> Self {
        let rules = other.own_layer.rules.iter().filter(|rule| rule.effect() != Effect::Allow).cloned().collect();
        self.stricter_layers.push(Layer { rules, allow_read_only: false, otherwise });
        if self.broken_why.is_none() {
            self.broken_why.clone_from(&other.broken_why);
        }
        self
    }

    /// Sets the name of the agent, for rules with a condition on it.
    #[must_use]
    pub fn for_agent(mut self, agent: Option<impl Into<Arc<str>>>) -> Self {
        self.agent = agent.map(Into::into);
        self
    }

    /// Removes the rules that have this effect, this pattern and no other condition. Rules that are in a file stay.
    pub fn take_back(&mut self, effect: Effect, pattern: &Pattern) {
        let is_meant = |rule: &Rule| rule.effect() == effect && rule.has_only(pattern) && rule.origin().is_none();
        self.own_layer.rules.retain(|rule| !is_meant(rule));
    }

    /// Returns whether the policy decides as the [default](DefaultEffect) does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { own_layer, stricter_layers, broken_why, agent: _ } = self;
        let empty = Layer::default();
        *own_layer == empty && broken_why.is_none() && stricter_layers.iter().all(|layer| layer.is_empty())
    }

    /// Returns every rule, in order of precedence: the policy's own rules, then those that only make it stricter.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.layers().flat_map(|layer| layer.rules.iter().map(|rule| &**rule)).filter(|rule| !rule.is_reading())
    }

    /// Returns the rules that cannot cover any tool of these servers, in any spelling. Such a rule is most likely a
    /// mistake.
    pub fn idle<'p>(&'p self, servers: &'p [&str]) -> impl Iterator<Item = &'p Rule> {
        self.rules().filter(|rule| !servers.iter().any(|server| rule.pattern().may_cover_server(server)))
    }

    /// Returns the decision for calls that no rule covers, and whether tools that only read are exempt.
    #[must_use]
    pub fn default_effect(&self) -> (DefaultEffect, bool) {
        // The order of the effects is from the most lenient to the strictest.
        let strictest = self.layers().map(|layer| layer.otherwise).max().unwrap_or_default();
        (
            strictest,
            // No stricter layer exempts tools that only read, so each of them must allow all calls anyway.
            self.own_layer.allow_read_only
                && self.stricter_layers.iter().all(|layer| layer.otherwise == DefaultEffect::Allow),
        )
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::once(&self.own_layer).chain(&self.stricter_layers)
    }

    fn context(&self) -> RuleContext<'_> {
        RuleContext { agent: self.agent.as_deref() }
    }
}

impl Gate for Policy {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        if let Some(why) = &self.broken_why {
            return Verdict::Deny { why: why.clone() };
        }
        let context = self.context();
        let verdict = self.own_layer.judge(request, context);
        self.stricter_layers.iter().fold(verdict, |verdict, layer| {
            let layer_verdict = layer.judge(request, context);
            if layer_verdict.strictness() > verdict.strictness() { layer_verdict } else { verdict }
        })
    }
}

impl Layer {
    fn add(&mut self, rule: Arc<Rule>) {
        let position = self.rules.partition_point(|other| other.precedence() <= rule.precedence());
        self.rules.insert(position, rule);
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.otherwise == DefaultEffect::Allow
    }

    fn judge(&self, request: &GateRequest<'_>, context: RuleContext<'_>) -> Verdict {
        match self.rules.iter().find(|rule| rule.covers(request, context)) {
            Some(rule) => rule.verdict(),
            None => self.default_verdict(request),
        }
    }

    /// Returns the verdict on a call that no rule covers.
    fn default_verdict(&self, request: &GateRequest<'_>) -> Verdict {
        if self.allow_read_only && request.annotations.read_only == Some(true) {
            return Verdict::allow("its server says that it only reads");
        }
        let why = || "no rule allows it".to_owned();
        match self.otherwise {
            DefaultEffect::Allow => Verdict::allow("no rule forbids it"),
            DefaultEffect::Confirm if request.caller.way() == Way::Cli => Verdict::allow(TYPED_REASON),
            DefaultEffect::Confirm => Verdict::confirm(why()),
            DefaultEffect::Deny => Verdict::Deny { why: why() },
        }
    }
}

#[cfg(test)]
mod tests;
