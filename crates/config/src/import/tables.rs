//! Lists the fields in the entries of other programs, each with its meaning for Toolrack.
//!
//! Names are in the comparable form of [`canonical`](crate::entry::canonical). Sources, read in November 2026:
//!
//! - Claude Code: code.claude.com/docs/en/mcp
//! - Claude Desktop: modelcontextprotocol.io/docs/develop/connect-local-servers
//! - Cursor: cursor.com/docs/mcp
//! - VS Code: code.visualstudio.com/docs/copilot/reference/mcp-configuration
//! - Windsurf: docs.windsurf.com/windsurf/cascade/mcp
//! - Codex: `RawMcpServerConfig` in openai/codex, codex-rs/config/src/mcp_types.rs
//! - Gemini CLI: docs/tools/mcp-server.md in google-gemini/gemini-cli
//! - opencode: opencode.ai/docs/mcp-servers for version 1, opencode.ai/v2/docs/mcp-servers for version 2
//! - Qbit, Synapse: their designs of MCP support
//! - Zed: docs/src/ai/mcp.md and `ContextServerSettingsContent` in zed-industries/zed

use super::Client;

/// The meaning of another program's field for Toolrack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The transport of the server.
    Type,
    /// The program, or a list of it and its arguments.
    Command,
    /// Texts that may contain placeholders, with this name in Toolrack.
    Texts(&'static str),
    /// The folder that the server runs in.
    Folder,
    /// The address of the server. If an entry has several such fields, the one that comes first in the table is used.
    Address(UrlTransport),
    /// A field with this name in Toolrack, whose value stays unchanged.
    Same(&'static str),
    /// Names of tools for this list of Toolrack's `tools`: `allow` or `deny`.
    Tools(&'static str),
    /// A time in milliseconds, to which each of these fields of Toolrack is set.
    Milliseconds(&'static [&'static str]),
    /// A time in seconds, to which each of these fields of Toolrack is set.
    Seconds(&'static [&'static str]),
    /// opencode's times in milliseconds: a number, or an object of them (version 2).
    OpenCodeTimes,
    /// Names of variables that the server's process inherits.
    Inherited,
    /// Headers whose values are in variables.
    VariableHeaders,
    /// The variable with a bearer token.
    BearerVariable,
    /// A file of variables.
    EnvFile,
    /// A field without a counterpart in Toolrack. The text is the reason, for a note.
    LeftOut(&'static str),
    /// A field that is left out without a note, because Toolrack needs nothing like it.
    Ignored,
}

/// The transport that a field with the server's address implies, if the entry has no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlTransport {
    /// Streamable HTTP.
    Http,
    /// SSE.
    Sse,
    /// Either: the program tries HTTP first, then SSE.
    Either,
}

use Meaning::{
    BearerVariable, Command, EnvFile, Folder, Ignored, Inherited, LeftOut, Milliseconds, OpenCodeTimes, Same, Seconds,
    Texts, Tools, Type, VariableHeaders,
};

/// The fields of the other program, each with its meaning. Names are in snake_case.
type Table = &'static [(&'static str, Meaning)];

/// The fields that mean the same in the files of all programs.
const COMMON: Table = &[
    ("type", Type),
    ("transport", Type),
    ("command", Command),
    ("args", Texts("args")),
    ("env", Texts("env")),
    ("cwd", Folder),
    ("headers", Texts("headers")),
    ("enabled", Same("enabled")),
    ("disabled", Same("disabled")),
    ("description", Same("description")),
];

const APPROVALS: &str = "Toolrack's own policy decides which tools run without a question";
const SIGN_IN: &str = "settings for signing in are not imported";

const CLAUDE: Table = &[
    ("url", Meaning::Address(UrlTransport::Http)),
    // The total time of a call, even with progress.
    ("timeout", Milliseconds(&["call_timeout", "max_call_time"])),
    (
        "headers_helper",
        LeftOut("a program that prints headers is not imported; if you want it to run, write `headers_helper`"),
    ),
    ("oauth", LeftOut(SIGN_IN)),
    ("always_load", LeftOut("all tools are shown")),
];

const DESKTOP: Table = &[("url", Meaning::Address(UrlTransport::Http))];

const CURSOR: Table = &[
    ("url", Meaning::Address(UrlTransport::Either)),
    ("server_url", Meaning::Address(UrlTransport::Either)),
    ("env_file", EnvFile),
    ("auth", LeftOut(SIGN_IN)),
    ("auto_approve", LeftOut(APPROVALS)),
];

/// The note about VS Code's sandbox, which is not converted because it confines other things than Toolrack's.
const SANDBOX: &str = "the server runs without a sandbox until its entry says `\"sandbox\": true`";

