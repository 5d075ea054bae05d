//! Decides whether a model sees all tools, or only those with which it can search for the others.

use super::{Catalog, selection::Selection};

/// The limits for showing all tools to a model: the share of its context that their definitions may fill, and how many
/// tools there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The share of the context that definitions may take, from 0 to 1. Default 0.05.
    pub share: f64,
    /// The context of the model, in tokens. If it is unknown (`None`), only the number of tools decides.
    pub context_tokens: Option<usize>,
    /// The maximum number of tools that the provider accepts (see [`Wire::max_tools`](super::Wire::max_tools)); `None`
    /// if there is no maximum.
    pub max_tools: Option<usize>,
}

/// The way in which a model gets its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The model is shown every definition.
    All,
    /// The model is shown the three tools of [`Host::discovery`](crate::Host::discovery), and finds the others with
    /// them.
    Discovery,
}

/// The tokens that the three discovery tools take themselves: discovery cannot save anything below this.
const DISCOVERY_TOKENS: usize = 500;

impl Default for Budget {
    fn default() -> Self {
        Self { share: 0.05, context_tokens: None, max_tools: None }
    }
}

impl Budget {
    /// Returns the tokens that definitions may take; `None` if any number is allowed. The result is at least 500, the
    /// tokens that the discovery tools take themselves.
    #[must_use]
    pub fn tokens(&self) -> Option<usize> {
        let share_of = |context_tokens: usize| (context_tokens as f64 * self.share.clamp(0.0, 1.0)) as usize;
        self.context_tokens.map(|context_tokens| share_of(context_tokens).max(DISCOVERY_TOKENS))
    }

    /// Returns how to offer `tools` tools whose definitions take `tokens` tokens, as
    /// [`CatalogTool::tokens`](super::CatalogTool) estimates them. Deterministic, so that a conversation keeps its
    /// offer while its tools stay the same.
    #[must_use]
    pub fn offer(&self, tools: usize, tokens: usize) -> Offer {
        let has_too_many = self.max_tools.is_some_and(|max| tools > max);
        let is_too_large = self.tokens().is_some_and(|max| tokens > max);
        if has_too_many || is_too_large { Offer::Discovery } else { Offer::All }
    }
}

impl Catalog {
    /// Returns how to offer the tools of `selection` within `budget`. Only sums up the estimates of the tools; does not
    /// build their definitions.
    #[must_use]
    pub fn offer(&self, budget: &Budget, selection: &Selection) -> Offer {
        let selected_tools = self.tools().filter(|tool| selection.has(tool));
        let (tools, tokens) = selected_tools
            .fold((0, 0_usize), |(tools, tokens), tool| (tools + 1, tokens.saturating_add(tool.tokens())));
        budget.offer(tools, tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        catalog::tests::{catalog, set, tool},
        spec::ServerName,
    };

    #[test]
    fn only_the_selected_tools_count() {
        let many: Vec<_> = (0..100).map(|n| tool(&format!("tool{n}"), "Does one thing or another.", &[])).collect();
        let few = Arc::new(set(&[tool("one", "Does one thing.", &[])]));
        let catalog = catalog(1, &[("many", Arc::new(set(&many))), ("few", few)]);
        let budget = budget(0.05, 16_000);
        let few = Selection::all().of_servers([ServerName::new("few").unwrap()]);
        assert_eq!(catalog.offer(&budget, &Selection::all()), Offer::Discovery);
        assert_eq!(catalog.offer(&budget, &few), Offer::All);
    }

    fn budget(share: f64, context_tokens: usize) -> Budget {
        Budget { share, context_tokens: Some(context_tokens), max_tools: None }
    }

    #[test]
    fn all_tools_are_shown_up_to_their_share_of_the_context() {
        let budget = budget(0.05, 200_000);
        assert_eq!(budget.tokens(), Some(10_000));
        assert_eq!(budget.offer(80, 10_000), Offer::All);
        assert_eq!(budget.offer(80, 10_001), Offer::Discovery);
        assert_eq!(budget.offer(0, 0), Offer::All);
    }

    #[test]
    fn no_more_are_shown_than_the_provider_takes() {
        let budget = Budget { max_tools: Some(128), ..Budget::default() };
        assert_eq!(budget.offer(128, 1_000_000), Offer::All, "the size of the context is unknown");
        assert_eq!(budget.offer(129, 1), Offer::Discovery);
    }

    #[test]
    fn discovery_is_not_chosen_where_it_would_cost_more() {
        for share in [0.0, 0.05, f64::NAN, -1.0] {
            assert_eq!(budget(share, 4_096).offer(3, DISCOVERY_TOKENS), Offer::All, "{share}");
        }
        assert_eq!(budget(0.0, 4_096).offer(3, DISCOVERY_TOKENS + 1), Offer::Discovery);
    }

    #[test]
    fn a_share_that_makes_no_sense_breaks_nothing() {
        assert_eq!(budget(7.0, 1_000).tokens(), Some(1_000));
        assert_eq!(budget(f64::INFINITY, usize::MAX).offer(1, usize::MAX), Offer::All);
    }
}
