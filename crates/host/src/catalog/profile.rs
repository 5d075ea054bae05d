//! Defines profiles. A *profile* chooses the tools of a catalog (the tools of all servers) that one group of clients
//! sees, and their names and descriptions.

use std::collections::BTreeMap;

use super::{Catalog, CatalogTool, Selection};
use crate::{quota::QuotaSet, spec::ServerName};

/// The longest name of a tool that every model takes.
const MAX_NAME_BYTES: usize = 64;

/// A selection of tools, some of which models see under another name or with another description.
///
/// A profile changes only what a model sees: rules, pins (trusted definitions) and the audit log know each tool by the
/// server's name for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolProfile {
    selection: Selection,
    /// The tools that models see under another name or with another description, by server and own name.
    replacements: BTreeMap<(ServerName, String), ShownAs>,
    quotas: QuotaSet,
}

/// How models see a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownAs {
    /// The name. Default: the name in the catalog.
    pub name: Option<String>,
    /// The description. Default: the server's description.
    pub description: Option<String>,
}

impl ToolProfile {
    /// Creates a profile that has the tools of `selection`, as the catalog names and describes them.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Self { selection, replacements: BTreeMap::new(), quotas: QuotaSet::default() }
    }

    /// Returns whether a profile, or a tool that it shows, can have this name: 1 to 64 ASCII letters, digits, `-` and
    /// `_`. Such a name fits into a URL and into the request to every model.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte)
    }

    /// Sets how models see the tool that `server` calls `tool`.
    ///
    /// If another tool in the catalog already has the new name, models do not see that other tool.
    #[must_use]
    pub fn showing(mut self, server: ServerName, tool: impl Into<String>, shown: ShownAs) -> Self {
        self.replacements.insert((server, tool.into()), shown);
        self
    }

    /// Limits what all clients of the profile use together.
    #[must_use]
    pub fn with_quotas(mut self, quotas: QuotaSet) -> Self {
        self.quotas = quotas;
        self
    }

    /// Returns the limits on what all clients of the profile use together.
    #[must_use]
    pub fn quotas(&self) -> &QuotaSet {
        &self.quotas
    }

    /// Returns whether models see this tool.
    #[must_use]
    pub fn has(&self, tool: &CatalogTool) -> bool {
        // If the profile gives one tool the name of another, that other tool is hidden.
        self.selection.has(tool) && (self.new_name(tool).is_some() || self.tool_renamed_to(&tool.name).is_none())
    }

    /// Returns whether models may see any tool of this server.
    #[must_use]
    pub fn may_have(&self, server: &ServerName) -> bool {
        self.selection.may_have(server)
    }

    /// Returns the name under which models see this tool.
    #[must_use]
    pub fn name_of<'a>(&'a self, tool: &'a CatalogTool) -> &'a str {
        self.new_name(tool).unwrap_or(&tool.name)
    }

    /// Returns the description with which models see this tool.
    #[must_use]
    pub fn description_of<'a>(&'a self, tool: &'a CatalogTool) -> Option<&'a str> {
        let replacement = self.shown_as(tool).and_then(|shown| shown.description.as_deref());
        replacement.or(tool.tool().description.as_deref())
    }

    /// Returns the tool that models see under `name`. Also finds a tool in quarantine, whose definition has changed: a
    /// call of it fails with the reason.
    #[must_use]
    pub fn find<'c>(&self, catalog: &'c Catalog, name: &str) -> Option<&'c CatalogTool> {
        let tool = match self.tool_renamed_to(name) {
            Some((server, tool)) => catalog.tool_of(server, tool),
            None => catalog.get(name).or_else(|| catalog.quarantined_tool(name)),
        };
        // `quarantined_tool` also accepts other spellings, by which a renamed tool must not be found.
        tool.filter(|tool| self.has(tool) && (self.name_of(tool) == name || self.new_name(tool).is_none()))
    }

    /// Returns the selector (`server/tool`) of the tool that this profile renames to `name`; `None` if it renames no
    /// tool to `name`.
    #[must_use]
    pub fn selector(&self, name: &str) -> Option<String> {
        self.tool_renamed_to(name).map(|(server, tool)| format!("{server}/{tool}"))
    }

    fn shown_as(&self, tool: &CatalogTool) -> Option<&ShownAs> {
        if self.replacements.is_empty() {
            return None;
        }
        self.replacements.get(&(tool.server.clone(), tool.tool().name.clone()))
    }

    /// Returns the name that the profile gives to this tool, if it renames the tool.
    fn new_name(&self, tool: &CatalogTool) -> Option<&str> {
        self.shown_as(tool).and_then(|shown| shown.name.as_deref())
    }

    fn tool_renamed_to(&self, name: &str) -> Option<(&ServerName, &str)> {
        let mut replacements = self.replacements.iter();
        replacements
            .find(|(_, shown)| shown.name.as_deref() == Some(name))
            .map(|((server, tool), _)| (server, tool.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::tests::{catalog, set, tool};

    fn two_servers() -> Catalog {
        let tools = Arc::new(set(&["list", "read"].map(|name| tool(name, "Does it.", &[]))));
        catalog(1, &["fs", "git"].map(|server| (server, Arc::clone(&tools))))
    }

    fn showing(tool: &str, name: &str) -> ToolProfile {
        let shown = ShownAs { name: Some(name.to_owned()), description: Some("Finds files.".to_owned()) };
        let selection = Selection::all().only(["fs/*".parse().unwrap(), "git/list".parse().unwrap()]);
        ToolProfile::new(selection).showing(ServerName::new("fs").unwrap(), tool, shown)
    }

    /// What models see: names and descriptions.
    fn seen(profile: &ToolProfile, catalog: &Catalog) -> Vec<(String, String)> {
        let tools = catalog.tools().filter(|tool| profile.has(tool));
        let text = |tool| profile.description_of(tool).unwrap_or_default().to_owned();
        tools.map(|tool| (profile.name_of(tool).to_owned(), text(tool))).collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_tool_has_the_name_and_the_description_that_the_profile_gives_it() {
        let (profile, catalog) = (showing("list", "find_files"), two_servers());
        let description = "Does it.";
        assert_eq!(
            seen(&profile, &catalog),
            pairs(&[("find_files", "Finds files."), ("mcp__fs__read", description), ("mcp__git__list", description)])
        );
        let found = profile.find(&catalog, "find_files").unwrap();
        assert_eq!((found.server.as_str(), &*found.tool().name), ("fs", "list"));
        assert_eq!(profile.selector("find_files").as_deref(), Some("fs/list"));
        // Its name in the catalog no longer finds it, and no name finds a tool outside of the selection.
        assert!(profile.find(&catalog, "mcp__fs__list").is_none());
        assert!(profile.find(&catalog, "mcp__git__read").is_none());
        assert!(profile.find(&catalog, "mcp__git__list").is_some());
    }

    #[test]
    fn the_tool_that_is_given_a_name_has_it_before_any_other() {
        let (profile, catalog) = (showing("list", "mcp__git__list"), two_servers());
        assert_eq!(
            seen(&profile, &catalog),
            pairs(&[("mcp__git__list", "Finds files."), ("mcp__fs__read", "Does it.")])
        );
        assert_eq!(profile.find(&catalog, "mcp__git__list").unwrap().server.as_str(), "fs");
    }

    #[test]
    fn a_tool_outside_of_the_selection_is_not_there_under_a_new_name() {
        let shown = ShownAs { name: Some("delete".to_owned()), description: None };
        let profile = ToolProfile::new(Selection::none()).showing(ServerName::new("fs").unwrap(), "list", shown);
        assert!(profile.find(&two_servers(), "delete").is_none());
        assert_eq!(seen(&profile, &two_servers()), []);
    }
}
