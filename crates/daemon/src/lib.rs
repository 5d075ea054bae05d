//! Runs Toolrack as a service: control API, live events, dashboard, and one MCP endpoint in front of all servers.
//!
//! A [`Daemon`] answers at one address. It runs its own world, and one for each agent, tenant and member that is in
//! use, and for each session that has servers of its own. A world loads a configuration, runs it with a
//! [`Host`](toolrack_host::Host), and watches its files. The host decides about calls, and questions for a user wait in
//! [`Questions`].
//!
//! | at | there is |
//! |---|---|
//! | `/` | the dashboard |
//! | `/api/v1` | the control API, described by `/openapi.json` |
//! | `/mcp` | every server's tools, resources and prompts as one MCP server |
//! | `/agents/ID` | the control API and the MCP endpoint of an agent that has servers of its own |
//! | `/health`, `/ready`, `/metrics` | for programs that monitor daemons |
//!
//! The main modules:
//!
//! - `serve` accepts connections and routes requests. `guard` decides first which requests are let in, and how many.
//! - `dashboard`, `api`, `agents` and `gateway` (the MCP endpoint) answer requests.
//! - `world` holds what is configured and runs. Its keeper, a task, applies changes of the configuration files.
//! - `questions` are the questions of the host that wait for a user.
//! - `event_log` keeps what happened, without secrets. `shown` has the forms in which users see such data.
//!
//! Further modules: `worlds` begins and ends the worlds of `agents`, `tenants`, their members (`tenant_members`) and
//! the sessions of clients (`session_worlds`). `replicas` forwards a request to the replica that serves its tenant.
//! `membership` is the member behind a request, `rights` says what each role may do, and `routes` adds to each route
//! the right that it needs and the world that answers members. `credentials` are the values that members give,
//! `own_servers` the servers that they add, and `missing` the values that their servers still lack. `removals` deletes
//! the values of removed members. `profiles` are the tools that clients see, and `endpoint` has the addresses of
//! profiles. `fair_limit` is a limit of which each member gets only a share; `tls`, `streams` and `unread` serve
//! connections, streams and bodies; `error` is the error of the control API.
//!
//! The daemon listens only on this machine by default, and refuses requests without its [`Token`].

mod agents;
mod api;
mod credentials;
mod dashboard;
mod endpoint;
mod error;
mod event_log;
mod fair_limit;
pub mod gateway;
mod guard;
mod membership;
mod missing;
mod own_servers;
mod profiles;
mod questions;
mod removals;
mod replicas;
mod rights;
mod routes;
mod serve;
mod session_worlds;
pub mod shown;
mod streams;
mod tenant_members;
mod tenants;
mod tls;
mod unread;
mod world;
mod worlds;

pub use api::{Metric, MetricKind, MetricValue, Metrics, openapi};
pub use credentials::{Credentials, CredentialsOf, GivenValue, WorldKind};
pub use guard::Token;
pub use own_servers::{OwnServerStore, OwnServers};
pub use questions::Questions;
pub use removals::DeleteMemberValues;
pub use replicas::{NoIdentity, ReplicaOptions};
pub use serve::{Admit, CurrentWorld, Daemon, Options, StartError, Team};
pub use tls::{Tls, TlsError};
pub use toolrack_team::NoRandom;
pub use world::{
    ChosenModel, Models, NoModel, NoSignIn, Parts, SignInChannels, SignIns, Vault, approval_of, discovery_name,
};
pub use worlds::{MakeWorld, NoWorld, WorldParts};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
