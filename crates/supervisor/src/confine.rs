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
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::execve;

use crate::confinement::Confinement;
use crate::grants::{Grant, Permission};
use crate::namespaces;
use crate::protocol::VERDICT_FD;
use crate::reach::{OpenedPath, reach};
use crate::seccomp::{self, AllowedCalls};
use crate::spawn::{environment, inherited};
use crate::stage::{Command, Failure, Isolation, Stage};

/// The oldest Landlock that protects files: with an older one, a server could truncate a file that it may not write.
const MIN_ABI_FOR_FILES: ABI = ABI::V3;
/// The oldest Landlock that restricts TCP ports.
const MIN_ABI_FOR_PORTS: ABI = ABI::V4;
/// The newest Landlock whose restrictions are used. Restrictions that are newer than the required ones (on devices, on
/// signals to processes outside, on abstract Unix sockets) apply only if the kernel has them.
const BEST_ABI: ABI = ABI::V6;

/// The number of threads that [`thread_limit`] allows for each process.
const TASKS_PER_PROCESS: u64 = 16;

/// The exit code of a program that could not become the server, the same as that of `env(1)`.
const COULD_NOT_CONFINE: u8 = 125;

/// Runs one stage on the way to the server: see [`Stage`]. Returns only if the server has ended or could not start.
pub(crate) fn confine(words: &[OsString]) -> ExitCode {
    if let Some(code) = namespaces::probe_if_asked(words) {
        return code;
    }
    // The pipe on which this process sends its verdict (why the server cannot start) to the supervisor.
    let mut verdict = inherited(VERDICT_FD);
    let failure = match run_stage(words, &mut verdict) {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    if let Some(mut verdict) = verdict {
        // If the supervisor is gone, the failure needs no report.
        let _ = match &failure {
            Failure::Exec(errno) => write!(verdict, "exec {}", *errno as i32),
            Failure::Refused(why) => write!(verdict, "refused {why}"),
            Failure::NoNamespaces(why) => write!(verdict, "bare {why}"),
        };
    }
    ExitCode::from(COULD_NOT_CONFINE)
}

fn run_stage(words: &[OsString], verdict: &mut Option<File>) -> Result<ExitCode, Failure> {
    let (stage, words) = words.split_first().ok_or_else(|| Failure::refused("no stage"))?;
    let stage = Stage::of_word(stage).ok_or_else(|| Failure::refused("its stage is unknown"))?;
    let command = Command::of_words(words)?;
    if let Some(own_folder) = command.confinement.own.as_ref().filter(|_| !matches!(stage, Stage::Inside(_))) {
        create_own_folder(own_folder).map_err(|error| {
            Failure::Refused(format!("its folder {} cannot be made: {error}", own_folder.display()))
        })?;
    }
    match stage {
        Stage::Begin { supervisor } => {
            namespaces::end_with_parent(supervisor)?;
            match namespaces::run_keeper(&command, verdict)? {
                Some(code) => Ok(code),
                None => become_server(&command, None),
            }
        }
        Stage::BeginWithoutNamespaces { supervisor } => {
            namespaces::end_with_parent(supervisor)?;
            become_server(&command, None)
        }
        Stage::First { keeper, own_network } => namespaces::run_first(&command, keeper, own_network, verdict),
        Stage::Inside(isolation) => become_server(&command, Some(isolation)),
    }
}

/// Gives up the rights that the server must not have, and becomes the server. `isolation` is `None` without namespaces.
fn become_server(command: &Command<'_>, isolation: Option<Isolation>) -> Result<ExitCode, Failure> {
    let confinement = &command.confinement;
    prctl::set_no_new_privs().map_err(|errno| Failure::Refused(format!("no new privileges: {errno}")))?;
    namespaces::give_up_capabilities()
        .map_err(|errno| Failure::Refused(format!("its capabilities cannot be given up: {errno}")))?;
    restrict(command, isolation).map_err(Failure::Refused)?;
    // Set the limits last, because the restriction may need more open files than the server may have.
    set_limits(confinement).map_err(Failure::Refused)?;
    let may_bind_no_port = confinement.bind.as_ref().is_some_and(Vec::is_empty);
    let allowed = AllowedCalls {
        udp: confinement.udp,
        listen: !may_bind_no_port || isolation.is_some_and(|isolation| isolation.own_network),
        unix_sockets: isolation.is_some(),
        has_own_processes: isolation.is_some(),
    };
    match seccomp::restrict(allowed) {
        Err(why) if !confinement.best_effort => return Err(Failure::Refused(why)),
        _ => {}
    }
    command.run(isolation.is_none())
}

impl Command<'_> {
    /// Replaces this process by the program, with its arguments and environment.
    fn run(&self, has_no_namespaces: bool) -> Result<ExitCode, Failure> {
        let words = |words: &mut dyn Iterator<Item = Vec<u8>>| {
            let words: Result<Vec<CString>, _> = words.map(CString::new).collect();
            words.map_err(|_| Failure::Exec(Errno::EINVAL))
        };
        let arguments = words(&mut self.command.iter().map(|word| word.as_bytes().to_vec()))?;
        let environment = self.variables(environment().collect(), has_no_namespaces);
        let variable = |(name, value): (OsString, OsString)| [name.as_bytes(), value.as_bytes()].join(&b'=');
        let environment = words(&mut environment.into_iter().map(variable))?;
        // `Ok` cannot happen: a successful `execve` does not return.
        match execve(&arguments[0], &arguments, &environment) {
            Ok(never) => match never {},
            Err(errno) => Err(Failure::Exec(errno)),
        }
    }

    /// Returns the server's variables. Adds the option that makes the resolver use TCP, if the server may not use UDP.
    fn variables(
        &self,
        mut environment: Vec<(OsString, OsString)>,
        has_no_namespaces: bool,
    ) -> Vec<(OsString, OsString)> {
        if has_no_namespaces && self.resolves_by_tcp() {
            // A server in namespaces needs no variable: `resolv.conf` in its new root has the option.
            let index = environment.iter().position(|(name, _)| name == RESOLVER_OPTIONS);
            let mut options = index.map(|at| environment.swap_remove(at).1).unwrap_or_default();
            options.push(" use-vc");
            environment.push((RESOLVER_OPTIONS.into(), options));
        }
        environment
    }
}

