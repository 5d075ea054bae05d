//! What runs between a supervisor and a confined server: it gives up what the server may not do, and becomes the server.
//!
//! A process of its own, because what is given up cannot be had back, and the supervisor still needs it: to see all
//! processes below it, and to be out of the server's reach.

#![expect(clippy::disallowed_methods, reason = "a program of its own: it owns its descriptors and its folder")]

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{close, execv};

use crate::confinement::Confinement;
use crate::protocol::VERDICT_FD;

/// What must be there for a confinement to mean anything: with less, a file that cannot be read could still be emptied.
const FILES: ABI = ABI::V3;
/// Where TCP ports are known.
const PORTS: ABI = ABI::V4;
/// What is shut as well where the kernel can, though nobody asks for it by name: devices, signals to processes outside, and
/// sockets that have no file.
const EXTRAS: ABI = ABI::V6;

/// Threads that one process may have on average before the kernel itself starts no more of them.
const TASKS_PER_PROCESS: u64 = 16;

/// What of a folder in the home, beside the programs in it, is read by them.
const PARTS: &[&str] =
    &["bin", "sbin", "shims", "libexec", "lib", "lib64", "install", "plugins", "version", "versions"];

/// The exit code of a program that could not become the server: as `env(1)` and its like.
const COULD_NOT_CONFINE: u8 = 125;

/// Gives up what `words` do not name, and becomes the command behind `--`. Returns only when that fails.
pub(crate) fn confine(words: &[OsString]) -> ExitCode {
    let verdict = verdict();
    let failure = match attempt(words) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    if let Some(mut verdict) = verdict {
        let _ = match &failure {
            Failure::Exec(errno) => write!(verdict, "exec {}", *errno as i32),
            Failure::Refused(why) => write!(verdict, "refused {why}"),
        };
    }
    ExitCode::from(COULD_NOT_CONFINE)
}

enum Failure {
    /// The program cannot be run.
    Exec(Errno),
    /// It is not run, because it would not be confined.
    Refused(String),
}

/// The pipe on which the supervisor waits: its end of file means that the server runs.
fn verdict() -> Option<File> {
    let verdict = File::options().write(true).open(format!("/proc/self/fd/{VERDICT_FD}")).ok()?;
    // The one that was inherited stays open in the server otherwise; the new one is close-on-exec.
    close(VERDICT_FD).ok()?;
    Some(verdict)
}

fn attempt(words: &[OsString]) -> Result<std::convert::Infallible, Failure> {
    let refused = |why: &str| Failure::Refused(why.to_owned());
    let end = words.iter().position(|word| word == "--").ok_or_else(|| refused("no command"))?;
    let confinement = Confinement::of_words(&words[..end]).ok_or_else(|| refused("its words are not understood"))?;
    let command = &words[end + 1..];
    let program = command.first().ok_or_else(|| refused("no command"))?;
    limit(&confinement).map_err(Failure::Refused)?;
    shut(&confinement, Path::new(program)).map_err(Failure::Refused)?;
    let arguments: Result<Vec<CString>, _> = command.iter().map(|word| CString::new(word.as_bytes())).collect();
    let arguments = arguments.map_err(|_| Failure::Exec(Errno::EINVAL))?;
    execv(&arguments[0], &arguments).map_err(Failure::Exec)
}

