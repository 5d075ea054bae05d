//! Restricts the files and TCP ports of a server in the sandbox with Landlock, a part of Linux with which a process
//! gives up rights for itself and its descendants. The *confinement* is the set of rights from the server's
//! configuration.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, which reads the modes of the system's settings"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::grants::{Grant, Permission};
use crate::reach::{OpenedPath, reach};
use crate::stage::{Command, Isolation};

/// The oldest Landlock that protects files: with an older one, a server could truncate a file that it may not write.
const MIN_ABI_FOR_FILES: ABI = ABI::V3;
/// The oldest Landlock that restricts TCP ports.
const MIN_ABI_FOR_PORTS: ABI = ABI::V4;
/// The newest Landlock whose restrictions are used. They include some that no confinement requires: on devices, on
/// signals to processes outside, and on abstract Unix sockets. These apply only if the kernel has them.
const BEST_ABI: ABI = ABI::V6;

/// Denies this process all files and ports that the confinement does not name.
///
/// # Errors
/// If the system has no Landlock, or one that is too old for this confinement.
pub(crate) fn apply(command: &Command<'_>, isolation: Option<Isolation>) -> Result<(), String> {
    let confinement = &command.confinement;
    let restricts_ports = confinement.connect.is_some() || confinement.bind.is_some();
    let compat_level = if confinement.best_effort { CompatLevel::BestEffort } else { CompatLevel::HardRequirement };
    let create_ruleset = || -> Result<RulesetCreated, RulesetError> {
        let mut rules =
            Ruleset::default().set_compatibility(compat_level).handle_access(AccessFs::from_all(MIN_ABI_FOR_FILES))?;
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
    let rules = create_ruleset().map_err(|_| landlock_too_old_error(restricts_ports))?;
    let rules = allow_files(rules, command, isolation)?;
    let mut rules = rules.set_compatibility(compat_level);
    for (ports, access) in [(&confinement.connect, AccessNet::ConnectTcp), (&confinement.bind, AccessNet::BindTcp)] {
        for port in ports.iter().flatten() {
            rules = rules.add_rule(NetPort::new(*port, access)).map_err(|error| error.to_string())?;
        }
    }
    rules.restrict_self().map(drop).map_err(|error| format!("{error}"))
}

/// Returns the error for a Landlock that is missing or too old.
fn landlock_too_old_error(restricts_ports: bool) -> String {
    let required_abi = if restricts_ports { MIN_ABI_FOR_PORTS } else { MIN_ABI_FOR_FILES };
    let subject = if restricts_ports { "files and ports (Linux 6.7)" } else { "files (Linux 6.2)" };
    let found_abi = landlock_abi().map_or_else(|| "none".to_owned(), |abi| abi.to_string());
    format!(
        "this kernel cannot restrict access to {subject}: Landlock ABI {required_abi} is needed, and it has {found_abi}"
    )
}

/// Returns the version of Landlock (its ABI) that this system has; `None` if it has none, or has it switched off.
fn landlock_abi() -> Option<i32> {
    // A program can find out only by restricting a thread, so restrict one that ends at once.
    let probe = std::thread::spawn(|| {
        let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).ok()?.create().ok()?;
        match rules.restrict_self().ok()?.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
            _ => None,
        }
    });
    probe.join().ok().flatten()
}

/// Returns what this system's Landlock restricts.
pub(crate) fn coverage() -> String {
    // The parentheses name the version of Linux that adds the missing part.
    let with_abi = |coverage: &str, abi: i32| format!("Landlock ABI {abi}: {coverage}");
    match landlock_abi() {
        Some(abi @ 6..) => with_abi("files, TCP ports, signals", abi),
        Some(abi @ 4..) => with_abi("files and TCP ports, no signals (Linux 6.12)", abi),
        Some(abi @ 3..) => with_abi("files, no TCP ports (Linux 6.7)", abi),
        Some(abi) => with_abi("not enough for `sandbox` in an entry (Linux 6.2)", abi),
        None => "no Landlock ABI in this system: an entry with `sandbox` does not start".to_owned(),
    }
}

/// Adds a rule for each file and folder that the server may reach.
fn allow_files(
    rules: RulesetCreated,
    command: &Command<'_>,
    isolation: Option<Isolation>,
) -> Result<RulesetCreated, String> {
    let mut rules = rules.set_compatibility(CompatLevel::BestEffort);
    let read_access = AccessFs::from_read(BEST_ABI);
    // A server may not make device nodes: one that runs as root could make one for a disk, and read the disk.
    let write_access = read_access | (AccessFs::from_write(BEST_ABI) & !(AccessFs::MakeChar | AccessFs::MakeBlock));
    let mut allow = |opened_path: &OpenedPath, access: BitFlags<AccessFs>| {
        let access = if opened_path.is_folder { access } else { access & AccessFs::from_file(BEST_ABI) };
        (&mut rules).add_rule(PathBeneath::new(&opened_path.file, access)).map(drop).map_err(|error| error.to_string())
    };
    // Follows every link: the paths are those of the system.
    let open = |path: &Path| reach(path, |_, _| false).ok();
    for Grant { opened_path, permission } in command.grants(isolation.is_some())? {
        match permission {
            Permission::Device => allow(&opened_path, read_access | AccessFs::WriteFile)?,
            Permission::Write => allow(&opened_path, write_access)?,
            // A server that runs as root could read secrets there: allow only files that every user can read.
            Permission::Read
                if opened_path.real_path == Path::new(SETTINGS_FOLDER) && nix::unistd::geteuid().is_root() =>
            {
                let mut public_part = PublicPart::default();
                let depth = 0;
                public_part.collect(&opened_path.real_path, depth);
                for file in public_part.readable.iter().filter_map(|path| open(path)) {
                    allow(&file, read_access)?;
                }
                for folder in public_part.listable.iter().filter_map(|path| open(path)) {
                    allow(&folder, AccessFs::ReadDir.into())?;
                }
            }
            Permission::Read => allow(&opened_path, read_access)?,
        }
    }
    if isolation.is_some_and(|isolation| isolation.has_own_proc)
        && let Some(proc) = open(Path::new("/proc"))
    {
        // This `/proc` belongs to the namespace of the server, and shows only the server's processes.
        allow(&proc, read_access)?;
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
        let count_before = self.readable.len();
        let mut is_public = true;
        for entry in entries {
            is_public &= entry.is_ok_and(|entry| self.collect(&entry.path(), depth + 1));
        }
        if is_public {
            self.readable.truncate(count_before);
            self.readable.push(path.to_owned());
        } else {
            self.listable.push(path.to_owned());
        }
        is_public
    }
}

#[cfg(test)]
mod tests;
