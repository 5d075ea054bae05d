//! The files and folders that a confined server may reach.

#![expect(clippy::disallowed_methods, reason = "a program of its own: it looks at its folder and its environment")]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use crate::confinement::Confinement;
use crate::links::is_of_system;
use crate::reach::{Lost, Reached, is_of_a_server, reach};
use crate::spawn::variable;
use crate::stage::Command;

/// Parts of a folder in the home that the programs in it read.
const PARTS: &[&str] =
    &["bin", "sbin", "shims", "libexec", "lib", "lib64", "install", "plugins", "version", "versions"];

/// A file or folder that the server may reach.
pub(crate) struct Grant {
    pub(crate) reached: Reached,
    /// The server may change it.
    pub(crate) writable: bool,
    /// A device: the server may write to it, and not make others.
    pub(crate) device: bool,
}

impl Command<'_> {
    /// Everything that this server may reach, as far as it exists. With `is_inside`, in its namespaces: all that is there
    /// is granted already, so that every link may be followed.
    ///
    /// # Errors
    /// When a named file or folder does not exist, or a link leads to it that a server could have made.
    pub(crate) fn grants(&self, is_inside: bool) -> Result<Vec<Grant>, String> {
        let confinement = &self.confinement;
        let mut grants = Vec::new();
        let mut add = |reached: Result<Reached, Lost>, writable: bool, device: bool| {
            grants.extend(reached.ok().map(|reached| Grant { reached, writable, device }));
        };
        let any = |_: &Path, _: &Stat| false;
        for path in Confinement::SYSTEM {
            add(reach(Path::new(path), any), false, false);
        }
        for path in Confinement::DEVICES {
            add(reach(Path::new(path), any), false, true);
        }
        // An entry that names no home means the one that the server gets.
        let home = confinement.home.clone().or_else(|| variable("HOME").map(PathBuf::from));
        let here = std::env::current_dir().map_err(|error| format!("its working folder: {error}"))?;
        let folder = own_folder(home.as_deref());
        let installations = Installations::new(home.as_deref(), is_inside);
        for path in installations.of(self.program) {
            add(installations.reach(&path), false, false);
        }
        if let Some(folder) = folder {
            add(Ok(folder), true, false);
        }
        if let Some(path) = &confinement.own {
            add(reach(path, any), true, false);
        }
        for (paths, field, writable) in [(&confinement.read, "read", false), (&confinement.write, "write", true)] {
            for path in paths {
                // Relative to the working folder, as everything that an entry names.
                let path = &here.join(path);
                let reached = reach(path, |place, folder| !is_inside && is_of_a_server(place, folder));
                match reached {
                    Err(Lost::Error(error)) => {
                        return Err(format!("`sandbox.{field}` names {}: {error}", path.display()));
                    }
                    Err(Lost::Link(link)) => return Err(refusal(&format!("`sandbox.{field}`"), path, &link)),
                    reached => add(reached, writable, false),
                }
            }
        }
        Ok(grants)
    }
}

/// Why a path that `field` of an entry names is not followed through `link`.
pub(crate) fn refusal(field: &str, path: &Path, link: &Path) -> String {
    let (path, link) = (path.display(), link.display());
    format!("{field} names {path}, and a server could have made the link {link} itself: name what it is to lead to")
}

/// The working folder, unless it is the user's home or holds it.
fn own_folder(home: Option<&Path>) -> Option<Reached> {
    let folder = Reached::working_folder().ok()?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let holds_home = home.is_some_and(|home| home.starts_with(&folder.place));
    (folder.place != Path::new("/") && !holds_home).then_some(folder)
}

/// Folders of the home in which people have programs installed, and links to programs.
const INSTALLED: &[&str] = &[
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

/// Where programs are installed.
struct Installations {
    /// The home by the name that it has, and by the one that this leads to.
    homes: Vec<PathBuf>,
    is_inside: bool,
}

impl Installations {
    fn new(home: Option<&Path>, is_inside: bool) -> Self {
        let homes = home.into_iter().flat_map(|home| [Some(home.to_owned()), home.canonicalize().ok()]);
        Self { homes: homes.flatten().collect(), is_inside }
    }

    /// Where `program` and what belongs to it are installed: `~/.nvm/versions/node/v22` for `…/v22/bin/node`, by the name
    /// that it was called and by the one that this leads to; and where the Python of a virtual environment is.
    fn of(&self, program: &Path) -> Vec<PathBuf> {
        let real = |program: &Path| self.reach(program).ok().map(|reached| reached.place);
        let programs = [Some(program.to_owned()), real(program)];
        let pythons = programs.clone().map(|program| real(&program?.with_file_name("python")));
        let pythons = pythons.into_iter().flatten().filter(|python| is_installed_python(python));
        programs.into_iter().flatten().chain(pythons).flat_map(|program| brought_by(&program, &self.homes)).collect()
    }

    /// Follows a path to what is installed there. A server or a project can make links, so a link leads nowhere unless it
    /// is where installations are, or leads there, or is one of `node_modules/.bin` that stays in its `node_modules`.
    fn reach(&self, path: &Path) -> Result<Reached, Lost> {
        let mut own = Vec::new();
        let reached = reach(path, |place, folder| {
            if !self.is_inside && is_of_a_server(place, folder) && !self.has(place) {
                own.push(place.to_owned());
            }
            false
        })?;
        let stays = |link: &PathBuf| {
            let bin = link.parent().filter(|bin| bin.ends_with("node_modules/.bin"));
            bin.and_then(Path::parent).is_some_and(|modules| reached.place.starts_with(modules))
        };
        match own.into_iter().find(|link| !stays(link)) {
            Some(link) if !self.has(&reached.place) => Err(Lost::Link(link)),
            _ => Ok(reached),
        }
    }

    /// Whether installations are at this place.
    fn has(&self, place: &Path) -> bool {
        let in_home = |home: &PathBuf| INSTALLED.iter().any(|name| place.starts_with(home.join(name)));
        is_of_system(place) || self.homes.iter().any(in_home)
    }
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
mod tests;
