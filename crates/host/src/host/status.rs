//! Reports the status of servers, and explains why a tool is available or not.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};

use super::{Host, keeper::Servers};
use crate::{
    catalog::{Catalog, MismatchedTool, ToolSet, UnusableTool},
    mcp::ServerInfo,
    pins::Quarantined,
    server::{Server, Snapshot},
    spec::{Era, Invisible, ServerName, Source, Trust},
    state::State,
    text,
};

/// The status of a server at one moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The server's name in the configuration.
    pub name: ServerName,
    /// The state of the server.
    #[serde(flatten)]
    pub state: State,
    /// `stdio`, `http`, `sse` or `native`.
    pub transport: &'static str,
    /// The era (generation of MCP) that the connection uses, once connected.
    pub era: Option<Era>,
    /// The MCP version of the connection, once connected.
    pub protocol_version: Option<String>,
    /// The server's description of itself. Untrusted.
    pub server_info: Option<ServerInfo>,
    /// The file where the server is configured.
    pub source: Source,
    /// Whether the server is enabled.
    pub enabled: bool,
    /// The number of the server's tools in the catalog.
    pub tools: usize,
    /// The number of the server's tools that the filter in its configuration hides.
    pub tools_hidden: usize,
    /// The problems of the tools, safe to print. A tool cannot be used, or it differs from its pin (its definition as
    /// first seen or approved).
    pub warnings: Vec<String>,
    /// The tools that cannot be used. Not serialized: [`Self::warnings`] names them.
    #[serde(skip)]
    pub unusable: Vec<UnusableTool>,
    /// The tools that differ from their pins.
    pub quarantined: Vec<Quarantined>,
    /// The server's instructions for models, as the host forwards them. Untrusted.
    pub instructions: Option<String>,
    /// The tools of the server. Only their estimated number of tokens is serialized.
    #[serde(rename = "tokens", serialize_with = "as_tokens")]
    tool_set: Arc<ToolSet>,
}

impl ServerStatus {
    pub(super) fn of(name: &ServerName, server: &Server) -> Self {
        let Snapshot { state, tools, session, .. } = server.snapshot();
        let invisible = server.spec.invisible.unwrap_or_default();
        let mismatch_warning = |mismatched: &MismatchedTool| {
            let state = if mismatched.usable { "should be looked at" } else { "is in quarantine" };
            let line = format!("the tool {} {state}: {}", mismatched.listed.tool.name, mismatched.cause);
            text::for_line(&line).into_owned()
        };
        Self {
            name: name.clone(),
            state,
            transport: server.spec.transport.kind(),
            era: session.as_ref().map(|session| session.era),
            protocol_version: session.as_ref().map(|session| session.version.clone()),
            server_info: session.as_ref().and_then(|session| session.info.clone()),
            source: server.spec.source.clone(),
            enabled: server.spec.enabled,
            tools: tools.tools.len(),
            tools_hidden: tools.hidden.len(),
            warnings: tools
                .unusable
                .iter()
                .map(UnusableTool::to_string)
                .chain(tools.mismatched.iter().map(mismatch_warning))
                .collect(),
            unusable: tools.unusable.clone(),
            quarantined: tools.mismatched.iter().map(MismatchedTool::to_quarantined).collect(),
            instructions: session.and_then(|session| session.instructions.clone()).map(
                |instructions| match invisible {
                    Invisible::Remove => text::without_invisible(&instructions).into_owned(),
                    Invisible::Keep => instructions,
                },
            ),
            tool_set: tools,
        }
    }

    /// Returns how many tokens the server's tools take in a model's context, by an estimate that is made on first use.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tool_set.tokens()
    }
}

impl Host {
    /// Returns how many servers have not ended their first attempt to connect, successfully or not. A server that
    /// connects again later does not count, nor does a server that may not be started. Never waits.
    #[must_use]
    pub fn untried(&self) -> usize {
        self.servers.load().values().filter(|server| !server.was_tried()).count()
    }
}

