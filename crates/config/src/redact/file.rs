//! Hides the secrets in a whole file, so that a change of the file can be shown.

use std::ops::Range;

use serde_json::Value as Json;

use crate::{
    dialect::{self, json::comment_length},
    document::{Document, mask_line},
    mask::{self, HIDDEN, hide_literals},
    node::{Node, Value},
    placeholder::BareName,
};

/// The maximum number of characters of a shown text outside the servers. A longer text is hidden, such as one in a
/// history of prompts: it is probably not a setting.
const MAX_SETTING_CHARS: usize = 40;

/// The ranges to hide, each with the text that is shown in its place.
type Replacements = Vec<(Range<usize>, String)>;

/// The meaning of a value, which depends on the objects around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// Values of variables, headers and fields whose names mark them as secrets.
    Secret,
    /// An object of entries. Its keys are names of servers, which say nothing about the values below them.
    Servers,
    /// Either an object of entries inside another one, such as `mcp.servers`, or the entry of a server with the name
    /// `servers`.
    ServersOrEntry,
    /// Fields of an entry.
    Entry,
    /// Other content of a file.
    Elsewhere,
}

/// Returns the text of a JSON or TOML file with all secrets hidden, and with as many lines. If the file cannot be
/// parsed, all values are hidden.
///
/// These are secrets:
///
/// - the values of `env` and of headers, without their placeholders
/// - the values of fields and options with the name of a secret
/// - passwords in URLs, and tokens of well-known services
///
/// They are hidden in comments, too.
pub(crate) fn redact_file(document: &Document) -> String {
    let text = &document.text;
    let Ok(root) = dialect::parse(document) else {
        return text.split('\n').map(mask_line).collect::<Vec<_>>().join("\n");
    };
    let mut replacements = Replacements::new();
    let mut comment_free_ranges = Vec::new();
    if let Some(root) = &root {
        hide(root, Context::Elsewhere, &mut replacements);
        collect_comment_free_ranges(root, text, &mut comment_free_ranges);
    }
    let is_toml = document.path.as_deref().is_some_and(dialect::is_toml);
    hide_comments(text, comment_free_ranges, is_toml, &mut replacements);
    replacements.sort_by_key(|(range, _)| range.start);

    let mut redacted_text = String::with_capacity(text.len());
    let mut copied_end = 0;
    for (range, replacement) in replacements.into_iter().filter(|(range, _)| !range.is_empty()) {
        if range.start < copied_end {
            continue;
        }
        redacted_text.push_str(&text[copied_end..range.start]);
        redacted_text.push_str(&replacement);
        let lost_lines = text[range.clone()].matches('\n').count().saturating_sub(replacement.matches('\n').count());
        redacted_text.extend(std::iter::repeat_n('\n', lost_lines));
        copied_end = range.end;
    }
    redacted_text.push_str(&text[copied_end..]);
    redacted_text
}

/// Adds the secrets in `node` to `replacements`. `context` is the meaning of the objects around it.
fn hide(node: &Node, context: Context, replacements: &mut Replacements) {
    match &node.value {
        Value::Text(text) => {
            let redacted = match context {
                Context::Secret => hide_literals(text, BareName::Placeholder),
                Context::Elsewhere if text.chars().count() > MAX_SETTING_CHARS => HIDDEN.to_owned(),
                Context::Servers | Context::ServersOrEntry | Context::Entry | Context::Elsewhere => {
                    mask::hide_in_argument(text)
                }
            };
            if redacted != *text {
                replacements.push((node.span.clone(), Json::String(redacted).to_string()));
            }
        }
        Value::Number(_) if context == Context::Secret => replacements.push((node.span.clone(), HIDDEN.to_owned())),
        Value::List(nodes) if matches!(context, Context::Entry | Context::ServersOrEntry) => {
            hide_arguments(nodes, replacements)
        }
        Value::List(nodes) => {
            // In a list of servers, the names are inside the entries.
            let context = if context == Context::Servers { Context::Entry } else { context };
            nodes.iter().for_each(|node| hide(node, context, replacements));
        }
        Value::Map(members) => {
            for member in members {
                hide(&member.node, context_below(context, &member.name, &member.node), replacements);
            }
        }
        _ => {}
    }
}

