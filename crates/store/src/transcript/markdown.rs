//! Writes a conversation as Markdown. Each message is a code block. The fence of the block is longer than any run of
//! backticks in the message, so that no message can end its block.

use std::fmt::Write as _;

use chrono::SecondsFormat;
use serde_json::Value;
use toolrack_host::text;

use super::{TranscriptMessage, tool_name};
use crate::Session;

/// Returns a Markdown document with the title and the messages of a session.
#[must_use]
pub fn document(session: &Session, messages: &[TranscriptMessage]) -> String {
    let title = session.title.trim();
    let title = if title.is_empty() { "(without a title)".into() } else { text::for_line(title) };
    let mut page = format!("# {}\n\n", code_span(&title));
    // Writing to a `String` cannot fail, so the results are ignored.
    let mut write_property = |name: &str, value: &str| {
        let _ = writeln!(page, "- {name}: {}", code_span(&text::for_line(value)));
    };
    write_property("Session", &session.id.to_string());
    for (name, value) in [("Model", &session.model), ("Agent", &session.agent)] {
        if let Some(value) = value {
            write_property(name, value);
        }
    }
    for (name, time) in [("Began", session.created_at), ("Last used", session.updated_at)] {
        write_property(name, &time.to_rfc3339_opts(SecondsFormat::Millis, true));
    }
    for (index, message) in messages.iter().enumerate() {
        let _ = write!(page, "\n## {}", heading(message));
        if let Some(tool) = tool_name(messages, index) {
            let _ = write!(page, ": {}", code_span(&text::for_line(tool)));
        }
        let _ = write!(page, "{}\n\n{}\n", if message.is_error { " (failed)" } else { "" }, message.timestamp);
        if !message.content.trim().is_empty() {
            page += &code_block("text", &message.content);
        }
        for part in &message.parts {
            let _ = write!(page, "\n{}\n", code_span(&part_label(part)));
        }
        for call in &message.tool_calls {
            let _ = write!(page, "\nCalls {}\n", code_span(&text::for_line(&call.name)));
            page += &match &call.input {
                Value::Null => String::new(),
                // The model wrote no JSON.
                Value::String(arguments) => code_block("text", arguments),
                input => code_block("json", &serde_json::to_string_pretty(input).unwrap_or_default()),
            };
        }
    }
    page
}

/// Describes a part of a message, such as `[image image/png, 12034 bytes]`.
fn part_label(part: &Value) -> String {
    let resource = &part["resource"];
    let media_type = part["mimeType"].as_str().or_else(|| resource["mimeType"].as_str());
    let media_type = media_type.map_or_else(String::new, |media_type| format!(" {}", text::for_line(media_type)));
    let data = part["data"].as_str().or_else(|| resource["blob"].as_str()).unwrap_or_default();
    // Four digits of Base64 stand for three bytes.
    let bytes = data.trim_end().trim_end_matches('=').len() * 3 / 4;
    format!("[{}{media_type}, {bytes} bytes]", text::for_line(part["type"].as_str().unwrap_or("content")))
}

fn heading(message: &TranscriptMessage) -> &'static str {
    match message.role {
        "system" => "System",
        "user" => "User",
        "assistant" => "Assistant",
        _ => "Tool",
    }
}

/// Returns the length of the longest run of backticks.
fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns a block of code. In CommonMark, only a fence that is at least as long as the first one ends the block
/// (<https://spec.commonmark.org/0.31.2/#fenced-code-blocks>).
fn code_block(language: &str, content: &str) -> String {
    let content = text::for_terminal(content);
    let fence = "`".repeat(3.max(longest_backtick_run(&content) + 1));
    let end = if content.ends_with('\n') { "" } else { "\n" };
    format!("\n{fence}{language}\n{content}{end}{fence}\n")
}

