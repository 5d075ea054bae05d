//! The rows of the settings of `toolrack.toml`. A row has the static facts of one setting. Unlike the names of fields
//! of an entry, the names of settings have only one spelling.

use std::ops::RangeInclusive;

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

/// A number of 1 or more.
const AT_LEAST_ONE: super::Kind = Whole { min: 1, max: u32::MAX as u64 };
/// A number that may be 0.
const ZERO_OR_MORE: super::Kind = Whole { min: 0, max: u32::MAX as u64 };
/// The range of a time in seconds: up to a day. A time below the minimum could round down to zero.
pub(crate) const SECONDS_RANGE: RangeInclusive<f64> = 0.001..=86_400.0;
const SECONDS: super::Kind = Number { min: *SECONDS_RANGE.start(), max: *SECONDS_RANGE.end() };
const DOLLARS: super::Kind = Number { min: 0.0, max: f64::MAX };
/// A glob, or a list of globs.
const GLOBS: super::Kind = Either(&[Text, Texts]);

/// The whole file.
pub(crate) const TOOLRACK: &Table = &Table {
    title: "toolrack.toml",
    is_closed: false,
    rows: &[
        Row::new("unset", Words(&["error", "empty"]), "What the placeholder of a variable without a value means.")
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
        Row::new("serve", Object(SERVE), "Bounds of the connections that `toolrack serve` accepts."),
        Row::new("policy", Object(POLICY), "Which calls run, which need a user's approval, and which never run."),
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
        Row::new("without", GLOBS, "Tools that are left out of `tools`.").otherwise("none"),
        Row::new("show", Tables(SHOW), "Tools that models see under another name or description.").otherwise("none"),
        Row::new("limits", Object(PROFILE_LIMITS), "Limits for all of its clients together.").otherwise("no bound"),
    ],
};

/// A number that every JSON parser reads exactly: at most 2^53 - 1.
const COUNT: super::Kind = Whole { min: 1, max: 9_007_199_254_740_991 };

