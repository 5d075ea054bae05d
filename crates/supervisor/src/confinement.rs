//! Describes the confinement of a server in the sandbox: the rights that the server has. Converts it into words of a
//! command line and back, because the host passes it to the supervisor in that form.
//!
//! Each word is `NAME=VALUE`. A path keeps its bytes: it is everything after the `=`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The rights of a confined server, in addition to those that every confined server has: see [`Confinement::SYSTEM`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Files and folders that the server may read, and run programs from. They must exist.
    pub read: Vec<PathBuf>,
    /// Files and folders that the server may change as well. They must exist.
    pub write: Vec<PathBuf>,
    /// The server's own folder. The launcher (the process that becomes the server) creates the folder, with a folder
    /// `tmp` in it; no other user can read it.
    pub own_folder: Option<PathBuf>,
    /// The home of the user. The server may not change its working folder if that contains the home.
    pub home: Option<PathBuf>,
    /// The TCP ports that the server may connect to; `None` allows all.
    pub connect: Option<Vec<u16>>,
    /// The TCP ports that the server may listen on; `None` allows all.
    pub bind: Option<Vec<u16>>,
    /// The most memory of each process, in bytes (`RLIMIT_DATA`).
    pub memory: Option<u64>,
    /// The most processes at once, including all that the server starts.
    pub processes: Option<u32>,
    /// The most open files of each process.
    pub files: Option<u64>,
    /// The most processor time of each process, in seconds.
    pub cpu: Option<u64>,
    /// Whether to start the server even if the system cannot enforce a part of this confinement.
    pub best_effort: bool,
    /// Whether to allow UDP to and from any address, which most programs need to look up names, and to allow reading
    /// the list of network interfaces.
    pub udp: bool,
    /// Whether to use no namespaces, as on a system that has none.
    pub without_namespaces: bool,
}

impl Confinement {
    /// The files and folders that every confined server may read, and run programs from. Some do not exist on every
    /// system.
    pub const SYSTEM: &[&str] = &[
        "/bin",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        // Not all of /nix: it holds the socket of the Nix daemon, which builds on request, with access to the network.
        "/nix/store",
        "/nix/var/nix/profiles",
        "/opt",
        // Not all of /proc: it shows the environment of every process of this user, with its secrets, which Landlock
        // does not protect. `self` is the first process of the server.
        "/proc/cpuinfo",
        "/proc/filesystems",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/self",
        "/proc/stat",
        "/proc/sys",
        "/proc/uptime",
        "/proc/version",
        // The usual targets of /etc/resolv.conf. Not their folders, which hold sockets.
        "/run/resolvconf/resolv.conf",
        "/run/systemd/resolve/resolv.conf",
        "/run/systemd/resolve/stub-resolv.conf",
        "/sbin",
        "/snap",
        // Runtimes read the number of processors and the size of the memory here.
        "/sys/devices/system/cpu",
        "/sys/devices/system/node",
        "/sys/fs/cgroup",
        "/sys/kernel/mm/transparent_hugepage",
        "/usr",
        "/var/lib/ca-certificates",
        "/dev/random",
        "/dev/urandom",
    ];

