//! Defines the arguments of the verbs that sign in to servers.

use clap::{Args, Subcommand};

/// `login`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack login sentry
  toolrack login sentry --no-browser
  toolrack login github --scope repo --scope read:org
  toolrack login --to https://tools.example

Most servers need no preparation: they say where to sign in. If you were given an OAuth client, write it into the entry:
\"oauth\": { \"client_id\": \"...\" }.")]
pub(crate) struct LoginArgs {
    /// The server; with --to, the name for the new one
    #[arg(value_name = "SERVER", required_unless_present = "to")]
    pub(crate) server: Option<String>,

    /// The address of a team, whose gateway is first added to your servers
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,

    /// Open no browser; you may also paste the address to which your browser was redirected
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Ask for this scope instead of those that the server names; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Vec<String>,

    #[command(flatten)]
    pub(crate) account: AccountArg,

    /// Wait for the browser on this port of 127.0.0.1, instead of any free port
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
}

/// `logout`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack logout sentry")]
pub(crate) struct LogoutArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    #[command(flatten)]
    pub(crate) account: AccountArg,
}

/// Which of several accounts.
#[derive(Debug, Args)]
pub(crate) struct AccountArg {
    /// Use this account, instead of the one that the entry's `oauth.account` names
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) account: Option<String>,
}

/// `auth …`.
#[derive(Clone, Copy, Debug, Subcommand)]
#[command(after_help = "Example:
  toolrack auth status")]
pub(crate) enum AuthVerb {
    /// Show where you are signed in
    #[command(after_help = "Examples:
  toolrack auth status
  toolrack auth status --json")]
    Status,
}
