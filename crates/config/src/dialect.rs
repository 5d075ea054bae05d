//! Reads the dialects of configuration files: the formats of several programs, which list servers at different places.
//!
//! | file | servers |
//! |---|---|
//! | Claude Code, Claude Desktop, Cursor, Windsurf, Toolrack | `{ "mcpServers": { name: … } }` |
//! | VS Code | `{ "servers": { name: … } }`, or `"mcp": { "servers": … }` among settings |
//! | opencode | `{ "mcp": { name: … } }`, or `"mcp": { "servers": … }` in its version 2 |
//! | bare | `{ name: … }` |
//! | Codex | `[mcp_servers.name]` in TOML |
//! | `toolrack.toml` | `[[defaults.mcp]]` with `name = …`, and `[[agents.mcp]]` below `[[agents]]` with `id = …` |
//!
//! JSON may have comments and trailing commas. An entry (the configuration of one server) has the same meaning
//! everywhere (see [`crate::entry`]), except for one field: in `.gemini/settings.json`, `url` is an address of SSE.

pub(crate) mod json;
pub(crate) mod toml;

use std::path::Path;

use crate::{
    document::Document,
    node::{Member, Node},
    problem::Problem,
};

/// The servers of one file, in the order of the file, and the problems that concern no single server.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// The entries as they are written.
    pub(crate) entries: Vec<Member>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) problems: Vec<Problem>,
}

/// The servers of one agent, in addition to the shared servers. A server replaces a shared one of the same name.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) entries: Vec<Member>,
}

/// Finds the servers of `document`. The name of the file determines whether it is TOML; any other file is JSON.
///
/// # Errors
/// The file cannot be parsed, or the place of its servers has a value that is not an object of servers.
pub(crate) fn servers(document: &Document) -> Result<Servers, Box<Problem>> {
    if document.path.as_deref().is_some_and(is_toml) { toml::servers(document) } else { json::servers(document) }
}

/// Parses `document`; `None` when it has only comments.
///
/// # Errors
/// The file cannot be parsed.
pub(crate) fn parse(document: &Document) -> Result<Option<Node>, Box<Problem>> {
    if document.path.as_deref().is_some_and(is_toml) { toml::parse(document).map(Some) } else { json::parse(document) }
}

/// Returns whether the name of the file is one of a TOML file.
pub(crate) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Returns a parser's message with its first letter in lower case, as in all messages of Toolrack.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Returns the error that `node` is not an object. `subject` is its name in the message.
pub(crate) fn not_an_object(document: &Document, node: &Node, subject: &str) -> Box<Problem> {
    let message = format!("{subject} must be an object of servers, not {}", node.kind());
    Box::new(document.locate(Problem::error(message), node.span.clone()))
}