pub(crate) const PROFILE_LIMITS: &Table = &Table {
    title: "profiles.limits",
    is_closed: true,
    rows: &[
        Row::new("calls_at_once", COUNT, "Calls that run at once.").otherwise("no bound"),
        Row::new("calls_per_minute", COUNT, "Calls in a minute, and at most as many in one burst.")
            .otherwise("no bound"),
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
        Row::new("name_length", Numbers(&[64, 128]), "The maximum length of a tool's name for models.")
            .by_default(|| json!(64)),
        Row::new(
            "dashes",
            Words(&["keep", "underscore"]),
            "Whether `-` in the names of servers and tools becomes `_`.",
        )
        .by_default(|| json!("keep")),
        Row::new(
            "validate_args",
            Words(ValidateArgs::WORDS),
            "What happens to arguments that do not fit the tool's schema, where the entry does not set it: nothing, \
             a warning, or they are not sent.",
        )
        .by_default(|| json!(ValidateArgs::default())),
        Row::new(
            "invisible",
            Words(Invisible::WORDS),
            "What happens to invisible characters in the texts of servers, where the entry does not set it.",
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
        Row::new("base_url", Text, "The address of its API.").filled().hidden(Parts).otherwise("the provider's"),
        Row::new("wire", Text, "The wire format of its API.").otherwise("the provider's"),
        Row::new("key", Text, "A placeholder for its key, such as `${WORK_KEY}`; never the key itself.")
            .filled()
            .hidden(Secret)
            .otherwise("the provider's usual variable"),
        Row::new(
            "context_tokens",
            Whole { min: 1, max: u64::MAX },
            "The number of tokens that fit into its context, input and output together.",
        )
        .otherwise("what Toolrack knows about the model"),
        Row::new("price", Object(PRICE), "Its price, in US dollars for a million tokens.")
            .otherwise("what Toolrack knows about the model"),
        Row::new("max_tokens", AT_LEAST_ONE, "The maximum number of tokens in one answer.")
            .otherwise("the wire format's"),
        Row::new("max_rounds", AT_LEAST_ONE, "The maximum number of its answers in one turn.").otherwise("10"),
        Row::new(
            "max_total_tokens",
            Whole { min: 1, max: u64::MAX },
            "The maximum number of tokens of all answers in one turn, input and output together.",
        )
        .otherwise("no bound"),
        Row::new("max_cost", DOLLARS, "The maximum cost of all answers in one turn, in US dollars; more than 0.")
            .otherwise("no bound"),
        Row::new("code", Flag, "Whether it may write scripts that call tools.").otherwise("`false`"),
        Row::new("connect_timeout", SECONDS, "The longest time to connect, in seconds.").otherwise("`10`"),
        Row::new(
            "first_token_timeout",
            SECONDS,
            "The longest silence before the first word of a streamed answer, in seconds.",
        )
        .otherwise("`120`; `300` with `openai-responses` and `gemini`, which send nothing while a model thinks"),
        Row::new("silence_timeout", SECONDS, "The longest silence after the first word, in seconds.")
            .otherwise("`30`; `300` with `openai-responses` and `gemini`"),
        Row::new("total_timeout", SECONDS, "The longest time for an answer with all tries and waits, in seconds.")
            .otherwise("`600`"),
        Row::new(
            "max_response_bytes",
            Whole { min: 1, max: u64::MAX },
            "The maximum size of the response of one answer, in bytes.",
        )
        .otherwise("`33554432`"),
        Row::new("max_retries", ZERO_OR_MORE, "How many times a failed request is tried again.").otherwise("`4`"),
        Row::new("extra_body", Anything, "Members for the body of every request.").hidden(Parts).otherwise("none"),
    ],
};

pub(crate) const PRICE: &Table = &Table {
    title: "model.price",
    is_closed: true,
    rows: &[
        Row::new("input", DOLLARS, "The price of input.").required(),
        Row::new("output", DOLLARS, "The price of output.").required(),
        Row::new("cached_read", DOLLARS, "The price of input that is read from a cache.").otherwise("`input`"),
        Row::new("cache_write", DOLLARS, "The price of input that is written into a cache.").otherwise("`input`"),
    ],
};

pub(crate) const SESSIONS: &Table = &Table {
    title: "sessions",
    is_closed: false,
    rows: &[
        Row::new("keep_days", AT_LEAST_ONE, "Days for which a conversation is stored after its last message.")
            .otherwise("forever"),
        Row::new("keep", AT_LEAST_ONE, "How many of the newest conversations are stored.").otherwise("all"),
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
        Row::new("keep_days", ZERO_OR_MORE, "Days for which rows are stored; 0 means forever.")
            .by_default(|| json!(90)),
        Row::new("keep", ZERO_OR_MORE, "How many of the newest rows are stored; 0 means all.")
            .by_default(|| json!(100_000)),
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
            "`local` allows every configured address; `hosted` allows only public addresses, with HTTPS.",
        )
        .by_default(|| json!("local")),
        Row::new("ports", Ports { min: 1 }, "Ports in addition to 443.").by_default(|| json!([])),
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
        Row::new("connections", Whole { min: 2, max: u32::MAX as u64 }, "Connections at once.").otherwise("4096"),
        Row::new("member_connections", AT_LEAST_ONE, "Connections at once with tokens of the same member of a team.")
            .otherwise("an eighth of `connections`"),
        Row::new(
            "unauthenticated_connections",
            AT_LEAST_ONE,
            "Connections at once without a valid token. Beyond that, the daemon ends the one that was silent the \
             longest.",
        )
        .otherwise("512"),
        Row::new(
            "head_timeout",
            SECONDS,
            "Seconds that a connection without a valid token may take to send the head of a request.",
        )
        .otherwise("10"),
        Row::new("idle_timeout", SECONDS, "The same for a connection with a valid token.").otherwise("120"),
        Row::new("session_worlds", AT_LEAST_ONE, "Sessions of one user that have servers of their own.")
            .otherwise("32"),
    ],
};

pub(crate) const POLICY: &Table = &Table {
    title: "policy",
    is_closed: true,
    rows: &[
        Row::new("allow", GLOBS, "Tools whose calls run.").otherwise("none"),
        Row::new("confirm", GLOBS, "Tools whose calls need a user's approval.").otherwise("none"),
        Row::new("deny", GLOBS, "Tools whose calls never run.").otherwise("none"),
        Row::new("otherwise", Words(&["allow", "confirm", "deny"]), "What happens to calls that no rule matches.")
            .by_default(|| json!("confirm")),
        Row::new(
            "allow_read_only",
            Flag,
            "Whether calls that no rule matches run if the server claims that the tool changes nothing.",
        )
        .by_default(|| json!(false)),
        Row::new("rules", Tables(RULE), "Rules with conditions.").otherwise("none"),
    ],
};

pub(crate) const RULE: &Table = &Table {
    title: "policy.rules",
    is_closed: true,
    rows: &[
        Row::new("allow", GLOBS, "Tools whose calls run. A rule has one of `allow`, `confirm` and `deny`."),
        Row::new("confirm", GLOBS, "Tools whose calls need a user's approval."),
        Row::new("deny", GLOBS, "Tools whose calls never run."),
        Row::new(
            "arguments",
            Anything,
            "Patterns that arguments must match, by name or JSON pointer: a glob, or `{ regex = \"…\" }`.",
        ),
        Row::new(
            "client",
            GLOBS,
            "The way of the call: `cli`, `api`, `gateway`, `agent` or `program`; after a `/`, the name that the client \
             gives itself.",
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
