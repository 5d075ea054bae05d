//! Defines the arguments of the verbs that manage secrets. A secret is stored sealed: encrypted with a key.

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
    /// Show where the key that seals the secrets is, move it, or replace it
    Key(KeyArgs),
}

/// `secret set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack secret set github
  pass show github | toolrack secret set github
  toolrack add gh https://example.com/mcp -H 'X-Key: ${secret:github}'

The command line takes no value, because other programs can read command lines. One line break at the end of the value \
is removed. Servers get a new value with their next connection, and in headers with the next request.")]
pub(crate) struct SetSecretArgs {
    /// The name of the secret: letters, digits and `_.-`
    #[arg(value_name = "SECRET")]
    pub(crate) name: String,
}

/// `secret rm`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack secret rm github")]
pub(crate) struct RemoveSecretArgs {
    /// The name of the secret
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

The key is TOOLRACK_SECRET_KEY if that is set. Otherwise Toolrack made the key with the first secret, and put it into \
the keychain of the system (`secret-tool` on Linux, macOS's own) or, without one, into the file secret.key beside the \
database. It stays there until you move it: a locked keychain is an error, never a reason for a new key.

--rotate seals all secrets and tokens with a new random key, which running daemons and gateways then use. It cannot \
change the variable TOOLRACK_SECRET_KEY: if that is set, type the new key, or pass it on stdin as in the last example, \
and start the programs that have the old key again with the new one. Copies of the database that you made earlier can \
be opened only with the old key.")]
pub(crate) struct KeyArgs {
    /// Move the key to this place; the secrets stay as they are
    #[arg(long = "move", value_name = "WHERE", value_enum)]
    pub(crate) to: Option<KeyPlace>,
    /// Seal all secrets and tokens with a new key, which replaces the old one
    #[arg(long, conflicts_with = "to")]
    pub(crate) rotate: bool,
}

/// The places to which a key can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyPlace {
    Keychain,
    File,
}
