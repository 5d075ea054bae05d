//! The tools of one server, as listed and filtered.

use std::{collections::HashMap, sync::Arc};

use crate::{
    catalog::search::Indexed,
    glob::ToolFilter,
    link::{Listed, ListedTool},
};

/// The tools of one server. Immutable; shared by every catalog that shows them.
#[derive(Debug, Default)]
pub(crate) struct ToolSet {
    /// Those that exist for us, in the server's order.
    pub(crate) tools: Box<[Arc<ListedTool>]>,
    /// Names that the entry's filter hides.
    pub(crate) hidden: Vec<String>,
    /// Tools that cannot be used, and why.
    pub(crate) quarantined: Vec<(String, String)>,
    /// What they are searched by.
    pub(crate) indexed: Indexed,
}

/// By what the server said. What was made of that is not looked at.
impl PartialEq for ToolSet {
    fn eq(&self, other: &Self) -> bool {
        self.tools == other.tools && self.hidden == other.hidden && self.quarantined == other.quarantined
    }
}

impl ToolSet {
    pub(crate) fn new(listed: Listed, filter: &ToolFilter) -> Self {
        let (shown, hidden): (Vec<_>, Vec<_>) =
            listed.tools.into_iter().partition(|listed| filter.shows(&listed.tool.name));
        Self {
            tools: shown.into_iter().map(Arc::new).collect(),
            hidden: hidden.into_iter().map(|listed| listed.tool.name).collect(),
            quarantined: listed.quarantined,
            indexed: Indexed::default(),
        }
    }

    /// The same set, with the tools that are as they were in `before` taken from there: what was made of them since,
    /// such as schemas for providers, is kept.
    pub(crate) fn adopting(mut self, before: &Self) -> Self {
        let known: HashMap<_, _> = before.tools.iter().map(|kept| (kept.tool.name.as_str(), kept)).collect();
        for tool in &mut self.tools {
            if let Some(kept) = known.get(tool.tool.name.as_str())
                && *kept == tool
            {
                tool.clone_from(kept);
            }
        }
        self
    }

    /// What its tools cost a model, in tokens; an estimate.
    pub(crate) fn tokens(&self) -> usize {
        self.tools.iter().map(|listed| listed.tokens()).sum()
    }
}
