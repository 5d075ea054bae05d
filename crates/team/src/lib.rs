//! Who may come in: the people and services of a team, and what proves who they are.
//!
//! A team has tenants. [`TeamFile`] is what its operator writes: the tenants, who belongs to which of them, and which
//! providers vouch for people. A door makes [`Claims`] from something that was proved, and [`TeamFile::principal`] makes
//! the [`Principal`](toolrack_host::Principal) from them.
//!
//! This crate runs no server and knows no tool.
//!
//! ```text
//!   authority                     for whom a token stands, and until when
//!      │
//!      ▼
//!    tokens     members           random text; who belongs to which tenant, with which role
//!                  │
//!                  ▼
//!                file             what the operator of a team writes
//! ```

mod authority;
mod file;
mod members;
mod tokens;

pub use authority::{Authority, Standing, Unavailable};
pub use file::{BadTeamFile, SignInProvider, TeamFile, Tenant, TrustedIssuer};
pub use members::{Claims, NotAMember};
pub use tokens::{NoRandom, Secret};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
