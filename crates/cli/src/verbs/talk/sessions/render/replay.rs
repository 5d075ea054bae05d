//! Shows a conversation, message by message.

use serde_json::Value;
use toolrack_host::text;
use toolrack_store::{
    Role,
    transcript::{TranscriptCall, TranscriptMessage, tool_name},
};

use super::{ShownSession, to_local_time};
use crate::{
    render::{Layout, Tone, count, one_line, paint},
    verbs::offers::call::render as call,
};

/// The most lines of a folded result that are shown, and the most characters.
const MAX_FOLDED_LINES: usize = 8;
const MAX_FOLDED_CHARACTERS: usize = 800;

/// Shows the title of the conversation, and then `messages`, its last messages. Unless `is_full` is set, long results
/// are cut, and the arguments of a call are one line.
pub(crate) fn page(
    shown_session: &ShownSession,
    messages: &[TranscriptMessage],
    is_full: bool,
    layout: Layout,
) -> String {
    let facts = shown_session.facts().join(&format!(" {} ", layout.dot()));
    let mut parts = vec![format!(
        "{}  {}\n{}",
        paint(Tone::Strong, &shown_session.session.prefix),
        shown_session.name(),
        paint(Tone::Faint, &facts)
    )];
    let left_out = usize::try_from(shown_session.session.messages).unwrap_or(usize::MAX).saturating_sub(messages.len());
    if left_out > 0 {
        parts.push(paint(Tone::Faint, &format!("{} {} before", layout.ellipsis(), count(left_out, "message"))));
    }
    parts.extend((0..messages.len()).map(|index| message_block(messages, index, is_full, layout)));
    if shown_session.session.has_open_turn {
        parts.push(paint(Tone::Waiting, "the last turn has not finished"));
    }
    parts.join("\n\n")
}

fn message_block(messages: &[TranscriptMessage], index: usize, is_full: bool, layout: Layout) -> String {
    let message = &messages[index];
    let mut lines = vec![heading(message, tool_name(messages, index))];
    let content = text::for_terminal(&message.content);
    let content = content.trim_end();
    if !content.is_empty() {
        let is_folded = message.kind == Role::Tool && !is_full;
        lines.extend(if is_folded { fold(content, layout) } else { content.lines().map(indented).collect() });
    }
    lines.extend(message.parts.iter().map(|part| indented(&part_label(part))));
    lines.extend(message.tool_calls.iter().flat_map(|call| call_lines(call, is_full, layout)));
    lines.join("\n")
}

/// `[TOOL] fs__list failed  12:03:44`
fn heading(message: &TranscriptMessage, tool: Option<&str>) -> String {
    let (label, tone) = match message.kind {
        Role::System => ("[SYSTEM]", Tone::Faint),
        Role::User => ("[USER]", Tone::Strong),
        Role::Assistant => ("[ASSISTANT]", Tone::Good),
        Role::Tool => ("[TOOL]", Tone::Tool),
    };
    let mut line = paint(tone, label);
    if let Some(tool) = tool {
        line += &format!(" {}", text::for_line(tool));
    }
    if message.is_error {
        line += &format!(" {}", paint(Tone::Bad, "failed"));
    }
    line + &paint(Tone::Faint, &format!("  {}", to_local_time(message.at).format("%H:%M:%S")))
}

/// Returns the first lines, and a line that says how much more there is.
fn fold(content: &str, layout: Layout) -> Vec<String> {
    let mut remaining = MAX_FOLDED_CHARACTERS;
    let mut lines = Vec::new();
    let mut rest = content.lines();
    for line in rest.by_ref().take(MAX_FOLDED_LINES) {
        let cut = line.char_indices().nth(remaining).map_or(line, |(at, _)| &line[..at]);
        remaining -= cut.chars().count();
        lines.push(indented(cut));
        if cut.len() < line.len() {
            let hidden_count =
                line.chars().count() - cut.chars().count() + rest.map(|line| line.chars().count()).sum::<usize>();
            lines.push(fold_mark(&count(hidden_count, "more character"), layout));
            return lines;
        }
    }
    match rest.count() {
        0 => lines,
        hidden_count => {
            lines.push(fold_mark(&count(hidden_count, "more line"), layout));
            lines
        }
    }
}

/// Returns the line that stands for the lines that are left out.
fn fold_mark(left_out: &str, layout: Layout) -> String {
    indented(&paint(Tone::Faint, &format!("{} {left_out}; --full shows all", layout.ellipsis())))
}

/// Returns the lines of a call, such as `→ fs__list {"path":"."}`.
fn call_lines(call: &TranscriptCall, is_full: bool, layout: Layout) -> Vec<String> {
    let arrow = if layout.unicode { "→" } else { "->" };
    let name = paint(Tone::Tool, &format!("{arrow} {}", text::for_line(&call.name)));
    let arguments = match &call.input {
        Value::String(not_json) => not_json.clone(),
        Value::Null => String::new(),
        input if is_full => serde_json::to_string_pretty(input).unwrap_or_default(),
        input => input.to_string(),
    };
    if is_full {
        let arguments = text::for_terminal(&arguments);
        return std::iter::once(indented(&name)).chain(arguments.lines().map(|line| format!("    {line}"))).collect();
    }
    vec![one_line(&indented(&format!("{name} {}", text::for_line(&arguments))))]
}

/// Returns a label for content that is not text.
fn part_label(part: &Value) -> String {
    let resource = &part["resource"];
    let media_type = part["mimeType"].as_str().or_else(|| resource["mimeType"].as_str());
    let data = part["data"].as_str().or_else(|| resource["blob"].as_str()).unwrap_or_default();
    call::label(&text::for_line(part["type"].as_str().unwrap_or("content")), media_type, call::base64_bytes(data))
}

fn indented(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("  {line}") }
}
