//! The verbs that look after secrets.

use clap::{Args, Subcommand};

/// `secret …`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Store a secret: typed unseen, or read from stdin
    Set(SetSecretArgs),
    /// Show the names of secrets, and which servers use them
    #[command(after_help = "Examples:
  toolrack secret list
  toolrack secret list --json")]
    List,
    /// Delete a secret
    #[command(visible_alias = "remove")]
    Rm(RemoveSecretArgs),
}

/// `secret set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack secret set github
  pass show github | toolrack secret set github
  toolrack add gh https://example.com/mcp -H 'X-Key: ${secret:github}'

A value never stands on a command line, where other programs can see it. One line break at its end is no part of it.
It is used from the next connection on, in headers from the next request.")]
pub(crate) struct SetSecretArgs {
    /// Its name: letters, digits and `_.-`
    #[arg(value_name = "SECRET")]
    pub(crate) name: String,
}

/// `secret rm`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack secret rm github")]
pub(crate) struct RemoveSecretArgs {
    /// Which one
    #[arg(value_name = "SECRET")]
    pub(crate) name: String,
}