/// Returns a code span (<https://spec.commonmark.org/0.31.2/#code-spans>). Spaces separate its fences from a backtick
/// at the start or the end of the line.
fn code_span(line: &str) -> String {
    let fence = "`".repeat(longest_backtick_run(line) + 1);
    let gap = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{gap}{line}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::{ModelUse, Role, StoredMessage};

    fn session(title: &str) -> Session {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        Session {
            id: Uuid::nil(),
            prefix: "00000000".to_owned(),
            title: title.to_owned(),
            model: Some("a/`b`".to_owned()),
            agent: None,
            owner: None,
            created_at: at(0),
            updated_at: at(60),
            messages: 0,
            spent: ModelUse::default(),
            has_open_turn: false,
        }
    }

    fn message(role: Role, body: Value) -> TranscriptMessage {
        let stored = StoredMessage {
            id: Uuid::nil(),
            session_id: Uuid::nil(),
            position: 0,
            role,
            content: String::new(),
            tool_calls: None,
            tool_results: None,
            body: Some(body.to_string()),
            timestamp: DateTime::from_timestamp(1, 0).unwrap(),
            spent: None,
        };
        TranscriptMessage::new(stored, &str::to_owned)
    }

    #[test]
    fn a_conversation_is_written_with_its_calls_its_results_and_what_is_not_text() {
        let calls = json!([
            { "id": "1", "name": "fs/read", "input": { "path": "a" } },
            { "id": "2", "name": "fs/`x`\n# out", "input": null },
            { "id": "3", "name": "git/log", "raw_arguments": "{oops" },
        ]);
        let messages = [
            message(Role::User, json!({ "content": "read\n# it" })),
            message(Role::Assistant, json!({ "content": " \n", "tool_calls": calls })),
            message(
                Role::Tool,
                json!({ "content": "gone", "tool_call_id": "1", "is_error": true, "parts": [
                    { "type": "image", "mimeType": "image/png", "data": "AAECAwQ=" },
                    { "type": "resource", "resource": { "mimeType": "x/\ny", "blob": "AAEC" } },
                    {},
                ] }),
            ),
            message(Role::Tool, json!({ "content": "of no call", "tool_call_id": "9" })),
        ];
        let page = document(&session("  a\ntitle "), &messages);
        let at = "1970-01-01T00:00:01.000Z";
        let head = "# `a\\ntitle`\n\n- Session: `00000000-0000-0000-0000-000000000000`\n- Model: `` a/`b` ``\n\
                    - Began: `1970-01-01T00:00:00.000Z`\n- Last used: `1970-01-01T00:01:00.000Z`\n";
        let user = format!("\n## User\n\n{at}\n\n```text\nread\n# it\n```\n");
        let assistant = format!(
            "\n## Assistant\n\n{at}\n\nCalls `fs/read`\n\n```json\n{{\n  \"path\": \"a\"\n}}\n```\n\n\
             Calls ``fs/`x`\\n# out``\n\nCalls `git/log`\n\n```text\n{{oops\n```\n"
        );
        let tool = format!(
            "\n## Tool: `fs/read` (failed)\n\n{at}\n\n```text\ngone\n```\n\n`[image image/png, 5 bytes]`\n\n\
             `[resource x/\\ny, 3 bytes]`\n\n`[content, 0 bytes]`\n"
        );
        let stray = format!("\n## Tool\n\n{at}\n\n```text\nof no call\n```\n");
        assert_eq!(page, [head, &user, &assistant, &tool, &stray].concat());
        assert!(document(&session(" \n"), &[]).starts_with("# `(without a title)`\n"));
    }

    #[test]
    fn no_text_of_a_message_ends_its_code_block() {
        for text in ["plain", "```\n# out\n", "````text\n```\n`````\nx", "~~~\nout", "`", "", "a\r\n```\rb\u{1b}[2J"] {
            let block = code_block("text", text);
            let lines: Vec<_> = block.trim_start_matches('\n').lines().collect();
            let fence = lines[0].strip_suffix("text").unwrap();
            assert!(fence.len() >= 3 && fence.chars().all(|c| c == '`'), "{block}");
            let ends: Vec<_> = (1..lines.len()).filter(|at| lines[*at].trim().starts_with(fence)).collect();
            assert_eq!(ends, [lines.len() - 1], "{block}");
            assert!(!block.contains(['\u{1b}', '\r']), "{block}");
        }
        assert_eq!(
            [code_span("a"), code_span("`"), code_span("a``b"), code_span("``")],
            ["`a`", "`` ` ``", "```a``b```", "``` `` ```"]
        );
    }
}
