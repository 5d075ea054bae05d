//! The arguments of `pending`, `trust` and `untrust`.

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

    /// Refuse these servers: they no longer wait, until their entries change
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

What is approved is the definition that is shown: if the tool changes meanwhile, it stays in
quarantine. You are asked first; where no user can be asked, --yes or --hash approves.")]
pub(crate) struct TrustApproveArgs {
    /// Which servers or tools
    #[arg(value_name = "SERVER[/TOOL]", required = true)]
    pub(crate) targets: Vec<String>,

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
