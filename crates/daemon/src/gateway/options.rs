//! Options of a gateway.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolrack_config::Interpolate;
use toolrack_host::{Principal, Selection, SharedAsker};

use crate::{
    missing::Missing,
    profiles::Profiles,
    shares::{PLACES_FOR_ONE, Shares},
};

/// The options of a [`Gateway`](super::Gateway). Each has a default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The name that it gives itself. Default: `toolrack`.
    pub name: String,
    /// Its version. Default: that of this crate.
    pub version: String,
    /// Instructions for models.
    pub instructions: Option<String>,
    /// The most that any client may see. Default: everything.
    pub selection: Selection,
    /// Profiles that a client can ask for by name, with `?profile=NAME`. Default: none.
    pub profiles: Profiles,
    /// The profile of a client that asks for none, such as one over stdio. Default: none, so that it sees everything.
    pub profile: Option<Arc<str>>,
    /// Answers questions that a client cannot answer, above all approvals. Default: none.
    pub asker: Option<SharedAsker>,
    /// The agent whose world the gateway serves; questions name it. Default: none.
    pub agent: Option<Arc<str>>,
    /// The secrets that servers received: clients get `***` in their place. Default: none.
    pub secrets: Option<Arc<Interpolate>>,
    /// Finds the values that the member of a team, whose servers these are, has not yet given. Default: none.
    pub(crate) missing: Option<Missing>,
    /// The principal of a request, if no layer in front of the router has put a [`Principal`] into its extensions.
    /// Default: the person of a machine with a single user. `None` refuses such requests.
    pub unproven: Option<Principal>,
    /// Names by which the endpoint may be reached, in addition to `localhost` and the loopback addresses: a name with a
    /// port only at that port, one without at any port.
    pub hosts: Vec<String>,
    /// The limits of its work.
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
            missing: None,
            unproven: Some(Principal::LOCAL),
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

/// The limits of a gateway's work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// The longest message of a client, in bytes. Default: 8 MiB.
    pub body_bytes: usize,
    /// Sessions of clients of 2025-11-25 and older. Default: 1,024. One more ends the session that was idle longest,
    /// if it was idle for a minute.
    pub sessions: usize,
    /// A session that is idle for so long is ended. Default: an hour. A session with a request under way or an open
    /// stream is not idle.
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
    /// Of as many sessions, calls, streams and parked calls, one member of a team may have one, but one of each in any
    /// case. Default: 8, so an eighth of each. It does not concern the user of the machine.
    pub places_for_one: usize,
    /// How long each of them waits. Default: 10 minutes.
    pub parked_for: Duration,
    /// Items on one page of a list. Default: 1,000.
    pub page: usize,
}

impl Bounds {
    /// The places of a table of which all clients have `most`.
    pub(super) fn shares(&self, most: usize) -> Shares {
        Shares::new(most, (most / self.places_for_one.max(1)).max(1))
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
            places_for_one: PLACES_FOR_ONE,
            parked_for: Duration::from_secs(10 * 60),
            page: 1_000,
        }
    }
}
