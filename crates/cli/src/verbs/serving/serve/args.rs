//! Defines the arguments of `serve`. A team has tenants, each with servers and data of its own, and each tenant has
//! members: people and services. Replicas are several daemons that serve one team together.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use crate::args::{ModelArgs, RulesArgs, parse_duration};

/// `serve`, `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "It prints one address, which opens the dashboard. The part after # is the token, which is new at each start unless \
--token-file keeps it. Other MCP clients reach every tool at /mcp of that address. Changes of configuration files apply \
at once.

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

    /// End when stdin is closed: for programs that start the daemon and want it to end with them
    #[arg(long)]
    pub(crate) with_parent: bool,

    /// Run without a terminal: `daemon start` adds this
    #[arg(long, hide = true, conflicts_with = "with_parent")]
    pub(crate) detached: bool,

    /// Listen on an address that other machines can reach; a program that knows the token may then use every tool
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Also accept requests to this host name, such as tools.example:8443 ; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Speak TLS, with the certificate in this PEM file; the daemon notices when the file is replaced
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Store the token in this file, and use it again at the next start, so that clients and open pages can continue
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Make a new token for --token-file, so that the old one is no longer valid
    #[arg(long, requires = "token_file")]
    pub(crate) new_token: bool,

    /// Also serve the tenants of this file: their members reach the servers of their own tenant, and nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) team: Option<PathBuf>,

    /// Run as one of several replicas of the team: the others reach this one at ADDRESS, and all share the database of
    /// the team file
    #[arg(long, value_name = "ADDRESS", requires = "team", value_parser = address_of_replica)]
    pub(crate) replica: Option<Box<SocketAddr>>,

    #[command(flatten)]
    pub(crate) rules: RulesArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// How long a question waits for an answer before it is declined
    #[arg(long = "patience", value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) answer_timeout: Duration,

    /// How long calls under way may still take when the daemon ends
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    pub(crate) grace: Duration,

    /// How long the daemon continues to serve after the signal to end, while `/health` answers 404 so that load
    /// balancers send no new requests
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) drain: Option<Duration>,

    /// How long the servers of an agent, a tenant, a member or a session keep running without a request
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) agent_idle: Duration,
}

impl ServeArgs {
    /// Returns how long calls under way may take once the daemon is told to end.
    pub(crate) fn time_for_calls(&self) -> Duration {
        self.drain.unwrap_or_default().saturating_add(self.grace)
    }
}

/// Parses the address of a replica, boxed because few daemons have one.
///
/// # Errors
/// When `text` is not an address, or is one that leads to no machine, such as 0.0.0.0.
fn address_of_replica(text: &str) -> Result<Box<SocketAddr>, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "write an IP address and a port, such as 10.0.0.3:7718".to_owned())?;
    match address.ip().is_unspecified() {
        true => Err("the other replicas need an address that leads here".to_owned()),
        false => Ok(address.into()),
    }
}
