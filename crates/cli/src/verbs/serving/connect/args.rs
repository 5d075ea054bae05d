//! Defines the arguments of `connect`.

use clap::Args;
use toolrack_config::import::Client;

use crate::args::program_parser;

/// `connect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack connect                          show which programs are connected
  toolrack connect claude-code
  toolrack connect cursor --project
  toolrack connect codex -- --server github --yes-read-only
  toolrack connect vscode --http            at the endpoint of `toolrack up`
  toolrack connect cursor --undo

Toolrack changes one entry of the program's own file, and shows the change first. --undo restores the bytes of the file, \
or only removes the entry if the file has changed since.")]
pub(crate) struct ConnectArgs {
    /// The program that gets the tools of all servers; without one, show the programs
    #[arg(value_name = "PROGRAM", value_parser = program_parser())]
    pub(crate) client: Option<Client>,

    /// Use the program's file for this project instead of your own
    #[arg(long, requires = "client")]
    pub(crate) project: bool,

    /// Let the program connect to the daemon instead of starting a gateway; it sends the token in TOOLRACK_TOKEN
    #[arg(
        long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with = "gateway", requires = "client"
    )]
    pub(crate) http: Option<String>,

    /// The name that Toolrack gets in that file
    #[arg(long, value_name = "NAME", default_value = "toolrack", requires = "client")]
    pub(crate) name: String,

    /// Take Toolrack out of the program's configuration again
    #[arg(long, conflicts_with_all = ["http", "gateway"], requires = "client")]
    pub(crate) undo: bool,

    /// Write without asking
    #[arg(short, long, requires = "client")]
    pub(crate) yes: bool,

    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "yes", requires = "client")]
    pub(crate) dry_run: bool,

    /// Options of `toolrack gateway`, after `--`
    #[arg(value_name = "WORDS", last = true, allow_hyphen_values = true)]
    pub(crate) gateway: Vec<String>,
}
