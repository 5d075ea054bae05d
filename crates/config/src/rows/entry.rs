//! The rows of the fields of an entry (the configuration of one server), in the order in which they are read. A row has
//! the static facts of one field.

use serde_json::{Value as Json, json};
use toolrack_host::{
    ServerSpec, Who,
    spec::{Container, Engine, FieldScope, Grant, Http, Limits, Protocol, Retry, Sandbox, Stdio, Timeouts},
};

use super::{
    Hidden::{Everything as Secret, Parts},
    Kind::{Either, Flag, Map, Milliseconds, Number, Ports, Size, Table as Object, Text, Texts, Time, Whole, Words},
    Row,
    SpecSetting::{Other, SameAs, SandboxFlag},
    Table,
    fields::{all_rows, count, rows},
};

/// The value of `retry`, a number of attempts to reconnect.
pub(crate) const ATTEMPTS: super::Kind = Whole { min: 0, max: Retry::MAX_ATTEMPTS };
/// The value of `processes`, the number of processes of a server at once.
const PROCESSES: super::Kind = Whole { min: 1, max: u16::MAX as u64 };

/// The fields of an entry.
pub(crate) const ENTRY: &Table =
    &Table { title: "entry", is_closed: false, rows: &all_rows::<{ count(ROW_GROUPS) }>(ROW_GROUPS) };

/// The rows of an entry, in the order in which an entry is shown. Rows of fields of the host are in the host's crate.
const ROW_GROUPS: &[&[Row]] = &[
    SERVER,
    &rows::<{ Stdio::FIELDS.len() }>(Stdio::FIELDS),
    &rows::<{ Http::FIELDS.len() }>(Http::FIELDS),
    PROTOCOL,
    &rows::<{ Timeouts::FIELDS.len() }>(Timeouts::FIELDS),
    &rows::<{ Limits::FIELDS.len() }>(Limits::FIELDS),
    RESPONSE_BYTES,
    &rows::<{ ServerSpec::FIELDS.len() }>(ServerSpec::FIELDS),
    TOOLS_AND_RETRIES,
];

/// The fields about the way to reach the server.
const SERVER: &[Row] = &[
    Row::new(
        "enabled",
        Flag,
        "Whether the server is started. An entry with nothing else enables or disables the entry of the same name \
         in a lower layer.",
    )
    .by_default(|| json!(true))
    .characteristic(),
    Row::new("disabled", Flag, "The opposite of `enabled`, as other programs write it.")
        .by_default(|| json!(false))
        .shown_as("enabled")
        .characteristic(),
    Row::new(
        "type",
        Words(TYPES),
        "How the server is reached. `sse` is the transport of 2024-11-05, which is used only if this field names it.",
    )
    .aliases(&[("transport", "other programs")])
    .otherwise("`stdio` with `command` or `container`, `http` with `url`")
    .identity()
    .characteristic(),
    Row::new(
        "container",
        Either(&[Text, Object(CONTAINER)]),
        "The container in which the server runs: an image, or a table with an image and options. `command` and \
         `cwd` then refer to the image.",
    )
    .servers(FieldScope::Stdio)
    .filled()
    .otherwise("none")
    .identity()
    .characteristic(),
    Row::new(
        "command",
        Either(&[Text, Texts]),
        "The program: a path, or a name that is looked up in `PATH`. A list is the program with its arguments \
         (opencode).",
    )
    .servers(FieldScope::Stdio)
    .filled()
    .identity()
    .hidden(Parts)
    .characteristic(),
    Row::new("args", Texts, "The arguments of the program. No shell splits or expands them.")
        .servers(FieldScope::Stdio)
        .filled()
        .identity()
        .hidden(Parts)
        .otherwise("none"),
    Row::new("env", Map, "Variables of the program. They override inherited ones.")
        .aliases(&[("environment", "opencode")])
        .servers(FieldScope::Stdio)
        .filled()
        .identity()
        .hidden(Secret)
        .otherwise("none"),
    Row::new(
        "cwd",
        Text,
        "The working folder of the program. `~/` at its beginning is the home folder, as in `command`.",
    )
    .aliases(&[("chdir", "other programs")])
    .servers(FieldScope::Stdio)
    .filled()
    .identity()
    .otherwise("the project's folder for an entry of a project, else an empty folder of its own"),
    Row::new(
        "env_vars",
        Texts,
        "Names of variables that the program inherits in addition to the harmless ones, as Codex writes them.",
    )
    .servers(FieldScope::Stdio)
    .identity()
    .shown_as("inherit_env")
    .otherwise("none"),
    Row::new(
        "inherit_env",
        Either(&[Words(&["safe", "all", "none"]), Texts]),
        "Which variables the program inherits: harmless ones such as `PATH` and `HOME`, all, none, or the \
         harmless ones and those of a list.",
    )
    .servers(FieldScope::Stdio)
    .identity()
    .by_default(|| json!("safe")),
    Row::new("sandbox", Either(&[Flag, Object(SANDBOX)]), "Confines the program and all that it starts (Linux).")
        .servers(FieldScope::Stdio)
        .by_default(|| json!(false)),
    Row::new("url", Text, "The address of the server, with `http://` or `https://`.")
        .aliases(&[("http_url", "Gemini CLI"), ("server_url", "Windsurf")])
        .servers(FieldScope::Http)
        .filled()
        .identity()
        .hidden(Parts)
        .characteristic(),
    Row::new("headers", Map, "Headers of every request.")
        .aliases(&[("http_headers", "Codex")])
        .servers(FieldScope::Http)
        .filled()
        .identity()
        .hidden(Secret)
        .otherwise("none"),
    Row::new(
        "env_http_headers",
        Map,
        "Headers whose values are in variables: for each header the name of its variable, as Codex writes them.",
    )
    .servers(FieldScope::Http)
    .identity()
    .shown_as("headers")
    .otherwise("none"),
    Row::new(
        "bearer_token_env_var",
        Text,
        "The variable that holds the token for `Authorization: Bearer`, as Codex writes it.",
    )
    .servers(FieldScope::Http)
    .identity()
    .shown_as("headers")
    .otherwise("none"),
    Row::new(
        "headers_helper",
        Either(&[Text, Texts]),
        "A program that prints headers as a JSON object: a list, or a line that is split into words without a \
         shell. With it there is no sign-in.",
    )
    .servers(FieldScope::Http)
    .filled()
    .identity()
    .hidden(Parts)
    .otherwise("none"),
    Row::new(
        "oauth",
        Object(OAUTH),
        "How to sign in with OAuth 2.1, where the server asks for it and no `Authorization` header is \
         configured.",
    )
    .aliases(&[("auth", "Cursor")])
    .servers(FieldScope::Http)
    .otherwise("as the server says"),
];

