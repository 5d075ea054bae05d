//! Reads MCP server configuration, in every common dialect, with provenance and trust.
//!
//! No other crate reads the environment or configuration files. [`load()`] turns the layers of a user's configuration
//! into a [`Desired`](toolrack_host::Desired) set of servers and a report. Every entry (the configuration of one
//! server) has its file and the entries that it replaces, and every [`Problem`] names its file, line and column. A bad
//! entry is skipped, and a file that cannot be parsed is skipped as a whole. The report names both, and all other
//! entries are used.
//!
//! [`reload()`] loads the configuration again at any time: it returns a complete new configuration or a report, so that
//! a half-written file never replaces the running one.
//!
//! Loading resolves no values: placeholders such as `${TOKEN}` stay unchanged, and [`Interpolate`] resolves them when
//! the host connects. The entries of a project's file wait for the user's agreement ([`trust`]). [`edit`] changes a
//! file without touching a byte outside the changed entry.
//!
//! The modules:
//!
//! - `document` holds the text of a file, `dialect` parses it and finds its servers, and `node` is a parsed file.
//! - `entry` reads one server, with one row of `rows` for each field.
//! - `load` merges all files into a [`Loaded`]. `settings` and `model` read `toolrack.toml`. `trust` and `look` handle
//!   the entries that a project brings.
//! - `edit` changes files, `import` reads the files of other programs, and `connect` adds Toolrack to them.
//! - `interpolate` fills in placeholders when the host connects, from the `environment` and the stored secrets.
//!   `placeholder` has their grammar, `home` resolves `~`, and `needs` lists the values that an entry needs.
//! - `mask`, `redact` and `guard` make sure that no secret is shown or passed on.
//! - `watch` reports changed files, so that the caller can call [`reload()`].
//! - `schema` makes the JSON schemas and the reference page from `rows`.
//! - `places` finds the folders of configuration and data, and `own_server` checks a server that a member of a team
//!   adds.
//! - `problem` describes one mistake in a file, and `suggest` finds the likely meaning of an unknown name.
//! - `fuzzing` is for the crate `fuzz` only.
//!
//! This crate uses no network and no database, and starts no process.
//!
//! ```
//! use toolrack_config::{Environment, Places, Request, load, trust::NoLedger};
//!
//! # let folder = tempfile::tempdir()?;
//! std::fs::write(
//!     folder.path().join("mcp.json"),
//!     r#"{ "mcpServers": { "fs": { "command": "mcp-fs", "env": { "KEY": "${KEY}" } }, "bad": {} } }"#,
//! )?;
//! let environment = Environment::new([("TOOLRACK_HOME", folder.path())]);
//! let places = Places::from_env(&environment)?;
//! let loaded = load(&Request::new(places, folder.path()), &NoLedger);
//!
//! assert_eq!(loaded.desired.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["fs"]);
//! assert!(loaded.problems[0].to_string().contains("mcp.json:1:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod connect;
mod dialect;
mod document;
pub mod edit;
mod entry;
mod environment;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod home;
pub mod import;
mod interpolate;
mod load;
pub mod look;
mod mask;
mod model;
mod needs;
mod node;
mod own_server;
mod placeholder;
mod places;
mod problem;
mod redact;
mod rows;
pub mod schema;
mod settings;
mod suggest;
pub mod trust;
mod watch;

pub use entry::is_account_name;
pub use environment::Environment;
pub use guard::SecretGate;
pub use interpolate::{Interpolate, Secrets, UnsetPolicy, is_stored_secret_name};
pub use load::{ConfigFile, Entry, Loaded, Rejected, Request, Scope, ShadowedEntry, TypedConfig, check, load, reload};
pub use model::{CheckName, ModelChoice, PriceChoice, RequestBounds};
pub use needs::{secrets_in, share_of, user_values_in};
pub use own_server::{BadOwnServer, OwnServer};
pub use places::{NoHome, Places, project_root};
pub use problem::{Problem, Severity, Snippet};
pub use redact::{redact, show};
pub use settings::{Audit, Refresh, Role, ServeSettings, SessionRetention, Settings, ToolProfiles, ToolSettings};
pub use suggest::{abbreviated, closest};
pub use watch::{Watch, Watcher};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
