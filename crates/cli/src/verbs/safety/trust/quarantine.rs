//! Shows the tools in quarantine, so that the user can decide about them. Their definitions differ from their pins,
//! which are the definitions that the user trusted.

use chrono::{DateTime, Local, SecondsFormat};
use serde::Serialize;
use serde_json::{Map, Value};
use toolrack_host::{
    DefinitionHash,
    findings::{self, Finding},
    pins::Cause,
    text,
};
use toolrack_store::QuarantinedTool;

use super::changes::{self, Change};
use crate::render::{Layout, Sign, Tone, paint};

/// `trust diff --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) quarantined: &'a [ShownTool<'a>],
}

/// `trust approve --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ApproveDocument<'a> {
    pub(crate) approved: &'a [ShownTool<'a>],
}

/// A tool that waits for approval.
#[derive(Debug, Serialize)]
pub(crate) struct ShownTool<'a> {
    server: &'a str,
    tool: &'a str,
    /// The file in which the server is configured, or a description if there is none.
    source: &'a str,
    /// `changed`, `renamed` or `too_many`.
    cause: &'static str,
    /// The earlier name of a renamed tool.
    was: Option<&'a str>,
    #[serde(skip)]
    full_cause: &'a Cause,
    /// In RFC 3339.
    since: Option<String>,
    /// The hash of the current definition, to which an approval applies.
    hash: DefinitionHash,
    /// The definition as it is now.
    definition: Value,
    /// The trusted definition; `null` if nothing is pinned.
    pinned: Option<TrustedDefinition<'a>>,
    /// How the current definition differs from the trusted one, field by field.
    changes: Vec<Change>,
    /// Findings in the new definition, at which the user should look.
    findings: Vec<Finding>,
}

/// The trusted definition.
#[derive(Debug, Serialize)]
struct TrustedDefinition<'a> {
    hash: DefinitionHash,
    definition: Value,
    /// In RFC 3339.
    at: Option<String>,
    /// `cli` or `daemon`; `null` for the definition that was seen first.
    approved_by: Option<&'a str>,
    #[serde(skip)]
    day: String,
}

impl<'a> ShownTool<'a> {
    pub(crate) fn new(quarantined: &'a QuarantinedTool) -> Self {
        let current_definition = definition(&quarantined.mismatch.definition.text);
        let pinned = quarantined.pinned.as_ref().map(|pinned| TrustedDefinition {
            hash: pinned.definition.hash,
            definition: definition(&pinned.definition.text),
            at: rfc3339(pinned.at),
            approved_by: pinned.approved_by.as_deref(),
            day: local_day(pinned.at),
        });
        let (cause, was) = match &quarantined.mismatch.cause {
            Cause::Renamed { was } => ("renamed", Some(was.as_str())),
            Cause::TooMany => ("too_many", None),
            _ => ("changed", None),
        };
        let nothing = Value::Null;
        let before = pinned.as_ref().map_or(&nothing, |pinned| &pinned.definition);
        Self {
            server: quarantined.pinned_server.server.as_str(),
            tool: &quarantined.mismatch.tool,
            source: &quarantined.pinned_server.source,
            cause,
            was,
            full_cause: &quarantined.mismatch.cause,
            since: rfc3339(quarantined.since),
            hash: quarantined.mismatch.definition.hash,
            changes: if pinned.is_some() { changes::between(before, &current_definition) } else { Vec::new() },
            findings: findings::in_definition(&current_definition),
            definition: current_definition,
            pinned,
        }
    }
}

/// Parses a stored definition. A definition that is no longer JSON, because a secret was hidden in it, is shown as
/// text.
fn definition(stored_text: &str) -> Value {
    serde_json::from_str(stored_text).unwrap_or_else(|_| Value::from(stored_text))
}

