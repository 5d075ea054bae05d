//! The words of the verbs that look after the configuration.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use toolrack_config::import::Client;

use super::{Scope, ServersArgs};

/// How a verb that edits a file writes.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Write {
    /// Where: for you in every folder, for all users of this project, or for you in this project
    #[arg(short, long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,

    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `add-json`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack add-json docs '{\"url\": \"https://example.com/mcp\"}'
  toolrack add-json fs @server.json
  pbpaste | toolrack add-json github -

A whole file with `mcpServers` or `servers` in it does as well: its entry NAME is taken, or its only one.")]
pub(crate) struct AddJsonArgs {
    /// The name of the server: how you will call its tools
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The entry: the JSON itself, @FILE, or - for stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) entry: String,

    #[command(flatten)]
    pub(crate) write: Write,

    /// Put it in the place of a server of the same name
    #[arg(long)]
    pub(crate) replace: bool,

    /// Only write it, without trying to connect
    #[arg(long)]
    pub(crate) no_test: bool,
}

/// `import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack import                          show what there is, and choose
  toolrack import cursor claude-code       only of these programs
  toolrack import --server github --server fs=files
  toolrack import --all

What a project's file brings (.cursor/mcp.json, .vscode/mcp.json, ...) is added only when it is chosen by name.")]
pub(crate) struct ImportArgs {
    /// Only what these programs have
    #[arg(value_name = "PROGRAM", value_parser = programs())]
    pub(crate) clients: Vec<Client>,

    /// Add everything that you have configured yourself and that has a name of its own
    #[arg(long, conflicts_with = "server")]
    pub(crate) all: bool,

    /// Add this server, under another name if one follows; may be given more than once
    #[arg(long, value_name = "NAME[=NEW]")]
    pub(crate) server: Vec<String>,

    #[command(flatten)]
    pub(crate) write: Write,
}

/// The programs whose configuration can be imported, by their ids.
fn programs() -> impl TypedValueParser<Value = Client> {
    // The parser lets only their ids pass.
    PossibleValuesParser::new(Client::ALL.iter().map(|client| client.id()))
        .try_map(|id| Client::from_id(&id).ok_or("this program is not known"))
}

/// `get`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack get github

Nothing is started. Secrets are not shown; ${NAME} is shown as it is written.")]
pub(crate) struct GetArgs {
    /// Which server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
}

/// `remove`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack remove github
  toolrack remove github --scope project --dry-run")]
pub(crate) struct RemoveArgs {
    /// Which server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) write: Write,
}

/// `enable` and `disable`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack disable github
  toolrack enable github
  toolrack disable builtin

A project's server is switched for you alone, in a file of your own, unless you say `--scope project`.")]
pub(crate) struct SwitchArgs {
    /// Which server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) write: Write,
}

/// `test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack test github
  toolrack test --json")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) only: ServersArgs,
}

/// `logs`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack logs github
  toolrack logs github --lines 200
  toolrack logs --follow")]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) only: ServersArgs,

    /// How many lines, the newest ones
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) lines: usize,

    /// Wait for more, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// `pending`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack pending
  toolrack pending --exit-code || toolrack trust")]
pub(crate) struct PendingArgs {
    /// Only these servers
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,

    /// Fail when something is pending
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `trust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack trust
  toolrack trust github
  toolrack trust --refuse github
  toolrack trust diff
  toolrack trust approve github/create_issue

An agreement is for exactly what was shown: when the entry changes, it waits again. You are asked
first; where no one can be asked, --yes agrees. A server that you refuse waits no more until its
entry changes. Tools are pinned as they are when a server first
lists them; one that changes is in quarantine until you approve it.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) tools: Option<TrustVerb>,

    /// Only these servers; all that are pending here when none is named
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Refuse these servers: they wait no more until their entries change
    #[arg(long, requires = "servers", conflicts_with = "yes")]
    pub(crate) refuse: bool,
}

/// `trust …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustVerb {
    /// Show how tools in quarantine differ from what was pinned
    Diff(TrustDiffArgs),
    /// Use tools in quarantine as they are now
    Approve(TrustApproveArgs),
}

/// `trust diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack trust diff
  toolrack trust diff github/create_issue
  toolrack trust diff github --json

No server is started: it shows what was found when they last listed their tools. Characters that are not seen are spelled
out, such as \\u{200b}.")]
pub(crate) struct TrustDiffArgs {
    /// Only these servers or tools; all in quarantine here when none is named
    #[arg(value_name = "SERVER[/TOOL]")]
    pub(crate) of: Vec<String>,

    /// Fail when something is in quarantine
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `trust approve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack trust approve github/create_issue
  toolrack trust approve github --yes

What is approved is the definition that is shown: if the tool changes meanwhile, it stays in
quarantine. You are asked first; where no person can be asked, --yes or --hash approves.")]
pub(crate) struct TrustApproveArgs {
    /// Which servers or tools
    #[arg(value_name = "SERVER[/TOOL]", required = true)]
    pub(crate) of: Vec<String>,

    /// Only if this is its definition: `hash` of `trust diff --json`
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// `untrust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack untrust github
  toolrack untrust --all")]
pub(crate) struct UntrustArgs {
    /// Which servers of this project
    #[arg(value_name = "SERVER", required_unless_present = "all")]
    pub(crate) servers: Vec<String>,

    /// All of this project's servers
    #[arg(long, conflicts_with = "servers")]
    pub(crate) all: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack doctor
  toolrack doctor github
  toolrack doctor --offline --json")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) only: ServersArgs,

    /// Start and contact no server
    #[arg(long)]
    pub(crate) offline: bool,
}

/// `config …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print the files that count here, the weakest first
    #[command(after_help = "Examples:
  toolrack config path
  $EDITOR \"$(toolrack config path --scope user)\"")]
    Path(PathArgs),
    /// Print what all files add up to, and where each entry comes from
    #[command(after_help = "Example:
  toolrack config show --json")]
    Show,
    /// Check files without using them; exit code 2 when something is wrong
    #[command(after_help = "Examples:
  toolrack config validate
  toolrack config validate .mcp.json --strict

With --strict, warnings are failures too.")]
    Validate(ValidateArgs),
}

/// `config path`.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// Only the file that this scope writes to
    #[arg(short, long, value_name = "SCOPE")]
    pub(crate) scope: Option<Scope>,
}

/// `config validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// These files; all that count here when none is named
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}
