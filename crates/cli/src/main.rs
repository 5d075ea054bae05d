//! The command `toolrack` reads the words that the user typed, runs the verb that they name, and shows its result.
//!
//! This crate decides nothing about servers and calls; it puts the other crates together ([`context`]), asks the user at
//! the terminal ([`asker`]), and renders what comes back ([`render`]). Every verb answers with data on stdout, messages
//! on stderr, and an exit code that scripts can rely on ([`error::Exit`]).
//!
//! An arrow means "uses":
//!
//! ```text
//! words ──► run ──► verbs ──► render ──► screen ──► stdout, stderr
//!            │        │  └────► asker ◄── the user
//!            │        ▼
//!            │      context ► the other crates: config, host, store, auth, agent, daemon
//!            │        ├────► audit, log_keeper, concealing   what goes into the store
//!            │        └────► secrets, tokens                 where the key is; sign-ins
//!            ▼
//!        borrower ──► local_socket, lending ──► verbs::serving::serve::lender
//!        a command that a daemon runs   the daemon's side: the same verb, on its own connections
//! ```
//!
//! The other modules:
//! - `args`: the arguments that several verbs share; `arguments`: the arguments of tools; `completion` and `notebook`
//!   complete both in shells
//! - `live`, `frames` and `server_output` show a turn, protocol messages and what servers write; `output` writes the
//!   file of `-o`
//! - `editor`, `rules`, `mention` and `models`: for conversations and their calls; `artifacts`: the server from which a
//!   model reads results that were too long for it
//! - `database` and `team_file` find the store; `credentials`: the values that members keep in the store
//! - `browser`: signing in
//! - `builtin` and `native`: the server that the program carries
//! - `stop`, `log`, `traces` and `metrics`: signals, diagnostics, spans and counts

mod args;
mod arguments;
mod artifacts;
mod asker;
mod audit;
mod borrower;
mod browser;
mod builtin;
mod completion;
mod concealing;
mod context;
mod credentials;
mod database;
mod editor;
mod error;
mod frames;
mod lending;
mod live;
mod local_socket;
mod log;
mod log_keeper;
mod mention;
mod metrics;
mod models;
mod native;
mod notebook;
mod output;
mod render;
mod rules;
mod run;
mod screen;
mod secrets;
mod server_output;
mod stop;
mod team_file;
mod tokens;
mod traces;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The host may have started this process as a supervisor, which runs between the host and a server. It then does
    // nothing else.
    if let Some(code) = toolrack_host::supervisor::run_if_asked() {
        return code;
    }
    run::run(std::env::args_os().collect())
}
