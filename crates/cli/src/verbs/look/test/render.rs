//! Shows the steps of a connection, up to the step that failed.

use std::time::Duration;

use serde::Serialize;
use toolrack_host::{Era, ServerStatus, State, Why, WhyStep, mcp::ServerInfo, text};

use crate::render::{Cell, Layout, Sign, Tone, columns, count, excerpt, paint};

/// `test --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) servers: &'a [TestedServer],
}

/// A server that was tested.
#[derive(Debug, Serialize)]
pub(crate) struct TestedServer {
    name: String,
    ok: bool,
    state: &'static str,
    transport: &'static str,
    /// The generation of MCP that the server speaks.
    era: Option<Era>,
    protocol_version: Option<String>,
    server_info: Option<ServerInfo>,
    /// The server's instructions for models.
    instructions: Option<String>,
    tools: usize,
    tokens: usize,
    /// The time until the server was connected or had failed; `null` when nothing was tried.
    duration_ms: Option<u64>,
    steps: Vec<WhyStep>,
    error: Option<String>,
}

impl TestedServer {
    pub(crate) fn new(status: ServerStatus, why: Why, elapsed: Option<Duration>) -> Self {
        let error = status.state.error().map(str::to_owned);
        Self {
            name: status.name.to_string(),
            ok: matches!(status.state, State::Connected { .. }),
            state: status.state.word(),
            tokens: status.tokens(),
            transport: status.transport,
            era: status.era,
            protocol_version: status.protocol_version,
            server_info: status.server_info,
            instructions: status.instructions,
            tools: status.tools,
            duration_ms: elapsed.and_then(|elapsed| u64::try_from(elapsed.as_millis()).ok()),
            steps: why.steps,
            error,
        }
    }
}

/// Returns the outcome for each server, with its steps below.
pub(crate) fn page(tested_servers: &[TestedServer], layout: Layout) -> String {
    let blocks: Vec<_> = tested_servers.iter().map(|server| block(server, layout)).collect();
    blocks.join("\n\n")
}

fn block(server: &TestedServer, layout: Layout) -> String {
    let (sign, tone) = if server.ok { (Sign::Good, Tone::Good) } else { (Sign::Bad, Tone::Bad) };
    let name = paint(Tone::Strong, &text::for_line(&server.name));
    let mut verdict = if server.ok {
        format!("works: {}, about {}", count(server.tools, "tool"), count(server.tokens, "token"))
    } else {
        "does not work".to_owned()
    };
    if let Some(elapsed_ms) = server.duration_ms {
        verdict += &format!(", {elapsed_ms} ms");
    }
    let mut lines = vec![format!("{} {name}  {}", paint(tone, layout.sign(sign)), paint(tone, &verdict))];
    if let Some(ServerInfo { name, version, .. }) = &server.server_info {
        let identity = format!("  says it is {} {}", text::for_line(name), text::for_line(version));
        lines.push(paint(Tone::Faint, identity.trim_end()));
    }
    let is_full = false;
    lines.extend(instructions(&server.name, server.instructions.as_deref(), is_full));
    lines.extend(columns(&steps(&server.steps, layout)).into_iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// Returns lines with the server's instructions for models: only the beginning, unless `is_full`.
pub(crate) fn instructions(server: &str, words: Option<&str>, is_full: bool) -> Vec<String> {
    let Some(words) = words.map(str::trim).filter(|words| !words.is_empty()) else { return Vec::new() };
    let full_command = format!("toolrack tools {} --full", text::for_line(server));
    let words = match is_full {
        true => text::for_terminal(words).lines().map(str::to_owned).collect(),
        false => excerpt::lines(words, &full_command),
    };
    let heading = std::iter::once(paint(Tone::Faint, "  tells models:"));
    heading.chain(words.into_iter().map(|line| format!("    {line}"))).collect()
}

/// Returns a row for each step. The first step that failed is the reason.
pub(crate) fn steps(steps: &[WhyStep], layout: Layout) -> Vec<Vec<Cell>> {
    let row = |step: &WhyStep| {
        let (sign, tone) = if step.ok { (Sign::Good, Tone::Good) } else { (Sign::Bad, Tone::Bad) };
        vec![
            Cell::new(tone, layout.sign(sign)),
            Cell::new(Tone::Strong, step.stage),
            Cell::new(Tone::Plain, text::for_line(&step.what)),
        ]
    };
    steps.iter().map(row).collect()
}
