//! Explains why a call would run, or not: which rule decides, and why each other rule about the tool does not.
//!
//! The rules of one source, such as the user's file or that of a project, are a *layer*. Each layer is judged by
//! itself, and the strictest verdict counts.

use super::{Effect, Layer, Policy, Rule};
use crate::call::gate::{Gate as _, GateRequest, Verdict};

/// A policy's verdict on a call, with the reasons.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explained<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules whose pattern matches the tool, in order of precedence.
    pub rules: Vec<Matched<'a>>,
}

/// A rule whose pattern matches the tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Matched<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The rule's part in the verdict.
    pub part: Part,
    /// Whether the rule comes from a source that can only make the policy stricter.
    pub is_stricter: bool,
}

/// A rule's part in a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rule decides.
    Decides,
    /// Another rule decides, for this reason.
    Overruled(&'static str),
    /// The rule does not cover this call, for this reason.
    NotMatching(&'static str),
}

impl Policy {
    /// Returns the verdict on a call, and the part that each rule for its tool has in it.
    #[must_use]
    pub fn explain(&self, request: &GateRequest<'_>) -> Explained<'_> {
        let verdict = self.judge(request);
        let mut rules = Vec::new();
        let mut has_decided = false;
        for (layer_index, layer) in self.layers().enumerate() {
            let layer_verdict = layer.judge(request, self.context());
            // The first layer with the final verdict decides.
            let decides = !has_decided && self.broken_why.is_none() && layer_verdict == verdict;
            has_decided |= decides;
            rules.extend(self.parts(layer, request, decides).map(|(rule, part)| Matched {
                rule,
                part,
                is_stricter: layer_index > 0,
            }));
        }
        Explained { verdict, rules }
    }

    /// Returns the rules of a layer for the tool, each with its part in the verdict. `decides` says whether the verdict
    /// of this layer is the final one.
    fn parts<'a>(
        &'a self,
        layer: &'a Layer,
        request: &GateRequest<'_>,
        decides: bool,
    ) -> impl Iterator<Item = (&'a Rule, Part)> {
        let rules_for_tool = layer.rules.iter().filter(|rule| rule.is_about(request));
        let mut winner: Option<&Rule> = None;
        rules_for_tool.map(move |rule| {
            let part = match (rule.unmet_condition(request, self.context()), winner) {
                (Some(why), _) => Part::NotMatching(why),
                (None, Some(winner)) => Part::Overruled(reason_to_lose(rule, winner)),
                (None, None) => {
                    winner = Some(rule);
                    if decides {
                        Part::Decides
                    } else {
                        Part::Overruled(if self.broken_why.is_some() {
                            "the rules could not be read, so none of them counts"
                        } else {
                            "something stricter decides"
                        })
                    }
                }
            };
            (&**rule, part)
        })
    }
}

/// Returns why `winner` decides, and not `rule`.
fn reason_to_lose(rule: &Rule, winner: &Rule) -> &'static str {
    match (winner.effect(), rule.effect()) {
        (Effect::Deny, Effect::Deny) => "another rule denies it already",
        (Effect::Deny, _) => "a rule that denies wins",
        _ if rule.specificity() < winner.specificity() => "it is less specific",
        (won, lost) if won == lost => "another rule that is as specific decides the same",
        _ => "of two rules that are equally specific, the one that confirms wins",
    }
}
