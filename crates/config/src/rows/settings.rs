//! The settings of `toolrack.toml`. Their names have only this spelling.

use serde_json::json;
use toolrack_host::{
    PinMode,
    spec::{Invisible, ValidateArgs},
};

use super::{
    Hidden::{Everything as Secret, Parts},
    Kind::{
        Either, Entries, Flag, NamedEntries, Number, Numbers, Object as Anything, Ports, Table as Object, Tables, Text,
        Texts, Whole, Words,
    },
    Row, Table,
};

/// A number from 1 on.
const SOME: super::Kind = Whole { least: 1, most: u32::MAX as u64 };
/// A number; 0 means no bound.
const NUMBER: super::Kind = Whole { least: 0, most: u32::MAX as u64 };
/// A time in seconds, up to a day.
const SECONDS: super::Kind = Number { least: 0.001, most: 86_400.0 };
const DOLLARS: super::Kind = Number { least: 0.0, most: f64::MAX };
/// A text, or several.
const GLOBS: super::Kind = Either(&[Text, Texts]);

/// The whole file.
pub(crate) const TOOLRACK: &Table = &Table {
    title: "toolrack.toml",
    is_closed: false,
    rows: &[
        Row::new("unset", Words(&["error", "empty"]), "What a variable without a value means.")
            .by_default(|| json!("error")),
        Row::new(
            "pins",
            Words(PinMode::WORDS),
            "What happens to a tool whose definition has changed, where the entry does not set it: nothing, a \
             warning, or quarantine.",
        )
        .by_default(|| json!(PinMode::default())),
        Row::new("tools", Object(TOOLS), "How tools are named and called."),
        Row::new("model", Object(MODEL), "The model that answers `ask` and `chat`."),
        Row::new("sessions", Object(SESSIONS), "How long conversations are kept."),
        Row::new("audit", Object(AUDIT), "How much the audit log stores of calls, and for how long."),
        Row::new("egress", Either(&[Words(PROFILES), Object(EGRESS)]), "Where requests may go: a profile, or a table."),
        Row::new("serve", Object(SERVE), "Bounds of the connections that `toolrack serve` takes."),
        Row::new("policy", Object(POLICY), "Which calls run, which a user is asked about, and which never run."),
        Row::new("profiles", Tables(PROFILE), "Selections of tools with an MCP endpoint of their own.")
            .otherwise("none"),
        Row::new("defaults", Object(DEFAULTS), "The servers of all agents."),
        Row::new("agents", Tables(AGENT), "Agents with servers and settings of their own."),
        Row::new("mcp_servers", Entries, "Servers as Codex writes them, by their names."),
    ],
};

pub(crate) const DEFAULTS: &Table = &Table {
    title: "defaults",
    is_closed: false,
    rows: &[Row::new("mcp", NamedEntries, "Entries, each with its `name`.").otherwise("none")],
};

pub(crate) const AGENT: &Table = &Table {
    title: "agents",
    is_closed: false,
    rows: &[
        Row::new("id", Text, "The name of the agent, for `--agent`.").required(),
        Row::new(
            "role",
            Words(&["worker", "channel"]),
            "Whether the agent carries out tasks itself; a `channel` gives them to others, and gets no tools.",
        )
        .by_default(|| json!("worker")),
        Row::new("mcp", NamedEntries, "Entries of this agent alone, which replace others of the same name.")
            .otherwise("none"),
        Row::new("model", Object(MODEL), "As `[model]`, for this agent.").otherwise("`[model]`"),
        Row::new("tools", Object(TOOLS), "As `[tools]`, for this agent.").otherwise("`[tools]`"),
    ],
};

pub(crate) const PROFILE: &Table = &Table {
    title: "profiles",
    is_closed: true,
    rows: &[
        Row::new("name", Text, "The name in its address, `/p/NAME/mcp`, of letters, digits, `-` and `_`.").required(),
        Row::new("tools", GLOBS, "The tools that it has.").otherwise("all"),
        Row::new("without", GLOBS, "Tools among them that it does not have.").otherwise("none"),
        Row::new("show", Tables(SHOW), "Tools that models see under another name or description.").otherwise("none"),
        Row::new("limits", Object(PROFILE_LIMITS), "What all of its clients together may use.").otherwise("no bound"),
    ],
};

const COUNT: super::Kind = Whole { least: 1, most: 9_007_199_254_740_991 };