/// The variable with the options of the C library's resolver.
const RESOLVER_OPTIONS: &str = "RES_OPTIONS";

/// Sets the limits of the confinement, none higher than the hard limit that this process has.
fn set_limits(confinement: &Confinement) -> Result<(), String> {
    let lower = |resource: Resource, name: &str, limit: u64| {
        let (_, hard_limit) = getrlimit(resource).map_err(|errno| format!("{name}: {errno}"))?;
        let limit = limit.min(hard_limit);
        setrlimit(resource, limit, limit).map_err(|errno| format!("{name}: {errno}"))
    };
    // The system would write a core dump, with the server's secrets in it, among the user's files.
    lower(Resource::RLIMIT_CORE, "core dumps", 0)?;
    for (resource, name, limit) in [
        (Resource::RLIMIT_DATA, "memory", confinement.memory),
        (Resource::RLIMIT_NOFILE, "files", confinement.files),
        (Resource::RLIMIT_CPU, "cpu", confinement.cpu),
        (Resource::RLIMIT_NPROC, "processes", confinement.processes.map(thread_limit)),
    ] {
        if let Some(limit) = limit {
            lower(resource, name, limit)?;
        }
    }
    Ok(())
}

/// Returns the limit of threads for a server that may have this many processes. The kernel counts all threads of the
/// user, and not only those of the server, so the limit is added to the threads that there are now. It only stops a
/// server that multiplies faster than the supervisor counts, and does not restrict root.
fn thread_limit(processes: u32) -> u64 {
    // `0.20 0.18 0.12 1/80 11206`: the number after the slash counts all threads of the system.
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let threads = load.as_deref().and_then(|text| text.split('/').nth(1)?.split(' ').next()?.parse::<u64>().ok());
    // If `/proc` cannot be read, assume many threads rather than refuse the server its first one.
    threads.unwrap_or(u64::from(u16::MAX)) + u64::from(processes) * TASKS_PER_PROCESS
}

/// Denies this process all files and ports that the confinement does not name.
fn restrict(command: &Command<'_>, isolation: Option<Isolation>) -> Result<(), String> {
    let confinement = &command.confinement;
    let asks_for_ports = confinement.connect.is_some() || confinement.bind.is_some();
    let required = if confinement.best_effort { CompatLevel::BestEffort } else { CompatLevel::HardRequirement };
    let create = || -> Result<RulesetCreated, RulesetError> {
        let mut rules =
            Ruleset::default().set_compatibility(required).handle_access(AccessFs::from_all(MIN_ABI_FOR_FILES))?;
        if confinement.connect.is_some() {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        if confinement.bind.is_some() {
            rules = rules.handle_access(AccessNet::BindTcp)?;
        }
        rules
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(BEST_ABI))?
            .scope(Scope::from_all(BEST_ABI))?
            .create()
    };
    let rules = create().map_err(|_| landlock_too_old(asks_for_ports))?;
    let rules = allow_files(rules, command, isolation)?;
    let mut rules = rules.set_compatibility(required);
    for (ports, access) in [(&confinement.connect, AccessNet::ConnectTcp), (&confinement.bind, AccessNet::BindTcp)] {
        for port in ports.iter().flatten() {
            rules = rules.add_rule(NetPort::new(*port, access)).map_err(|error| error.to_string())?;
        }
    }
    rules.restrict_self().map(drop).map_err(|error| format!("{error}"))
}

