//! Servers that lie, stall and crash, and the other things that Toolrack's tests stand on.
//!
//! * [`fake`]: a scripted MCP server of both eras, with a [table of faults](fake::faults::FAULTS). As a program it is
//!   [`fake_server_path`] (over stdio) or [`FakeHttp`] (over HTTP, ended when dropped).
//! * [`SideEffects`]: what tools that server really ran, so that a test can prove that nothing ran twice.
//! * [`FakeAuthorization`]: an authorization server that can do much wrong, with an MCP server behind it.
//! * [`FakeModel`]: a scripted model provider over HTTP, and what it was asked.
//! * [`LockedDatabase`]: a database that another process seems to hold.
//! * [`Home`]: a temporary home in which a binary sees nothing of the machine it runs on.
//! * [`rmcp_native`]: a server in this process, written with `rmcp`.
//! * [`processes`] and [`memory`]: what is left of a process tree, and how large a process is (Linux only).
//!
//! Only ever a dev-dependency: everything here panics, with a reason, when a test cannot go on.
//!
//! ```text
//!   a test ──► launch ──starts──► bin/fake-server ──► fake
//!     │                                               │
//!     │        fake:  stdio, http, legacy_sse         │   the ways in
//!     │                     ▼                         │
//!     │               server ──► eras ──► tools, asks, offers      what it does, asks and has
//!     │                  │         ▼
//!     │                  │       lies ◄── faults      what an answer becomes on its way out
//!     │                  └──► log ─────────┐
//!     ▼                                    ▼
//!   effects ◄───────────reads─────────── a file
//!
//!   authorization ──► launch     tokens in front of a fake server
//!   model, native, locks, home, processes, memory     each by itself; bin/rmcp-server, bin/supervised
//! ```
//!
//! ```no_run
//! use toolrack_testkit::{FakeHttp, SideEffects};
//!
//! let effects = SideEffects::new();
//! let server = FakeHttp::start(&["--era", "both", "--fault", "cut-sse", "--log", effects.path_str()]);
//! // … call the tool `write` at `server.url()`, then:
//! assert_eq!(effects.read().runs_of("write"), 1);
//! ```

pub mod authorization;
pub mod fake;
pub mod memory;
pub mod model;
pub mod processes;

mod effects;
mod home;
mod launch;
mod locks;
mod native;

pub use authorization::FakeAuthorization;
pub use effects::{Effect, Effects, SideEffects};
pub use home::Home;
pub use launch::{FakeHttp, fake_server_path};
pub use locks::LockedDatabase;
pub use model::FakeModel;
pub use native::rmcp_native;