/// The fields about the protocol.
const PROTOCOL: &[Row] = &[
    Row::new(
        "protocol",
        Words(Protocol::WORDS),
        "The eras of MCP that may be spoken: `legacy` is 2025-11-25 and older, `modern` 2026-07-28.",
    )
    .by_default(|| json!(Protocol::default())),
    Row::new(
        "timeout",
        Either(&[Time, Milliseconds, Object(TIMES)]),
        "A number below 1000, or a time with a unit, is the same as `startup_timeout`. A number of 1000 or more is the \
         whole time of a call in milliseconds (Claude Code). An object is opencode's.",
    )
    .shown_as("startup_timeout"),
];

/// The maximum size of a message, under the name of HTTP clients.
const RESPONSE_BYTES: &[Row] = &[Row::new(
    "max_response_bytes",
    Whole { min: 1024, max: 1024 * 1024 * 1024 },
    "The same as `max_message_bytes`, under the name that HTTP clients use.",
)
.servers(FieldScope::Http)
.sets(SameAs("max_message_bytes"))
.shown_as("max_message_bytes")];

/// The fields about the members who have the server, the attempts to restart a lost server, and the tools.
const TOOLS_AND_RETRIES: &[Row] = &[
    Row::new(
        "for",
        Texts,
        "The members of a team who have the server, each item one of `group:NAME`, `role:NAME`, `person:SUBJECT`, \
         `service:SUBJECT`. Without a team it has no effect.",
    )
    .sets(Other(|spec| match &*spec.members {
        [] => Json::Null,
        members => members.iter().map(Who::written).collect(),
    }))
    .otherwise("all"),
    Row::new(
        "retry",
        Either(&[ATTEMPTS, Flag, Words(&["off", "on"])]),
        "How often a lost server is started again before it counts as failed; with `false` or `off`, never.",
    )
    .sets(Other(|spec| json!(spec.retry.attempts))),
    Row::new(
        "tools",
        Either(&[Texts, Object(TOOL_LISTS)]),
        "The tools that are offered: names and globs such as `read_*`, or `allow` and `deny`.",
    )
    .otherwise("all"),
    Row::new("enabled_tools", Texts, "The same as `tools.allow`.")
        .aliases(&[("include_tools", "Gemini CLI")])
        .shown_as("tools")
        .otherwise("all"),
    Row::new("disabled_tools", Texts, "The same as `tools.deny`.")
        .aliases(&[("exclude_tools", "Gemini CLI")])
        .shown_as("tools")
        .otherwise("none"),
];

