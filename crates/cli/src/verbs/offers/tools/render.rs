//! Shows tools and their arguments.

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use toolrack_host::{CatalogTool, ServerStatus, mcp::Annotations, signature, text};

use crate::{
    render::{Tone, count, one_line, paint},
    verbs::{look::test::render::instructions, safety::policy::render::CallVerdict},
};

/// A tool that is shown.
#[derive(Debug)]
pub(crate) struct ListedTool {
    pub(crate) tool: CatalogTool,
    /// How well the tool fits the search; `None` without a search.
    pub(crate) score: Option<f32>,
}

/// `tools --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    tools: Vec<Tool<'a>>,
    /// The servers that tell models something about themselves.
    servers: Vec<Server<'a>>,
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
struct Server<'a> {
    name: &'a str,
    instructions: &'a str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    server: &'a str,
    tool: &'a str,
    title: Option<&'a str>,
    description: Option<&'a str>,
    input_schema: &'a RawValue,
    annotations: &'a Annotations,
    tokens: usize,
    score: Option<f32>,
    /// The verdict on a model's call, for a tool that the user named.
    policy: Option<&'a CallVerdict>,
}

/// Returns the output of `tools --json`.
pub(crate) fn document<'a>(
    tools: &'a [ListedTool],
    servers: &'a [ServerStatus],
    warnings: &'a [String],
) -> Document<'a> {
    let verdict = None; // Only a tool that the user named has a verdict.
    let tools = tools.iter().map(|shown| tool_document(&shown.tool, shown.score, verdict)).collect();
    Document { tools, servers: with_instructions(servers), warnings }
}

fn with_instructions(servers: &[ServerStatus]) -> Vec<Server<'_>> {
    let names_and_instructions =
        servers.iter().filter_map(|status| Some((status.name.as_str(), status.instructions.as_deref()?)));
    let with_text = names_and_instructions.filter(|(_, instructions)| !instructions.trim().is_empty());
    with_text.map(|(name, instructions)| Server { name, instructions }).collect()
}

/// Returns the output of `tools --json` for the one tool that the user named.
pub(crate) fn single_tool_document<'a>(
    tool: &'a CatalogTool,
    verdict: &'a CallVerdict,
    servers: &'a [ServerStatus],
    warnings: &'a [String],
) -> Document<'a> {
    let score = None; // The user did not search.
    Document { tools: vec![tool_document(tool, score, Some(verdict))], servers: with_instructions(servers), warnings }
}

fn tool_document<'a>(catalog_tool: &'a CatalogTool, score: Option<f32>, policy: Option<&'a CallVerdict>) -> Tool<'a> {
    let tool = catalog_tool.tool();
    Tool {
        name: &catalog_tool.name,
        server: catalog_tool.server.as_str(),
        tool: &tool.name,
        title: tool.title.as_deref().or(tool.annotations.title.as_deref()),
        description: tool.description.as_deref(),
        input_schema: &tool.input_schema,
        annotations: &tool.annotations,
        tokens: catalog_tool.tokens(),
        score,
        policy,
    }
}

/// How much a page says of each tool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detail {
    pub(crate) with_schema: bool,
    /// Whether long texts are shown to their end.
    pub(crate) is_full: bool,
}

/// Lists the tools of each server below the name of the server: signature, badges, and the first line of the
/// description.
///
/// `tools` are in the order of their servers. The instructions of each of `servers` follow its name.
pub(crate) fn page(tools: &[ListedTool], servers: &[ServerStatus], detail: Detail) -> String {
    let Detail { with_schema, is_full } = detail;
    let mut lines = Vec::new();
    for tools_of_server in tools.chunk_by(|a, b| a.tool.server == b.tool.server) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let tokens: usize = tools_of_server.iter().map(|listed| listed.tool.tokens()).sum();
        let about = format!("({}, about {})", count(tools_of_server.len(), "tool"), count(tokens, "token"));
        let name = tools_of_server.first().map_or("", |listed| listed.tool.server.as_str());
        lines.push(format!("{} {}", paint(Tone::Strong, name), paint(Tone::Faint, &about)));
        let status = servers.iter().find(|status| status.name.as_str() == name);
        lines.extend(instructions(name, status.and_then(|status| status.instructions.as_deref()), is_full));
        for listed in tools_of_server {
            lines.extend(tool_lines(&listed.tool, &listed.tool.tool().name, "  ", with_schema));
        }
    }
    lines.join("\n")
}

/// Lists tools of any server, in the given order, each with its server.
pub(crate) fn ranked(tools: &[ListedTool], with_schema: bool) -> String {
    let indent = "";
    let lines =
        tools.iter().flat_map(|ListedTool { tool, .. }| tool_lines(tool, &tool.selector(), indent, with_schema));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the lines for a tool, which is shown under `name`. Each line begins with `indent`.
fn tool_lines(catalog_tool: &CatalogTool, name: &str, indent: &str, with_schema: bool) -> Vec<String> {
    // The host has left out tools whose schemas cannot be parsed.
    let schema: Value = serde_json::from_str(catalog_tool.tool().input_schema.get()).unwrap_or_default();
    let badge = badge(&catalog_tool.tool().annotations)
        .map_or_else(String::new, |(tone, words)| format!("  {}", paint(tone, &format!("[{words}]"))));
    let mut lines = vec![format!("{indent}{}{badge}", signature(name, &schema))];
    let description = catalog_tool.tool().description.as_deref().unwrap_or_default().trim();
    if let Some(first_line) = description.lines().next() {
        let first_line = format!("{indent}    {}", text::for_line(first_line.trim()));
        lines.push(one_line(&paint(Tone::Faint, &first_line)));
    }
    if with_schema {
        let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
        let escaped_schema = text::for_terminal(&schema);
        lines.extend(escaped_schema.lines().map(|line| format!("{indent}    {line}")));
    }
    lines
}

/// Returns the server's claim about the tool, in one word.
pub(crate) fn badge(claims: &Annotations) -> Option<(Tone, &'static str)> {
    if claims.read_only == Some(true) {
        Some((Tone::Good, "read-only"))
    } else if claims.destructive == Some(true) {
        Some((Tone::Bad, "destructive"))
    } else {
        None
    }
}
