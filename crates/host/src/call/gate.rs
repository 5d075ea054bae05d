//! May this call run? Asked for every call, before anything is sent.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use crate::{
    catalog::{CatalogTool, DefinitionHash},
    glob::Pattern,
    mcp::Annotations,
    spec::ServerName,
};

/// What the gate decides on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GateRequest<'a> {
    /// The server of the tool.
    pub server: &'a ServerName,
    /// The tool's own name.
    pub tool: &'a str,
    /// Exactly what would be sent.
    pub arguments: &'a Map<String, Value>,
    /// The server's claims about the tool.
    pub annotations: &'a Annotations,
    /// What is called; `None` where only a name is asked about.
    pub(crate) entry: Option<&'a CatalogTool>,
}

impl<'a> GateRequest<'a> {
    /// A call of `tool` with `arguments`.
    #[must_use]
    pub fn of(tool: &'a CatalogTool, arguments: &'a Map<String, Value>) -> Self {
        let definition = tool.tool();
        Self {
            server: &tool.server,
            tool: &definition.name,
            arguments,
            annotations: &definition.annotations,
            entry: Some(tool),
        }
    }

    /// A call of a tool that is not in the catalog, as far as rules can speak of it.
    #[must_use]
    pub fn unlisted(
        server: &'a ServerName,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
        annotations: &'a Annotations,
    ) -> Self {
        Self { server, tool, arguments, annotations, entry: None }
    }

    /// What names the definition of the tool, so that an answer about it can be remembered for exactly this one; `None` for
    /// a tool that is [not listed](Self::unlisted). Costs something only when it is first asked for of a tool, and then it
    /// is kept with the tool: a gate that has no use for it should not ask.
    #[must_use]
    pub fn definition(&self) -> Option<DefinitionHash> {
        self.entry.map(CatalogTool::definition)
    }
}

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs.
    Allow {
        /// The rule that lets it.
        why: Cow<'static, str>,
    },
    /// A person decides.
    Confirm {
        /// The rule that wants it.
        why: String,
    },
    /// The call does not run.
    Deny {
        /// The rule that forbids it.
        why: String,
    },
}

impl Verdict {
    /// The call runs, because of this rule.
    pub fn allow(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Allow { why: why.into() }
    }
}

/// Decides about calls. Must not block.
pub trait Gate: Send + Sync {
    /// Decides about one call.
    fn judge(&self, request: &GateRequest<'_>) -> Verdict;
}

impl fmt::Debug for dyn Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

/// Lets everything through: for programs that ask nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Gate for AllowAll {
    fn judge(&self, _: &GateRequest<'_>) -> Verdict {
        Verdict::allow("everything is allowed")
    }
}

/// Rules on `server/tool` globs. Their order does not matter: deny wins, then confirm, then allow, then
/// [`otherwise`](Self::otherwise).
#[derive(Clone, Debug)]
pub struct Rules {
    /// Calls that run without a question.
    pub allow: Vec<Pattern>,
    /// Calls that a person decides about.
    pub confirm: Vec<Pattern>,
    /// Calls that do not run.
    pub deny: Vec<Pattern>,
    /// Calls of tools whose server claims that they change nothing run without a question. Off by default: it is the
    /// server's claim.
    pub allow_read_only: bool,
    /// What happens to every other call.
    pub otherwise: Otherwise,
}

/// What happens to a call that no rule speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// It runs.
    Allow,
    /// A person decides. The default.
    #[default]
    Confirm,
    /// It does not run.
    Deny,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            confirm: Vec::new(),
            deny: Vec::new(),
            allow_read_only: false,
            otherwise: Otherwise::Confirm,
        }
    }
}

impl Gate for Rules {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        let speaks = |rules: &[Pattern]| {
            let matches = |rule: &&Pattern| rule.matches(request.server.as_str(), request.tool);
            rules.iter().find(matches).map(ToString::to_string)
        };
        if let Some(rule) = speaks(&self.deny) {
            return Verdict::Deny { why: format!("the rule deny `{rule}`") };
        }
        if let Some(rule) = speaks(&self.confirm) {
            return Verdict::Confirm { why: format!("the rule confirm `{rule}`") };
        }
        if let Some(rule) = speaks(&self.allow) {
            return Verdict::allow(format!("the rule allow `{rule}`"));
        }
        if self.allow_read_only && request.annotations.read_only == Some(true) {
            return Verdict::allow("its server says that it only reads");
        }
        let why = || "no rule allows it".to_owned();
        match self.otherwise {
            Otherwise::Allow => Verdict::allow("no rule forbids it"),
            Otherwise::Confirm => Verdict::Confirm { why: why() },
            Otherwise::Deny => Verdict::Deny { why: why() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rules: &Rules, server: &str, tool: &str, read_only: bool) -> Verdict {
        let annotations = Annotations { read_only: Some(read_only), ..Annotations::default() };
        rules.judge(&GateRequest::unlisted(&ServerName::new(server).unwrap(), tool, &Map::new(), &annotations))
    }

    fn patterns(written: &[&str]) -> Vec<Pattern> {
        written.iter().map(|pattern| pattern.parse().unwrap()).collect()
    }

    #[test]
    fn deny_wins_over_confirm_over_allow_in_any_order() {
        let rules = Rules {
            allow: patterns(&["fs/*"]),
            confirm: patterns(&["write_*"]),
            deny: patterns(&["fs/write_root"]),
            otherwise: Otherwise::Deny,
            ..Rules::default()
        };
        assert_eq!(judge(&rules, "fs", "read", false), Verdict::allow("the rule allow `fs/*`"));
        assert!(matches!(judge(&rules, "fs", "write_x", false), Verdict::Confirm { .. }));
        assert!(matches!(judge(&rules, "fs", "write_root", true), Verdict::Deny { .. }));
        assert!(matches!(judge(&rules, "git", "log", false), Verdict::Deny { .. }));
    }

    #[test]
    fn a_read_only_claim_counts_only_when_it_is_believed() {
        let doubting = Rules::default();
        assert!(matches!(judge(&doubting, "a", "b", true), Verdict::Confirm { .. }));
        let believing = Rules { allow_read_only: true, ..Rules::default() };
        assert!(matches!(judge(&believing, "a", "b", true), Verdict::Allow { .. }));
        assert!(matches!(judge(&believing, "a", "b", false), Verdict::Confirm { .. }));
    }
}