/// The values of `type`. The words after `sse` come from other programs, the last two from opencode.
const TYPES: &[&str] =
    &["stdio", "http", "sse", "streamable-http", "streamableHttp", "streamable_http", "local", "remote"];

/// Fields that only describe the entry.
pub(crate) const NOTES: &Table = &Table {
    title: "notes",
    is_closed: false,
    rows: &[
        Row::new("description", Text, "A note without any effect."),
        Row::new("name", Text, "A note without any effect. In a list of `toolrack.toml` it is the name of the server."),
        Row::new("title", Text, "A note without any effect."),
    ],
};

/// opencode's time-outs.
const TIMES: &Table = &Table {
    title: "timeout",
    is_closed: true,
    rows: &[
        Row::new("startup", Milliseconds, "The same as `startup_timeout`, in milliseconds."),
        Row::new("catalog", Milliseconds, "The same as `list_timeout`, in milliseconds."),
        Row::new("execution", Milliseconds, "The same as `call_timeout`, in milliseconds."),
        Row::new("request", Milliseconds, "`list_timeout` and `call_timeout`, in milliseconds."),
    ],
};

pub(crate) const TOOL_LISTS: &Table = &Table {
    title: "tools",
    is_closed: true,
    rows: &[
        Row::new("allow", Texts, "The tools that are offered. An empty list offers none.").otherwise("all"),
        Row::new("deny", Texts, "Tools that are not offered, although `allow` has them.").otherwise("none"),
    ],
};

pub(crate) const SANDBOX: &Table = &Table {
    title: "sandbox",
    is_closed: true,
    rows: &[
        Row::new(
            "read",
            Texts,
            "Files and folders that the server may read and run programs from, in addition to those of the system.",
        )
        .filled()
        .otherwise("none"),
        Row::new(
            "write",
            Texts,
            "Files and folders that it may change, in addition to its working folder and its own home folder.",
        )
        .filled()
        .otherwise("none"),
        Row::new("connect", Either(&[Words(&["any"]), Ports { min: 0 }]), "TCP ports that it may connect to.")
            .by_default(|| json!([53, 443])),
        Row::new("bind", Either(&[Words(&["any"]), Ports { min: 0 }]), "TCP ports that it may listen on.")
            .by_default(|| json!([])),
        Row::new("best_effort", Flag, "Starts the server even if the system cannot enforce the whole sandbox.")
            .sets(SandboxFlag(|sandbox| &mut sandbox.best_effort)),
        Row::new("udp", Flag, "Allows it to use UDP, and to list the network interfaces.")
            .sets(SandboxFlag(|sandbox| &mut sandbox.udp)),
        Row::new("limits", Object(SANDBOX_LIMITS), "Limits of its use of the machine's resources."),
    ],
};

pub(crate) const SANDBOX_LIMITS: &Table = &Table {
    title: "sandbox.limits",
    is_closed: true,
    rows: &[
        Row::new("memory", Size { min: 1 << 20 }, "The memory of each process, without what it shares with others.")
            .otherwise("no bound"),
        Row::new("processes", PROCESSES, "Processes at once, including all that it starts.")
            .by_default(|| json!(Sandbox::default().processes)),
        Row::new("files", Whole { min: 16, max: 1 << 20 }, "Open files of each process.").otherwise("no bound"),
        Row::new("cpu", Time, "The processor time of each process, at least a second.").otherwise("no bound"),
    ],
};