fn limit(confinement: &Confinement) -> Result<(), String> {
    let lower = |resource: Resource, name: &str, limit: u64| {
        let (_, most) = getrlimit(resource).map_err(|errno| format!("{name}: {errno}"))?;
        let limit = limit.min(most);
        setrlimit(resource, limit, limit).map_err(|errno| format!("{name}: {errno}"))
    };
    // A dump would be written where the person's files are, with the server's secrets in it.
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

/// From here on, files and ports are shut but for those that are named.
fn shut(confinement: &Confinement, program: &Path) -> Result<(), String> {
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
    let rules = open_files(rules, confinement, program)?;
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

/// Which version of Landlock this system has; `None`: none, or it is switched off.
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

fn open_files(rules: RulesetCreated, confinement: &Confinement, program: &Path) -> Result<RulesetCreated, String> {
    let mut rules = rules.set_compatibility(CompatLevel::BestEffort);
    let reading = AccessFs::from_read(EXTRAS);
    // No device nodes: root could make one of a disk, and read that.
    let writing = reading | (AccessFs::from_write(EXTRAS) & !(AccessFs::MakeChar | AccessFs::MakeBlock));
    let mut open = |path: &Path, access: BitFlags<AccessFs>, must: Option<&str>| {
        let file = match PathFd::new(path) {
            Ok(file) => file,
            Err(error) => {
                return match must {
                    None => Ok(()),
                    Some(field) => Err(format!("`sandbox.{field}` names {}: {}", path.display(), in_words(&error))),
                };
            }
        };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(EXTRAS) };
        (&mut rules).add_rule(PathBeneath::new(file, access)).map(drop).map_err(|error| error.to_string())
    };
    for path in Confinement::SYSTEM {
        open(Path::new(path), reading, None)?;
    }
    for path in Confinement::DEVICES {
        open(Path::new(path), reading | AccessFs::WriteFile, None)?;
    }
    // Who says nothing of a home means the one that the server is told of.
    let home = confinement.home.clone().or_else(|| std::env::var_os("HOME").map(PathBuf::from));
    for path in installed_at(program, home.as_deref()) {
        open(&path, reading, None)?;
    }
    if let Some(folder) = own_folder(home.as_deref()) {
        open(&folder, writing, None)?;
    }
    if let Some(own) = &confinement.own {
        make(own).map_err(|error| format!("its folder {} cannot be made: {error}", own.display()))?;
        open(own, writing, None)?;
    }
    for path in &confinement.read {
        open(path, reading, Some("read"))?;
    }
    for path in &confinement.write {
        open(path, writing, Some("write"))?;
    }
    Ok(rules)
}

fn make(own: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own.join("tmp"))
}

fn in_words(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The working folder, unless it is the person's home or holds it.
fn own_folder(home: Option<&Path>) -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let holds_home = home.is_some_and(|home| home.starts_with(&folder));
    (folder != Path::new("/") && !holds_home).then_some(folder)
}

/// Where `program` and what belongs to it are installed: `~/.nvm/versions/node/v22` for `…/v22/bin/node`, by the name that it
/// was called and by the one that this leads to; and where the Python of a virtual environment is.
fn installed_at(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut add = |program: &Path| {
        found.extend(brought_by(program, home));
        let python = program.with_file_name("python");
        python.exists().then_some(python)
    };
    let real = program.canonicalize().ok();
    let pythons = [Some(program), real.as_deref()].map(|program| program.and_then(&mut add));
    for python in pythons.into_iter().flatten().filter_map(|python| python.canonicalize().ok()) {
        add(&python);
    }
    found
}

/// What `program` brings by being where it is: the folder that its `bin` is in. Of one that is directly in the home, only what
/// is certainly a part of programs: `~/.cargo` and `~/.docker` have keys beside their `bin`.
fn brought_by(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let holds_home = |folder: &Path| home.is_some_and(|home| home.starts_with(folder));
    let Some(folder) = program.parent().filter(|folder| !holds_home(folder)) else {
        return vec![program.to_owned()];
    };
    let is_bin = ["bin", "sbin", "shims", "libexec"].iter().any(|name| folder.file_name() == Some(OsStr::new(name)));
    match folder.parent().filter(|above| is_bin && !holds_home(above) && *above != Path::new("/")) {
        None => vec![folder.to_owned()],
        Some(above) if home.is_some() && above.parent() == home => PARTS.iter().map(|part| above.join(part)).collect(),
        Some(above) => vec![above.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_what_it_is_installed_with_and_never_a_home() {
        let home = Path::new("/home/me");
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
            assert_eq!(brought_by(Path::new(program), Some(home)), [PathBuf::from(installed)], "{program}");
        }
        for program in ["/home/me/.cargo/bin/server", "/home/me/.local/bin/uvx", "/home/me/.pyenv/shims/python3"] {
            let brought = brought_by(Path::new(program), Some(home));
            assert!(brought.contains(&Path::new(program).parent().unwrap().to_owned()), "{program}: {brought:?}");
            assert!(brought.iter().all(|path| path.components().count() == 5), "{program}: {brought:?}");
        }
    }
}