/// Returns the context of `node`, the value of the key `name` in an object with the context `parent`.
fn context_below(parent: Context, name: &str, node: &Node) -> Context {
    let is_secret_name = mask::is_secret_name(name);
    let name = name.to_ascii_lowercase();
    let has_secret_values = matches!(&*name, "env" | "environment") || name.ends_with("headers");
    let is_secret = has_secret_values || is_secret_name;
    let is_object = matches!(node.value, Value::Map(_));
    // The fields of an entry keep their meaning wherever the servers are.
    let is_entry_field = matches!(&*name, "command" | "args" | "url" | "cwd" | "http_url" | "httpurl" | "serverurl");
    let is_servers_key =
        matches!(&*name, "mcpservers" | "mcp_servers" | "context_servers" | "servers" | "mcp" | "mcp.servers");
    match parent {
        Context::Secret => Context::Secret,
        Context::Elsewhere if is_servers_key => Context::Servers,
        Context::Servers if is_servers_key => Context::ServersOrEntry,
        Context::Servers => Context::Entry,
        // Here `auth` is the name of a server. A field of an entry with such a name would not be a map.
        Context::ServersOrEntry if is_object && !has_secret_values => Context::Entry,
        _ if is_secret => Context::Secret,
        _ if is_entry_field => Context::Entry,
        parent => parent,
    }
}

/// Hides the secret parts of a list of arguments. Treats an item that is not text as a field of an entry.
fn hide_arguments(nodes: &[Node], replacements: &mut Replacements) {
    let texts: Vec<(&Node, &str)> = nodes.iter().filter_map(|node| Some((node, node.as_text()?))).collect();
    let redacted = mask::hide_in_arguments(texts.iter().map(|(_, text)| *text));
    for ((node, text), redacted) in texts.into_iter().zip(redacted) {
        if redacted != text {
            replacements.push((node.span.clone(), Json::String(redacted).to_string()));
        }
    }
    nodes.iter().filter(|node| node.as_text().is_none()).for_each(|node| hide(node, Context::Entry, replacements));
}

/// Adds the parts of `text` in which no comment can begin to `ranges`: keys, headers of tables, and values other than
/// lists and objects. They may contain `#` or `//`, which begin a comment elsewhere.
fn collect_comment_free_ranges(node: &Node, text: &str, ranges: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::List(nodes) => nodes.iter().for_each(|node| collect_comment_free_ranges(node, text, ranges)),
        Value::Map(members) => {
            if text[node.span.clone()].starts_with('[') {
                ranges.push(node.span.clone());
            }
            for member in members {
                ranges.push(member.name_span.clone());
                collect_comment_free_ranges(&member.node, text, ranges);
            }
        }
        _ => ranges.push(node.span.clone()),
    }
}

