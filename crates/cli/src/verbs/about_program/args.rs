//! Defines the verbs about the program itself. They read no configuration and connect to nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

/// The verbs about the program itself.
#[derive(Debug, Subcommand)]
pub(crate) enum AboutProgram {
    /// Print the script that makes a shell complete words
    Completions(CompletionsArgs),
    /// Print the manual, or write one page for each command
    Man(ManArgs),
}

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ~/.bashrc    source <(toolrack completions bash)
  ~/.zshrc     source <(toolrack completions zsh)    (after compinit)
  config.fish  toolrack completions fish | source
  $PROFILE     toolrack completions powershell | Out-String | Invoke-Expression
  rc.elv       eval (toolrack completions elvish | slurp)

TAB completes the servers of the current configuration, and the tools that each server had when it was last \
connected. It starts no server.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// A shell that words can be completed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(alias = "pwsh")]
    Powershell,
    Elvish,
}

/// `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack man | man -l -
  toolrack man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the pages into this folder, which is made when there is none
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