/// Serializes the tools of a server as their estimated number of tokens.
fn as_tokens<S: Serializer>(tools: &ToolSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(tools.tokens() as u64)
}

/// Explains why a tool is available or not: each step on its way into the catalog, up to the first that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The name in question, safe to print.
    pub selector: String,
    /// Whether the tool can be called; for a server alone, whether its tools are listed.
    pub present: bool,
    /// Whether such a server or tool may exist. A server that is not connected may have any tool.
    pub known: bool,
    /// The steps, in order.
    pub steps: Vec<WhyStep>,
}

/// A step on a tool's way into the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WhyStep {
    /// `config`, `trust`, `start`, `negotiation`, `sign-in`, `list`, `pins`, `filter` or `name`.
    pub stage: &'static str,
    /// Whether the step succeeded.
    pub ok: bool,
    /// The result of the step, safe to print.
    pub what: String,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.present { "can be called" } else { "cannot be called" };
        writeln!(f, "{} {verdict}", self.selector)?;
        for step in &self.steps {
            let mark = if step.ok { "ok" } else { "NO" };
            writeln!(f, "  {mark}  {:<11}  {}", step.stage, step.what)?;
        }
        Ok(())
    }
}

/// Checks each step of a tool on its way into the catalog, or of a server up to the list of its tools. `selector` may
/// have every spelling that a call accepts.
pub(super) fn why(selector: &str, servers: &Servers, catalog: &Catalog) -> Why {
    // A user may also write the name as another program shows it, or name a tool in quarantine.
    let selected = catalog.select(selector).ok();
    let tool = selected.or_else(|| catalog.by_usual_name(selector)).or_else(|| catalog.quarantined_tool(selector));
    match &tool {
        Some(tool) => why_of(tool.server.as_str(), &tool.tool().name, selector, servers, catalog),
        None => {
            let split_at_dot = || {
                // The longest name of a server wins, because names may contain dots.
                let dot = selector.rmatch_indices('.').find(|(dot, _)| servers.contains_key(&selector[..*dot]))?.0;
                // A selector with dots may also be the whole name of a server.
                (!servers.contains_key(selector)).then(|| (&selector[..dot], &selector[dot + 1..]))
            };
            let (server, tool) = selector.split_once('/').or_else(split_at_dot).unwrap_or((selector, ""));
            why_of(server, tool, selector, servers, catalog)
        }
    }
}

/// Explains as [`why`] does, for a known server and tool.
pub(super) fn why_of(server: &str, tool: &str, selector: &str, servers: &Servers, catalog: &Catalog) -> Why {
    let mut trail = Trail { steps: Vec::new(), is_unknown: false };
    let present = trail.check_server(server, tool, servers, catalog).is_some();
    Why { selector: text::for_line(selector).into_owned(), present, known: !trail.is_unknown, steps: trail.steps }
}

/// The steps checked so far.
struct Trail {
    steps: Vec<WhyStep>,
    /// Whether the check ended at an unknown name.
    is_unknown: bool,
}

impl Trail {
    /// Adds a step. Returns `None` if the step failed, so that `?` ends the check.
    fn step(&mut self, stage: &'static str, ok: bool, what: impl AsRef<str>) -> Option<()> {
        let what = text::for_line(what.as_ref()).into_owned();
        self.steps.push(WhyStep { stage, ok, what });
        ok.then_some(())
    }

