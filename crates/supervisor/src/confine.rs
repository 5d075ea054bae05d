//! Runs between a supervisor and a confined server: gives up what the server may not do, and becomes the server.
//!
//! This takes a process of its own, because what it gives up cannot be regained, and the supervisor still needs it: to
//! see all processes below it, and to be out of the server's reach.

#![expect(clippy::disallowed_methods, reason = "a program of its own: it owns its descriptors and its folder")]

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{close, execve};

use crate::confinement::Confinement;
use crate::links;
use crate::namespaces;
use crate::protocol::VERDICT_FD;
use crate::seccomp::{self, Calls};

/// The oldest Landlock that makes a confinement worth it: with less, a file that cannot be read could still be emptied.
const FILES: ABI = ABI::V3;
/// The oldest Landlock that knows TCP ports.
const PORTS: ABI = ABI::V4;
/// What is shut as well where the kernel can, though no setting names it: devices, signals to processes outside, and
/// sockets that have no file.
const EXTRAS: ABI = ABI::V6;

/// Threads that one process may have on average before the kernel itself starts no more of them.
const TASKS_PER_PROCESS: u64 = 16;

/// Parts of a folder in the home that the programs in it read.
const PARTS: &[&str] =
    &["bin", "sbin", "shims", "libexec", "lib", "lib64", "install", "plugins", "version", "versions"];

/// The exit code of a program that could not become the server, as of `env(1)` and its like.
const COULD_NOT_CONFINE: u8 = 125;

/// Takes one step on the way to the server: see [`Stage`]. Returns only when the server has ended or could not start.
pub(crate) fn confine(words: &[OsString]) -> ExitCode {
    if let Some(code) = namespaces::probe_if_asked(words) {
        return code;
    }
    let mut verdict = inherited(VERDICT_FD);
    let failure = match attempt(words, &mut verdict) {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    if let Some(mut verdict) = verdict {
        let _ = match &failure {
            Failure::Exec(errno) => write!(verdict, "exec {}", *errno as i32),
            Failure::Refused(why) => write!(verdict, "refused {why}"),
            Failure::Bare(why) => write!(verdict, "bare {why}"),
        };
    }
    ExitCode::from(COULD_NOT_CONFINE)
}

/// Why the server did not start.
pub(crate) enum Failure {
    /// The program cannot be run.
    Exec(Errno),
    /// The program is not run, because it would not be confined.
    Refused(String),
    /// The namespaces that the system gave are of no use: try again without.
    Bare(String),
}

impl Failure {
    pub(crate) fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

/// The stage on the way to the server, as the first word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The child of the supervisor: makes namespaces, if it can have them.
    Begin { supervisor: i32 },
    /// The same, without namespaces.
    Bare { supervisor: i32 },
    /// The first process in the namespaces.
    First { keeper: i32, own_network: bool },
    /// The process that becomes the server there. `is_fresh`: its `/proc` shows only its own processes.
    Inside { is_fresh: bool, own_network: bool },
}

impl Stage {
    pub(crate) fn word(self) -> OsString {
        match self {
            Self::Begin { supervisor } => format!("begin:{supervisor}:0"),
            Self::Bare { supervisor } => format!("bare:{supervisor}:0"),
            Self::First { keeper, own_network } => format!("first:{keeper}:{}", u8::from(own_network)),
            Self::Inside { is_fresh, own_network } => {
                format!("inside:{}:{}", u8::from(is_fresh), u8::from(own_network))
            }
        }
        .into()
    }

    fn of_word(word: &OsStr) -> Option<Self> {
        let mut parts = word.to_str()?.split(':');
        let (name, number, flag) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()? == "1");
        Some(match name {
            "begin" => Self::Begin { supervisor: number },
            "bare" => Self::Bare { supervisor: number },
            "first" => Self::First { keeper: number, own_network: flag },
            "inside" => Self::Inside { is_fresh: number == 1, own_network: flag },
            _ => return None,
        })
    }
}

/// The command to run, and its confinement.
pub(crate) struct Command<'a> {
    /// All words of the command line.
    pub(crate) words: &'a [OsString],
    confinement: Confinement,
    command: &'a [OsString],
    program: &'a Path,
}

