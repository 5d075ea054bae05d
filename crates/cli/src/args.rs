//! The command line as it was typed. Nothing here reads files or connects; the verbs work out what it means.

mod add;
mod alone;
mod ask;
mod audit;
mod itself;
mod manage;
mod policy;
mod secret;
mod serve;
mod sessions;
mod sign_in;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use add::{AddArgs, AddOptions, Scope, Target, TransportKind};
pub(crate) use ask::{AskArgs, ChatArgs, LimitArgs, ModelArgs, PolicyArgs, RulesArgs, WireName};
pub(crate) use audit::{AuditVerb, ExportAuditArgs, ListAuditArgs, OnlyAudit, VerifyAuditArgs};
pub(crate) use itself::{AboutItself, CompletionsArgs, ManArgs, Shell};
pub(crate) use manage::{
    AddJsonArgs, ConfigVerb, DoctorArgs, GetArgs, ImportArgs, LogsArgs, PendingArgs, RemoveArgs, SwitchArgs, TestArgs,
    TrustApproveArgs, TrustArgs, TrustDiffArgs, TrustVerb, UntrustArgs,
};
pub(crate) use policy::{ForgetAnswersArgs, PolicyVerb, TestPolicyArgs};
pub(crate) use secret::{KeyArgs, KeyPlace, RemoveSecretArgs, SecretVerb, SetSecretArgs};
pub(crate) use serve::{DaemonLogsArgs, DaemonVerb, GatewayArgs, ServeArgs};
pub(crate) use sessions::{
    DeleteSessionsArgs, ExportSessionArgs, Format, ImportSessionsArgs, ListSessionsArgs, RenameSessionArgs,
    SessionsVerb, ShowSessionArgs,
};
pub(crate) use sign_in::{AccountArg, AuthVerb, LoginArgs, LogoutArgs};

/// Give any AI agent the tools of any set of MCP servers
#[derive(Debug, Parser)]
#[command(
    name = "toolrack",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Examples:
  toolrack call builtin/list_directory path=.
  toolrack add fs -- npx -y @modelcontextprotocol/server-filesystem .
  toolrack add docs https://example.com/mcp
  toolrack list
  toolrack tools fs
  toolrack call fs/read_text_file path=README.md

Exit codes:
  0 ok · 1 other · 2 usage or configuration · 3 sign-in needed · 4 unreachable or timed out
  5 tool error or unknown tool · 6 denied · 7 not trusted · 8 limit of a turn · 9 model
  129 terminal closed · 130 interrupted (Ctrl-C) · 143 ended by SIGTERM"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// What `words`, with the program's name in front, ask for.
    ///
    /// # Errors
    /// As clap says it; help and versions are among them.
    pub(crate) fn of_words(words: &[OsString]) -> Result<Self, clap::Error> {
        if let Some(cli) = Self::of_a_common_verb(words) {
            return Ok(cli);
        }
        let mut cli = Self::try_parse_from(words)?;
        if let Verb::Add(args) = &mut cli.verb {
            let after_dashes = args.follows_dashes(words);
            cli.global = cli.global.followed_by(args.take_what_follows_a_url(after_dashes)?);
        }
        Ok(cli)
    }
}

/// Options of every verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Read the servers of this file as well; may be given more than once
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) mcp_config: Vec<PathBuf>,

    /// Use only the servers of the files given with --mcp-config
    #[arg(long, global = true)]
    pub(crate) strict_mcp_config: bool,

    /// Fail when anything in the configuration is broken
    #[arg(long, global = true)]
    pub(crate) strict: bool,

    /// Use the servers of this agent of toolrack.toml as well
    #[arg(long, value_name = "AGENT", global = true)]
    pub(crate) agent: Option<String>,

    /// Print one JSON document; errors are one line of JSON on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    pub(crate) color: Color,

    /// Print no notes and warnings
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Print more of what happens; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Never ask anything, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_input: bool,

    /// Tell servers that ask for it about this folder; may be given more than once
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) root: Vec<PathBuf>,

    /// Start servers anew even where a running daemon has them
    #[arg(long, global = true)]
    pub(crate) no_daemon: bool,
}

