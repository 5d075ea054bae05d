//! Shows one tool with everything that is known about it.

use serde_json::Value;
use toolrack_host::{CatalogTool, text};

use super::render::{Detail, badge};
use crate::{
    arguments::{ListedArgument, list_arguments},
    render::{Cell, Tone, columns, count, excerpt, one_line, paint},
    verbs::safety::policy::render::{CallVerdict, claims_line},
};

/// How many arguments are shown, unless the user wants all.
const MAX_ARGUMENTS: usize = 50;
/// How many bytes of an argument's default or description are shown, unless the user wants all.
const MAX_FIELD_BYTES: usize = 300;

/// Shows everything that the server says about the tool, and whether a model may call it.
///
/// Unless `is_full`, long descriptions are cut, so that the lines above them do not scroll away.
pub(crate) fn page(catalog_tool: &CatalogTool, verdict: &CallVerdict, detail: Detail) -> String {
    let Detail { with_schema, is_full } = detail;
    let tool = catalog_tool.tool();
    // The host has left out tools whose schemas cannot be parsed.
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let badge = badge(&tool.annotations)
        .map_or_else(String::new, |(tone, words)| format!("  {}", paint(tone, &format!("[{words}]"))));
    let name = paint(Tone::Strong, &text::for_line(&catalog_tool.selector()));
    let mut lines = vec![format!("{name}  {}{badge}", paint(Tone::Faint, &catalog_tool.name))];
    let title = tool.title.as_deref().or(tool.annotations.title.as_deref());
    lines.extend(title.map(|title| one_line(&format!("  {}", text::for_line(title)))));
    let full_command = format!("toolrack tools {} --full", text::for_line(&catalog_tool.selector()));
    let description = tool.description.as_deref().unwrap_or_default().trim();
    let description = match is_full {
        true => text::for_terminal(description).lines().map(str::to_owned).collect(),
        false => excerpt::lines(description, &full_command),
    };
    lines.extend(description.iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    let arguments = list_arguments(&schema);
    if arguments.is_empty() {
        lines.push(paint(Tone::Faint, "the tool names no arguments"));
    } else {
        let shown_count = if is_full { arguments.len() } else { arguments.len().min(MAX_ARGUMENTS) };
        let rows: Vec<_> = arguments[..shown_count].iter().map(|argument| row(argument, is_full)).collect();
        lines.extend(columns(&rows));
        if shown_count < arguments.len() {
            let hidden_count = count(arguments.len() - shown_count, "argument");
            lines.push(paint(Tone::Faint, &format!("… and {hidden_count} more: `{full_command}` shows all of them")));
        }
    }
    lines.push(String::new());
    lines.push(verdict.line("a model's call"));
    lines.push(claims_line(Some(&tool.annotations)));
    if with_schema {
        let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
        lines.push(String::new());
        lines.extend(text::for_terminal(&schema).lines().map(str::to_owned));
    }
    lines.join("\n")
}

/// Returns the cells of an argument: its name, its type, whether it may be left out, and what it is for. Empty cells at
/// the end are left out.
fn row(argument: &ListedArgument, is_full: bool) -> Vec<Cell> {
    let escape = |foreign: &str| excerpt::line(foreign, if is_full { usize::MAX } else { MAX_FIELD_BYTES });
    let requirement = match (&argument.default, argument.required) {
        (None, true) => "needed".to_owned(),
        (None, false) => String::new(),
        (Some(default), true) => format!("needed, default {}", escape(default)),
        (Some(default), false) => format!("default {}", escape(default)),
    };
    let about = argument.about.as_deref().unwrap_or_default();
    let words = [
        // A blank cell indents the row.
        (Tone::Plain, " ".to_owned()),
        (Tone::Strong, text::for_line(&argument.name).into_owned()),
        (Tone::Plain, escape(&argument.expected)),
        (Tone::Faint, requirement),
        (Tone::Faint, escape(about)),
    ];
    let filled_cells = words.iter().rposition(|(_, words)| !words.is_empty()).map_or(0, |last| last + 1);
    words.into_iter().take(filled_cells).map(|(tone, words)| Cell::new(tone, words)).collect()
}