impl<'a> Command<'a> {
    fn of_words(words: &'a [OsString]) -> Result<Self, Failure> {
        let end = words.iter().position(|word| word == "--").ok_or_else(|| Failure::refused("no command"))?;
        let confinement =
            Confinement::of_words(&words[..end]).ok_or_else(|| Failure::refused("its words are not understood"))?;
        let command = &words[end + 1..];
        let program = command.first().map(Path::new).ok_or_else(|| Failure::refused("no command"))?;
        Ok(Self { words, confinement, command, program })
    }

    /// Whether it can have a network of its own, with nothing in it.
    pub(crate) fn has_own_network(&self) -> bool {
        let none = |ports: &Option<Vec<u16>>| ports.as_ref().is_some_and(Vec::is_empty);
        none(&self.confinement.connect) && none(&self.confinement.bind) && !self.confinement.udp
    }

    /// Whether names can only be looked up over TCP.
    pub(crate) fn resolves_by_tcp(&self) -> bool {
        !self.confinement.udp && !self.has_own_network()
    }

    /// The program with its arguments and environment.
    fn run(&self, is_bare: bool) -> Result<ExitCode, Failure> {
        let words = |words: &mut dyn Iterator<Item = Vec<u8>>| {
            let words: Result<Vec<CString>, _> = words.map(CString::new).collect();
            words.map_err(|_| Failure::Exec(Errno::EINVAL))
        };
        let arguments = words(&mut self.command.iter().map(|word| word.as_bytes().to_vec()))?;
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        if is_bare && self.resolves_by_tcp() {
            // Elsewhere a file of the new root says so.
            let said = environment.iter().position(|(name, _)| name == RESOLVER_OPTIONS);
            let mut options = said.map(|at| environment.swap_remove(at).1).unwrap_or_default();
            options.push(" use-vc");
            environment.push((RESOLVER_OPTIONS.into(), options));
        }
        let variable = |(name, value): (OsString, OsString)| [name.as_bytes(), value.as_bytes()].join(&b'=');
        let environment = words(&mut environment.into_iter().map(variable))?;
        match execve(&arguments[0], &arguments, &environment) {
            Ok(never) => match never {},
            Err(errno) => Err(Failure::Exec(errno)),
        }
    }
}

/// The variable that tells the C library how to look names up.
const RESOLVER_OPTIONS: &str = "RES_OPTIONS";

/// An inherited pipe that is close-on-exec: its end of file is this process's alone, not that of what it becomes.
pub(crate) fn inherited(fd: i32) -> Option<File> {
    let file = File::options().write(true).open(format!("/proc/self/fd/{fd}")).ok()?;
    // The one that was inherited stays open in the server otherwise; the new one is close-on-exec.
    close(fd).ok()?;
    Some(file)
}

fn attempt(words: &[OsString], verdict: &mut Option<File>) -> Result<ExitCode, Failure> {
    let (stage, words) = words.split_first().ok_or_else(|| Failure::refused("no stage"))?;
    let stage = Stage::of_word(stage).ok_or_else(|| Failure::refused("its stage is not understood"))?;
    let command = Command::of_words(words)?;
    if let Some(own) = command.confinement.own.as_ref().filter(|_| !matches!(stage, Stage::Inside { .. })) {
        make(own).map_err(|error| Failure::Refused(format!("its folder {} cannot be made: {error}", own.display())))?;
    }
    match stage {
        Stage::Begin { supervisor } => {
            namespaces::end_with(supervisor)?;
            match namespaces::keep(&command, verdict)? {
                Some(code) => Ok(code),
                None => become_server(&command, None),
            }
        }
        Stage::Bare { supervisor } => {
            namespaces::end_with(supervisor)?;
            become_server(&command, None)
        }
        Stage::First { keeper, own_network } => namespaces::be_first(&command, keeper, own_network, verdict),
        Stage::Inside { is_fresh, own_network } => become_server(&command, Some((is_fresh, own_network))),
    }
}

/// Gives up what the server may not do, and becomes it. `inside`: in namespaces, whether `/proc` and network are its
/// own.
fn become_server(command: &Command<'_>, inside: Option<(bool, bool)>) -> Result<ExitCode, Failure> {
    let confinement = &command.confinement;
    limit(confinement).map_err(Failure::Refused)?;
    namespaces::give_up_capabilities()
        .map_err(|errno| Failure::Refused(format!("its capabilities cannot be given up: {errno}")))?;
    shut(command, inside.is_some_and(|(is_fresh, _)| is_fresh)).map_err(Failure::Refused)?;
    let binds_none = confinement.bind.as_ref().is_some_and(Vec::is_empty);
    let calls = Calls {
        udp: confinement.udp,
        listen: !binds_none || inside.is_some_and(|(_, own_network)| own_network),
        local: inside.is_some(),
        alone: inside.is_some(),
    };
    match seccomp::shut(calls) {
        Err(why) if !confinement.best_effort => return Err(Failure::Refused(why)),
        _ => {}
    }
    command.run(inside.is_none())
}

