//! Options of a gateway, which is one MCP server in front of all others.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolrack_config::Interpolate;
use toolrack_host::{Principal, Selection, SharedAsker};

use crate::{
    fair_limit::{DEFAULT_PARTS, FairLimit},
    missing::MissingValues,
    profiles::Profiles,
};

/// The options of a [`Gateway`](super::Gateway). Each has a default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The name that the gateway gives itself. Default: `toolrack`.
    pub name: String,
    /// The version of the gateway. Default: the version of this crate.
    pub version: String,
    /// Instructions for models.
    pub instructions: Option<String>,
    /// The servers and tools that clients may see at most. Default: all.
    pub selection: Selection,
    /// Profiles that a client can ask for by name, with `?profile=NAME`. Default: none.
    pub profiles: Profiles,
    /// The profile of a client that asks for none, such as one over stdio. Default: none, so that the client sees
    /// everything.
    pub profile: Option<Arc<str>>,
    /// Gets the questions that a client cannot answer, mostly approvals. Default: none.
    pub asker: Option<SharedAsker>,
    /// The agent whose world (a host with its configuration) the gateway serves. Questions name it. Default: none.
    pub agent: Option<Arc<str>>,
    /// The secrets that servers received: clients get `***` in their place. Default: none.
    pub secrets: Option<Arc<Interpolate>>,
    /// Finds the values that the members of a team have not yet given for their servers. Default: none, for a gateway
    /// outside of a team.
    pub(crate) missing_values: Option<MissingValues>,
    /// The principal of a request, if no layer in front of the router has put a [`Principal`] into its extensions.
    /// Default: the person of a machine with a single user. `None` refuses such requests.
    pub default_principal: Option<Principal>,
    /// Names by which the endpoint may be reached, in addition to `localhost` and the loopback addresses. A name with a
    /// port is valid only for that port. A name without a port is valid for every port.
    pub hosts: Vec<String>,
    /// The limits of the gateway's work.
    pub bounds: Bounds,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            name: "toolrack".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            selection: Selection::all(),
            profiles: Profiles::default(),
            profile: None,
            asker: None,
            agent: None,
            secrets: None,
            missing_values: None,
            default_principal: Some(Principal::LOCAL),
            hosts: Vec::new(),
            bounds: Bounds::default(),
        }
    }
}

impl GatewayOptions {
    /// Returns the gateway's description of itself (MCP `serverInfo`).
    pub(super) fn info(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }
}

/// The limits of a gateway's work. Each number is a maximum.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// The maximum size of a message of a client, in bytes. Default: 8 MiB.
    pub body_bytes: usize,
    /// Sessions of clients of 2025-11-25 and older. Default: 1,024. To make room for another session, the gateway ends
    /// the session that has been idle the longest, if it has been idle for a minute.
    pub sessions: usize,
    /// A session that has been idle for this long is ended. Default: an hour. A session with a request under way or an
    /// open stream is not idle.
    pub session_idle: Duration,
    /// Requests under way in one session, or of one client over stdio. Default: 256.
    pub calls_per_session: usize,
    /// Requests under way, of all clients. Default: 2,048.
    pub calls: usize,
    /// Standing streams of all clients: GET of a session, `subscriptions/listen`. Default: 1,024.
    pub streams: usize,
    /// Resources that one client, or one `subscriptions/listen`, subscribes to. Default: 256.
    pub subscriptions: usize,
    /// Calls that wait for a client of 2026-07-28 to come back with answers. Default: 256.
    pub parked: usize,
    /// The number of shares into which the limits of sessions, calls, streams and parked calls are divided. One member
    /// of a team may have one share of each limit, but always at least one session, call, stream and parked call.
    /// Default: 8. The user of the machine has no such limit.
    pub places_for_one: usize,
    /// How long a parked call waits for its client. Default: 10 minutes.
    pub parked_for: Duration,
    /// Items on one page of a list. Default: 1,000.
    pub page: usize,
}

impl Bounds {
    /// Returns a limit of `total` for all clients together, and of a part of it for one member.
    pub(super) fn fair_limit(&self, total: usize) -> FairLimit {
        FairLimit::new(total, (total / self.places_for_one.max(1)).max(1))
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes: 8 * 1024 * 1024,
            sessions: 1_024,
            session_idle: Duration::from_secs(60 * 60),
            calls_per_session: 256,
            calls: 2_048,
            streams: 1_024,
            subscriptions: 256,
            parked: 256,
            places_for_one: DEFAULT_PARTS,
            parked_for: Duration::from_secs(10 * 60),
            page: 1_000,
        }
    }
}