/// Hides the secrets in the comments of `text`. No comment can begin in the ranges `comment_free_ranges`.
fn hide_comments(
    text: &str,
    mut comment_free_ranges: Vec<Range<usize>>,
    is_toml: bool,
    replacements: &mut Replacements,
) {
    comment_free_ranges.push(text.len()..text.len());
    comment_free_ranges.sort_by_key(|range| range.start);
    let mut offset = 0;
    for comment_free_range in comment_free_ranges {
        while offset < comment_free_range.start {
            let rest = &text[offset..];
            let length = match is_toml {
                true => rest.starts_with('#').then(|| rest.find('\n').unwrap_or(rest.len())),
                false => comment_length(rest),
            };
            match length {
                Some(length) => {
                    let comment = &text[offset..offset + length];
                    let lines: Vec<String> = comment.split('\n').map(redacted_comment_line).collect();
                    replacements.push((offset..offset + length, lines.join("\n")));
                    offset += length;
                }
                None => offset += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        offset = offset.max(comment_free_range.end);
    }
}

/// Returns a line of a comment with its secrets hidden. Prose stays, but a commented-out setting may contain secrets.
fn redacted_comment_line(line: &str) -> String {
    let (marker, rest) = line.split_at(line.len() - line.trim_start_matches(['/', '*', '#', ' ', '\t']).len());
    let is_setting = rest.contains(['"', '\'', '=', ':']);
    format!("{marker}{}", if is_setting { mask_line(rest) } else { mask::hide_in_argument(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> String {
        redact_file(&Document::new(Some(path.into()), text))
    }

    #[test]
    fn a_file_is_shown_without_its_secrets() {
        let text = r#"{
  // note
  "mcpServers": {
    "a": { "command": "x", "args": ["--token", "canary"], "env": { "K": "canary" }, "oauth": { "client_secret": "canary" } },
  },
}"#;
        let shown = shown_json(text);
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(shown.lines().count(), text.lines().count());
        assert!(shown.contains(r#""args": ["--token", "***"]"#));
        let shown = shown_json(r#"{ "mcpServers": { "a": { "env": { "K": "canary" } "#);
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn secrets_outside_of_the_servers_are_hidden_too() {
        let text = r#"{
  "primaryApiKey": "canary", "theme": "dark", "account": { "refresh_token": ["canary"], "uuid": 7 },
  "history": ["this prompt is a long one, and it holds the word canary"],
  "mcpServers": { "auth-server": { "command": "npx", "env": { "K": "canary" } } },
  "projects": { "/p": { "mcpServers": { "a": { "environment": { "K": "canary", "PIN": 12345678 } } } } }
}"#;
        let shown = shown_json(text);
        assert!(!shown.contains("canary") && !shown.contains("12345678"), "{shown}");
        assert!(
            shown.contains(r#""command": "npx""#)
                && shown.contains(r#""theme": "dark""#)
                && shown.contains(r#""uuid": 7"#),
            "{shown}"
        );
    }

    #[test]
    fn a_server_called_like_a_container_hides_its_secrets_too() {
        for name in ["mcp_servers", "servers", "mcp"] {
            let entry = r#"{ "command": "npx", "args": ["--token", "canary"], "env": { "K": "canary" }, "apiKey": "canary",
                "oauth": { "client_secret": "canary" }, "headers": { "K": "canary" } }"#;
            let shown = shown_json(&format!(r#"{{ "mcpServers": {{ "{name}": {entry} }} }}"#));
            assert!(!shown.contains("canary") && shown.contains("npx"), "{shown}");
        }
        let shown =
            shown_json(r#"{ "mcp": { "servers": { "auth": { "command": "npx", "env": { "K": "canary" } } } } }"#);
        assert!(!shown.contains("canary") && shown.contains("npx"), "{shown}");
    }

    #[test]
    fn comments_are_shown_without_entries_that_are_commented_out() {
        let shown = shown_json(
            "{\n  // the usual // one\n  /* \"TOKEN\": \"canary\",\n     K: canary */\n  \"url\": \"https://x//y\" }",
        );
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("// the usual // one") && shown.contains("https://x//y"), "{shown}");
    }

    #[test]
    fn toml_is_shown_without_its_secrets() {
        let text = "# a note\n# token = \"canary\"\n[mcp_servers.\"a#b\"] # x\ncommand = \"x\"\nargs = [\"--token\", \"canary\"]\n\
                    env.K = 'canary'\nenv.L = \"\"\"\ncanary\n\"\"\" # end\n[mcp_servers.b.http_headers]\nA = \"Bearer canary\"\n";
        let shown = shown("f.toml", text);
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(shown.lines().count(), text.lines().count());
        assert!(shown.contains("# a note") && shown.contains("[mcp_servers.\"a#b\"] # x"), "{shown}");
        assert!(shown.contains("\"Bearer ***\""), "{shown}");
    }

    fn shown_json(text: &str) -> String {
        shown("f.json", text)
    }
}