impl Global {
    fn followed_by(mut self, more: Self) -> Self {
        self.mcp_config.extend(more.mcp_config);
        self.root.extend(more.root);
        Self {
            mcp_config: self.mcp_config,
            strict_mcp_config: self.strict_mcp_config || more.strict_mcp_config,
            strict: self.strict || more.strict,
            agent: more.agent.or(self.agent),
            json: self.json || more.json,
            color: if more.color == Color::default() { self.color } else { more.color },
            quiet: self.quiet || more.quiet,
            verbose: self.verbose.saturating_add(more.verbose),
            no_input: self.no_input || more.no_input,
            root: self.root,
            no_daemon: self.no_daemon || more.no_daemon,
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal, unless NO_COLOR or CLICOLOR say otherwise. No doc comments: clap would print them in every help.
    #[default]
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Add a server to the configuration and try it
    Add(AddArgs),
    /// Add a server that is written as JSON
    AddJson(AddJsonArgs),
    /// Add servers that other programs on this machine have configured
    Import(ImportArgs),
    /// Connect to all servers and show how they are
    List(ListArgs),
    /// Show how a server is configured, and where
    Get(GetArgs),
    /// Remove a server from the configuration
    Remove(RemoveArgs),
    /// Switch a server on
    Enable(SwitchArgs),
    /// Switch a server off without removing it
    Disable(SwitchArgs),
    /// Show the tools of the servers
    Tools(ToolsArgs),
    /// Call a tool and print its result
    Call(CallArgs),
    /// Ask a model, which may call the tools of the servers
    Ask(Box<AskArgs>),
    /// Talk with a model, which may call the tools of the servers
    Chat(Box<ChatArgs>),
    /// Keep the servers running, with a dashboard, a control API and one MCP endpoint in front of all
    #[command(visible_alias = "up")]
    Serve(ServeArgs),
    /// Run `serve` in the background: start it, look after it, end it
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack daemon start
  toolrack daemon status
  toolrack daemon stop"
    )]
    Daemon(DaemonVerb),
    /// Be an MCP server over stdio that has the tools of all servers
    Gateway(GatewayArgs),
    /// Show the resources and resource templates of the servers
    #[command(after_help = "Examples:
  toolrack resources
  toolrack resources docs --json")]
    Resources(ServersArgs),
    /// Print a resource
    Read(ReadArgs),
    /// Show the prompts of the servers
    #[command(after_help = "Examples:
  toolrack prompts
  toolrack prompts github")]
    Prompts(ServersArgs),
    /// Fill in a prompt and print it
    Prompt(PromptArgs),
    /// Look through conversations with models, export them, delete them
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack sessions list
  toolrack sessions show last
  toolrack sessions export last -o session.md"
    )]
    Sessions(SessionsVerb),
    /// Sign in to a server with a browser
    Login(LoginArgs),
    /// Sign out of a server, and revoke what it gave
    Logout(LogoutArgs),
    /// Look after who is signed in where
    #[command(
        subcommand,
        after_help = "Example:
  toolrack auth status"
    )]
    Auth(AuthVerb),
    /// Say why a tool is there, or why not
    Why(WhyArgs),
    /// Connect to servers one step at a time and show how far each step came
    Test(TestArgs),
    /// Show what servers wrote to stderr and to their log
    Logs(LogsArgs),
    /// Show what was called and decided, and check that it was not changed
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack audit list --since 1h
  toolrack audit verify
  toolrack audit export > audit.jsonl"
    )]
    Audit(AuditVerb),
    /// Say which calls run, which are asked about and which never run, and why
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack policy test fs/write_file path=/etc/hosts
  toolrack policy list
  toolrack policy answers"
    )]
    Policy(PolicyVerb),
    /// Show what this project would start, and waits for you
    Pending(PendingArgs),
    /// Agree to run what this project's files configure, and to tools that have changed
    Trust(TrustArgs),
    /// Take such an agreement back
    Untrust(UntrustArgs),
    /// Keep secrets that entries name as ${secret:NAME}
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack secret set github
  toolrack secret list
  toolrack secret rm github
  toolrack secret key"
    )]
    Secret(SecretVerb),
    /// Look for everything that is wrong, and say what to do
    Doctor(DoctorArgs),
    /// Show which configuration files count, what they add up to, and what is wrong with them
    #[command(
        subcommand,
        after_help = "Examples:
  toolrack config path
  toolrack config show
  toolrack config validate"
    )]
    Config(ConfigVerb),
    #[command(flatten)]
    Itself(AboutItself),
}

