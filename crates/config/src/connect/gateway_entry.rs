//! Writes the entry (the configuration of one server) of Toolrack's gateway, in the format of each program. The gateway
//! is one MCP server that offers the tools of all servers.
//!
//! [`import`](crate::import) names the documentation of the formats.

use serde_json::{Map, Value as Json, json};

use super::ConnectError;
use crate::import::Client;

/// The environment variable with the daemon's token, for a program that connects to the daemon over HTTP. The entry
/// names only this variable, so that no file contains the token.
pub const TOKEN_VARIABLE: &str = "TOOLRACK_TOKEN";

/// The way in which a program reaches Toolrack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The program starts a gateway.
    Program {
        /// The gateway's program.
        command: String,
        /// The arguments of the gateway.
        args: Vec<String>,
    },
    /// The program connects to the endpoint of a daemon.
    Http {
        /// The address.
        url: String,
    },
}

/// The fields that say how a server is reached, in the formats of all programs. A new connection replaces them all.
const TRANSPORT_FIELDS: &[&str] = &[
    "type",
    "transport",
    "source",
    "command",
    "args",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "bearer_token_env_var",
];

/// Returns the new entry for `client`.
pub(super) fn entry(client: Client, reach: &Reach) -> Result<Json, ConnectError> {
    match reach {
        Reach::Program { command, args } => Ok(stdio_entry(client, command, args)),
        Reach::Http { url } => http_entry(client, url),
    }
}

fn stdio_entry(client: Client, command: &str, args: &[String]) -> Json {
    match client {
        Client::ClaudeCode | Client::VsCode => json!({ "type": "stdio", "command": command, "args": args }),
        Client::ClaudeDesktop
        | Client::Cursor
        | Client::Windsurf
        | Client::Codex
        | Client::Gemini
        | Client::Qbit
        | Client::Synapse => json!({ "command": command, "args": args }),
        Client::OpenCode => {
            let command_line: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
            json!({ "type": "local", "command": command_line })
        }
        // Versions before `source` was made optional refuse an entry without it.
        Client::Zed => json!({ "source": "custom", "command": command, "args": args }),
    }
}

fn http_entry(client: Client, url: &str) -> Result<Json, ConnectError> {
    let headers = |placeholder: &str| json!({ "Authorization": format!("Bearer {placeholder}") });
    let unsupported = |why| Err(ConnectError::NoHttp { client, why });
    match client {
        Client::ClaudeCode => Ok(json!({ "type": "http", "url": url, "headers": headers(&token_placeholder("")) })),
        Client::VsCode => Ok(json!({ "type": "http", "url": url, "headers": headers(&token_placeholder("env:")) })),
        Client::Cursor => Ok(json!({ "url": url, "headers": headers(&token_placeholder("env:")) })),
        Client::Windsurf => Ok(json!({ "serverUrl": url, "headers": headers(&token_placeholder("env:")) })),
        Client::Gemini => Ok(json!({ "httpUrl": url, "headers": headers(&token_placeholder("")) })),
        Client::Qbit => Ok(json!({ "transport": "http", "url": url, "headers": headers(&token_placeholder("")) })),
        Client::Codex => Ok(json!({ "url": url, "bearer_token_env_var": TOKEN_VARIABLE })),
        Client::OpenCode => {
            Ok(json!({ "type": "remote", "url": url, "headers": headers(&format!("{{env:{TOKEN_VARIABLE}}}")) }))
        }
        Client::ClaudeDesktop | Client::Synapse => unsupported("its file has only servers that it starts"),
        Client::Zed => unsupported("it looks up no variables in headers, so the token would be in its file"),
    }
}

/// Returns the placeholder `${TOOLRACK_TOKEN}`, with `prefix` before the name, such as `env:`.
fn token_placeholder(prefix: &str) -> String {
    format!("${{{prefix}{TOKEN_VARIABLE}}}")
}

/// Returns `new_entry` with the further fields of the entry `existing`. Leaves out the fields of its transport, because
/// the new entry may use another transport.
pub(super) fn merged(existing: &Map<String, Json>, new_entry: Json) -> Json {
    let Json::Object(mut new_entry) = new_entry else { return new_entry };
    for (field, value) in existing.iter().filter(|(field, _)| !TRANSPORT_FIELDS.contains(&field.as_str())) {
        new_entry.entry(field.clone()).or_insert_with(|| value.clone());
    }
    Json::Object(new_entry)
}
