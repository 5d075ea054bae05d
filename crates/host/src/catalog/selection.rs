//! A choice among the tools of a catalog.

use std::collections::BTreeSet;

use crate::{catalog::CatalogTool, glob::Pattern, spec::ServerName};

/// A choice among the tools of a catalog: what an agent is offered, what a search looks through.
///
/// A tool belongs to it when its server is among the servers (none: any server) and not among those left out, a pattern
/// of `only` matches it (none: any tool), and no pattern of `without` does. Patterns match `server/tool`, or the
/// model-visible name where they have no server part; other spellings are read as [`Pattern`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    servers: BTreeSet<ServerName>,
    without_servers: BTreeSet<ServerName>,
    only: Vec<Pattern>,
    without: Vec<Pattern>,
    /// It is empty, whatever the other fields say.
    is_none: bool,
}

impl Selection {
    /// Every tool.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// No tool, whatever is added.
    #[must_use]
    pub fn none() -> Self {
        Self { is_none: true, ..Self::default() }
    }

    /// Only tools of these servers, and of those named before.
    #[must_use]
    pub fn of_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.servers.extend(servers);
        self
    }

    /// No tools of these servers.
    #[must_use]
    pub fn without_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.without_servers.extend(servers);
        self
    }

    /// Only tools that one of these patterns, or of those given before, matches.
    #[must_use]
    pub fn only(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        for pattern in patterns {
            self.only.extend(pattern.certain_readings());
            self.only.push(pattern);
        }
        self
    }

    /// No tools that one of these patterns matches.
    #[must_use]
    pub fn without(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        for pattern in patterns {
            self.without.extend(pattern.every_reading());
            self.without.push(pattern);
        }
        self
    }

    /// Whether this tool belongs to it.
    #[must_use]
    pub fn has(&self, tool: &CatalogTool) -> bool {
        let matches = |pattern: &Pattern| {
            pattern.matches(tool.server.as_str(), &tool.tool().name) || pattern.matches_name(&tool.name)
        };
        self.may_have(&tool.server)
            && (self.only.is_empty() || self.only.iter().any(matches))
            && !self.without.iter().any(matches)
    }

    /// Whether a tool of this server can belong to it, as far as the server alone decides.
    #[must_use]
    pub fn may_have(&self, server: &ServerName) -> bool {
        !self.is_none
            && (self.servers.is_empty() || self.servers.contains(server))
            && !self.without_servers.contains(server)
    }

    /// The part of it that belongs to this server.
    pub(crate) fn within(&self, server: ServerName) -> Self {
        if self.may_have(&server) {
            Self { servers: BTreeSet::from([server]), ..self.clone() }
        } else {
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