pub(crate) const CONTAINER: &Table = &Table {
    title: "container",
    is_closed: true,
    rows: &[
        Row::new("image", Text, "The image. With `@sha256:…` at its end it is always the same.")
            .required()
            .filled()
            .identity(),
        Row::new("engine", Words(Engine::WORDS), "The engine; `auto` is Podman if it is installed, else Docker.")
            .identity()
            .by_default(|| json!(Engine::default().word())),
        Row::new(
            "pull",
            Words(&["missing", "never"]),
            "Whether an image that is not on this machine is fetched, within `startup_timeout`.",
        )
        .by_default(|| json!("missing")),
        Row::new("network", Text, "`none`, `bridge`, or a network of the engine. Not `host`.")
            .by_default(|| json!("none")),
        Row::new("user", Text, "The user that the server runs as: `UID`, `UID:GID` or names of the image.")
            .otherwise("the image's own"),
        Row::new(
            "mounts",
            Texts,
            "The parts of this machine that it sees: `SOURCE:TARGET`, with `:rw` after it if the server may change it.",
        )
        .filled()
        .identity()
        .otherwise("none"),
        Row::new("tmpfs", Texts, "Folders in memory that it may change.")
            .by_default(|| json!(Container::default().tmpfs)),
        Row::new("read_only", Flag, "Whether it cannot change the files of its image.").by_default(|| json!(true)),
        Row::new("limits", Object(CONTAINER_LIMITS), "Limits of its use of the machine's resources."),
    ],
};

pub(crate) const CONTAINER_LIMITS: &Table = &Table {
    title: "container.limits",
    is_closed: true,
    rows: &[
        // Engines take no less than 6 MiB.
        Row::new("memory", Size { min: 6 << 20 }, "The memory of all its processes.")
            .by_default(|| json!(Container::default().memory)),
        Row::new("processes", PROCESSES, "Processes and threads at once.")
            .by_default(|| json!(Container::default().processes)),
        Row::new("cpus", Number { min: 0.01, max: 1024.0 }, "Processors that it may use.").otherwise("no bound"),
    ],
};

pub(crate) const OAUTH: &Table = &Table {
    title: "oauth",
    is_closed: false,
    rows: &[
        Row::new("client_id", Text, "The id of a client that was registered for you.")
            .filled()
            .otherwise("registered at the first sign-in"),
        Row::new("client_secret", Text, "Its secret.").filled().hidden(Secret).otherwise("none"),
        Row::new(
            "client_metadata_url",
            Text,
            "The address of a Client ID Metadata Document, used where no `client_id` is given.",
        )
        .filled()
        .hidden(Parts)
        .otherwise("none"),
        Row::new(
            "scopes",
            Either(&[Texts, Text]),
            "The scopes to ask for: a list, or a text with spaces between them.",
        )
        .aliases(&[("scope", "OAuth")])
        .otherwise("those that the server names"),
        Row::new(
            "account",
            Text,
            "Which of several accounts at this server to use: letters, digits and `_`, `.`, `-`, `@`, `+`.",
        )
        .identity()
        .otherwise("the one without a name"),
        Row::new("grant", Words(GRANTS), "How to get a token; all but the first are for programs without a user.")
            .aliases(&[("grant_type", "OAuth")])
            .by_default(|| json!(Grant::default())),
        Row::new(
            "private_key",
            Text,
            "The key to use in place of a secret: PEM, of a P-256, P-384, Ed25519 or RSA key.",
        )
        .filled()
        .hidden(Secret)
        .otherwise("none"),
        Row::new("private_key_file", Text, "The file that holds that key, by its full path.")
            .filled()
            .otherwise("none"),
        Row::new("key_id", Text, "The `kid` under which the authorization server knows that key.")
            .filled()
            .otherwise("none"),
        Row::new("assertion", Text, "A JWT from another party that identifies this program.")
            .filled()
            .hidden(Secret)
            .otherwise("none"),
        Row::new("assertion_file", Text, "The file that holds that JWT, by its full path. It is read on each use.")
            .filled()
            .otherwise("none"),
        Row::new("idp", Object(IDP), "The identity provider of the grant `enterprise_managed`.").otherwise("none"),
        Row::new("dpop", Flag, "Whether tokens are bound to a key (RFC 9449).").by_default(|| json!(false)),
    ],
};

/// The words for the OAuth grants. The last two are other words for `jwt_bearer`: the word of RFC 7523, and the word of
/// cloud providers.
const GRANTS: &[&str] = &[
    "authorization_code",
    "client_credentials",
    "jwt_bearer",
    "enterprise_managed",
    "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "workload_identity",
];

pub(crate) const IDP: &Table = &Table {
    title: "oauth.idp",
    is_closed: false,
    rows: &[
        Row::new("token_url", Text, "Its token endpoint.").required().filled().hidden(Parts),
        Row::new("client_id", Text, "The id of the client that is registered there.").filled().otherwise("none"),
        Row::new("client_secret", Text, "Its secret.").filled().hidden(Secret).otherwise("none"),
    ],
};
