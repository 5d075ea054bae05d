//! Runs between a supervisor and a confined server: gives up the rights that the server must not have, and becomes the
//! server.
//!
//! This takes a separate process, because a process cannot regain rights that it gave up. The supervisor still needs
//! them, to see all processes below it and to stay out of the server's reach.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, with its own descriptors and working folder"
)]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::execve;

use crate::confinement::Confinement;
use crate::layer::{Layer, namespaces};
use crate::protocol::VERDICT_FD;
use crate::spawn::{reopen_inherited, server_environment};
use crate::stage::{Command, Failure, Isolation, Stage};

/// The number of threads that [`thread_limit`] allows for each process.
const THREADS_PER_PROCESS: u64 = 16;

/// The exit code of a program that could not become the server, the same as that of `env(1)`.
const COULD_NOT_CONFINE: u8 = 125;

/// Runs one stage on the way to the server: see [`Stage`]. Returns only if the server has ended or could not start.
pub(crate) fn confine(words: &[OsString]) -> ExitCode {
    if let Some(code) = namespaces::probe_if_asked(words) {
        return code;
    }
    // The pipe on which this process sends its verdict (why the server cannot start) to the supervisor.
    let mut verdict = reopen_inherited(VERDICT_FD);
    let failure = match run_stage(words, &mut verdict) {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    if let Some(mut verdict) = verdict {
        // The supervisor reads these words in `tree.rs`. If it is gone, the failure needs no report.
        let _ = match &failure {
            Failure::Exec(errno) => write!(verdict, "exec {}", *errno as i32),
            Failure::Refused(why) => write!(verdict, "refused {why}"),
            Failure::NoNamespaces(why) => write!(verdict, "bare {why}"),
        };
    }
    ExitCode::from(COULD_NOT_CONFINE)
}

/// Runs the stage that `words` name. Does not return if this process becomes the server.
fn run_stage(words: &[OsString], verdict: &mut Option<File>) -> Result<ExitCode, Failure> {
    let (stage, words) = words.split_first().ok_or_else(|| Failure::refused("no stage"))?;
    let stage = Stage::from_word(stage).ok_or_else(|| Failure::refused("its stage is unknown"))?;
    let command = Command::from_words(words)?;
    // The last stage, inside the namespaces, finds the folder that an earlier stage has created.
    if let Some(own_folder) = command.confinement.own_folder.as_ref().filter(|_| !matches!(stage, Stage::Inside(_))) {
        create_own_folder(own_folder).map_err(|error| {
            Failure::Refused(format!("its folder {} cannot be made: {error}", own_folder.display()))
        })?;
    }
    let without_namespaces = None;
    match stage {
        Stage::Begin { supervisor_pid } => {
            namespaces::end_with_parent(supervisor_pid)?;
            match namespaces::run_keeper(&command, verdict)? {
                Some(code) => Ok(code),
                None => become_server(&command, without_namespaces),
            }
        }
        Stage::BeginWithoutNamespaces { supervisor_pid } => {
            namespaces::end_with_parent(supervisor_pid)?;
            become_server(&command, without_namespaces)
        }
        Stage::NamespaceInit { keeper_pid, has_own_network } => {
            namespaces::run_namespace_init(&command, keeper_pid, has_own_network, verdict)
        }
        Stage::Inside(isolation) => become_server(&command, Some(isolation)),
    }
}

/// Gives up the rights that the server must not have, and becomes the server. `isolation` is `None` without namespaces.
fn become_server(command: &Command<'_>, isolation: Option<Isolation>) -> Result<ExitCode, Failure> {
    prctl::set_no_new_privs().map_err(|errno| Failure::Refused(format!("no new privileges: {errno}")))?;
    for layer in Layer::ALL {
        layer.apply(command, isolation).map_err(Failure::Refused)?;
    }
    // Set the limits last, because a layer may need more open files than the server may have.
    set_limits(&command.confinement).map_err(Failure::Refused)?;
    command.exec(isolation.is_none())
}

impl Command<'_> {
    /// Replaces this process by the program, with its arguments and environment.
    fn exec(&self, has_no_namespaces: bool) -> Result<ExitCode, Failure> {
        let c_strings = |words: &mut dyn Iterator<Item = Vec<u8>>| {
            let words: Result<Vec<CString>, _> = words.map(CString::new).collect();
            words.map_err(|_| Failure::Exec(Errno::EINVAL))
        };
        let arguments = c_strings(&mut self.server_command.iter().map(|word| word.as_bytes().to_vec()))?;
        let environment = self.with_resolver_option(server_environment().collect(), has_no_namespaces);
        let to_assignment = |(name, value): (OsString, OsString)| [name.as_bytes(), value.as_bytes()].join(&b'=');
        let environment = c_strings(&mut environment.into_iter().map(to_assignment))?;
        // `Ok` cannot happen: a successful `execve` does not return.
        match execve(&arguments[0], &arguments, &environment) {
            Ok(never) => match never {},
            Err(errno) => Err(Failure::Exec(errno)),
        }
    }

    /// Returns the server's variables. Adds the option that makes the resolver use TCP, if the server may not use UDP.
    fn with_resolver_option(
        &self,
        mut environment: Vec<(OsString, OsString)>,
        has_no_namespaces: bool,
    ) -> Vec<(OsString, OsString)> {
        if has_no_namespaces && self.resolves_by_tcp() {
            // A server in namespaces needs no variable: `resolv.conf` in its new root has the option.
            let index = environment.iter().position(|(name, _)| name == RESOLVER_OPTIONS);
            let mut options = index.map(|index| environment.swap_remove(index).1).unwrap_or_default();
            options.push(" use-vc");
            environment.push((RESOLVER_OPTIONS.into(), options));
        }
        environment
    }
}