fn rfc3339(seconds: i64) -> Option<String> {
    DateTime::from_timestamp(seconds, 0).map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

fn local_day(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.with_timezone(&Local).format("%Y-%m-%d").to_string()
}

/// Shows each tool with its changes and findings.
pub(crate) fn page(tools: &[ShownTool<'_>], layout: Layout) -> String {
    let blocks: Vec<_> = tools.iter().map(|tool| block(tool, layout).join("\n")).collect();
    blocks.join("\n\n")
}

fn block(tool: &ShownTool<'_>, layout: Layout) -> Vec<String> {
    let sign = paint(Tone::Waiting, layout.sign(Sign::Paused));
    let source = paint(Tone::Faint, &text::for_line(tool.source));
    let mut lines = vec![format!("{sign} {}  {source}", tool_name(tool))];
    let pin_note = tool.pinned.as_ref().map(|pinned| match pinned.approved_by {
        Some(_) => format!("; the trusted definition was approved on {}", pinned.day),
        None => format!("; the trusted definition was first seen on {}", pinned.day),
    });
    lines.push(paint(Tone::Waiting, &format!("  {}{}", tool.full_cause, pin_note.unwrap_or_default())));
    match tool.pinned {
        Some(_) => lines.extend(difference(&tool.changes)),
        // Without a pin, every field of the definition is new.
        None => lines.extend(difference(&changes::between(&Value::Object(Map::new()), &tool.definition))),
    }
    for Finding { place, what, .. } in &tool.findings {
        lines.push(format!("  {} {place}: {what}", paint(Tone::Bad, layout.sign(Sign::Doubtful))));
    }
    lines.push(paint(Tone::Faint, &format!("  hash {}", tool.hash)));
    lines
}

fn tool_name(tool: &ShownTool<'_>) -> String {
    paint(Tone::Strong, &text::for_line(&format!("{}/{}", tool.server, tool.tool)))
}

/// Shows the changes. Texts of several lines are compared line by line.
fn difference(changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        match (&change.before, &change.after) {
            (Some(Value::String(before)), Some(Value::String(after)))
                if before.contains('\n') || after.contains('\n') =>
            {
                lines.push(format!("    {}:", text::for_line(&change.field)));
                lines.extend(line_diff(before, after).into_iter().map(|line| format!("    {line}")));
            }
            _ => lines.extend(changes::lines(std::slice::from_ref(change)).iter().map(|line| format!("    {line}"))),
        }
    }
    if lines.is_empty() {
        lines.push("    only in something that is not shown: a secret, or a duplicate member".to_owned());
    }
    lines
}

/// Returns the changed lines, with one unchanged line before and one after the change.
fn line_diff(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    // How many lines are the same at the start, and at the end.
    let same_at_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let same_at_end = old[same_at_start..]
        .iter()
        .rev()
        .zip(new[same_at_start..].iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let unchanged_line = |line: &&str| format!("  {}", text::for_line(line));
    let mut lines: Vec<_> = old[same_at_start.saturating_sub(1)..same_at_start].iter().map(unchanged_line).collect();
    let mut push_marked = |mark: &str, tone: Tone, changed: &[&str]| {
        lines.extend(changed.iter().map(|line| paint(tone, &format!("{mark} {}", text::for_line(line)))));
    };
    push_marked("-", Tone::Bad, &old[same_at_start..old.len() - same_at_end]);
    push_marked("+", Tone::Good, &new[same_at_start..new.len() - same_at_end]);
    lines.extend(new[new.len() - same_at_end..].iter().take(1).map(unchanged_line));
    lines
}

/// Shows the approved tools, with their definitions unless the user has seen these (`was_seen`).
pub(crate) fn approved_page(tools: &[ShownTool<'_>], was_seen: bool, layout: Layout) -> String {
    let blocks: Vec<_> = tools
        .iter()
        .map(|tool| {
            let sign = paint(Tone::Good, layout.sign(Sign::Good));
            let mut lines = vec![format!("{sign} {}  approved as long as it does not change", tool_name(tool))];
            if !was_seen {
                lines.extend(block(tool, layout).into_iter().skip(1));
            }
            lines.join("\n")
        })
        .collect();
    blocks.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_tool_without_a_pin_each_field_is_shown_as_new() {
        let tool = ShownTool {
            server: "fs",
            tool: "read",
            source: "toolrack.toml",
            cause: "too_many",
            was: None,
            full_cause: &Cause::TooMany,
            since: None,
            hash: DefinitionHash::from_bytes([0; 32]),
            definition: json!({ "description": "Reads a file.", "name": "read" }),
            pinned: None,
            changes: Vec::new(),
            findings: Vec::new(),
        };
        let shown = page(&[tool], Layout { unicode: true, width: 80 });
        let shown = anstream::adapter::strip_str(&shown).to_string();
        assert!(shown.contains("+ description: \"Reads a file.\"\n    + name: \"read\"\n"), "{shown}");
        assert!(!shown.contains("null"), "{shown}");
    }
}
