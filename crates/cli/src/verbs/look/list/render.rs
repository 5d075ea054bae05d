//! Shows servers and their states. An entry is the configuration of one server in a file. A pin is the definition of a
//! tool as the user trusts it; a tool that differs from its pin is in quarantine. A finding is a suspicious place in
//! the definition of a tool.

use std::collections::BTreeSet;

use serde::Serialize;
use toolrack_config::{Entry, Loaded};
use toolrack_host::{
    Era, ServerStatus, State,
    findings::{FindingKind, Findings},
    spec::Source,
    text,
};

use crate::{
    error::Exit,
    render::{Cell, Layout, Sign, Tone, columns, count, paint},
};

/// `list --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) servers: &'a [Server],
}

/// A server, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Server {
    name: String,
    state: &'static str,
    /// Unknown for a broken entry.
    transport: Option<&'static str>,
    /// The generation of MCP that the server speaks.
    era: Option<Era>,
    scope: String,
    /// The file with the entry of the server.
    source: Option<String>,
    enabled: bool,
    tools: usize,
    /// Names of tools whose definitions differ from their pins (the definitions that the user trusted). These tools are
    /// in quarantine, unless the user wants only warnings about pins.
    quarantined: Vec<String>,
    findings: FindingCount,
    error: Option<String>,
    #[serde(skip)]
    page_data: PageData,
}

/// How many findings there are in the definitions of a server's tools, and of which kinds. `toolrack doctor` shows
/// them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FindingCount {
    count: usize,
    kinds: BTreeSet<FindingKind>,
}

/// Data that only the page for people needs.
#[derive(Debug)]
struct PageData {
    state: State,
    source: Source,
    warnings: Vec<String>,
}

impl From<ServerStatus> for Server {
    fn from(status: ServerStatus) -> Self {
        Self {
            name: status.name.to_string(),
            state: status.state.word(),
            transport: Some(status.transport),
            era: status.era,
            scope: status.source.scope.clone(),
            source: source_path(&status.source),
            enabled: status.enabled,
            tools: status.tools,
            quarantined: status.quarantined.iter().map(|quarantined| quarantined.tool.clone()).collect(),
            findings: FindingCount::default(),
            error: status.state.error().map(str::to_owned),
            page_data: PageData { state: status.state, source: status.source, warnings: status.warnings },
        }
    }
}

impl Server {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Counts the findings about tools of this server. `findings` are those of all servers.
    pub(crate) fn count_findings(&mut self, findings: &Findings) {
        for ((_, _), tool_findings) in findings.iter().filter(|((server, _), _)| server.as_str() == self.name) {
            self.findings.count += tool_findings.len();
            self.findings.kinds.extend(tool_findings.iter().map(|finding| finding.kind));
        }
    }

    /// Returns whether the server waits for the user's approval.
    pub(crate) fn is_pending(&self) -> bool {
        self.page_data.state == State::PendingTrust
    }

    /// Returns whether a tool of the server differs from its pin.
    pub(crate) fn has_quarantined(&self) -> bool {
        !self.quarantined.is_empty()
    }

    /// Returns the exit code for a server that should be connected and is not.
    pub(crate) fn failure_exit(&self) -> Option<Exit> {
        match &self.page_data.state {
            State::Connected { .. } | State::Idle { .. } | State::Disabled => None,
            State::PendingTrust => Some(Exit::NotTrusted),
            State::NeedsAuth { .. } => Some(Exit::SignIn),
            // Only a broken entry has no transport.
            _ if self.transport.is_none() => Some(Exit::Usage),
            _ => Some(Exit::Unreachable),
        }
    }

    /// Makes the row of an entry that cannot be used as it is written.
    fn broken(entry: &Entry, why: String) -> Self {
        let state = State::Failed { error: why.clone().into() };
        Self {
            name: entry.name.clone(),
            state: state.word(),
            transport: None,
            era: None,
            scope: entry.source.scope.clone(),
            source: source_path(&entry.source),
            enabled: false,
            tools: 0,
            quarantined: Vec::new(),
            findings: FindingCount::default(),
            error: Some(why),
            page_data: PageData { state, source: entry.source.clone(), warnings: Vec::new() },
        }
    }
}

fn source_path(source: &Source) -> Option<String> {
    source.path.as_ref().map(|path| path.display().to_string())
}

/// Returns the broken entries among `server_names`, or all broken entries if `server_names` is empty. The list shows
/// them as broken instead of leaving them out.
pub(crate) fn broken_servers(loaded: &Loaded, server_names: &[String]) -> Vec<Server> {
    loaded
        .entries
        .iter()
        .filter(|entry| !entry.is_valid && (server_names.is_empty() || server_names.contains(&entry.name)))
        .map(|entry| {
            let problem = loaded.errors().find(|problem| problem.entry.as_ref() == Some(&entry.name));
            let why = problem.map_or("its entry cannot be used", |problem| &problem.message);
            Server::broken(entry, why.to_owned())
        })
        .collect()
}