/// The variable with the options of the C library's resolver.
const RESOLVER_OPTIONS: &str = "RES_OPTIONS";

/// Sets the limits of the confinement. A limit above the hard limit of this process is lowered to that.
fn set_limits(confinement: &Confinement) -> Result<(), String> {
    let set_limit = |resource: Resource, name: &str, limit: u64| {
        let (_, hard_limit) = getrlimit(resource).map_err(|errno| format!("{name}: {errno}"))?;
        let limit = limit.min(hard_limit);
        setrlimit(resource, limit, limit).map_err(|errno| format!("{name}: {errno}"))
    };
    // The system would write a core dump, with the server's secrets in it, among the user's files.
    set_limit(Resource::RLIMIT_CORE, "core dumps", 0)?;
    for (resource, name, limit) in [
        (Resource::RLIMIT_DATA, "memory", confinement.memory),
        (Resource::RLIMIT_NOFILE, "files", confinement.files),
        (Resource::RLIMIT_CPU, "cpu", confinement.cpu),
        (Resource::RLIMIT_NPROC, "processes", confinement.processes.map(thread_limit)),
    ] {
        if let Some(limit) = limit {
            set_limit(resource, name, limit)?;
        }
    }
    Ok(())
}

/// Returns the limit of threads for a server that may have this many processes. The kernel counts all threads of the
/// user, and not only those of the server, so this adds the threads that exist now. The limit only stops a server that
/// starts processes faster than the supervisor counts them. It does not restrict root.
fn thread_limit(processes: u32) -> u64 {
    // `0.20 0.18 0.12 1/80 11206`: the number after the slash counts all threads of the system.
    let load_average = std::fs::read_to_string("/proc/loadavg").ok();
    let threads =
        load_average.as_deref().and_then(|text| text.split('/').nth(1)?.split(' ').next()?.parse::<u64>().ok());
    // If `/proc` cannot be read, assume many threads rather than refuse the server its first one.
    threads.unwrap_or(u64::from(u16::MAX)) + u64::from(processes) * THREADS_PER_PROCESS
}

/// Creates the server's own folder, with a folder `tmp` in it. No other user can read it.
fn create_own_folder(own_folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own_folder.join("tmp"))
}

#[cfg(test)]
mod tests;
