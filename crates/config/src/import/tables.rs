//! The meaning that the fields of each program's entries have here.
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

/// The meaning that a field of another program has here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The transport of the server.
    Type,
    /// The program, or a list of it and its arguments.
    Command,
    /// Texts that may contain placeholders, with this name here.
    Texts(&'static str),
    /// The folder that the server runs in.
    Folder,
    /// The address; of two, the first one in the table is used.
    Address(Address),
    /// The same field with this name here, unchanged.
    Same(&'static str),
    /// Names of tools that are shown, or hidden.
    Tools(&'static str),
    /// A time in milliseconds, for each of these bounds of ours.
    Milliseconds(&'static [&'static str]),
    /// A time in seconds, for each of these bounds of ours.
    Seconds(&'static [&'static str]),
    /// An object of times in milliseconds (opencode 2).
    Times,
    /// Names of variables that the child inherits.
    Inherited,
    /// Headers whose values are in variables.
    VariableHeaders,
    /// The variable with a bearer token.
    BearerVariable,
    /// A file of variables.
    EnvFile,
    /// A field without a counterpart here, for this reason.
    Nothing(&'static str),
    /// A field that is not needed here.
    Needless,
}

/// The transport of an address when no other field names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Streamable HTTP.
    Http,
    /// SSE.
    Sse,
    /// Either: the program tries HTTP first, then SSE.
    Either,
}

use Meaning::{
    BearerVariable, Command, EnvFile, Folder, Inherited, Milliseconds, Needless, Nothing, Same, Seconds, Texts, Times,
    Tools, Type, VariableHeaders,
};

type Table = &'static [(&'static str, Meaning)];

/// The fields of all programs.
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

const ASKS: &str = "which tools may run unasked is decided here";
const SIGN_IN: &str = "settings for signing in are not taken over";

const CLAUDE: Table = &[
    ("url", Meaning::Address(Address::Http)),
    // The total time of a call, even with progress.
    ("timeout", Milliseconds(&["call_timeout", "max_call_time"])),
    (
        "headers_helper",
        Nothing("a program that prints headers is not taken over; if you want it run, write `headers_helper`"),
    ),
    ("oauth", Nothing(SIGN_IN)),
    ("always_load", Nothing("all tools are shown")),
];

const DESKTOP: Table = &[("url", Meaning::Address(Address::Http))];

const CURSOR: Table = &[
    ("url", Meaning::Address(Address::Either)),
    ("server_url", Meaning::Address(Address::Either)),
    ("env_file", EnvFile),
    ("auth", Nothing(SIGN_IN)),
    ("auto_approve", Nothing(ASKS)),
];

/// The reason why VS Code's sandbox is not converted: it has another meaning.
const SANDBOX: &str = "it runs without a sandbox until its entry says `\"sandbox\": true`";

const VS_CODE: Table = &[
    ("url", Meaning::Address(Address::Either)),
    ("env_file", EnvFile),
    ("dev", Nothing("servers are not watched or debugged")),
    ("sandbox", Nothing(SANDBOX)),
    ("sandbox_enabled", Nothing(SANDBOX)),
    ("gallery", Nothing("it says where VS Code has the entry from")),
    ("version", Nothing("it says where VS Code has the entry from")),
    ("oauth", Nothing(SIGN_IN)),
];

const WINDSURF: Table = &[
    ("server_url", Meaning::Address(Address::Either)),
    ("url", Meaning::Address(Address::Either)),
    ("disabled_tools", Tools("deny")),
    ("always_allow", Nothing(ASKS)),
];

const CODEX: Table = &[
    ("url", Meaning::Address(Address::Http)),
    ("env_vars", Inherited),
    ("http_headers", Texts("headers")),
    ("env_http_headers", VariableHeaders),
    ("bearer_token_env_var", BearerVariable),
    ("bearer_token", Nothing("Codex refuses a token that is written out")),
    ("startup_timeout_sec", Seconds(&["startup_timeout"])),
    ("startup_timeout_ms", Milliseconds(&["startup_timeout"])),
    ("tool_timeout_sec", Seconds(&["call_timeout"])),
    ("enabled_tools", Tools("allow")),
    ("disabled_tools", Tools("deny")),
    ("required", Nothing("no server keeps the others from starting")),
    ("supports_parallel_tool_calls", Nothing("calls of one turn run side by side anyway")),
    ("default_tools_approval_mode", Nothing(ASKS)),
    ("tools", Nothing(ASKS)),
    ("experimental_environment", Nothing("servers run on this machine")),
    ("scopes", Nothing(SIGN_IN)),
    ("oauth", Nothing(SIGN_IN)),
    ("oauth_resource", Nothing(SIGN_IN)),
];

const GEMINI: Table = &[
    ("http_url", Meaning::Address(Address::Http)),
    ("url", Meaning::Address(Address::Sse)),
    ("include_tools", Tools("allow")),
    ("exclude_tools", Tools("deny")),
    // The time-out of every request.
    ("timeout", Milliseconds(&["startup_timeout", "list_timeout", "call_timeout"])),
    ("trust", Nothing(ASKS)),
    ("oauth", Nothing(SIGN_IN)),
    ("auth_provider_type", Nothing(SIGN_IN)),
    ("target_audience", Nothing(SIGN_IN)),
    ("target_service_account", Nothing(SIGN_IN)),
];

const OPENCODE: Table = &[
    ("url", Meaning::Address(Address::Either)),
    ("environment", Texts("env")),
    // Version 1: of connecting and of listing the tools. Version 2 has an object.
    ("timeout", Times),
    ("oauth", Nothing(SIGN_IN)),
    ("codemode", Nothing("tools are called one by one")),
];

const ZED: Table = &[
    ("url", Meaning::Address(Address::Http)),
    // Marks an entry that the user wrote, as opposed to an extension of Zed's.
    ("source", Needless),
    ("settings", Nothing("they are for an extension of Zed's")),
    ("timeout", Seconds(&["call_timeout"])),
    ("remote", Nothing("servers run on this machine")),
    ("oauth", Nothing(SIGN_IN)),
];

const QBIT: Table = &[("url", Meaning::Address(Address::Http)), ("timeout", Seconds(&["startup_timeout"]))];

/// Returns the meaning of the field `name` of `client`; `None` for an undocumented one.
pub(super) fn meaning(client: Client, name: &str) -> Option<Meaning> {
    let own = own(client).iter();
    own.chain(COMMON).find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// Returns the rank of an address field of `client` in its table; the lowest one is used.
pub(super) fn rank(client: Client, name: &str) -> usize {
    own(client).iter().position(|(known, _)| *known == name).unwrap_or(usize::MAX)
}

fn own(client: Client) -> Table {
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
