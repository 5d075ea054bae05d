//! Shows a conversation, message by message.

use serde_json::Value;
use toolrack_host::text;
use toolrack_store::{
    Role,
    transcript::{TranscriptCall, TranscriptMessage, tool_of},
};

use super::{ShownSession, local};
use crate::{
    render::{Layout, Tone, count, one_line, paint},
    verbs::offers::call::render as call,
};

/// The most lines of a folded result that are shown, and the most characters.
const MAX_FOLDED_LINES: usize = 8;
const MAX_FOLDED_CHARACTERS: usize = 800;

/// Shows the title of the conversation, and then `messages`, its last messages. Unless `full` is set, long results are
/// cut, and the arguments of a call are one line.
pub(crate) fn page(shown: &ShownSession, messages: &[TranscriptMessage], full: bool, layout: Layout) -> String {
    let facts = shown.facts().join(&format!(" {} ", layout.dot()));
    let mut parts = vec![format!(
        "{}  {}\n{}",
        paint(Tone::Strong, &shown.session.prefix),
        shown.name(),
        paint(Tone::Faint, &facts)
    )];
    let left_out = usize::try_from(shown.session.messages).unwrap_or(usize::MAX).saturating_sub(messages.len());
    if left_out > 0 {
        parts.push(paint(Tone::Faint, &format!("{} {} before", layout.ellipsis(), count(left_out, "message"))));
    }
    parts.extend((0..messages.len()).map(|index| message(messages, index, full, layout)));
    if shown.session.has_open_turn {
        parts.push(paint(Tone::Waiting, "the last turn has not finished"));
    }
    parts.join("\n\n")
}

fn message(all: &[TranscriptMessage], index: usize, full: bool, layout: Layout) -> String {
    let entry = &all[index];
    let mut lines = vec![heading(entry, tool_of(all, index))];
    let content = text::for_terminal(&entry.content);
    let content = content.trim_end();
    if !content.is_empty() {
        let folded = entry.kind == Role::Tool && !full;
        lines.extend(if folded { fold(content, layout) } else { content.lines().map(indented).collect() });
    }
    lines.extend(entry.parts.iter().map(|part| indented(&part_label(part))));
    lines.extend(entry.tool_calls.iter().flat_map(|call| call_lines(call, full, layout)));
    lines.join("\n")
}

/// `[TOOL] fs__list failed  12:03:44`
fn heading(entry: &TranscriptMessage, tool: Option<&str>) -> String {
    let (label, tone) = match entry.kind {
        Role::System => ("[SYSTEM]", Tone::Faint),
        Role::User => ("[USER]", Tone::Strong),
        Role::Assistant => ("[ASSISTANT]", Tone::Good),
        Role::Tool => ("[TOOL]", Tone::Tool),
    };
    let mut line = paint(tone, label);
    if let Some(tool) = tool {
        line += &format!(" {}", text::for_line(tool));
    }
    if entry.is_error {
        line += &format!(" {}", paint(Tone::Bad, "failed"));
    }
    line + &paint(Tone::Faint, &format!("  {}", local(entry.at).format("%H:%M:%S")))
}

/// Returns the first lines, and a line that says how much more there is.
fn fold(content: &str, layout: Layout) -> Vec<String> {
    let mut room = MAX_FOLDED_CHARACTERS;
    let mut shown = Vec::new();
    let mut rest = content.lines();
    for line in rest.by_ref().take(MAX_FOLDED_LINES) {
        let cut = line.char_indices().nth(room).map_or(line, |(at, _)| &line[..at]);
        room -= cut.chars().count();
        shown.push(indented(cut));
        if cut.len() < line.len() {
            let hidden =
                line.chars().count() - cut.chars().count() + rest.map(|line| line.chars().count()).sum::<usize>();
            shown.push(fold_mark(&count(hidden, "more character"), layout));
            return shown;
        }
    }
    match rest.count() {
        0 => shown,
        hidden => {
            shown.push(fold_mark(&count(hidden, "more line"), layout));
            shown
        }
    }
}

/// The line in place of what is left out.
fn fold_mark(left_out: &str, layout: Layout) -> String {
    indented(&paint(Tone::Faint, &format!("{} {left_out}; --full shows all", layout.ellipsis())))
}

/// `→ fs__list {"path":"."}`
fn call_lines(call: &TranscriptCall, full: bool, layout: Layout) -> Vec<String> {
    let arrow = if layout.unicode { "→" } else { "->" };
    let name = paint(Tone::Tool, &format!("{arrow} {}", text::for_line(&call.name)));
    let written = match &call.input {
        Value::String(not_json) => not_json.clone(),
        Value::Null => String::new(),
        input if full => serde_json::to_string_pretty(input).unwrap_or_default(),
        input => input.to_string(),
    };
    if full {
        let written = text::for_terminal(&written);
        return std::iter::once(indented(&name)).chain(written.lines().map(|line| format!("    {line}"))).collect();
    }
    vec![one_line(&indented(&format!("{name} {}", text::for_line(&written))))]
}

/// A label for content that is not text.
fn part_label(part: &Value) -> String {
    let resource = &part["resource"];
    let media_type = part["mimeType"].as_str().or_else(|| resource["mimeType"].as_str());
    let data = part["data"].as_str().or_else(|| resource["blob"].as_str()).unwrap_or_default();
    call::label(&text::for_line(part["type"].as_str().unwrap_or("content")), media_type, call::base64_bytes(data))
}

fn indented(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("  {line}") }
}
