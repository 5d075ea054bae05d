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
//! In this picture, a line or an arrow leads from a module to a module that it uses:
//!
//! ```text
//!     routes                        the addresses of the front door
//!        │
//!        ▼
//!   authorization    sign_in        clients get tokens; people sign in with a browser
//!        └──────┬──────┘
//!               ▼
//!     door ──► clients, provider    shared by both; OAuth clients; the provider that signs people in
//!               │          │
//!               │      issuers      access tokens of trusted issuers, beside `provider`
//!               ▼          ▼
//!           signed, remembered, fetch        signed statements and their keys; a cache of fetched data; requests
//!
//!   authority                       which member a token proves, and until when
//!      │
//!      ▼
//!    tokens ► random   members ◄── claims    random text; who belongs to which tenant, with which role
//!                         │
//!                         ▼
//!                       file        what the operator of a team writes
//! ```
//!
//! The other modules: `audit_export` writes the audit logs to a place outside of the database; `quotas` counts what a
//! tenant's members use; `endpoint` names the MCP endpoints; `page`, `browser` and `parameters` write and read what
//! browsers send; `refusals` writes the rows of the audit log about bad input.

pub mod audit_export;
mod authority;
mod authorization;
mod browser;
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
mod remembered;
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