fn landlock_too_old(asks_for_ports: bool) -> String {
    let needed = if asks_for_ports { MIN_ABI_FOR_PORTS } else { MIN_ABI_FOR_FILES };
    let what = if asks_for_ports { "files and ports (Linux 6.7)" } else { "files (Linux 6.2)" };
    let found = support().map_or_else(|| "none".to_owned(), |abi| abi.to_string());
    format!("this kernel cannot restrict access to {what}: Landlock ABI {needed} is needed, and it has {found}")
}

/// Returns the version of Landlock (its ABI) that this system has; `None` if it has none, or has it switched off.
#[must_use]
pub fn support() -> Option<i32> {
    // The only way to find out is to restrict a thread, so do it in a thread that ends at once.
    let probe = std::thread::spawn(|| {
        let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).ok()?.create().ok()?;
        match rules.restrict_self().ok()?.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
            _ => None,
        }
    });
    probe.join().ok().flatten()
}

/// Adds a rule for each file and folder that the server may reach.
fn allow_files(
    rules: RulesetCreated,
    command: &Command<'_>,
    isolation: Option<Isolation>,
) -> Result<RulesetCreated, String> {
    let mut rules = rules.set_compatibility(CompatLevel::BestEffort);
    let reading = AccessFs::from_read(BEST_ABI);
    // A server may not make device nodes: one that runs as root could make one for a disk, and read the disk.
    let writing = reading | (AccessFs::from_write(BEST_ABI) & !(AccessFs::MakeChar | AccessFs::MakeBlock));
    let mut allow = |reached: &OpenedPath, access: BitFlags<AccessFs>| {
        let access = if reached.is_folder { access } else { access & AccessFs::from_file(BEST_ABI) };
        (&mut rules).add_rule(PathBeneath::new(&reached.file, access)).map(drop).map_err(|error| error.to_string())
    };
    // Follows every link: the paths are those of the system.
    let open = |path: &Path| reach(path, |_, _| false).ok();
    for Grant { reached, permission } in command.grants(isolation.is_some())? {
        match permission {
            Permission::Device => allow(&reached, reading | AccessFs::WriteFile)?,
            Permission::Write => allow(&reached, writing)?,
            // A server that runs as root could read secrets there: allow only files that every user can read.
            Permission::Read if reached.real_path == Path::new(SETTINGS_FOLDER) && nix::unistd::geteuid().is_root() => {
                let mut public = PublicPart::default();
                public.collect(&reached.real_path, 0);
                for file in public.readable.iter().filter_map(|path| open(path)) {
                    allow(&file, reading)?;
                }
                for folder in public.listable.iter().filter_map(|path| open(path)) {
                    allow(&folder, AccessFs::ReadDir.into())?;
                }
            }
            Permission::Read => allow(&reached, reading)?,
        }
    }
    if isolation.is_some_and(|isolation| isolation.has_own_proc)
        && let Some(proc) = open(Path::new("/proc"))
    {
        // This `/proc` belongs to the namespace of the server, and shows only the server's processes.
        allow(&proc, reading)?;
    }
    Ok(rules)
}

/// The folder with the system's settings, among them the hashes of its users' passwords.
const SETTINGS_FOLDER: &str = "/etc";

/// The maximum number of levels below [`SETTINGS_FOLDER`] to search.
const MAX_DEPTH: usize = 16;

/// The part of a folder that every user may read.
#[derive(Default)]
struct PublicPart {
    /// Files and folders that every user may read entirely.
    readable: Vec<PathBuf>,
    /// Folders that every user may list, but not read entirely.
    listable: Vec<PathBuf>,
}

impl PublicPart {
    /// Adds the public part of `path` to `self`. Returns whether all of `path` is public.
    fn collect(&mut self, path: &Path, depth: usize) -> bool {
        let Ok(metadata) = path.symlink_metadata() else { return false };
        let mode = metadata.permissions().mode();
        // A link reveals nothing itself, and Landlock checks the file that it leads to.
        if metadata.is_symlink() {
            return true;
        }
        if !metadata.is_dir() {
            let is_public = mode & 0o004 != 0;
            self.readable.extend(is_public.then(|| path.to_owned()));
            return is_public;
        }
        let entries = path.read_dir().ok().filter(|_| mode & 0o005 == 0o005 && depth < MAX_DEPTH);
        let Some(entries) = entries else { return false };
        let before = self.readable.len();
        let mut is_public = true;
        for entry in entries {
            is_public &= entry.is_ok_and(|entry| self.collect(&entry.path(), depth + 1));
        }
        if is_public {
            self.readable.truncate(before);
            self.readable.push(path.to_owned());
        } else {
            self.listable.push(path.to_owned());
        }
        is_public
    }
}

/// Creates the server's own folder, with a folder `tmp` in it. No other user can read it.
fn create_own_folder(own_folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own_folder.join("tmp"))
}

#[cfg(test)]
mod tests;