/// Returns a line for each server. Below a server that failed, a line shows where it is configured. Warnings of the
/// server follow.
pub(crate) fn page(servers: &[Server], layout: Layout) -> String {
    let rows: Vec<_> = servers
        .iter()
        .map(|server| {
            let (sign, tone, words) = describe_state(&server.page_data.state, layout);
            vec![
                Cell::new(tone, layout.sign(sign)),
                Cell::new(Tone::Strong, text::for_line(&server.name)),
                Cell::new(Tone::Plain, server.transport.unwrap_or("?")),
                Cell::new(Tone::Faint, text::for_line(&server.scope)),
                Cell::new(tone, words),
            ]
        })
        .collect();
    let mut lines = Vec::new();
    for (server, line) in servers.iter().zip(columns(&rows)) {
        lines.push(line);
        if server.error.is_some() {
            let source = format!("  configured in {}", server.page_data.source);
            lines.push(paint(Tone::Faint, &source));
        }
        for warning in &server.page_data.warnings {
            let warning = format!("  {}", text::for_line(warning));
            lines.push(paint(Tone::Waiting, &warning));
        }
    }
    lines.join("\n")
}

/// Returns a sign, a colour and words for a state. The words alone say everything.
fn describe_state(state: &State, layout: Layout) -> (Sign, Tone, String) {
    let with_reason = |words: &str, why: &str| format!("{words} {} {}", layout.dash(), text::for_line(why));
    match state {
        State::Connected { tools } => (Sign::Good, Tone::Good, format!("connected ({})", count(*tools, "tool"))),
        State::ToolsFailed { error } => (
            Sign::Doubtful,
            Tone::Waiting,
            with_reason(&format!("connected {} tools failed", layout.dot()), error.as_str()),
        ),
        State::Idle { tools } => {
            let words = format!("idle ({}; starts when called)", count(*tools, "tool"));
            (Sign::Off, Tone::Faint, words)
        }
        State::Connecting => (Sign::Busy, Tone::Waiting, "connecting".to_owned()),
        State::Disconnected => (Sign::Off, Tone::Faint, "disconnected".to_owned()),
        State::Reconnecting { attempt, attempts, in_ms, error } => {
            let wait = in_ms.div_ceil(1000);
            let words = format!("reconnecting {attempt}/{attempts} in {wait}s");
            (Sign::Retrying, Tone::Waiting, with_reason(&words, error.as_str()))
        }
        State::PendingTrust => (Sign::Paused, Tone::Waiting, "pending approval".to_owned()),
        State::NeedsAuth { how } => (Sign::Key, Tone::Waiting, format!("needs sign-in: {how}")),
        State::Disabled => (Sign::Off, Tone::Faint, "disabled".to_owned()),
        State::Failed { error } => (Sign::Bad, Tone::Bad, with_reason("failed", error.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { unicode: true, width: 80 };

    fn server(name: &str, state: State) -> Server {
        Server {
            name: name.to_owned(),
            state: state.word(),
            transport: Some("stdio"),
            era: None,
            scope: "user".to_owned(),
            source: None,
            enabled: true,
            tools: 0,
            quarantined: Vec::new(),
            findings: FindingCount::default(),
            error: state.error().map(str::to_owned),
            page_data: PageData { state, source: Source::file("user", "/home/ada/mcp.json"), warnings: Vec::new() },
        }
    }

    fn plain(page: &str) -> String {
        anstream::adapter::strip_str(page).to_string()
    }

    #[test]
    fn every_state_has_a_word_and_a_sign() {
        let error = || "no \u{1b}[2Jroute".to_owned().into();
        let servers = [
            server("a", State::Connected { tools: 1 }),
            server("b-longer", State::Connected { tools: 23 }),
            server("c", State::ToolsFailed { error: error() }),
            server("d", State::Connecting),
            server("e", State::Disconnected),
            server("f", State::Reconnecting { attempt: 3, attempts: 12, in_ms: 7_400, error: error() }),
            server("g", State::PendingTrust),
            server("h", State::NeedsAuth { how: "HTTP 401".to_owned() }),
            server("i", State::Disabled),
            server("j", State::Failed { error: error() }),
        ];
        insta::assert_snapshot!(plain(&page(&servers, LAYOUT)), @r"
        ✔ a         stdio  user  connected (1 tool)
        ✔ b-longer  stdio  user  connected (23 tools)
        ⚠ c         stdio  user  connected · tools failed — no \u{1b}[2Jroute
          configured in /home/ada/mcp.json
        ⟳ d         stdio  user  connecting
        ⊘ e         stdio  user  disconnected
        ↻ f         stdio  user  reconnecting 3/12 in 8s — no \u{1b}[2Jroute
          configured in /home/ada/mcp.json
        ⏸ g         stdio  user  pending approval
        ! h         stdio  user  needs sign-in: HTTP 401
          configured in /home/ada/mcp.json
        ⊘ i         stdio  user  disabled
        ✘ j         stdio  user  failed — no \u{1b}[2Jroute
          configured in /home/ada/mcp.json
        ");
        let ascii = Layout { unicode: false, ..LAYOUT };
        assert!(plain(&page(&servers, ascii)).is_ascii());
    }
}
