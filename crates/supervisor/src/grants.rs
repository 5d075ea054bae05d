//! Determines the files and folders that a confined server (one in the sandbox) may reach: those of the system that
//! every program needs, its own installation, its working folder, and those that its entry names. An *entry* is the
//! server's configuration.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, with its own folder and environment"
)]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use crate::confinement::Confinement;
use crate::links::is_system_path;
use crate::reach::{OpenedPath, PathError, reach, server_could_have_made};
use crate::spawn::server_variable;
use crate::stage::Command;

/// The subfolders of an installation that its programs read, if the installation is directly in the home.
const PROGRAM_SUBFOLDERS: &[&str] =
    &["bin", "sbin", "shims", "libexec", "lib", "lib64", "install", "plugins", "version", "versions"];

/// A file or folder that the server may reach.
pub(crate) struct Grant {
    pub(crate) opened_path: OpenedPath,
    pub(crate) permission: Permission,
}

/// The rights of the server to a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Read it, and run it.
    Read,
    /// Change it as well.
    Write,
    /// Read and write to it: it is a device. The server may not create other devices.
    Device,
}

impl Command<'_> {
    /// Returns everything that this server may reach and that exists. `is_in_namespaces` says whether this process is
    /// in the server's namespaces. These contain only granted files, so it is then safe to follow every link.
    ///
    /// # Errors
    /// If a file or folder that the entry names does not exist, or if the path to it goes through a link that a server
    /// could have made.
    pub(crate) fn grants(&self, is_in_namespaces: bool) -> Result<Vec<Grant>, String> {
        let confinement = &self.confinement;
        let mut grants = Vec::new();
        // Adds only paths that exist and may be followed.
        let mut add = |opened_path: Result<OpenedPath, PathError>, permission: Permission| {
            grants.extend(opened_path.ok().map(|opened_path| Grant { opened_path, permission }));
        };
        let refuse_no_link = |_: &Path, _: &Stat| false;
        for path in Confinement::SYSTEM {
            add(reach(Path::new(path), refuse_no_link), Permission::Read);
        }
        for path in Confinement::DEVICES {
            add(reach(Path::new(path), refuse_no_link), Permission::Device);
        }
        // If the entry names no home, use the one in the server's environment.
        let home = confinement.home.clone().or_else(|| server_variable("HOME").map(PathBuf::from));
        let working_folder = std::env::current_dir().map_err(|error| format!("its working folder: {error}"))?;
        let writable_folder = writable_working_folder(home.as_deref());
        let installations = Installations::new(home.as_deref(), is_in_namespaces);
        for path in installations.folders_for(self.program) {
            add(installations.open(&path), Permission::Read);
        }
        if let Some(folder) = writable_folder {
            add(Ok(folder), Permission::Write);
        }
        if let Some(path) = &confinement.own_folder {
            add(reach(path, refuse_no_link), Permission::Write);
        }
        let configured_paths =
            [(&confinement.read, "read", Permission::Read), (&confinement.write, "write", Permission::Write)];
        for (paths, field, permission) in configured_paths {
            for path in paths {
                // A path in an entry is relative to the working folder.
                let path = &working_folder.join(path);
                let opened_path = reach(path, |link, folder| !is_in_namespaces && server_could_have_made(link, folder));
                match opened_path {
                    Err(PathError::Error(error)) => {
                        return Err(format!("`sandbox.{field}` names {}: {error}", path.display()));
                    }
                    Err(PathError::Link(link)) => {
                        return Err(untrusted_link_error(&format!("`sandbox.{field}`"), path, &link));
                    }
                    opened_path => add(opened_path, permission),
                }
            }
        }
        Ok(grants)
    }
}

/// Returns the error for the path in `field` of an entry, which is not followed because of `link` in it.
pub(crate) fn untrusted_link_error(field: &str, path: &Path, link: &Path) -> String {
    let (path, link) = (path.display(), link.display());
    format!(
        "{field} names {path}, which leads through the symbolic link {link}, and a server could have made that link: \
         name its target instead"
    )
}

/// Returns the working folder, unless it is the user's home or contains it.
fn writable_working_folder(home: Option<&Path>) -> Option<OpenedPath> {
    let folder = OpenedPath::working_folder().ok()?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let contains_home = home.is_some_and(|home| home.starts_with(&folder.real_path));
    (folder.real_path != Path::new("/") && !contains_home).then_some(folder)
}

