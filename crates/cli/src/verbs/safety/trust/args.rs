//! Defines the arguments of `pending`, `trust` and `untrust`. An entry that a project brings waits (is pending) until
//! the user agrees to run it. A tool whose definition has changed is in quarantine until the user approves the change.

use clap::{Args, Subcommand};

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

You agree to exactly what is shown: an entry that changes waits for you again. Toolrack asks you first; without a \
terminal, use --yes. A server that you refuse does not wait again until its entry changes. Toolrack pins each tool as \
the server first lists it; a tool that changes is in quarantine until you approve it.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<TrustVerb>,

    /// Only these servers; without any, all that are pending here
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Refuse these servers: they no longer wait, until their entries change
    #[arg(long, requires = "servers", conflicts_with = "yes")]
    pub(crate) refuse: bool,
}

/// `trust …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustVerb {
    /// Show how tools in quarantine differ from their pins
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

It starts no server: it shows the tools as the servers last listed them. It spells out invisible characters, such as \
\\u{200b}.")]
pub(crate) struct TrustDiffArgs {
    /// Only these servers or tools; without any, all tools in quarantine
    #[arg(value_name = "SERVER[/TOOL]")]
    pub(crate) targets: Vec<String>,

    /// Fail when something is in quarantine
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `trust approve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack trust approve github/create_issue
  toolrack trust approve github --yes

You approve the definition that is shown: if the tool changes meanwhile, it stays in quarantine. Toolrack asks you \
first; without a terminal, use --yes or --hash.")]
pub(crate) struct TrustApproveArgs {
    /// The servers or tools
    #[arg(value_name = "SERVER[/TOOL]", required = true)]
    pub(crate) targets: Vec<String>,

    /// Approve the tool only if its definition has this hash: `hash` in `trust diff --json`
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
    /// The servers of this project
    #[arg(value_name = "SERVER", required_unless_present = "all")]
    pub(crate) servers: Vec<String>,

    /// All servers of this project
    #[arg(long, conflicts_with = "servers")]
    pub(crate) all: bool,
}
