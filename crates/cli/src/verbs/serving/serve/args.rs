//! The arguments of `serve`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use crate::args::{ModelArgs, RulesArgs, duration};

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
    /// The address to listen at; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,

    /// Do not open the dashboard in a browser
    #[arg(long)]
    pub(crate) no_open: bool,

    /// End when stdin is closed: for programs that start it and want it to end with them
    #[arg(long)]
    pub(crate) with_parent: bool,

    /// Run without a terminal: `daemon start` adds this
    #[arg(long, hide = true, conflicts_with = "with_parent")]
    pub(crate) detached: bool,

    /// Listen on an address that other machines can reach; a program that knows the token may then use every tool
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Also accept requests to this name, such as tools.example:8443 ; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Speak TLS at the address, with the certificate in this PEM file; a new one counts once the file is replaced
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Keep the token in this file, and use it again at the next start, so that clients and open pages can continue
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Make a new token for --token-file, as with `toolrack daemon restart`; the old one is no longer valid
    #[arg(long, requires = "token_file")]
    pub(crate) new_token: bool,

    /// Also serve the tenants of this file: their members reach the servers of their own tenant, and nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) team: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// How long a question waits for an answer before it is declined
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) patience: Duration,

    /// How long calls in flight may take at the end
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) grace: Duration,

    /// How long the servers of an agent, a tenant, a member or a session run without a request
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) agent_idle: Duration,
}
