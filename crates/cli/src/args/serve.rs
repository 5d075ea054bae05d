//! The words of the daemon.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{ModelArgs, PolicyArgs, RulesArgs, duration};

/// `serve`, `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "It prints one address, which opens the dashboard; the part behind # is the key to it, and new each time, unless --token-file keeps it. Other MCP
clients reach every tool at /mcp of that address. Changed configuration files count at once.

Examples:
  toolrack up
  toolrack serve --no-open --yes-read-only --allow 'fs/*'
  toolrack serve --listen 127.0.0.1:0 --json"
)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,

    /// Do not open the dashboard in a browser
    #[arg(long)]
    pub(crate) no_open: bool,

    /// End when stdin is closed: for programs that start it and want it gone with them
    #[arg(long)]
    pub(crate) with_parent: bool,

    /// Belong to no terminal: what `daemon start` adds
    #[arg(long, hide = true, conflicts_with = "with_parent")]
    pub(crate) detached: bool,

    /// Listen on an address that other machines can reach; a program that knows the token may then use every tool
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Also answer to this name, such as tools.example:8443 ; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Keep the token in this file, and use it again at the next start, so that other clients and open pages go on with it
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Make a new token for --token-file, as with `toolrack daemon restart`; the one before opens nothing any more
    #[arg(long, requires = "token_file")]
    pub(crate) new_token: bool,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// How long a question waits for an answer before it is a no
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) patience: Duration,

    /// How long calls in flight may take at the end
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) grace: Duration,

    /// How long the servers of an agent of toolrack.toml stay without a request to /agents/ID
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) agent_idle: Duration,
}

/// `gateway`.
#[derive(Debug, Args)]
#[command(
    after_help = "For the configuration of another MCP client, which then has every tool, under the rules given here. While
`toolrack up` runs, its servers are shared, and its rules count. With --code a client has `run_code`, for scripts that call
tools, and tools that search for tools, instead of every tool.

Examples:
  claude mcp add toolrack -- toolrack gateway
  toolrack gateway --server github --yes-read-only
  toolrack gateway --code --allow 'fs/read_*'"
)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    /// Do not share the servers of a running daemon
    #[arg(long)]
    pub(crate) alone: bool,
}

/// `daemon`.
#[derive(Debug, Subcommand)]
pub(crate) enum DaemonVerb {
    /// Start `toolrack serve` in the background, and print its address once it listens
    #[command(after_help = "It takes the options of `toolrack serve`, and runs in the folder where it is started.

Examples:
  toolrack daemon start
  toolrack daemon start --yes-read-only --allow 'fs/*'")]
    Start(Box<ServeArgs>),
    /// End the daemon, if there is one, and start another: when Toolrack was updated, or with other options
    #[command(
        after_help = "It takes the options of `toolrack serve`, as `toolrack daemon start` does; those of the daemon before are not
kept, nor is its folder.

Examples:
  toolrack daemon restart
  toolrack daemon restart --yes-read-only --allow 'fs/*'"
    )]
    Restart(Box<ServeArgs>),
    /// Show whether a daemon is up, where, and how its servers are; fails when there is none
    #[command(after_help = "Examples:
  toolrack daemon status
  toolrack daemon status --json")]
    Status,
    /// End the daemon: calls in flight are given their time first
    Stop(StopArgs),
    /// Show what a daemon in the background wrote
    Logs(DaemonLogsArgs),
}

/// `daemon stop`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolrack daemon stop")]
pub(crate) struct StopArgs {
    /// How long it may take to end before it is killed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) patience: Duration,
}

/// `daemon logs`.
#[derive(Debug, Args)]
#[command(after_help = "What servers wrote is shown by `toolrack logs`.

Examples:
  toolrack daemon logs --lines 20
  toolrack daemon logs --follow")]
pub(crate) struct DaemonLogsArgs {
    /// Show at most this many of the last lines
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) lines: usize,

    /// Go on showing what is written, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
}
