//! The supervisor: a small process between the host and each stdio server, so that nothing a server starts outlives it.
//!
//! A server is often a tree of processes (`npx` → `sh` → `node` → …), and a member of the tree can leave the process
//! group, start a session of its own, turn into a daemon or ignore `SIGTERM`. No signal that the host could send finds
//! all of these, and none is sent at all when the host itself is killed with `SIGKILL`. So the host starts its own
//! program once more per server, as a *supervisor*, and the supervisor starts the server. It is a child subreaper
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
//! The supervisor does not touch the three streams: it hands them on and then closes its own copies, so that their end
//! of file tells about the server alone. It ends when the last process below it has ended, for whatever reason:
//!
//! | what happens | what the supervisor does |
//! |---|---|
//! | the server exits | reports it at once; `SIGTERM` to all it left behind, 500 ms, `SIGKILL` |
//! | order `T` | `SIGTERM` to every descendant that had none yet; goes on watching |
//! | order `K` | `SIGKILL` to every descendant until none is left |
//! | the host is gone (end of file on fd 3) | `SIGTERM` to every descendant, 1 s, `SIGKILL` |
//! | `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGQUIT` to the supervisor | the same |
//!
//! It waits for a process that cannot die (uninterruptible sleep) for 3 s at most and then reports it as left behind.
//!
//! A supervisor does not start a server that is to be confined ([`Confinement`]) itself, but one more process, which
//! gives up what the server may not do (files and TCP ports with Landlock, system calls with seccomp, capabilities,
//! limits of the system, new privileges) and then becomes the server. Nothing that the server starts can regain any of
//! it, and the supervisor is out of its reach. If the system cannot enforce a part, the server does not start, unless
//! that was allowed. Where the system lets an ordinary user have namespaces, the server is in its own, and two more
//! processes are before it (`namespaces.rs`).
//!
//! All that a supervisor starts carries its [`mark`], by which the next host finds what was left behind when host and
//! supervisor were killed together.
//!
//! The client of an engine starts a server that runs in a container, which is then not below it. When that client has
//! ended, or before it is killed, the supervisor has the engine remove the container ([`container`]); signals go to the
//! client alone, which passes them on.
//!
//! Only Linux has subreapers. On other systems [`run_if_asked`] does nothing and servers are started without a
//! supervisor, as leaders of process groups.
//!
//! The supervisor is plain, single-threaded and synchronous: it shares no code with the async side but the words of the
//! protocol, and works when the host does not. It is a crate of its own so that a program of nothing else can be built
//! of it: one is started for each server, and a large program takes the system several times as long to start.
//!
//! Its rooms:
//!
//! ```text
//!   run_if_asked ──► tree                  a supervisor's work, from its start to its exit
//!        │            ├──► protocol        the words between host and supervisor
//!        │            ├──► mark ──► table  what was left behind; the processes of the system
//!        │            ├──► container       the duty to remove one
//!        │            ├──► grants          what a confined server may reach, before it starts
//!        │            └──► spawn, stage    starts the server or, for a confined one, this program again:
//!        ▼
//!     confine                              gives up what the server may not do, and becomes it
//!        ├──► namespaces ──► root          is first in its namespaces; the tree of files in there
//!        ├──► grants ──► reach ──► links   each path followed once and held open
//!        └──► seccomp                      system calls that are shut
//!
//!   confinement        what an entry allows, as words of a command line
//!   lineage ──► table  for the host: whether a supervisor is above a process
//! ```
//!
//! This is a part of `toolrack-host`, which exposes its public part as `toolrack_host::supervisor`. The rest may change
//! in any release.

#[cfg(target_os = "linux")]
mod confine;
mod confinement;
pub mod container;
#[cfg(target_os = "linux")]
mod grants;
#[cfg(target_os = "linux")]
pub mod lineage;
pub mod links;
#[cfg(target_os = "linux")]
pub mod mark;
#[cfg(target_os = "linux")]
mod namespaces;
pub mod protocol;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
pub mod table;
#[cfg(target_os = "linux")]
mod tree;

use std::{ffi::OsString, process::ExitCode};

#[cfg(target_os = "linux")]
pub use confine::support as confinement_support;
pub use confinement::Confinement;
#[cfg(target_os = "linux")]
pub use namespaces::support as namespaces_support;
pub use protocol::Exit;
#[cfg(target_os = "linux")]
pub use seccomp::support as seccomp_support;
#[cfg(target_os = "linux")]
pub use spawn::SEAL;

/// The first argument that turns a program into a supervisor. The full command line is `PROGRAM __toolrack-supervise
/// FOLDER WORDS… -- COMMAND ARGS…`, with the words of a [`Confinement`] if the server has one, or of a [`container::Removal`]; it
/// is internal and may change in any release.
pub const MARKER: &str = "__toolrack-supervise";

/// The first argument of the programs on the way to a confined server: what makes its namespaces, what is first in them, and what gives up
/// what the server may not do, and becomes it.
#[cfg(target_os = "linux")]
const CONFINE: &str = "__toolrack-confine";

/// The hook for programs that embed this library: becomes a supervisor if this process was started as one.
///
/// Call it first thing in `main`, before a runtime or a thread is started, a file is opened or an argument is parsed,
/// and return the exit code if there is one. In an ordinary start it only looks at the first argument.
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
/// A program that does not call it must not name itself as a supervisor: it would start once more, in full, for
/// each server. (The host notices and refuses: the server does not start, and the error says why.)
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

/// Whether this process was started to be a supervisor.
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
