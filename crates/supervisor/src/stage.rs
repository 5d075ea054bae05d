//! Describes the stages on the way from a supervisor to a server in the sandbox: their command lines, and the reasons
//! why a stage fails. A stage is a process of this program that gives up some rights and then starts, or becomes, the
//! next one.
//!
//! Without namespaces, the only stage becomes the server. If the system gives namespaces, that stage becomes the
//! *keeper* instead. The keeper starts the first process (init) of the namespaces, which starts the process that
//! becomes the server.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use nix::errno::Errno;

use crate::CONFINE;
use crate::confinement::Confinement;

/// The verdict is the report to the supervisor on whether the server could start. It begins with this prefix if the
/// server is in namespaces.
pub(crate) const INSIDE_PREFIX: &str = "inside\n";

/// The number of processes of this program between the supervisor and a server that has namespaces.
pub(crate) const HELPER_PROCESSES: u32 = 2;

/// The reason why the server did not start.
pub(crate) enum Failure {
    /// The system cannot run the server's program.
    Exec(Errno),
    /// The program was not run, because the confinement in the server's configuration could not be set up.
    Refused(String),
    /// The system gave namespaces, but they do not work: the supervisor should try again without namespaces.
    NoNamespaces(String),
}

impl Failure {
    pub(crate) fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

/// One stage. The word after [`CONFINE`] on the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The child of the supervisor, which makes namespaces if the system allows it.
    Begin { supervisor_pid: i32 },
    /// The child of the supervisor, which confines the server without namespaces.
    BeginWithoutNamespaces { supervisor_pid: i32 },
    /// The first process (init) of the new namespaces, a child of the keeper.
    NamespaceInit { keeper_pid: i32, has_own_network: bool },
    /// The process in the namespaces that becomes the server.
    Inside(Isolation),
}

/// The parts that the namespaces separate from the system, in addition to files and shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isolation {
    /// `/proc` belongs to the process namespace of the server, and shows only the server's own processes.
    pub(crate) has_own_proc: bool,
    /// The network is an empty one that only the server has.
    pub(crate) has_own_network: bool,
}

impl Stage {
    /// Returns the command that starts this program once more, at this stage, with `words`.
    pub(crate) fn command(self, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        ["/proc/self/exe".into(), CONFINE.into(), self.word()].into_iter().chain(words).collect()
    }

    /// Returns the word for this stage. All words have the form `NAME:NUMBER:FLAG`, even where a part has no meaning.
    fn word(self) -> OsString {
        match self {
            Self::Begin { supervisor_pid } => format!("begin:{supervisor_pid}:0"),
            Self::BeginWithoutNamespaces { supervisor_pid } => format!("bare:{supervisor_pid}:0"),
            Self::NamespaceInit { keeper_pid, has_own_network } => {
                format!("first:{keeper_pid}:{}", u8::from(has_own_network))
            }
            Self::Inside(Isolation { has_own_proc, has_own_network }) => {
                format!("inside:{}:{}", u8::from(has_own_proc), u8::from(has_own_network))
            }
        }
        .into()
    }

    /// Parses a word of [`Self::word`]; `None` if it is unknown.
    pub(crate) fn from_word(word: &OsStr) -> Option<Self> {
        let mut parts = word.to_str()?.split(':');
        let (name, number, flag) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()? == "1");
        Some(match name {
            "begin" => Self::Begin { supervisor_pid: number },
            "bare" => Self::BeginWithoutNamespaces { supervisor_pid: number },
            "first" => Self::NamespaceInit { keeper_pid: number, has_own_network: flag },
            "inside" => Self::Inside(Isolation { has_own_proc: number == 1, has_own_network: flag }),
            _ => return None,
        })
    }
}

/// The command to run, and its confinement.
pub(crate) struct Command<'a> {
    /// All words after the stage.
    pub(crate) words: &'a [OsString],
    pub(crate) confinement: Confinement,
    /// The server's program and its arguments.
    pub(crate) server_command: &'a [OsString],
    /// The first word of `server_command`.
    pub(crate) program: &'a Path,
}

impl<'a> Command<'a> {
    /// Parses `CONFINEMENT... -- PROGRAM ARGUMENT...`.
    pub(crate) fn from_words(words: &'a [OsString]) -> Result<Self, Failure> {
        let separator = words.iter().position(|word| word == "--").ok_or_else(|| Failure::refused("no command"))?;
        let confinement = Confinement::from_words(&words[..separator])
            .ok_or_else(|| Failure::refused("its confinement cannot be parsed"))?;
        let server_command = &words[separator + 1..];
        let program = server_command.first().map(Path::new).ok_or_else(|| Failure::refused("no command"))?;
        Ok(Self { words, confinement, server_command, program })
    }

    /// Returns whether the server may use no network at all, so that it can have an empty one of its own.
    pub(crate) fn uses_no_network(&self) -> bool {
        // `None` allows all ports.
        let has_no_ports = |ports: &Option<Vec<u16>>| ports.as_ref().is_some_and(Vec::is_empty);
        has_no_ports(&self.confinement.connect) && has_no_ports(&self.confinement.bind) && !self.confinement.udp
    }

    /// Returns whether TCP is the server's only way to look up names. Also `true` if the server may only listen, where
    /// it has no effect.
    pub(crate) fn resolves_by_tcp(&self) -> bool {
        !self.confinement.udp && !self.uses_no_network()
    }
}

#[cfg(test)]
mod tests;