fn limit(confinement: &Confinement) -> Result<(), String> {
    let lower = |resource: Resource, name: &str, limit: u64| {
        let (_, most) = getrlimit(resource).map_err(|errno| format!("{name}: {errno}"))?;
        let limit = limit.min(most);
        setrlimit(resource, limit, limit).map_err(|errno| format!("{name}: {errno}"))
    };
    // A dump would be written where the user's files are, with the server's secrets in it.
    lower(Resource::RLIMIT_CORE, "core dumps", 0)?;
    for (resource, name, limit) in [
        (Resource::RLIMIT_DATA, "memory", confinement.memory),
        (Resource::RLIMIT_NOFILE, "files", confinement.files),
        (Resource::RLIMIT_CPU, "cpu", confinement.cpu),
        (Resource::RLIMIT_NPROC, "processes", confinement.processes.map(ceiling_of_tasks)),
    ] {
        if let Some(limit) = limit {
            lower(resource, name, limit)?;
        }
    }
    prctl::set_no_new_privs().map_err(|errno| format!("no new privileges: {errno}"))
}

/// How many threads this user may have once the server has its `processes`. The kernel counts all of the user's, not the
/// server's alone, so this only stops what multiplies faster than the supervisor counts; and it does not hold root.
fn ceiling_of_tasks(processes: u32) -> u64 {
    let now = std::fs::read_to_string("/proc/loadavg").ok();
    let now = now.as_deref().and_then(|text| text.split('/').nth(1)?.split(' ').next()?.parse::<u64>().ok());
    now.unwrap_or(u64::from(u16::MAX)) + u64::from(processes) * TASKS_PER_PROCESS
}

/// Shuts all files and ports from here on, except those that are named.
fn shut(command: &Command<'_>, is_fresh: bool) -> Result<(), String> {
    let confinement = &command.confinement;
    let asks_for_ports = confinement.connect.is_some() || confinement.bind.is_some();
    let required = if confinement.best_effort { CompatLevel::BestEffort } else { CompatLevel::HardRequirement };
    let handle = || -> Result<RulesetCreated, RulesetError> {
        let mut rules = Ruleset::default().set_compatibility(required).handle_access(AccessFs::from_all(FILES))?;
        if confinement.connect.is_some() {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        if confinement.bind.is_some() {
            rules = rules.handle_access(AccessNet::BindTcp)?;
        }
        rules
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(EXTRAS))?
            .scope(Scope::from_all(EXTRAS))?
            .create()
    };
    let rules = handle().map_err(|_| too_old(asks_for_ports))?;
    let rules = open_files(rules, command, is_fresh)?;
    let mut rules = rules.set_compatibility(required);
    for (ports, access) in [(&confinement.connect, AccessNet::ConnectTcp), (&confinement.bind, AccessNet::BindTcp)] {
        for port in ports.iter().flatten() {
            rules = rules.add_rule(NetPort::new(*port, access)).map_err(|error| error.to_string())?;
        }
    }
    rules.restrict_self().map(drop).map_err(|error| format!("{error}"))
}

fn too_old(asks_for_ports: bool) -> String {
    let needed = if asks_for_ports { PORTS } else { FILES };
    let since = if asks_for_ports { "files and ports (Linux 6.7)" } else { "files (Linux 6.2)" };
    let has = support().map_or_else(|| "none".to_owned(), |abi| abi.to_string());
    format!("this kernel cannot shut {since}: Landlock ABI {needed} is needed, and it has {has}")
}

/// The version of Landlock that this system has; `None`: none, or it is switched off.
#[must_use]
pub fn support() -> Option<i32> {
    // A thread of its own, because to ask is to be restricted; this restricts it in nothing that it does.
    let asked = std::thread::spawn(|| {
        let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).ok()?.create().ok()?;
        match rules.restrict_self().ok()?.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
            _ => None,
        }
    });
    asked.join().ok().flatten()
}

