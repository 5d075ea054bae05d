//! The tools of one server, as listed and filtered.

use std::sync::Arc;

use crate::{
    catalog::tokens,
    glob::ToolFilter,
    link::{Listed, ListedTool},
};

/// The tools of one server. Immutable; shared by every catalog that shows them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ToolSet {
    /// Those that exist for us, in the server's order, with what each costs a model in tokens.
    pub(crate) tools: Vec<(Arc<ListedTool>, usize)>,
    /// Names that the entry's filter hides.
    pub(crate) hidden: Vec<String>,
    /// Tools that cannot be used, and why.
    pub(crate) quarantined: Vec<(String, String)>,
}

impl ToolSet {
    pub(crate) fn new(listed: Listed, filter: &ToolFilter) -> Self {
        let (shown, hidden): (Vec<_>, Vec<_>) =
            listed.tools.into_iter().partition(|listed| filter.shows(&listed.tool.name));
        Self {
            tools: shown
                .into_iter()
                .map(|listed| {
                    let tokens = tokens::of_tool(&listed.tool);
                    (Arc::new(listed), tokens)
                })
                .collect(),
            hidden: hidden.into_iter().map(|listed| listed.tool.name).collect(),
            quarantined: listed.quarantined,
        }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.tools.iter().map(|(_, tokens)| tokens).sum()
    }
}
