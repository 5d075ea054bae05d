//! Tools and what they take.

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use toolrack_host::{CatalogTool, mcp::Annotations, text};

use super::{Tone, count, one_line, paint, signature::signature};

/// `tools --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    tools: Vec<Tool<'a>>,
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    server: &'a str,
    tool: &'a str,
    description: Option<&'a str>,
    input_schema: &'a RawValue,
    annotations: &'a Annotations,
    tokens: usize,
}

/// What `tools --json` prints.
pub(crate) fn document<'a>(tools: &[&'a CatalogTool], warnings: &'a [String]) -> Document<'a> {
    Document {
        tools: tools
            .iter()
            .map(|entry| Tool {
                name: &entry.name,
                server: entry.server.as_str(),
                tool: &entry.tool().name,
                description: entry.tool().description.as_deref(),
                input_schema: &entry.tool().input_schema,
                annotations: &entry.tool().annotations,
                tokens: entry.tokens,
            })
            .collect(),
        warnings,
    }
}

/// The tools of each server below its name: signature, badges, the first line of the description.
///
/// `tools` are in the order of their servers.
pub(crate) fn page(tools: &[&CatalogTool], with_schema: bool) -> String {
    let mut lines = Vec::new();
    for of_server in tools.chunk_by(|a, b| a.server == b.server) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let tokens: usize = of_server.iter().map(|entry| entry.tokens).sum();
        let about = format!("({}, about {})", count(of_server.len(), "tool"), count(tokens, "token"));
        let name = of_server.first().map_or("", |entry| entry.server.as_str());
        lines.push(format!("{} {}", paint(Tone::Strong, name), paint(Tone::Faint, &about)));
        for entry in of_server {
            push_tool(&mut lines, entry, with_schema);
        }
    }
    lines.join("\n")
}

fn push_tool(lines: &mut Vec<String>, entry: &CatalogTool, with_schema: bool) {
    let schema: Value = serde_json::from_str(entry.tool().input_schema.get()).unwrap_or_default();
    let badge = badge(&entry.tool().annotations)
        .map_or_else(String::new, |(tone, words)| format!("  {}", paint(tone, &format!("[{words}]"))));
    lines.push(format!("  {}{badge}", signature(&entry.tool().name, &schema)));
    let description = entry.tool().description.as_deref().unwrap_or_default().trim();
    if let Some(first) = description.lines().next() {
        let first = format!("      {}", text::for_line(first.trim()));
        lines.push(one_line(&paint(Tone::Faint, &first)));
    }
    if with_schema {
        let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
        let shown = text::for_terminal(&schema);
        lines.extend(shown.lines().map(|line| format!("      {line}")));
    }
}

/// What the server claims about the tool, in a word.
fn badge(claims: &Annotations) -> Option<(Tone, &'static str)> {
    if claims.read_only == Some(true) {
        Some((Tone::Good, "read-only"))
    } else if claims.destructive == Some(true) {
        Some((Tone::Bad, "destructive"))
    } else {
        None
    }
}