/// A file or folder that the server may reach.
pub(crate) struct Grant {
    pub(crate) path: PathBuf,
    /// The server may change it.
    pub(crate) writable: bool,
    /// A device: the server may write to it, and not make others.
    device: bool,
}

impl Command<'_> {
    /// Everything that this server may reach, as far as it exists.
    ///
    /// # Errors
    /// When a named file or folder does not exist.
    pub(crate) fn grants(&self) -> Result<Vec<Grant>, String> {
        let confinement = &self.confinement;
        let mut grants = Vec::new();
        let mut add = |path: &Path, writable: bool, device: bool| {
            if path.exists() {
                grants.push(Grant { path: path.to_owned(), writable, device });
            }
        };
        for path in Confinement::SYSTEM {
            add(Path::new(path), false, false);
        }
        for path in Confinement::DEVICES {
            add(Path::new(path), false, true);
        }
        // An entry that names no home means the one that the server gets.
        let home = confinement.home.clone().or_else(|| std::env::var_os("HOME").map(PathBuf::from));
        let folder = own_folder(home.as_deref());
        let changeable = folder.iter().chain(&confinement.own).chain(&confinement.write);
        let changeable: Vec<_> = changeable.filter_map(|path| path.canonicalize().ok()).collect();
        let brought = installed_at(self.program, home.as_deref());
        for path in brought.iter().filter(|path| links::first_within(path, &changeable).is_none()) {
            add(path, false, false);
        }
        for path in folder.iter().chain(&confinement.own) {
            add(path, true, false);
        }
        for (paths, field, writable) in [(&confinement.read, "read", false), (&confinement.write, "write", true)] {
            for path in paths {
                path.metadata().map_err(|error| format!("`sandbox.{field}` names {}: {error}", path.display()))?;
                if let Some(link) = links::first_within(path, &changeable) {
                    let (path, link) = (path.display(), link.display());
                    return Err(format!(
                        "`sandbox.{field}` names {path}, and the server could have made the link {link} itself: name what it \
                         is to lead to"
                    ));
                }
                add(path, writable, false);
            }
        }
        Ok(grants)
    }
}

fn open_files(rules: RulesetCreated, command: &Command<'_>, is_fresh: bool) -> Result<RulesetCreated, String> {
    let mut rules = rules.set_compatibility(CompatLevel::BestEffort);
    let reading = AccessFs::from_read(EXTRAS);
    // No device nodes: root could make one of a disk, and read that.
    let writing = reading | (AccessFs::from_write(EXTRAS) & !(AccessFs::MakeChar | AccessFs::MakeBlock));
    let mut open = |path: &Path, access: BitFlags<AccessFs>| {
        let Ok(file) = PathFd::new(path) else { return Ok(()) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(EXTRAS) };
        (&mut rules).add_rule(PathBeneath::new(file, access)).map(drop).map_err(|error| error.to_string())
    };
    for grant in command.grants()? {
        match grant {
            Grant { device: true, path, .. } => open(&path, reading | AccessFs::WriteFile)?,
            Grant { writable: true, path, .. } => open(&path, writing)?,
            // Root may read more of this than other users.
            Grant { path, .. } if path == Path::new(SETTINGS) && nix::unistd::geteuid().is_root() => {
                let mut public = Public::default();
                public.look(&path, 0);
                for path in public.whole {
                    open(&path, reading)?;
                }
                for path in public.lists {
                    open(&path, AccessFs::ReadDir.into())?;
                }
            }
            Grant { path, .. } => open(&path, reading)?,
        }
    }
    if is_fresh {
        // There is no process in it but the server's own.
        open(Path::new("/proc"), reading)?;
    }
    Ok(rules)
}

/// The folder of the system's settings, and its users' passwords.
const SETTINGS: &str = "/etc";

/// The greatest depth at which it is searched there.
const DEPTH: usize = 16;

/// The part of a folder that every user may read.
#[derive(Default)]
struct Public {
    /// Files, and folders with everything in them.
    whole: Vec<PathBuf>,
    /// Folders of which only a part is readable for all.
    lists: Vec<PathBuf>,
}

