//! The verbs that manage secrets.

use clap::{Args, Subcommand, ValueEnum};

/// `secret …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack secret set github
  toolrack secret list
  toolrack secret rm github
  toolrack secret key")]
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
    /// Show where the key to them is, move it, or change it
    Key(KeyArgs),
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

/// `secret key`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack secret key
  toolrack secret key --move keychain
  toolrack secret key --rotate
  toolrack secret key --rotate < new.key

The key is TOOLRACK_SECRET_KEY when that is set. DefaultEffect it was made with the first secret: in the
system's keychain (`secret-tool` on Linux, macOS's own) where that took it, and else in the file
secret.key beside the database. It stays there until it is moved: a keychain that is locked is an
error, never a reason for a new key.

--rotate seals all secrets and tokens with a new random key, which takes the place of the old one;
running daemons and gateways go on with it. The key of TOOLRACK_SECRET_KEY cannot be changed there:
the new one is then typed unseen or read from stdin (as in the last example), and what runs with the
old one has to be started again with the new one. Copies of the database that were made before open
with the old key alone.")]
pub(crate) struct KeyArgs {
    /// Move it there; what it sealed stays as it is
    #[arg(long = "move", value_name = "WHERE", value_enum)]
    pub(crate) to: Option<KeyPlace>,
    /// Seal everything with a new key, which replaces the old one
    #[arg(long, conflicts_with = "to")]
    pub(crate) rotate: bool,
}

/// The places to which a key can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyPlace {
    Keychain,
    File,
}
