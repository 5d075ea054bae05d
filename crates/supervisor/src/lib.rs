//! Runs the supervisor: a small process between the host and each stdio server, so that nothing that a server starts
//! outlives the server.
//!
//! A server is often a tree of processes (`npx` → `sh` → `node` → …), and a member of the tree can leave the process
//! group, start a session of its own, turn into a daemon or ignore `SIGTERM`. No signal of the host reaches all of
//! these, and a host that is killed with `SIGKILL` sends none at all. So for each server, the host starts its own
//! program once more, as a *supervisor*, and the supervisor starts the server. A supervisor is a child subreaper
//! (`prctl(2)`, `PR_SET_CHILD_SUBREAPER`): whatever is orphaned below it becomes its own child, so that the tree never
//! falls apart and can be ended as a whole.
//!
//! ```text
//! host ──┬─ stdin, stdout, stderr ─────────────────────────────► server ─► what it starts
//!        ├─ fd 3, orders: one byte each, T or K; ► supervisor ─►┘  (children of the supervisor
//!        │  its end of file means the host is gone     │            once they are orphaned)
//!        └─ fd 4, reports: one line each ◄─────────────┘
//! ```
//!
//! The supervisor does not touch the three streams: it hands them on and then closes its own copies, so that only the
//! server decides when they reach their end of file. It ends when the last process below it has ended:
//!
//! | what happens | what the supervisor does |
//! |---|---|
//! | the server exits | reports it at once; `SIGTERM` to all it left behind, 500 ms, `SIGKILL` |
//! | order `T` | `SIGTERM` to every descendant that had none yet; goes on watching |
//! | order `K` | `SIGKILL` to every descendant until none is left |
//! | the host is gone (end of file on fd 3) | `SIGTERM` to every descendant, 1 s, `SIGKILL` |
//! | `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGQUIT` to the supervisor | the same |
//!
//! If a process cannot die (uninterruptible sleep), the supervisor waits for it for 3 s at most, and then reports it as
//! left behind.
//!
//! For a confined server ([`Confinement`]), the supervisor starts one more process. That process gives up the rights
//! that the server must not have (files and TCP ports with Landlock, system calls with seccomp, capabilities, resource
//! limits, new privileges) and then becomes the server. Neither the server nor its descendants can regain these rights
//! or reach the supervisor. If the system cannot enforce a part, the server does not start, unless
//! [`Confinement::best_effort`] allows it. Where the system gives namespaces to an ordinary user, the server has its
//! own, and two more processes stand between the supervisor and the server (`layer/namespaces.rs`).
//!
//! Every process below a supervisor carries its [`mark`]. If host and supervisor were killed together, the next host
//! finds the processes that they left behind by this mark.
//!
//! A server in a container is started by the client of an engine, such as `docker run`, and is not below the
//! supervisor. The supervisor signals only the client, which passes signals on. When the client has ended, or before
//! the supervisor kills it, the supervisor has the engine remove the container ([`container`]).
//!
//! Only Linux has subreapers. On other systems [`run_if_asked`] does nothing, and the host starts servers without a
//! supervisor, as leaders of process groups.
//!
//! The supervisor is plain, single-threaded and synchronous: it shares only the protocol with the asynchronous host,
//! and works when the host does not. It is a crate of its own so that it can be built as a small program: one runs for
//! each server, and the system takes several times as long to start a large program.
//!
//! The modules of this crate (an arrow means "uses"):
//!
//! ```text
//!   run_if_asked ──► tree                  a supervisor's work, from its start to its exit
//!        │            ├──► protocol        the messages between host and supervisor
//!        │            ├──► mark ──► table  processes left behind; the system's process table
//!        │            ├──► container       removes a container
//!        │            ├──► grants          what a confined server may reach, before it starts
//!        │            └──► spawn, stage    starts the server or, for a confined one, this program again:
//!        ▼
//!     confine                              gives up what the server may not do, and becomes the server
//!        └──► layer                        the layers of the sandbox: its processes and files (`namespaces`, with the
//!              │                           init process in them), files and ports (`ruleset`), system calls (`seccomp`)
//!              ├──► root                   the tree of files in the namespaces
//!              └──► grants ──► reach ──► links   each path followed once and held open
//!
//!   confinement        what its configuration allows a server, as words of a command line
//!   lineage ──► table  for the host: whether a supervisor is above a process
//! ```
//!
//! This crate is a part of `toolrack-host`: what `toolrack_host::supervisor` exposes is public, the rest may change in
//! any release.

#[cfg(target_os = "linux")]
mod confine;
mod confinement;
pub mod container;
#[cfg(target_os = "linux")]
mod grants;
mod layer;
#[cfg(target_os = "linux")]
pub mod lineage;
pub mod links;
#[cfg(target_os = "linux")]
pub mod mark;
pub mod protocol;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
pub mod table;
#[cfg(target_os = "linux")]
mod tree;

use std::{ffi::OsString, process::ExitCode};

pub use confinement::Confinement;
pub use layer::Layer;
pub use protocol::Exit;
#[cfg(target_os = "linux")]
pub use spawn::VARIABLE_PREFIX;

/// The first argument that turns a program into a supervisor. The full command line is `PROGRAM __toolrack-supervise
/// FOLDER WORDS… -- COMMAND ARGS…`, where the words are those of a [`Confinement`] or a [`container::Removal`], if the
/// server has one. It is internal and may change in any release.
pub const MARKER: &str = "__toolrack-supervise";

/// The first argument of this program when it runs one of the [stages](stage::Stage) between the supervisor and a
/// confined server.
#[cfg(target_os = "linux")]
const CONFINE: &str = "__toolrack-confine";

/// The hook for programs that embed this library: becomes a supervisor if this process was started as one.
///
/// Call it first thing in `main`, before you start a runtime or a thread, open a file or parse an argument, and return
/// the exit code if there is one. In an ordinary start it only looks at the first argument.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = toolrack_supervisor::run_if_asked() {
///         return code;
///     }
///     // … build the runtime, connect servers …
///     ExitCode::SUCCESS
/// }
/// ```
///
/// A program that does not call it must not be configured as the supervisor: it would run once more, in full, for each
/// server. (The host notices this: the server does not start, and the error says why.)
///
/// As a supervisor, this function blocks until the server and everything it started are gone. The exit code is the
/// server's, or 128 plus the number of the signal that killed it.
#[must_use = "the program must end with this exit code"]
pub fn run_if_asked() -> Option<ExitCode> {
    if !is_asked() {
        return None;
    }
    // PROGRAM MARKER FOLDER WORDS… -- COMMAND ARGS…
    let arguments: Vec<OsString> = std::env::args_os().collect();
    Some(match arguments.as_slice() {
        #[cfg(target_os = "linux")]
        [_, marker, words @ ..] if marker == CONFINE => confine::confine(words),
        #[cfg(target_os = "linux")]
        [_, _, folder, rest @ ..] => match rest.iter().position(|word| word == "--") {
            Some(end) => tree::supervise(folder, &rest[..end], &rest[end + 1..]),
            None => ExitCode::FAILURE,
        },
        _ => ExitCode::FAILURE,
    })
}

/// Returns whether this process was started as a supervisor, or as a helper process of one.
#[must_use]
pub fn is_asked() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| {
        #[cfg(target_os = "linux")]
        if word == CONFINE {
            return true;
        }
        word == MARKER
    })
}

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
