//! Signs in the people and services of a team (an installation that several users share), and checks their tokens.
//!
//! A team has tenants. [`TeamFile`] is the file that its operator writes: the tenants, who belongs to which of them,
//! and which providers vouch for people. Each way to sign in makes [`Claims`] from a checked proof, and
//! [`TeamFile::principal`] makes the [`Principal`](toolrack_host::Principal) from these claims.
//!
//! [`FrontDoor`] signs people in and gives clients tokens, [`Authority`] finds the member whom such a token proves, and
//! [`Issuers`] checks the tokens of trusted issuers.
//!
//! This crate does not know any tools and opens no port: a server serves [`FrontDoor::router`].
//!
//! The modules:
//!
//! - `routes` lists the addresses of the front door. `authorization` gives tokens to clients, and `sign_in` signs
//!   people in with a browser. `door` has what both share.
//! - `clients` finds OAuth clients. `provider` talks to the provider that signs people in, and `issuers` checks the
//!   access tokens of trusted issuers. They use `signed` (signed statements and their keys), `cached_value` (a cache of
//!   fetched data) and `fetch` (requests).
//! - `authority` finds out which member a token proves, and until when. `tokens` and `random` make tokens.
//! - `file` reads what the operator of a team has written. By that, `members` and `claims` find out who belongs to
//!   which tenant, with which role.
//! - `audit_export` writes the audit logs to a place outside of the database.
//! - `quotas` counts the usage of the members of a tenant.
//! - `endpoint` names the MCP endpoints.
//! - `page`, `browser` and `parameters` write pages for browsers, and read their requests.
//! - `refusals` writes the rows of the audit log about bad input.

pub mod audit_export;
mod authority;
mod authorization;
mod browser;
mod cached_value;
mod claims;
mod clients;
mod door;
mod endpoint;
mod fetch;
mod file;
mod issuers;
mod members;
mod page;
mod parameters;
mod provider;
mod quotas;
mod random;
mod refusals;
mod routes;
mod sign_in;
mod signed;
mod tokens;

pub use authority::{Authority, ProvedToken, Unavailable};
pub use door::{BadFrontDoor, FrontDoor};
pub use endpoint::Endpoint;
pub use fetch::Unreachable;
pub use file::{
    AuditExportTable, BadTeamFile, ExportTarget, OwnServersAllowed, ReplicasTable, S3Table, SignInProvider, StoreTable,
    StoreUrl, TeamFile, Tenant, TrustedIssuer, UrlCommand, UrlFile,
};
pub use issuers::{Issuers, ProvedPrincipal};
pub use members::{Claims, NotAMember};
pub use quotas::{Holder, Limits, Meter, TenantQuotas, Usage, holder_of_member};
pub use random::{NoRandom, random_text};
pub use refusals::Refusals;
pub use tokens::Secret;

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
