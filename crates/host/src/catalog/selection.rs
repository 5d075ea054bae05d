//! Selects tools of a catalog (the tools of all servers), by server and by pattern.

use std::collections::BTreeSet;

use crate::{catalog::CatalogTool, glob::Pattern, spec::ServerName};

/// A choice among the tools of a catalog, for example the tools of an agent, or of a search.
///
/// A tool belongs to a selection if three conditions hold. Its server is among those of [`Self::of_servers`], if that
/// was called, and is not excluded. A pattern of [`Self::only`] matches the tool, if that was called. No pattern of
/// [`Self::without`] matches the tool. A pattern matches `server/tool`, or the model-visible name if it has no server
/// part; [`Pattern`] describes other spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `None` if tools of any server may belong to the selection.
    servers: Option<BTreeSet<ServerName>>,
    excluded_servers: BTreeSet<ServerName>,
    /// `None` if tools of any name may belong to the selection.
    included_patterns: Option<Vec<Pattern>>,
    excluded_patterns: Vec<Pattern>,
    /// Whether no tool belongs to the selection, regardless of the other fields.
    selects_nothing: bool,
}

impl Selection {
    /// Selects every tool.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects no tool; additions have no effect.
    #[must_use]
    pub fn none() -> Self {
        Self { selects_nothing: true, ..Self::default() }
    }

    /// Restricts the selection to tools of these servers, and of the servers of earlier calls of this method. If there
    /// are no servers, no tool belongs to the selection.
    #[must_use]
    pub fn of_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.servers.get_or_insert_default().extend(servers);
        self
    }

    /// Excludes the tools of these servers.
    #[must_use]
    pub fn without_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.excluded_servers.extend(servers);
        self
    }

    /// Restricts the selection to tools that one of these patterns matches, or a pattern of an earlier call of this
    /// method. If there are no patterns, no tool belongs to the selection.
    #[must_use]
    pub fn only(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let included_patterns = self.included_patterns.get_or_insert_default();
        for pattern in patterns {
            // A pattern may have several readings: include only those that it certainly means.
            included_patterns.extend(pattern.certain_readings());
            included_patterns.push(pattern);
        }
        self
    }

    /// Excludes the tools that one of these patterns matches.
    #[must_use]
    pub fn without(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        for pattern in patterns {
            // Exclude all that the pattern could mean.
            self.excluded_patterns.extend(pattern.every_reading());
            self.excluded_patterns.push(pattern);
        }
        self
    }

    /// Returns whether this tool belongs to the selection.
    #[must_use]
    pub fn has(&self, tool: &CatalogTool) -> bool {
        let matches = |pattern: &Pattern| {
            pattern.matches(tool.server.as_str(), &tool.tool().name) || pattern.matches_name(&tool.name)
        };
        self.may_have(&tool.server)
            && self.included_patterns.as_ref().is_none_or(|patterns| patterns.iter().any(matches))
            && !self.excluded_patterns.iter().any(matches)
    }

    /// Returns whether a tool of this server can belong to the selection, judging by the server alone.
    #[must_use]
    pub fn may_have(&self, server: &ServerName) -> bool {
        !self.selects_nothing
            && self.servers.as_ref().is_none_or(|servers| servers.contains(server))
            && !self.excluded_servers.contains(server)
    }

    /// Returns the part of the selection that belongs to this server.
    pub(crate) fn restricted_to(&self, server: ServerName) -> Self {
        if self.may_have(&server) {
            Self { servers: Some(BTreeSet::from([server])), ..self.clone() }
        } else {
            Self::none()
        }
    }
}

#[cfg(test)]
mod tests;
