//! Finds the program and the working folder of a command, and explains why a program cannot be started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use crate::link::process::child::ChildCommand;

/// The reason why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The command is empty.
    #[error("the command is empty; name a program to run")]
    EmptyProgram,
    /// No folder of `PATH` has a file of this name.
    #[error("command not found: {program} ({searched}); install it or give its full path")]
    NotFound {
        /// The name.
        program: String,
        /// The searched places, as text for users.
        searched: String,
    },
    /// The command is a path to a file that does not exist.
    #[error("no such file: {}; check the path of the command", path.display())]
    NoSuchFile {
        /// The absolute path.
        path: PathBuf,
    },
    /// The file cannot be executed: it is a folder, or this user may not execute it.
    #[error("not an executable file: {}; check the command and the file's permissions", path.display())]
    NotExecutable {
        /// The absolute path.
        path: PathBuf,
    },
    /// The file is executable, but its interpreter is missing.
    #[error(
        "cannot run {}: the interpreter named in its first line, or its program loader, is not installed",
        path.display()
    )]
    NoInterpreter {
        /// The absolute path of the program.
        path: PathBuf,
    },
    /// The file is executable by its permissions, but is not a program.
    #[error(
        "cannot run {}: neither a program for this machine nor a script whose first line names its interpreter",
        path.display()
    )]
    BadFormat {
        /// The absolute path.
        path: PathBuf,
    },
    /// The working folder cannot be used.
    #[error("cannot use the working folder {}", cwd.display())]
    BadCwd {
        /// The absolute path.
        cwd: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A part of the command contains a NUL byte, which cannot be passed to a program.
    #[error("{part} contains a NUL byte")]
    NulByte {
        /// The part of the command. Arguments are named by number and variables by name, never by content.
        part: String,
    },
    /// Arguments and environment together are larger than the system permits.
    #[error("the arguments and the environment are too long for this system; shorten them")]
    TooLong,
    /// The system refuses for another reason, such as a limit on processes or open files.
    #[error("cannot start {}", path.display())]
    System {
        /// The absolute path of the program.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The supervisor itself could not be started.
    #[error("cannot start the supervisor process {}", program.display())]
    Supervisor {
        /// The program of the supervisor.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The program of the supervisor ran, but did not act as a supervisor.
    #[error(
        "{} does not act as a supervisor{stderr}; call run_if_asked() first thing in its main function",
        program.display()
    )]
    NotASupervisor {
        /// The program of the supervisor.
        program: PathBuf,
        /// The last line that it wrote to stderr, quoted and in brackets; or nothing.
        stderr: String,
    },
    /// The program of the supervisor runs, but did not start the server within 10 s.
    #[error(
        "the supervisor process {} has started nothing in 10 s; the machine is overloaded, the working folder does not \
         answer, or the program does not call run_if_asked()",
        program.display()
    )]
    SilentSupervisor {
        /// The program of the supervisor.
        program: PathBuf,
    },
    /// The sandbox for the program cannot be set up.
    #[error("the server is not started, because its sandbox is not available: {why}")]
    NotConfined {
        /// The reason.
        why: String,
    },
    /// The container for the program cannot be used.
    #[error("the server is not started, because its container is not available: {why}")]
    NotContained {
        /// The reason.
        why: String,
    },
    /// The runtime of this process is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

/// The paths to start the program: both are absolute and were checked.
#[derive(Debug)]
pub(super) struct ResolvedPaths {
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
}

/// Finds the program and the working folder of `command`. Blocking: reads file metadata.
pub(super) fn resolve(command: &ChildCommand) -> Result<ResolvedPaths, SpawnError> {
    refuse_nul(command)?;
    let cwd = resolve_cwd(command.cwd.as_deref())?;
    let program = if command.program.is_empty() {
        return Err(SpawnError::EmptyProgram);
    } else if command.program.as_bytes().contains(&b'/') {
        let path = cwd.join(&command.program);
        match inspect(&path) {
            Candidate::Executable => path,
            Candidate::Missing => return Err(SpawnError::NoSuchFile { path }),
            Candidate::NotExecutable => return Err(SpawnError::NotExecutable { path }),
        }
    } else {
        search(&command.program, &command.env)?
    };
    Ok(ResolvedPaths { program, cwd })
}

