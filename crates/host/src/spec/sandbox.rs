//! Defines the sandbox of a server: the files, ports and resources that its child process may use.

use std::{path::PathBuf, time::Duration};

use crate::Confinement;

/// The rights of a child process and its descendants. In addition to the settings here, it may read and run its own
/// installation, and the parts of the system that every program needs ([`Confinement::SYSTEM`]). It may change its
/// working folder, unless that is or contains the user's home.
///
/// Linux only, from 6.7 on (6.2 without ports). Elsewhere the server is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that the child may read, and run programs from. They must exist.
    pub read: Vec<String>,
    /// Files and folders that the child may read and change. They must exist.
    pub write: Vec<String>,
    /// TCP ports that the child may connect to. Default: 443, and 53 for name resolution.
    pub connect: Ports,
    /// TCP ports that the child may listen on. Default: none.
    pub bind: Ports,
    /// The memory of each process in bytes. Default: no bound.
    pub memory: Option<u64>,
    /// The most processes at once, including all descendants of the child. Default 128.
    pub processes: Option<u32>,
    /// The most open files of each process. Default: the system's bound.
    pub files: Option<u64>,
    /// The processor time of each process. Default: no bound.
    pub cpu: Option<Duration>,
    /// Whether to leave out restrictions that this system cannot enforce, instead of refusing to start. Default
    /// `false`.
    pub best_effort: bool,
    /// Whether the child may use UDP to and from everywhere, and list the network interfaces. If not, names are
    /// resolved over TCP port 53, if `connect` has it and the program's resolver can (the GNU C library and Go can,
    /// musl cannot). Default `false`.
    pub udp: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            write: Vec::new(),
            connect: Ports::Only(vec![53, 443]),
            bind: Ports::Only(Vec::new()),
            memory: None,
            processes: Some(128),
            files: None,
            cpu: None,
            best_effort: false,
            udp: false,
        }
    }
}

/// A set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All ports.
    Any,
    /// These ports.
    Only(Vec<u16>),
}

impl Sandbox {
    /// Converts the sandbox into a confinement, with every path unchanged and no known home.
    #[must_use]
    pub fn confinement(&self) -> Confinement {
        let ports = |ports: &Ports| match ports {
            Ports::Any => None,
            Ports::Only(ports) => Some(ports.clone()),
        };
        Confinement {
            read: self.read.iter().map(PathBuf::from).collect(),
            write: self.write.iter().map(PathBuf::from).collect(),
            own_folder: None,
            home: None,
            connect: ports(&self.connect),
            bind: ports(&self.bind),
            memory: self.memory,
            processes: self.processes,
            files: self.files,
            // The system takes whole seconds, at least one.
            cpu: self.cpu.map(|cpu| cpu.as_secs().max(1)),
            best_effort: self.best_effort,
            udp: self.udp,
            without_namespaces: false,
        }
    }
}