const VS_CODE: Table = &[
    ("url", Meaning::Address(UrlTransport::Either)),
    ("env_file", EnvFile),
    ("dev", LeftOut("servers are not watched or debugged")),
    ("sandbox", LeftOut(SANDBOX)),
    ("sandbox_enabled", LeftOut(SANDBOX)),
    ("gallery", LeftOut("it only says where VS Code got the entry")),
    ("version", LeftOut("it only says where VS Code got the entry")),
    ("oauth", LeftOut(SIGN_IN)),
];

const WINDSURF: Table = &[
    ("server_url", Meaning::Address(UrlTransport::Either)),
    ("url", Meaning::Address(UrlTransport::Either)),
    ("disabled_tools", Tools("deny")),
    ("always_allow", LeftOut(APPROVALS)),
];

const CODEX: Table = &[
    ("url", Meaning::Address(UrlTransport::Http)),
    ("env_vars", Inherited),
    ("http_headers", Texts("headers")),
    ("env_http_headers", VariableHeaders),
    ("bearer_token_env_var", BearerVariable),
    ("bearer_token", LeftOut("Codex refuses a literal token")),
    ("startup_timeout_sec", Seconds(&["startup_timeout"])),
    ("startup_timeout_ms", Milliseconds(&["startup_timeout"])),
    ("tool_timeout_sec", Seconds(&["call_timeout"])),
    ("enabled_tools", Tools("allow")),
    ("disabled_tools", Tools("deny")),
    ("required", LeftOut("in Toolrack, no server can keep the others from starting")),
    ("supports_parallel_tool_calls", LeftOut("calls of one turn run in parallel anyway")),
    ("default_tools_approval_mode", LeftOut(APPROVALS)),
    ("tools", LeftOut(APPROVALS)),
    ("experimental_environment", LeftOut("servers run on this machine")),
    ("scopes", LeftOut(SIGN_IN)),
    ("oauth", LeftOut(SIGN_IN)),
    ("oauth_resource", LeftOut(SIGN_IN)),
];

const GEMINI: Table = &[
    ("http_url", Meaning::Address(UrlTransport::Http)),
    ("url", Meaning::Address(UrlTransport::Sse)),
    ("include_tools", Tools("allow")),
    ("exclude_tools", Tools("deny")),
    // The time-out of every request.
    ("timeout", Milliseconds(&["startup_timeout", "list_timeout", "call_timeout"])),
    ("trust", LeftOut(APPROVALS)),
    ("oauth", LeftOut(SIGN_IN)),
    ("auth_provider_type", LeftOut(SIGN_IN)),
    ("target_audience", LeftOut(SIGN_IN)),
    ("target_service_account", LeftOut(SIGN_IN)),
];

const OPENCODE: Table = &[
    ("url", Meaning::Address(UrlTransport::Either)),
    ("environment", Texts("env")),
    // In version 1 the time-out of connecting and of listing the tools, in version 2 an object.
    ("timeout", OpenCodeTimes),
    ("oauth", LeftOut(SIGN_IN)),
    ("codemode", LeftOut("tools are called one by one")),
];

const ZED: Table = &[
    ("url", Meaning::Address(UrlTransport::Http)),
    // Marks an entry that the user wrote, as opposed to an extension of Zed's.
    ("source", Ignored),
    ("settings", LeftOut("they are for an extension of Zed's")),
    ("timeout", Seconds(&["call_timeout"])),
    ("remote", LeftOut("servers run on this machine")),
    ("oauth", LeftOut(SIGN_IN)),
];

const QBIT: Table = &[("url", Meaning::Address(UrlTransport::Http)), ("timeout", Seconds(&["startup_timeout"]))];

/// Returns the meaning of the field `name` of `client`; `None` for an undocumented one.
pub(super) fn meaning(client: Client, name: &str) -> Option<Meaning> {
    fields(client).find(|(field, _)| *field == name).map(|(_, meaning)| meaning)
}

/// Returns all fields of `client`, each with its meaning.
pub(super) fn fields(client: Client) -> impl Iterator<Item = (&'static str, Meaning)> {
    table_of(client).iter().chain(COMMON).copied()
}

/// Returns the rank of an address field of `client`: its position in the table. Of several addresses, the one with the
/// lowest rank is used.
pub(super) fn address_rank(client: Client, name: &str) -> usize {
    table_of(client).iter().position(|(field, _)| *field == name).unwrap_or(usize::MAX)
}

fn table_of(client: Client) -> Table {
    match client {
        Client::ClaudeCode => CLAUDE,
        Client::ClaudeDesktop => DESKTOP,
        Client::Cursor => CURSOR,
        Client::VsCode => VS_CODE,
        Client::Windsurf => WINDSURF,
        Client::Codex => CODEX,
        Client::Gemini => GEMINI,
        Client::OpenCode => OPENCODE,
        Client::Zed => ZED,
        Client::Qbit => QBIT,
        Client::Synapse => &[],
    }
}