/// Returns the error for a resolved program that the system then refused to start with `errno`.
pub(super) fn spawn_error(path: &Path, errno: i32) -> SpawnError {
    let path = path.to_path_buf();
    match Errno::from_raw(errno) {
        // The program itself existed a moment ago.
        Errno::ENOENT => SpawnError::NoInterpreter { path },
        Errno::ENOEXEC => SpawnError::BadFormat { path },
        Errno::E2BIG => SpawnError::TooLong,
        _ => SpawnError::System { path, source: io::Error::from_raw_os_error(errno) },
    }
}

/// Refuses a command with a NUL byte: the system ends each text at such a byte.
fn refuse_nul(command: &ChildCommand) -> Result<(), SpawnError> {
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    let part = if has_nul(&command.program) {
        "the command".to_owned()
    } else if let Some(index) = command.args.iter().position(|arg| has_nul(arg)) {
        format!("argument {}", index + 1)
    } else if let Some((name, _)) = command.env.iter().find(|(name, value)| has_nul(name) || has_nul(value)) {
        format!("environment variable {}", name.to_string_lossy().replace('\0', "?"))
    } else {
        return Ok(());
    };
    Err(SpawnError::NulByte { part })
}

#[expect(clippy::disallowed_methods, reason = "the working folder must be looked at before a program starts in it")]
fn resolve_cwd(cwd: Option<&Path>) -> Result<PathBuf, SpawnError> {
    let cwd = cwd.unwrap_or(Path::new("."));
    let bad_cwd = |source| SpawnError::BadCwd { cwd: cwd.to_path_buf(), source };
    let absolute_cwd = path::absolute(cwd).map_err(bad_cwd)?;
    let bad_cwd = |source| SpawnError::BadCwd { cwd: absolute_cwd.clone(), source };
    if !absolute_cwd.metadata().map_err(bad_cwd)?.is_dir() {
        return Err(bad_cwd(io::ErrorKind::NotADirectory.into()));
    }
    access(&absolute_cwd, AccessFlags::X_OK).map_err(|errno| bad_cwd(errno.into()))?;
    Ok(absolute_cwd)
}

/// Looks a name up in the `PATH` of `env`, as a shell would, except that empty and relative folders are ignored: a
/// search in the working folder could run any file of a repository.
pub(super) fn search(name: &OsStr, env: &[(OsString, OsString)]) -> Result<PathBuf, SpawnError> {
    let not_found = |searched| SpawnError::NotFound { program: name.to_string_lossy().into_owned(), searched };
    // The last value is used, as `Command::env` does.
    let Some((_, folders)) = env.iter().rev().find(|(name, _)| name == "PATH") else {
        return Err(not_found("no PATH is set for it".to_owned()));
    };
    let (mut not_executable, mut folder_count) = (None, 0_usize);
    for folder in std::env::split_paths(folders).filter(|folder| folder.is_absolute()) {
        folder_count += 1;
        let path = folder.join(name);
        match inspect(&path) {
            Candidate::Executable => return Ok(path),
            Candidate::NotExecutable => not_executable = not_executable.or(Some(path)),
            Candidate::Missing => {}
        }
    }
    match not_executable {
        Some(path) => Err(SpawnError::NotExecutable { path }),
        None => Err(not_found(searched_folders(folder_count))),
    }
}

/// Describes the searched places without the folders themselves, which are many and reveal details of the machine.
fn searched_folders(folders: usize) -> String {
    match folders {
        1 => "the one folder of PATH does not have it".to_owned(),
        count => format!("none of the {count} folders of PATH has it"),
    }
}

/// The kind of a path that may be a program.
enum Candidate {
    Executable,
    NotExecutable,
    Missing,
}

#[expect(clippy::disallowed_methods, reason = "a program must be looked at before it is started")]
fn inspect(path: &Path) -> Candidate {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() && access(path, AccessFlags::X_OK).is_ok() => Candidate::Executable,
        Ok(_) => Candidate::NotExecutable,
        // A file that cannot be examined may exist; the shell skips it as well.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Candidate::NotExecutable,
        Err(_) => Candidate::Missing,
    }
}