impl Public {
    /// Whether every user may read all of `path`; the readable part is in `self` then.
    fn look(&mut self, path: &Path, depth: usize) -> bool {
        let Ok(about) = path.symlink_metadata() else { return false };
        let mode = about.permissions().mode();
        if about.is_symlink() {
            return true;
        }
        if !about.is_dir() {
            let is_public = mode & 0o004 != 0;
            self.whole.extend(is_public.then(|| path.to_owned()));
            return is_public;
        }
        let entries = path.read_dir().ok().filter(|_| mode & 0o005 == 0o005 && depth < DEPTH);
        let Some(entries) = entries else { return false };
        let before = self.whole.len();
        let lists = self.lists.len();
        let mut is_public = true;
        for entry in entries {
            is_public &= entry.is_ok_and(|entry| self.look(&entry.path(), depth + 1));
        }
        if is_public {
            self.whole.truncate(before);
            self.lists.truncate(lists);
            self.whole.push(path.to_owned());
        } else {
            self.lists.push(path.to_owned());
        }
        is_public
    }
}

fn make(own: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own.join("tmp"))
}

/// The working folder, unless it is the user's home or holds it.
fn own_folder(home: Option<&Path>) -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let holds_home = home.is_some_and(|home| home.starts_with(&folder));
    (folder != Path::new("/") && !holds_home).then_some(folder)
}

/// Where `program` and what belongs to it are installed: `~/.nvm/versions/node/v22` for `…/v22/bin/node`, by the name that it
/// was called and by the one that this leads to; and where the Python of a virtual environment is.
fn installed_at(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let homes: Vec<PathBuf> =
        home.into_iter().flat_map(|home| [Some(home.to_owned()), home.canonicalize().ok()]).flatten().collect();
    let real = program.canonicalize().ok();
    let programs = [Some(program.to_owned()), real];
    let pythons = programs.clone().map(|program| program?.with_file_name("python").canonicalize().ok());
    // A server may be able to put a link of this name there.
    let pythons = pythons.into_iter().flatten().filter(|python| is_installed_python(python));
    programs.into_iter().flatten().chain(pythons).flat_map(|program| brought_by(&program, &homes)).collect()
}

/// Whether this is a Python where installations have it.
fn is_installed_python(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_in_bin = program.parent().and_then(Path::file_name) == Some(OsStr::new("bin"));
    let is_program =
        || program.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    is_in_bin && ["python", "pypy", "graalpy"].iter().any(|python| name.starts_with(python)) && is_program()
}

/// The folder that `program` belongs to: the one that its `bin` is in. If that is directly in the home, only the
/// folders that are certainly parts of programs: `~/.cargo` and `~/.docker` have keys beside their `bin`.
fn brought_by(program: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    let holds_home = |folder: &Path| homes.iter().any(|home| home.starts_with(folder));
    let Some(folder) = program.parent().filter(|folder| !holds_home(folder)) else {
        return vec![program.to_owned()];
    };
    let is_bin = ["bin", "sbin", "shims", "libexec"].iter().any(|name| folder.file_name() == Some(OsStr::new(name)));
    match folder.parent().filter(|above| is_bin && !holds_home(above) && *above != Path::new("/")) {
        None => vec![folder.to_owned()],
        Some(above) if homes.iter().any(|home| above.parent() == Some(home)) => {
            PARTS.iter().map(|part| above.join(part)).collect()
        }
        Some(above) => vec![above.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_what_it_is_installed_with_and_never_a_home() {
        let homes = [PathBuf::from("/data/me"), PathBuf::from("/home/me")];
        for (program, installed) in [
            ("/home/me/.nvm/versions/node/v22/bin/node", "/home/me/.nvm/versions/node/v22"),
            ("/home/me/.local/share/uv/tools/x/bin/x", "/home/me/.local/share/uv/tools/x"),
            ("/home/me/bin/server", "/home/me/bin"),
            ("/home/bin/server", "/home/bin"),
            ("/home/me/server", "/home/me/server"),
            ("/home/server", "/home/server"),
            ("/bin/sh", "/bin"),
            ("/opt/x/bin/sh", "/opt/x"),
            ("/home/me/project/server", "/home/me/project"),
        ] {
            assert_eq!(brought_by(Path::new(program), &homes), [PathBuf::from(installed)], "{program}");
        }
        for program in ["/home/me/.cargo/bin/server", "/home/me/.local/bin/uvx", "/home/me/.pyenv/shims/python3"] {
            let brought = brought_by(Path::new(program), &homes);
            assert!(brought.contains(&Path::new(program).parent().unwrap().to_owned()), "{program}: {brought:?}");
            assert!(brought.iter().all(|path| path.components().count() == 5), "{program}: {brought:?}");
        }
    }
}
