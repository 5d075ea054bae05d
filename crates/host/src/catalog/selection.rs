//! Selects tools of a catalog.

use std::collections::BTreeSet;

use crate::{catalog::CatalogTool, glob::Pattern, spec::ServerName};

/// A choice among the tools of a catalog, for example the tools of an agent, or of a search.
///
/// A tool belongs to a selection if three conditions hold. Its server is among the selected servers (or no servers are
/// selected) and is not excluded. A pattern of `only` matches the tool (or `only` is empty). No pattern of `without`
/// matches the tool. A pattern matches `server/tool`, or the model-visible name if it has no server part; [`Pattern`]
/// describes other spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    servers: BTreeSet<ServerName>,
    without_servers: BTreeSet<ServerName>,
    only: Vec<Pattern>,
    without: Vec<Pattern>,
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

    /// Restricts the selection to tools of these servers and of those named before.
    #[must_use]
    pub fn of_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.servers.extend(servers);
        self
    }

    /// Excludes the tools of these servers.
    #[must_use]
    pub fn without_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.without_servers.extend(servers);
        self
    }

    /// Restricts the selection to tools that one of these patterns, or of those given before, matches.
    #[must_use]
    pub fn only(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        for pattern in patterns {
            // A pattern may be read in several ways: include only what it certainly means.
            self.only.extend(pattern.certain_readings());
            self.only.push(pattern);
        }
        self
    }

    /// Excludes the tools that one of these patterns matches.
    #[must_use]
    pub fn without(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        for pattern in patterns {
            // Exclude all that the pattern could mean.
            self.without.extend(pattern.every_reading());
            self.without.push(pattern);
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
            && (self.only.is_empty() || self.only.iter().any(matches))
            && !self.without.iter().any(matches)
    }

    /// Returns whether a tool of this server can belong to the selection, judging by the server alone.
    #[must_use]
    pub fn may_have(&self, server: &ServerName) -> bool {
        !self.selects_nothing
            && (self.servers.is_empty() || self.servers.contains(server))
            && !self.without_servers.contains(server)
    }

    /// Returns the part of the selection that belongs to this server.
    pub(crate) fn restricted_to(&self, server: ServerName) -> Self {
        if self.may_have(&server) {
            Self { servers: BTreeSet::from([server]), ..self.clone() }
        } else {
            // This selects no tool: its only server is excluded as well.
            Self {
                without_servers: BTreeSet::from([server.clone()]),
                servers: BTreeSet::from([server]),
                ..Self::default()
            }
        }
    }
}

#[cfg(test)]
mod tests;