/// The folders of a home in which tools install programs, and links to programs.
const INSTALL_FOLDERS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cargo",
    ".conda",
    ".deno",
    ".fnm",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/hatch",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".mise",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rye",
    ".sdkman",
    ".volta",
    "anaconda3",
    "bin",
    "mambaforge",
    "miniconda3",
    "miniforge3",
];

/// The places where programs are installed.
struct Installations {
    /// The path of the home, and its path after all links.
    homes: Vec<PathBuf>,
    /// See [`Command::grants`].
    is_in_namespaces: bool,
}

impl Installations {
    fn new(home: Option<&Path>, is_in_namespaces: bool) -> Self {
        let homes = home.into_iter().flat_map(|home| [Some(home.to_owned()), home.canonicalize().ok()]);
        Self { homes: homes.flatten().collect(), is_in_namespaces }
    }

    /// Returns the installation folders of `program`, for example `~/.nvm/versions/node/v22` for `…/v22/bin/node`.
    /// Looks both at the path as it is given and at the path to which its links lead. For a program of a Python virtual
    /// environment, the result includes the installation of that Python.
    fn folders_for(&self, program: &Path) -> Vec<PathBuf> {
        let real_path_of = |program: &Path| self.open(program).ok().map(|opened_path| opened_path.real_path);
        let programs = [Some(program.to_owned()), real_path_of(program)];
        let pythons = programs.clone().map(|program| real_path_of(&program?.with_file_name("python")));
        let pythons = pythons.into_iter().flatten().filter(|python| is_installed_python(python));
        programs
            .into_iter()
            .flatten()
            .chain(pythons)
            .flat_map(|program| installation_folders_of(&program, &self.homes))
            .collect()
    }

    /// Follows a path to an installation. A server or a project can make links. So a link must be in an installation
    /// folder, lead to one, or lead from `node_modules/.bin` into the same `node_modules`.
    fn open(&self, path: &Path) -> Result<OpenedPath, PathError> {
        let mut untrusted_links = Vec::new();
        let opened_path = reach(path, |link, folder| {
            if !self.is_in_namespaces && server_could_have_made(link, folder) && !self.contains(link) {
                untrusted_links.push(link.to_owned());
            }
            false
        })?;
        let stays_in_node_modules = |link: &PathBuf| {
            let bin = link.parent().filter(|bin| bin.ends_with("node_modules/.bin"));
            bin.and_then(Path::parent).is_some_and(|modules| opened_path.real_path.starts_with(modules))
        };
        match untrusted_links.into_iter().find(|link| !stays_in_node_modules(link)) {
            Some(link) if !self.contains(&opened_path.real_path) => Err(PathError::Link(link)),
            _ => Ok(opened_path),
        }
    }

    /// Returns whether `path` is in a folder in which programs are installed.
    fn contains(&self, path: &Path) -> bool {
        let is_in_install_folder =
            |home: &PathBuf| INSTALL_FOLDERS.iter().any(|name| path.starts_with(home.join(name)));
        is_system_path(path) || self.homes.iter().any(is_in_install_folder)
    }
}

/// Returns whether `program` is the Python of an installation, in its `bin`.
fn is_installed_python(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_in_bin = program.parent().and_then(Path::file_name) == Some(OsStr::new("bin"));
    let is_program =
        || program.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    is_in_bin && ["python", "pypy", "graalpy"].iter().any(|python| name.starts_with(python)) && is_program()
}

/// Returns the installation of `program`: the folder that contains its `bin`. If that folder is directly in the home,
/// returns only its subfolders that certainly belong to programs: `~/.cargo` and `~/.docker` have keys beside their
/// `bin`.
fn installation_folders_of(program: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    let contains_home = |folder: &Path| homes.iter().any(|home| home.starts_with(folder));
    let Some(folder) = program.parent().filter(|folder| !contains_home(folder)) else {
        return vec![program.to_owned()];
    };
    let is_bin = ["bin", "sbin", "shims", "libexec"].iter().any(|name| folder.file_name() == Some(OsStr::new(name)));
    match folder.parent().filter(|parent| is_bin && !contains_home(parent) && *parent != Path::new("/")) {
        None => vec![folder.to_owned()],
        Some(parent) if homes.iter().any(|home| parent.parent() == Some(home)) => {
            PROGRAM_SUBFOLDERS.iter().map(|part| parent.join(part)).collect()
        }
        Some(parent) => vec![parent.to_owned()],
    }
}

#[cfg(test)]
mod tests;