pub(crate) const PROFILE_LIMITS: &Table = &Table {
    title: "profiles.limits",
    is_closed: true,
    rows: &[
        Row::new("calls_at_once", COUNT, "Calls that run at once.").otherwise("no bound"),
        Row::new("calls_per_minute", COUNT, "Calls in a minute, and at most so many in a burst.").otherwise("no bound"),
        Row::new("calls_per_hour", COUNT, "Calls in an hour of the clock.").otherwise("no bound"),
        Row::new("calls_per_day", COUNT, "Calls in a day, in UTC.").otherwise("no bound"),
        Row::new("calls_per_month", COUNT, "Calls in a month, in UTC.").otherwise("no bound"),
        Row::new("result_bytes_per_minute", COUNT, "Bytes of results, and of resources and prompts, in a minute.")
            .otherwise("no bound"),
        Row::new("result_bytes_per_hour", COUNT, "The same in an hour of the clock.").otherwise("no bound"),
        Row::new("result_bytes_per_day", COUNT, "The same in a day, in UTC.").otherwise("no bound"),
        Row::new("result_bytes_per_month", COUNT, "The same in a month, in UTC.").otherwise("no bound"),
    ],
};

pub(crate) const SHOW: &Table = &Table {
    title: "profiles.show",
    is_closed: true,
    rows: &[
        Row::new("tool", Text, "The tool, as `server/tool`.").required(),
        Row::new("name", Text, "Its name for models, of 1 to 64 letters, digits, `-` and `_`.")
            .otherwise("that of the tool"),
        Row::new("description", Text, "Its description for models.").otherwise("that of the server"),
    ],
};

pub(crate) const TOOLS: &Table = &Table {
    title: "tools",
    is_closed: false,
    rows: &[
        Row::new(
            "naming",
            Text,
            "The names that models see: `mcp__server__tool`, `server_tool`, `mcp_server__tool`, `tool`, or a \
             template such as `x-{tool}--{server}`.",
        )
        .by_default(|| json!("mcp__server__tool")),
        Row::new("name_length", Numbers(&[64, 128]), "The longest name that a model takes.").by_default(|| json!(64)),
        Row::new(
            "dashes",
            Words(&["keep", "underscore"]),
            "Whether `-` in the names of servers and tools becomes `_`.",
        )
        .by_default(|| json!("keep")),
        Row::new(
            "validate_args",
            Words(ValidateArgs::WORDS),
            "What happens to arguments that do not fit the tool's schema, where the entry does not set it: nothing, a warning, or \
             they are not sent.",
        )
        .by_default(|| json!(ValidateArgs::default())),
        Row::new(
            "invisible",
            Words(Invisible::WORDS),
            "What happens to invisible characters in the texts of servers, where the entry does not set \
             it.",
        )
        .by_default(|| json!(Invisible::default())),
        Row::new(
            "refresh",
            Words(&["run", "turn"]),
            "When a model learns that tools have changed: with your next message, or each time that it is asked.",
        )
        .by_default(|| json!("run")),
    ],
};

pub(crate) const MODEL: &Table = &Table {
    title: "model",
    is_closed: true,
    rows: &[
        Row::new("name", Text, "The model: `provider/name`.").otherwise("that of a provider whose key is set"),
        Row::new("base_url", Text, "Its address.").filled().hidden(Parts).otherwise("the provider's"),
        Row::new("wire", Text, "The wire that it speaks.").otherwise("the provider's"),
        Row::new("key", Text, "A placeholder for its key, such as `${WORK_KEY}`; never the key itself.")
            .filled()
            .hidden(Secret)
            .otherwise("the provider's usual variable"),
        Row::new(
            "context_tokens",
            Whole { least: 1, most: u64::MAX },
            "How many tokens fit into it, input and output together.",
        )
        .otherwise("what is known of it"),
        Row::new("price", Object(PRICE), "Its price, in US dollars for a million tokens.")
            .otherwise("what is known of it"),
        Row::new("max_tokens", SOME, "The most tokens of one answer.").otherwise("the wire's"),
        Row::new("max_rounds", SOME, "How often it may answer in one turn.").otherwise("10"),
        Row::new(
            "max_total_tokens",
            Whole { least: 1, most: u64::MAX },
            "The most tokens of all answers of one turn, input and output.",
        )
        .otherwise("no bound"),
        Row::new("max_cost", DOLLARS, "The most US dollars of all answers of one turn; more than 0.")
            .otherwise("no bound"),
        Row::new("code", Flag, "Whether it may write scripts that call tools.").otherwise("`false`"),
        Row::new("extra_body", Anything, "Members for the body of every request.").hidden(Parts).otherwise("none"),
    ],
};

pub(crate) const PRICE: &Table = &Table {
    title: "model.price",
    is_closed: true,
    rows: &[
        Row::new("input", DOLLARS, "Of input.").required(),
        Row::new("output", DOLLARS, "Of output.").required(),
        Row::new("cached_read", DOLLARS, "Of input that is read from a cache.").otherwise("`input`"),
        Row::new("cache_write", DOLLARS, "Of input that is written into a cache.").otherwise("`input`"),
    ],
};

