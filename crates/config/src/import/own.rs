//! Recognizes Toolrack's own gateway among the servers of other programs. The gateway is one MCP server that offers the
//! tools of all servers.

use std::path::Path;

use serde_json::Value as Json;

/// Returns whether `entry`, in the format of any program, is Toolrack's own gateway: the command `toolrack gateway`, or
/// the endpoint of a daemon with the variable `TOOLRACK_TOKEN`, as `toolrack connect` writes it.
pub(crate) fn is_gateway(entry: &Json) -> bool {
    let text = |field: &str| entry.get(field).and_then(Json::as_str);
    if let Some(words) = command_words(entry) {
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        let is_toolrack = Path::new(program).file_stem().is_some_and(|stem| stem == "toolrack");
        return is_toolrack && words.next() == Some("gateway");
    }
    let is_endpoint = ["url", "httpUrl", "serverUrl"].iter().filter_map(|field| text(field)).any(is_daemon_endpoint);
    is_endpoint && entry.to_string().contains("TOOLRACK_TOKEN")
}

/// Returns whether `url` has the path of an endpoint of a daemon: `/mcp`, or a path that ends in it.
fn is_daemon_endpoint(url: &str) -> bool {
    url.split(['?', '#']).next().is_some_and(|url| url.trim_end_matches('/').ends_with("/mcp"))
}

/// Returns the command of `entry` with its arguments.
fn command_words(entry: &Json) -> Option<Vec<&str>> {
    let command = entry.get("command")?;
    // In Zed's older format, `command` is an object with a `path` and `args`.
    let (command, args) = match command {
        Json::Object(parts) => (parts.get("path")?, parts.get("args")),
        command => (command, entry.get("args")),
    };
    let mut words = Vec::new();
    push_texts(&mut words, command);
    args.into_iter().for_each(|args| push_texts(&mut words, args));
    Some(words)
}

fn push_texts<'a>(words: &mut Vec<&'a str>, value: &'a Json) {
    match value {
        Json::Array(values) => words.extend(values.iter().filter_map(Json::as_str)),
        value => words.extend(value.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_gateway_is_known_in_the_words_of_every_program() {
        for ours in [
            json!({ "command": "toolrack", "args": ["gateway"] }),
            json!({ "type": "stdio", "command": "/opt/bin/toolrack", "args": ["gateway", "--server", "x"] }),
            json!({ "type": "local", "command": ["toolrack", "gateway"] }),
            json!({ "command": { "path": "toolrack", "args": ["gateway"] } }),
            json!({ "url": "http://127.0.0.1:7717/mcp", "headers": { "Authorization": "Bearer ${env:TOOLRACK_TOKEN}" } }),
            json!({ "url": "http://127.0.0.1:7717/mcp", "bearer_token_env_var": "TOOLRACK_TOKEN" }),
        ] {
            assert!(is_gateway(&ours), "{ours}");
        }
        for other in [
            json!({ "command": "toolrack", "args": ["call"] }),
            json!({ "command": "npx", "args": ["toolrack", "gateway"] }),
            json!({ "command": "mcp-toolrack", "args": ["gateway"] }),
            json!({ "url": "http://127.0.0.1:7717/mcp" }),
            json!({ "url": "https://example.com/x", "headers": { "X": "TOOLRACK_TOKEN" } }),
            json!(null),
        ] {
            assert!(!is_gateway(&other), "{other}");
        }
    }
}