impl Verb {
    /// Whether a running daemon can do it for the process that was asked to.
    pub(crate) fn can_be_lent(&self) -> bool {
        matches!(
            self,
            Self::Call(_)
                | Self::Tools(_)
                | Self::List(_)
                | Self::Resources(_)
                | Self::Read(_)
                | Self::Prompts(_)
                | Self::Prompt(_)
        )
    }
}

/// Verbs that may be narrowed to some servers.
#[derive(Debug, Default, Args)]
pub(crate) struct ServersArgs {
    /// Only these servers; the others are not started
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
}

/// `list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack list
  toolrack list github fs --json
  toolrack list --exit-code || echo 'something is down'")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) only: ServersArgs,

    /// Fail when a server that is switched on is not connected
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `tools`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack tools
  toolrack tools --search 'rename a file'
  toolrack tools github --search 'create issue' --limit 3
  toolrack tools fs --schema
  toolrack tools fs/read_text_file")]
pub(crate) struct ToolsArgs {
    /// Only these servers; the others are not started. Or one tool, to show all of it
    #[arg(value_name = "SERVER | TOOL")]
    pub(crate) servers: Vec<String>,

    /// Only tools that fit these words, the best first: a task as you would say it, or parts of a name
    #[arg(long, value_name = "WORDS")]
    pub(crate) search: Option<String>,

    /// Show at most this many of the tools that are found
    #[arg(long, value_name = "COUNT", default_value_t = 10, requires = "search")]
    pub(crate) limit: usize,

    /// Show the JSON Schema of the arguments too
    #[arg(long)]
    pub(crate) schema: bool,

    /// Show long descriptions of a tool, its arguments and its server whole
    #[arg(long)]
    pub(crate) full: bool,
}

/// `call`.
#[derive(Debug, Args)]
#[command(after_help = "How values are read:
  path=README.md       a value, read as the tool's schema says: text, number, true or false
  paths=a paths=b      several values for a list
  filter:='{\"a\": 1}'   JSON as it stands

Examples:
  toolrack call fs/read_text_file path=README.md head=10
  toolrack call fs/edit --args @edit.json
  toolrack call browser/screenshot -o page.png
  echo '{\"path\": \".\"}' | toolrack call builtin/list_directory --args -")]
pub(crate) struct CallArgs {
    /// Which tool: server/tool, server.tool, or the name a model sees
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,

    /// Its arguments: NAME=VALUE or NAME:=JSON
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// All arguments as one JSON object: the JSON itself, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,

    /// End the call after this long without a sign of life, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Send the arguments even if they do not fit the tool's schema
    #[arg(long)]
    pub(crate) no_validate: bool,

    /// Write the result into this file as it is, decoded if it is no text; - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `read`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack read docs file:///readme.md
  toolrack read docs file:///logo.png -o logo.png")]
pub(crate) struct ReadArgs {
    /// Which server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Which resource
    #[arg(value_name = "URI")]
    pub(crate) uri: String,

    /// Write it into this file as it is, decoded if it is no text; - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `prompt`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack prompt github/summarize_issue number=7")]
pub(crate) struct PromptArgs {
    /// Which prompt: server/prompt
    #[arg(value_name = "PROMPT")]
    pub(crate) selector: String,

    /// Its arguments: NAME=VALUE
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}

/// `why`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack why github/create_issue")]
pub(crate) struct WhyArgs {
    /// Which tool: server/tool
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,
}

/// A time such as `30s`, `1.5m`, `500ms`, or a number of seconds; above zero and at most a day.
fn duration(word: &str) -> Result<Duration, String> {
    let seconds = seconds(word).ok_or("write a time such as 30s, 2m or 500ms")?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("it must be between 1ms and 24h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A number of seconds, or of what stands behind it.
fn seconds(word: &str) -> Option<f64> {
    let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(at);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * seconds_each)
}

#[cfg(test)]
mod tests;