    /// The devices that every confined server may write to.
    pub const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];

    /// Returns this confinement as words of a command line.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let path_word = |name: &str, path: &PathBuf| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        // This word is always there, because no words at all would mean no confinement.
        let mut words: Vec<OsString> = vec!["confined=yes".into()];
        words.extend(self.read.iter().map(|read| path_word("read=", read)));
        words.extend(self.write.iter().map(|write| path_word("write=", write)));
        words.extend(self.own_folder.iter().map(|folder| path_word("own=", folder)));
        words.extend(self.home.iter().map(|home| path_word("home=", home)));
        for (name, ports) in [("connect=", &self.connect), ("bind=", &self.bind)] {
            let Some(ports) = ports else { continue };
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            words.push(format!("{name}{}", ports.join(",")).into());
        }
        let processes = self.processes.map(u64::from);
        for (name, number) in
            [("memory=", self.memory), ("processes=", processes), ("files=", self.files), ("cpu=", self.cpu)]
        {
            words.extend(number.map(|number| format!("{name}{number}").into()));
        }
        for (is_set, word) in
            [(self.best_effort, "best-effort=yes"), (self.udp, "udp=yes"), (self.without_namespaces, "bare=yes")]
        {
            words.extend(is_set.then(|| word.into()));
        }
        words
    }

    /// Parses `words`; `None` if one of them is unknown.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_words(words: &[OsString]) -> Option<Self> {
        let mut confinement = Self::default();
        for word in words {
            let (name, value) = split_word(word)?;
            let number = || value.to_str()?.parse::<u64>().ok();
            let ports = || {
                let ports = value.to_str()?.split(',').filter(|port| !port.is_empty());
                ports.map(|port| port.parse().ok()).collect::<Option<Vec<u16>>>()
            };
            match name {
                "confined" => {}
                "read" => confinement.read.push(value.into()),
                "write" => confinement.write.push(value.into()),
                "own" => confinement.own_folder = Some(value.into()),
                "home" => confinement.home = Some(value.into()),
                "connect" => confinement.connect = Some(ports()?),
                "bind" => confinement.bind = Some(ports()?),
                "memory" => confinement.memory = Some(number()?),
                "processes" => confinement.processes = Some(u32::try_from(number()?).ok()?),
                "files" => confinement.files = Some(number()?),
                "cpu" => confinement.cpu = Some(number()?),
                "best-effort" => confinement.best_effort = true,
                "udp" => confinement.udp = true,
                "bare" => confinement.without_namespaces = true,
                _ => return None,
            }
        }
        Some(confinement)
    }
}

/// Splits a word into the name before its first `=`, and the value after it.
#[cfg(target_os = "linux")]
fn split_word(word: &OsStr) -> Option<(&str, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    let separator = bytes.iter().position(|byte| *byte == b'=')?;
    Some((std::str::from_utf8(&bytes[..separator]).ok()?, OsStr::from_bytes(&bytes[separator + 1..])))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn every_confinement_survives_the_command_line() {
        let unusual = PathBuf::from(OsString::from_vec(b"/a=b c\xff\n".to_vec()));
        for confinement in [
            Confinement::default(),
            Confinement { connect: Some(Vec::new()), bind: Some(vec![1, 65535]), ..Confinement::default() },
            Confinement {
                read: vec!["/x".into(), unusual.clone()],
                write: vec![unusual.clone()],
                own_folder: Some(unusual.clone()),
                home: Some(unusual),
                connect: Some(vec![443]),
                bind: None,
                memory: Some(u64::MAX),
                processes: Some(64),
                files: Some(256),
                cpu: Some(1),
                best_effort: true,
                udp: true,
                without_namespaces: true,
            },
        ] {
            assert!(!confinement.words().is_empty());
            assert_eq!(Confinement::from_words(&confinement.words()), Some(confinement));
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        for word in ["read", "reads=/", "connect=x", "connect=65536", "memory=-1", "processes=4294967296", ""] {
            assert_eq!(Confinement::from_words(&[word.into()]), None, "{word}");
        }
    }

    #[test]
    fn the_paths_that_every_server_reads_hold_no_user_data_and_no_socket() {
        for path in Confinement::SYSTEM.iter().chain(Confinement::DEVICES) {
            let path = std::path::Path::new(path);
            for private in [
                "/home/me",
                "/root",
                "/tmp/x",
                "/var/tmp/x",
                "/proc/1/environ",
                "/proc/net/tcp",
                "/run/user/1000/bus",
                "/run/docker.sock",
                "/var/run/docker.sock",
                "/nix/var/nix/daemon-socket/socket",
                "/dev/shm/x",
                "/dev/mem",
                "/dev/tty",
                "/sys/kernel/debug/x",
                "/sys/firmware/x",
                "/mnt/x",
                "/srv/x",
                "/var/lib/x",
            ] {
                assert!(!std::path::Path::new(private).starts_with(path), "{} holds {private}", path.display());
            }
            assert!(path.is_absolute() && path.components().count() > 1);
        }
    }

    #[test]
    fn a_repeated_word_adds_a_path_and_replaces_a_number() {
        let words = ["read=/a", "read=/b", "connect=1,2", "connect=3", "memory=1", "memory=2"].map(OsString::from);
        let confinement = Confinement::from_words(&words).unwrap();
        assert_eq!(confinement.read, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((confinement.connect, confinement.memory), (Some(vec![3]), Some(2)));
    }
}