pub(crate) const SESSIONS: &Table = &Table {
    title: "sessions",
    is_closed: false,
    rows: &[
        Row::new("keep_days", SOME, "Days for which a conversation is stored after the last addition.")
            .otherwise("forever"),
        Row::new("keep", SOME, "How many of the newest conversations are stored.").otherwise("all"),
    ],
};

pub(crate) const AUDIT: &Table = &Table {
    title: "audit",
    is_closed: false,
    rows: &[
        Row::new(
            "arguments",
            Words(&["hash", "full"]),
            "Whether arguments are stored as a hash, or in full with known secrets hidden.",
        )
        .by_default(|| json!("hash")),
        Row::new("keep_days", NUMBER, "Days for which rows are stored; 0 means forever.").by_default(|| json!(90)),
        Row::new("keep", NUMBER, "How many of the newest rows are stored; 0 means all.").by_default(|| json!(100_000)),
    ],
};

const PROFILES: &[&str] = &["local", "hosted"];

pub(crate) const EGRESS: &Table = &Table {
    title: "egress",
    is_closed: false,
    rows: &[
        Row::new(
            "profile",
            Words(PROFILES),
            "`local` goes wherever a server is configured; `hosted` only to public addresses, with HTTPS.",
        )
        .by_default(|| json!("local")),
        Row::new("ports", Ports, "Ports beside 443.").by_default(|| json!([])),
        Row::new("allow", Texts, "Hosts, addresses and networks that are trusted, with any scheme and port.")
            .by_default(|| json!([])),
        Row::new("proxy", Text, "The http or https address of a proxy, `environment` or `off`.")
            .hidden(Parts)
            .by_default(|| json!("environment")),
    ],
};

pub(crate) const SERVE: &Table = &Table {
    title: "serve",
    is_closed: false,
    rows: &[
        Row::new("connections", Whole { least: 2, most: u32::MAX as u64 }, "Connections at once.").otherwise("4096"),
        Row::new("member_connections", SOME, "Those among them with tokens of one member of a team.")
            .otherwise("an eighth of `connections`"),
        Row::new(
            "unauthenticated_connections",
            SOME,
            "The most of them without a valid token. Beyond that, the daemon ends the one that was silent the longest.",
        )
        .otherwise("512"),
        Row::new(
            "head_timeout",
            SECONDS,
            "Seconds that a connection without a right token may take to send the head of a request.",
        )
        .otherwise("10"),
        Row::new("idle_timeout", SECONDS, "The same for a connection with a right token.").otherwise("120"),
        Row::new("session_worlds", SOME, "Sessions of one user that have servers of their own.").otherwise("32"),
    ],
};

pub(crate) const POLICY: &Table = &Table {
    title: "policy",
    is_closed: true,
    rows: &[
        Row::new("allow", GLOBS, "Tools whose calls run.").otherwise("none"),
        Row::new("confirm", GLOBS, "Tools about whose calls a user is asked.").otherwise("none"),
        Row::new("deny", GLOBS, "Tools whose calls never run.").otherwise("none"),
        Row::new("otherwise", Words(&["allow", "confirm", "deny"]), "What happens to calls that no rule is about.")
            .by_default(|| json!("confirm")),
        Row::new("allow_read_only", Flag, "Whether a server is believed that says that a tool changes nothing.")
            .by_default(|| json!(false)),
        Row::new("rules", Tables(RULE), "Rules with conditions.").otherwise("none"),
    ],
};

pub(crate) const RULE: &Table = &Table {
    title: "policy.rules",
    is_closed: true,
    rows: &[
        Row::new("allow", GLOBS, "Tools whose calls run. A rule has one of `allow`, `confirm` and `deny`."),
        Row::new("confirm", GLOBS, "Tools about whose calls a user is asked."),
        Row::new("deny", GLOBS, "Tools whose calls never run."),
        Row::new(
            "arguments",
            Anything,
            "What arguments match, by their names or JSON pointers: a glob, or `{ regex = \"…\" }`.",
        ),
        Row::new(
            "client",
            GLOBS,
            "Who calls: `cli`, `api`, `gateway`, `agent` or `program`, and after a `/` the name that it gives itself.",
        ),
        Row::new("agent", GLOBS, "The agent that calls, as in `--agent`."),
        Row::new("tenant", GLOBS, "The tenant of the caller; `local` without a team."),
        Row::new(
            "who",
            GLOBS,
            "Conditions about the caller, of which one must be true: `group:NAME`, `role:NAME`, `person:SUBJECT`, `service:SUBJECT`.",
        ),
        Row::new("read_only", Flag, "What the server claims: that the tool changes nothing."),
        Row::new("destructive", Flag, "What the server claims: that the tool may destroy something."),
        Row::new("idempotent", Flag, "What the server claims: that a second call changes nothing more."),
        Row::new("open_world", Flag, "What the server claims: that the tool reaches beyond the server."),
    ],
};
