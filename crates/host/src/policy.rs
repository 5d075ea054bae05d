//! Rules about calls: which run, which a person decides about, and which never run.
//!
//! The order of rules does not matter. Of those that cover a call:
//!
//! 1. one that denies wins, whatever else there is;
//! 2. of the others the most specific wins, as [`Rule::specificity`] defines it;
//! 3. of several that are as specific, one that confirms wins.
//!
//! If none covers a call, a tool that only reads runs if [`Policy::allow_read_only`] is set, and [`Policy::otherwise`]
//! decides about the rest. A call that a person [typed](Way::Cli) needs confirmation only where a rule asks for it.
//!
//! A pattern that is no `server/tool` may be in another spelling that people see; see [`Pattern`]. A rule that denies
//! or confirms then covers every tool that it could mean, one that allows only tools that it certainly means.
//!
//! The rules of another source, such as a project, are [judged by themselves](Policy::stricter), and the stricter of
//! two verdicts counts: so it can forbid and ask, and never allow.

mod argument;
mod explained;
mod rule;

use std::sync::Arc;

pub use self::{
    argument::{ArgumentRule, BadRule},
    explained::{Explained, Fate, Matched},
    rule::{Effect, Hints, Origin, Rule, Specificity},
};
use crate::{
    call::gate::{Gate, GateRequest, Otherwise, Verdict},
    glob::Pattern,
    witness::Way,
};

/// Why a typed call runs.
const TYPED: &str = "who typed it wants it";

/// Decides about calls by rules. See the [module](self) for which rule wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    own: Layer,
    /// Layers from other sources, which only make it stricter.
    stricter: Vec<Layer>,
    /// Why nothing runs: the rules are unknown.
    broken: Option<String>,
    agent: Option<Arc<str>>,
}

/// Rules that are judged together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Layer {
    /// Ordered by precedence: the first that covers a call wins.
    rules: Vec<Arc<Rule>>,
    allow_read_only: bool,
    otherwise: Otherwise,
}

/// The agent that conditions are about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whom<'a> {
    agent: Option<&'a str>,
}

impl Policy {
    /// A policy without rules: `otherwise` decides.
    #[must_use]
    pub fn new(otherwise: Otherwise) -> Self {
        Self { own: Layer { otherwise, ..Layer::default() }, ..Self::default() }
    }

    /// Nothing runs, for this reason: rules that cannot be read could forbid anything.
    #[must_use]
    pub fn broken(why: impl Into<String>) -> Self {
        Self { broken: Some(why.into()), ..Self::default() }
    }

    /// With one more rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        for reading in rule.readings() {
            self.own.add(Arc::new(reading));
        }
        self.own.add(Arc::new(rule));
        self
    }

    /// Calls that match run without a question.
    #[must_use]
    pub fn allow(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Allow, pattern))
    }

    /// A person decides about calls that match.
    #[must_use]
    pub fn confirm(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Confirm, pattern))
    }

    /// Calls that match do not run.
    #[must_use]
    pub fn deny(self, pattern: Pattern) -> Self {
        self.rule(Rule::new(Effect::Deny, pattern))
    }

    /// Whether calls that no rule covers run without a question where the server claims that the tool changes nothing.
    /// Off by default: it is the server's claim.
    #[must_use]
    pub fn allow_read_only(mut self, allow: bool) -> Self {
        self.own.allow_read_only = allow;
        self
    }

    /// What happens to calls that no rule covers.
    #[must_use]
    pub fn otherwise(mut self, otherwise: Otherwise) -> Self {
        self.own.otherwise = otherwise;
        self
    }

    /// Adds the rules of a source that may only make the policy stricter: rules that allow are left out, and so is
    /// `allow_read_only`.
    #[must_use]
    pub fn stricter(mut self, other: &Self, otherwise: Otherwise) -> Self {
        let rules = other.own.rules.iter().filter(|rule| rule.effect() != Effect::Allow).cloned().collect();
        self.stricter.push(Layer { rules, allow_read_only: false, otherwise });
        if self.broken.is_none() {
            self.broken.clone_from(&other.broken);
        }
        self
    }

    /// For the agent of this name, which rules may name.
    #[must_use]
    pub fn of_agent(mut self, agent: Option<impl Into<Arc<str>>>) -> Self {
        self.agent = agent.map(Into::into);
        self
    }

    /// Removes rules that were added at run time: those of this effect and this pattern alone that stand in no file.
    pub fn take_back(&mut self, effect: Effect, pattern: &Pattern) {
        let is_meant = |rule: &Rule| rule.effect() == effect && rule.is_only(pattern) && rule.origin().is_none();
        self.own.rules.retain(|rule| !is_meant(rule));
    }

    /// Whether it decides as the [default](Otherwise) does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { own, stricter, broken, agent: _ } = self;
        let nothing = Layer::default();
        *own == nothing && broken.is_none() && stricter.iter().all(|layer| layer.says_nothing())
    }

    /// Every rule, in order of precedence: its own, then those that only make it stricter.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.layers().flat_map(|layer| layer.rules.iter().map(|rule| &**rule)).filter(|rule| !rule.is_reading())
    }

    /// The rules that can cover no tool of these servers, in any spelling: most likely a mistake.
    pub fn idle<'p>(&'p self, servers: &'p [&str]) -> impl Iterator<Item = &'p Rule> {
        self.rules().filter(|rule| !servers.iter().any(|server| rule.pattern().may_be_of(server)))
    }

    /// What happens to calls that no rule covers, and whether tools that only read are excepted.
    #[must_use]
    pub fn rest(&self) -> (Otherwise, bool) {
        let strictest = self.layers().map(|layer| layer.otherwise).max().unwrap_or_default();
        (strictest, self.own.allow_read_only && self.stricter.iter().all(|layer| layer.otherwise == Otherwise::Allow))
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::once(&self.own).chain(&self.stricter)
    }

    fn whom(&self) -> Whom<'_> {
        Whom { agent: self.agent.as_deref() }
    }
}

impl Gate for Policy {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        if let Some(why) = &self.broken {
            return Verdict::Deny { why: why.clone() };
        }
        let whom = self.whom();
        let verdict = self.own.judge(request, whom);
        self.stricter.iter().fold(verdict, |verdict, layer| {
            let other = layer.judge(request, whom);
            if other.strictness() > verdict.strictness() { other } else { verdict }
        })
    }
}

impl Layer {
    fn add(&mut self, rule: Arc<Rule>) {
        let at = self.rules.partition_point(|before| before.precedence() <= rule.precedence());
        self.rules.insert(at, rule);
    }

    fn says_nothing(&self) -> bool {
        self.rules.is_empty() && self.otherwise == Otherwise::Allow
    }

    fn judge(&self, request: &GateRequest<'_>, whom: Whom<'_>) -> Verdict {
        match self.rules.iter().find(|rule| rule.speaks_of(request, whom)) {
            Some(rule) => rule.verdict(),
            None => self.rest(request),
        }
    }

    /// What happens to a call that no rule covers.
    fn rest(&self, request: &GateRequest<'_>) -> Verdict {
        if self.allow_read_only && request.annotations.read_only == Some(true) {
            return Verdict::allow("its server says that it only reads");
        }
        let why = || "no rule allows it".to_owned();
        match self.otherwise {
            Otherwise::Allow => Verdict::allow("no rule forbids it"),
            Otherwise::Confirm if request.caller.way() == Way::Cli => Verdict::allow(TYPED),
            Otherwise::Confirm => Verdict::confirm(why()),
            Otherwise::Deny => Verdict::Deny { why: why() },
        }
    }
}

#[cfg(test)]
mod tests;