    /// Checks each step for the tool `tool` of the server `name`, up to the first step that fails. Without a name in
    /// `tool`, checks the server only.
    fn check_server(&mut self, name: &str, tool: &str, servers: &Servers, catalog: &Catalog) -> Option<()> {
        let Some(server) = servers.get(name) else {
            self.is_unknown = true;
            let names: Vec<_> = servers.keys().map(ServerName::as_str).collect();
            let configured = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return self.step("config", false, format!("no server is called `{name}`; configured: {configured}"));
        };
        let (spec, snapshot) = (&server.spec, server.snapshot());
        self.step(
            "config",
            spec.enabled,
            match spec.enabled {
                true => format!("{} ({})", spec.source, spec.source.scope),
                false => format!("disabled in {}", spec.source),
            },
        )?;
        self.step(
            "trust",
            spec.trust == Trust::Trusted,
            match spec.trust {
                Trust::Trusted => "trusted".to_owned(),
                Trust::Pending if spec.source.scope == "user" => {
                    "it depends on the folder where it is used, and is not approved for this one yet".to_owned()
                }
                Trust::Pending => "it is not trusted in this folder yet".to_owned(),
            },
        )?;
        self.check_connection(&snapshot)?;
        self.check_tool(tool, &snapshot, catalog, name)
    }

    /// Checks the steps from the start of the server to the list of its tools.
    fn check_connection(&mut self, snapshot: &Snapshot) -> Option<()> {
        if let State::NeedsAuth { how } = &snapshot.state {
            self.step("start", true, "reached")?;
            return self.step("sign-in", false, how);
        }
        if let State::Idle { .. } = &snapshot.state {
            return self.step("start", true, "not running; it is started when it is called");
        }
        let (is_connected, state) = (snapshot.link.is_some(), &snapshot.state);
        let what = if is_connected { "connected" } else { state.error().unwrap_or(state.word()) };
        self.step("start", is_connected, what)?;
        if let Some(session) = &snapshot.session {
            self.step("negotiation", true, format!("{} ({} era)", session.version, session.era))?;
        }
        match &snapshot.state {
            State::ToolsFailed { error } => self.step("list", false, error.as_str()),
            _ => Some(()),
        }
    }

    /// Checks the steps from the list of tools to the model-visible name.
    fn check_tool(&mut self, tool: &str, snapshot: &Snapshot, catalog: &Catalog, server: &str) -> Option<()> {
        let set = &snapshot.tools;
        if tool.is_empty() {
            return self.step("list", true, listed_tools(set));
        }
        if let Some(quarantined) = set.quarantined_tool(tool) {
            self.step("list", true, "listed")?;
            return self.step("pins", false, format!("in quarantine: {}", quarantined.cause));
        }
        let is_listed = set.tools.iter().any(|listed| listed.tool.name == tool);
        if let Some(unusable) = set.unusable.iter().find(|unusable| unusable.name == tool && !is_listed) {
            return self.step("list", false, format!("listed, but it cannot be used: {}", unusable.why));
        }
        if set.hidden.iter().any(|name| name == tool) {
            self.step("list", true, "listed")?;
            return self.step("filter", false, "hidden by the entry's `tools` allow and deny lists");
        }
        if !is_listed {
            self.is_unknown = true;
            let count = set.tools.len();
            return self.step("list", false, format!("the server lists {count} tools, and this is not one of them"));
        }
        self.step("list", true, "listed")?;
        self.step("filter", true, "shown")?;
        let name = ServerName::new(server).ok();
        match name.and_then(|server| catalog.tool_of(&server, tool)) {
            Some(found) => self.step("name", true, format!("models see it as {}", found.name)),
            None => self.step("name", false, "not in the catalog yet; ask again in a moment"),
        }
    }
}

/// Returns a text such as “23 tools, 2 more hidden by the entry's `tools`, 1 that cannot be used”.
fn listed_tools(set: &ToolSet) -> String {
    let mut words = match set.tools.len() {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    if !set.hidden.is_empty() {
        words += &format!(", {} more hidden by the entry's `tools`", set.hidden.len());
    }
    if !set.unusable.is_empty() {
        words += &format!(", {} that cannot be used", set.unusable.len());
    }
    let quarantined = set.mismatched.iter().filter(|mismatched| !mismatched.usable).count();
    if quarantined > 0 {
        words += &format!(", {quarantined} in quarantine");
    }
    words
}
