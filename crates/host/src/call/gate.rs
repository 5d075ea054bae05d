//! The gate, which decides for every call whether it may run, before the host sends anything. It allows the call,
//! denies it, or leaves the decision to a user.

use std::{borrow::Cow, fmt};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{catalog::CatalogTool, definition::DefinitionHash, mcp::Annotations, spec::ServerName, witness::Caller};

/// The call that the gate decides about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GateRequest<'a> {
    /// The server of the tool.
    pub server: &'a ServerName,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments to send.
    pub arguments: &'a Map<String, Value>,
    /// The server's claims about the tool.
    pub annotations: &'a Annotations,
    /// The caller.
    pub caller: &'a Caller,
    /// The tool in the catalog; `None` for a request about a name only.
    pub(crate) catalog_tool: Option<&'a CatalogTool>,
}

impl<'a> GateRequest<'a> {
    /// Creates a request about a call of `tool` with `arguments`.
    #[must_use]
    pub fn of(tool: &'a CatalogTool, arguments: &'a Map<String, Value>) -> Self {
        let definition = tool.tool();
        Self {
            server: &tool.server,
            tool: &definition.name,
            arguments,
            annotations: &definition.annotations,
            caller: &Caller::PROGRAM,
            catalog_tool: Some(tool),
        }
    }

    /// Creates a request about a tool that is not in the catalog: only its name decides which rules match.
    #[must_use]
    pub fn unlisted(
        server: &'a ServerName,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
        annotations: &'a Annotations,
    ) -> Self {
        Self { server, tool, arguments, annotations, caller: &Caller::PROGRAM, catalog_tool: None }
    }

    /// Sets the caller. Default: the program that embeds this library.
    #[must_use]
    pub fn with_caller(self, caller: &'a Caller) -> Self {
        Self { caller, ..self }
    }

    /// Returns the hash of the tool's definition; `None` for a tool that is [not listed](Self::unlisted). With the
    /// hash, an answer can be remembered for this definition only. It is computed once, on first use.
    #[must_use]
    pub fn definition_hash(&self) -> Option<DefinitionHash> {
        self.catalog_tool.map(CatalogTool::definition_hash)
    }
}

/// The decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs.
    Allow {
        /// The rule that allows it.
        why: Cow<'static, str>,
    },
    /// The user decides.
    Confirm {
        /// The rule that requires the confirmation.
        why: String,
        /// Whether the user's answer may be [remembered](crate::ask::AnswerScope), and whether remembered answers are
        /// used.
        lasting: bool,
    },
    /// The call does not run.
    Deny {
        /// The rule that forbids it.
        why: String,
    },
}

impl Verdict {
    /// Allows the call, because of this rule.
    pub fn allow(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Allow { why: why.into() }
    }

    /// Lets the user decide, because of this rule. The answer may cover more than this call.
    pub fn confirm(why: impl Into<String>) -> Self {
        Self::Confirm { why: why.into(), lasting: true }
    }

    /// Returns a number that is higher for a stricter verdict.
    pub(crate) fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::Confirm { .. } => 1,
            Self::Deny { .. } => 2,
        }
    }
}

/// Decides about calls. Must not block.
///
/// A function is a gate:
///
/// ```
/// use std::sync::Arc;
/// use toolrack_host::{GateRequest, Host, Verdict};
///
/// let gate = |call: &GateRequest<'_>| match call.tool {
///     "search" => Verdict::allow("searching changes nothing"),
///     _ => Verdict::Deny { why: "this program only searches".to_owned() },
/// };
/// let builder = Host::builder().gate(Arc::new(gate));
/// # drop(builder);
/// ```
pub trait Gate: Send + Sync {
    /// Decides about one call.
    fn judge(&self, request: &GateRequest<'_>) -> Verdict;
}

impl<F: Fn(&GateRequest<'_>) -> Verdict + Send + Sync> Gate for F {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        self(request)
    }
}

impl fmt::Debug for dyn Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

/// Allows every call, for programs without a user to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Gate for AllowAll {
    fn judge(&self, _: &GateRequest<'_>) -> Verdict {
        Verdict::allow("everything is allowed")
    }
}

/// The decision for a call that no rule covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultEffect {
    /// The call runs.
    Allow,
    /// The user decides, unless the user has [typed](crate::Way::Cli) the call. The default.
    #[default]
    Confirm,
    /// The call does not run.
    Deny,
}
