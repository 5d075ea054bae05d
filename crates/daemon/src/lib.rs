//! Toolrack as a service: control API, live events, dashboard, and one MCP endpoint in front of all servers.
//!
//! A [`Daemon`] answers at one address. It runs a world of its own, and one for each agent, tenant and member that is in
//! use, and for each session that has servers of its own. A world loads a configuration, runs it with a
//! [`Host`](toolrack_host::Host), and watches its files. It does not decide about calls: the host does, and questions
//! for a user wait in [`Questions`].
//!
//! | at | there is |
//! |---|---|
//! | `/` | the dashboard |
//! | `/api/v1` | the control API, described by `/openapi.json` |
//! | `/mcp` | every server's tools, resources and prompts as one MCP server |
//! | `/agents/ID` | the control API and the MCP endpoint of an agent that has servers of its own |
//! | `/health`, `/ready`, `/metrics` | for programs that monitor daemons |
//!
//! ```text
//!            serve ──────────► guard          who is let in, and how many
//!              │
//!    ┌─────────┼──────────┬─────────────┐
//!    ▼         ▼          ▼             ▼
//! dashboard   api ──► agents ──────► gateway   one MCP endpoint
//!              │         │              │
//!              │         ▼              │
//!              └──────► world ◄─ files  │      what is configured and runs; its keeper changes it
//!                      │     │          │
//!                      ▼     ▼          ▼
//!               questions   host (the crate toolrack-host): every call
//!                      │
//!                      ▼
//!                 event_log ──► shown          what happened, without secrets, as users see it
//! ```
//!
//! Further modules: `worlds` begins and ends the worlds of `agents`, `tenants`, their members (`tenant_members`) and
//! the sessions of clients (`session_worlds`). `replicas` forwards a request to the replica that serves its tenant.
//! `membership` is the member behind a request, `rights` is what each role may do, and `routes` are routes with the
//! right that they need. `credentials` and `own_servers` are what members give and add, `missing` is what their servers
//! still lack, and `removals` deletes what removed members leave. `profiles` are the tools that clients see, and
//! `endpoint` has the addresses of profiles. `shares` are limits of which each member may use only a share; `tls`,
//! `streams` and `unread` serve connections, streams and bodies; `error` is the error of the control API.
//!
//! It listens only on this machine by default, and refuses requests without its [`Token`].

mod agents;
mod api;
mod credentials;
mod dashboard;
mod endpoint;
mod error;
mod event_log;
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
mod shares;
pub mod shown;
mod streams;
mod tenant_members;
mod tenants;
mod tls;
mod unread;
mod world;
mod worlds;

pub use api::{Metric, MetricKind, MetricValue, Metrics, openapi};
pub use credentials::{Credentials, CredentialsOf, Given, WorldKind};
pub use guard::Token;
pub use own_servers::{AddedServers, OwnServers};
pub use questions::Questions;
pub use removals::Forget;
pub use replicas::{NoIdentity, ReplicaOptions};
pub use serve::{Admit, Current, Daemon, Options, StartError, Team};
pub use tls::{Tls, TlsError};
pub use toolrack_team::NoRandom;
pub use world::{
    ChosenModel, Models, NoModel, NoSignIn, Parts, SignInPage, SignIns, Vault, approval_of, discovery_name,
};
pub use worlds::{MakeWorld, NoWorld, WorldParts};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
