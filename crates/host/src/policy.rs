//! Rules about calls: which run, which a person decides about, and which never run.
//!
//! The order of rules means nothing. Of those that speak of a call:
//!
//! 1. one that denies wins, whatever else there is;
//! 2. of the others the most specific wins, as [`Rule::specificity`] defines it;
//! 3. of several that are as specific, one that confirms wins.
//!
//! Where none speaks of a call, a tool that only reads runs if [`Policy::allow_read_only`] says so, and
//! [`Policy::otherwise`] decides about the rest. A call that a person [typed](Way::Cli) needs no other confirmation than a
//! rule that asks for one.
//!
//! A pattern that is no `server/tool` may be in another spelling that people see, as [`Pattern`] says. A rule that denies or
//! confirms is then about every tool that could be meant, one that allows only about those that are meant without a doubt.
//!
//! What somebody else brings, such as a project, is [judged by itself](Policy::stricter), and the stricter of two verdicts
//! counts: so it can forbid and ask, and never allow.

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
    /// Those of others, which only make it stricter.
    stricter: Vec<Layer>,
    /// Why nothing runs: it is not known what the rules are.
    broken: Option<String>,
    agent: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
}

/// Rules that are judged together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Layer {
    /// The one that wins over others is before them.
    rules: Vec<Arc<Rule>>,
    allow_read_only: bool,
    otherwise: Otherwise,
}

/// Who is meant by conditions that are not about the call itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whom<'a> {
    agent: Option<&'a str>,
    tenant: Option<&'a str>,
}

impl Policy {
    /// No rules yet: `otherwise` decides.
    #[must_use]
    pub fn new(otherwise: Otherwise) -> Self {
        Self { own: Layer { otherwise, ..Layer::default() }, ..Self::default() }
    }

    /// Nothing runs, and this is why: rules that cannot be read could forbid anything.
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

    /// Whether calls that no rule speaks of run without a question where the server claims that the tool changes nothing.
    /// Off by default: it is the server's claim.
    #[must_use]
    pub fn allow_read_only(mut self, allow: bool) -> Self {
        self.own.allow_read_only = allow;
        self
    }

    /// What happens to calls that no rule speaks of.
    #[must_use]
    pub fn otherwise(mut self, otherwise: Otherwise) -> Self {
        self.own.otherwise = otherwise;
        self
    }

    /// With the rules of somebody who may only make it stricter: rules that allow are left out, and so is every word about
    /// tools that only read.
    #[must_use]
    pub fn stricter(mut self, other: &Self, otherwise: Otherwise) -> Self {
        let rules = other.own.rules.iter().filter(|rule| rule.effect() != Effect::Allow).cloned().collect();
        self.stricter.push(Layer { rules, allow_read_only: false, otherwise });
        if self.broken.is_none() {
            self.broken.clone_from(&other.broken);
        }
        self
    }

    /// For an agent that is called so, whom rules may name.
    #[must_use]
    pub fn of_agent(mut self, agent: Option<impl Into<Arc<str>>>) -> Self {
        self.agent = agent.map(Into::into);
        self
    }

    /// For a tenant that is called so, whom rules may name. There is none unless an embedder says so.
    #[must_use]
    pub fn of_tenant(mut self, tenant: Option<impl Into<Arc<str>>>) -> Self {
        self.tenant = tenant.map(Into::into);
        self
    }

    /// Takes back what was said while the program ran: rules of this effect and these words that stand in no file.
    pub fn take_back(&mut self, effect: Effect, pattern: &Pattern) {
        let is_meant = |rule: &Rule| rule.effect() == effect && rule.is_only(pattern) && rule.origin().is_none();
        self.own.rules.retain(|rule| !is_meant(rule));
    }

    /// Whether it says nothing that the [default](Otherwise) would not.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { own, stricter, broken, agent: _, tenant: _ } = self;
        let nothing = Layer::default();
        *own == nothing && broken.is_none() && stricter.iter().all(|layer| layer.says_nothing())
    }

    /// Every rule, in the order in which they win: its own, then those that only make it stricter.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.layers().flat_map(|layer| layer.rules.iter().map(|rule| &**rule)).filter(|rule| !rule.is_reading())
    }

    /// The rules that can be about no tool of these servers, in any spelling: most likely a mistake.
    pub fn idle<'p>(&'p self, servers: &'p [&str]) -> impl Iterator<Item = &'p Rule> {
        self.rules().filter(|rule| !servers.iter().any(|server| rule.pattern().may_be_of(server)))
    }

    /// What happens to calls that no rule speaks of, and whether tools that only read are excepted.
    #[must_use]
    pub fn rest(&self) -> (Otherwise, bool) {
        let strictest = self.layers().map(|layer| layer.otherwise).max().unwrap_or_default();
        (strictest, self.own.allow_read_only && self.stricter.iter().all(|layer| layer.otherwise == Otherwise::Allow))
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::once(&self.own).chain(&self.stricter)
    }

    fn whom(&self) -> Whom<'_> {
        Whom { agent: self.agent.as_deref(), tenant: self.tenant.as_deref() }
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

    /// What happens to a call that no rule speaks of.
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
