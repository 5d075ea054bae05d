//! The words of the daemon.

use std::{net::SocketAddr, time::Duration};

use clap::Args;

use super::{ModelArgs, PolicyArgs, RulesArgs, duration};

/// `serve`, `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "It prints one address, which opens the dashboard; the part behind # is the key to it, and new each time. Other MCP
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

    /// Listen on an address that other machines can reach; whoever knows the token may then use every tool
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Also answer to this name, such as tools.example:8443 ; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// How long a question waits for an answer before it is a no
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) patience: Duration,

    /// How long calls in flight may take at the end
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
}

/// `gateway`.
#[derive(Debug, Args)]
#[command(
    after_help = "For the configuration of another MCP client, which then has every tool, under the rules given here. While
`toolrack up` runs, its servers are shared, and its rules count.

Examples:
  claude mcp add toolrack -- toolrack gateway
  toolrack gateway --server github --yes-read-only"
)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    /// Do not share the servers of a running daemon
    #[arg(long)]
    pub(crate) alone: bool,
}
