//! Servers that lie, stall and crash, and other helpers of Toolrack's tests.
//!
//! * [`fake`]: a scripted MCP server of both eras, with a [table of faults](fake::faults::FAULTS). As a program it is
//!   [`fake_server_path`] (over stdio) or [`FakeHttp`] (over HTTP, ended when dropped).
//! * [`EffectLog`]: which tools that server really ran, so that a test can prove that none ran twice.
//! * [`FakeAuthorization`]: an authorization server with scripted faults, in front of an MCP server.
//! * [`FakeModel`]: a scripted model provider over HTTP, which records its requests.
//! * [`Postgres`]: a database server for one test, on a socket in a temporary folder.
//! * [`LockedDatabase`]: a database that another process seems to hold.
//! * [`Home`]: a temporary home in which a program sees no files or variables of the machine's user.
//! * [`rmcp_native`], [`listing_native`]: servers in this process, written with `rmcp`; the second only lists tools.
//! * [`processes`] and [`memory`]: which processes still run, and how much memory one holds (Linux only).
//!
//! Use it as a dev-dependency only: everything here panics, with a reason, when a test cannot go on.
//!
//! ```text
//!   a test ──► launch ──starts──► bin/fake-server ──► fake
//!     │                                               │
//!     │        fake:  stdio, http, legacy_sse         │   the transports
//!     │                     ▼                         │
//!     │               server ──► eras ──► tools, asks, offers      what it runs, asks and offers
//!     │                  │         ▼
//!     │                  │       lies ◄── faults      changes answers on their way out
//!     │                  └──► log ─────────┐
//!     ▼                                    ▼
//!   effects ◄───────────reads─────────── a file
//!
//!   authorization ──► launch     tokens in front of a fake server
//!   model, native, postgres, locks, home, processes, memory,
//!   certificate                  independent; bin/rmcp-server, bin/supervised
//! ```
//!
//! ```no_run
//! use toolrack_testkit::{FakeHttp, EffectLog};
//!
//! let effects = EffectLog::new();
//! let server = FakeHttp::start(&["--era", "both", "--fault", "cut-sse", "--log", effects.path_str()]);
//! // … call the tool `write` at `server.url()`, then:
//! assert_eq!(effects.read().runs_of("write"), 1);
//! ```

pub mod authorization;
pub mod fake;
pub mod memory;
pub mod model;
pub mod processes;

mod certificate;
mod effects;
mod home;
mod launch;
mod locks;
mod native;
mod postgres;

pub use authorization::FakeAuthorization;
pub use certificate::Certificate;
pub use effects::{Effect, EffectLog, Effects};
pub use home::Home;
pub use launch::{FakeHttp, fake_server_path};
pub use locks::LockedDatabase;
pub use model::FakeModel;
pub use native::{listing_native, rmcp_native};
pub use postgres::Postgres;
