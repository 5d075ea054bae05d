//! Defines the container of a server, as the server's entry (its configuration) describes it. An *engine*, Podman or
//! Docker, runs the container; its *client* is the program that starts it.

use std::{ffi::OsStr, path::Path};

/// A container for a child process, run by an engine that is installed on this machine. It has no capabilities, gains
/// no privileges, cannot change its image, and sees only the named parts of this machine.
///
/// Linux only, and with a [supervisor](crate::supervisor): ending the engine's program does not end the container, and
/// only a supervisor removes it. Elsewhere the server is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The image. With `@sha256:…` at its end it is always the same image; a tag may refer to another one later.
    pub image: String,
    /// The engine that runs the container.
    pub engine: Engine,
    /// Whether a missing image is fetched, within `startup_timeout`. Default [`Pull::Missing`].
    pub pull: Pull,
    /// The network of the engine that the container joins, such as `bridge`. Default: none, so that there are no
    /// incoming and no outgoing connections.
    pub network: Option<String>,
    /// The files of this machine that the container sees.
    pub mounts: Vec<Mount>,
    /// The container's folders that are in memory and can be changed. Default: `/tmp`.
    pub tmpfs: Vec<String>,
    /// Whether the container can change its own files, outside of `tmpfs` and mounts. Changed files are lost when the
    /// container ends. Default `false`.
    pub writable: bool,
    /// The user that the container runs as: `UID`, `UID:GID`, or names that the image defines. Default: the user that
    /// the image sets.
    pub user: Option<String>,
    /// The memory of all its processes in bytes. Default 1 GiB.
    pub memory: u64,
    /// The most processes and threads at once. Default 128.
    pub processes: u32,
    /// The processors that the container may use, in thousandths. Default: no bound.
    pub millicpus: Option<u32>,
}

impl Default for Container {
    fn default() -> Self {
        Self {
            image: String::new(),
            engine: Engine::Auto,
            pull: Pull::Missing,
            network: None,
            mounts: Vec::new(),
            tmpfs: vec!["/tmp".to_owned()],
            writable: false,
            user: None,
            memory: 1 << 30,
            processes: 128,
            millicpus: None,
        }
    }
}

impl Container {
    /// Returns whether the image is named by its content (a digest or an id), so that it is always the same.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        let digest = self.image.rsplit_once('@').map_or(&*self.image, |(_, digest)| digest);
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

macro_rules! engines {
    (
        $(#[doc = $first_about:literal])+ $first:ident $first_word:literal $first_programs:expr;
        $($(#[doc = $about:literal])+ $engine:ident $word:literal $programs:expr;)+
    ) => {
        /// The program that runs containers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Engine {
            $(#[doc = $first_about])+
            #[default]
            $first,
            $($(#[doc = $about])+ $engine,)+
        }

        impl Engine {
            /// All variants.
            pub const ALL: &[Self] = &[Self::$first, $(Self::$engine,)+];

            /// The words of all variants, in the same order.
            pub const WORDS: &[&str] = &[$first_word, $($word,)+];

            /// Returns the word of the configuration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$engine => $word,)+
                }
            }

            /// Returns the programs to search for, in this order.
            #[must_use]
            pub fn programs(self) -> &'static [&'static str] {
                match self {
                    Self::$first => $first_programs,
                    $(Self::$engine => $programs,)+
                }
            }
        }
    };
}

// The default, then every engine: its word in the configuration, and the programs to search for.
engines! {
    /// Podman if it is installed, otherwise Docker.
    Auto "auto" &["podman", "docker"];
    /// `docker`.
    Docker "docker" &["docker"];
    /// `podman`.
    Podman "podman" &["podman"];
}

impl Engine {
    /// Parses the word of an engine.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|engine| engine.word() == word)
    }
}

/// Whether a missing image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pull {
    /// Fetch it.
    #[default]
    Missing,
    /// Do not fetch it; the server does not start.
    Never,
}

/// A file or folder of this machine that a container sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The file or folder; it must exist. May hold placeholders.
    pub source: String,
    /// The full path in the container.
    pub target: String,
    /// Whether the container can change it.
    pub write: bool,
}

impl Mount {
    /// Returns whether a mount of `source` (its real path) would break the isolation of the container. That holds for
    /// the system's root, its state, the state of container engines, a socket, or a folder with one of these. A process
    /// that reaches an engine's socket can start anything outside of any container, even with read access only.
    ///
    /// With `write`, the same holds for the system's settings, its programs and the files of all users, because a
    /// change there affects programs outside. Does not access the file system.
    #[must_use]
    pub fn gives_too_much(source: &Path, write: bool) -> bool {
        let is_one_of = |folders: &[&str]| folders.iter().any(|folder| source == Path::new(folder));
        is_one_of(REFUSED_FOLDERS)
            || (write && is_one_of(REFUSED_FOR_WRITING))
            || REFUSED_TREES.iter().any(|folder| source.starts_with(folder))
            || REFUSED_TREES_IN_HOMES.iter().any(|folder| source.ancestors().any(|ancestor| ancestor.ends_with(folder)))
            // This folder contains two of the trees above.
            || source.ends_with(".docker")
            || source.extension() == Some(OsStr::new("sock"))
    }
}

/// Folders that contain most of this machine, including its container engines. Single folders in them may be harmless.
const REFUSED_FOLDERS: &[&str] = &["/", "/var", "/var/lib"];

/// Further folders, which are refused only if the container may change them.
const REFUSED_FOR_WRITING: &[&str] =
    &["/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/opt", "/root", "/sbin", "/usr", "/usr/bin", "/usr/lib"];

/// Folders that hold sockets, processes, devices and the state of engines. They are refused with everything below them.
const REFUSED_TREES: &[&str] =
    &["/dev", "/proc", "/run", "/sys", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/run"];

/// Folders in the home of any user that are refused with everything below them: the sockets and the state of engines
/// that run rootless or in their own virtual machine.
const REFUSED_TREES_IN_HOMES: &[&str] = &[
    ".colima",
    ".docker/desktop",
    ".docker/run",
    ".lima",
    ".local/share/containers",
    ".local/share/docker",
    ".orbstack",
    ".rd",
];

/// Prefixes of variables that affect the engine's client, its loader, or a shell that starts it.
const CLIENT_PREFIXES: &[&str] = &[
    "BASH_FUNC_",
    "BUILDAH_",
    "BUILDKIT_",
    "CONTAINER",
    "DBUS_",
    "DOCKER_",
    "DYLD_",
    "LD_",
    "LISTEN_",
    "MALLOC_",
    "PODMAN_",
    "SNAP",
    "SSH_",
    "STORAGE_",
    "XDG_",
    "_CONTAINERS_",
];

/// Further variables that affect the client, by their full names.
const CLIENT_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "BASH_ENV",
    "BASHOPTS",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GNUPGHOME",
    "GOCOVERDIR",
    "GODEBUG",
    "GOGC",
    "GOMAXPROCS",
    "GOMEMLIMIT",
    "GOTRACEBACK",
    "HOME",
    "HOSTALIASES",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "LOCALDOMAIN",
    "LOCPATH",
    "NLSPATH",
    "NOTIFY_SOCKET",
    "NO_PROXY",
    "PATH",
    "REGISTRIES_CONFIG_PATH",
    "REGISTRY_AUTH_FILE",
    "RES_OPTIONS",
    "SHELLOPTS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "ZONEINFO",
];

/// Returns whether a variable with this name would affect the engine's client (the program that starts the container),
/// outside the container. Values reach a container through the environment of that client, not through a command line.
/// So the client gets the user's value of such a variable, and never the value from an entry.
#[must_use]
pub fn affects_engine_client(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    CLIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || CLIENT_VARIABLES.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_for_the_engine_s_client_differ_from_those_for_servers() {
        for name in
            ["PATH", "LD_PRELOAD", "http_proxy", "DOCKER_HOST", "CONTAINERS_CONF", "BASH_FUNC_x%%", "XDG_RUNTIME_DIR"]
        {
            assert!(affects_engine_client(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "GOOGLE_API_KEY", "NODE_OPTIONS", "LANG", "HOME_PAGE", "ENVIRONMENT", "PATHS"] {
            assert!(!affects_engine_client(name), "{name}");
        }
    }

    #[test]
    fn mounts_of_the_engine_s_socket_or_of_the_system_are_recognized() {
        for source in [
            "/",
            "/run",
            "/run/",
            "/run/user/1000",
            "/run/podman",
            "/var",
            "/var/run/docker",
            "/var/lib",
            "/var/lib/docker",
            "/var/lib/docker/volumes",
            "/var/lib/containers/storage",
            "/var/lib/containerd",
            "/proc/1/root",
            "/sys/fs/cgroup",
            "/dev/shm",
            "/home/ada/.docker",
            "/home/ada/.docker/run",
            "/home/ada/.local/share/containers/storage",
            "/home/ada/.colima/default",
            "/srv/engine.sock",
        ] {
            for write in [false, true] {
                assert!(Mount::gives_too_much(Path::new(source), write), "{source}");
            }
        }
        for source in ["/etc", "/etc/", "/root", "/home", "/usr", "/usr/bin"] {
            assert!(Mount::gives_too_much(Path::new(source), true), "{source}");
            assert!(!Mount::gives_too_much(Path::new(source), false), "{source}");
        }
        for source in [
            "/home/ada/notes",
            "/home/ada/run",
            "/srv",
            "/runs",
            "/device",
            "/var/www",
            "/var/lib/app",
            "/etc/app",
            "/mnt/data",
        ] {
            for write in [false, true] {
                assert!(!Mount::gives_too_much(Path::new(source), write), "{source}");
            }
        }
    }

    #[test]
    fn each_engine_is_found_by_its_word() {
        let found: Vec<_> = Engine::WORDS.iter().filter_map(|word| Engine::parse(word)).collect();
        assert_eq!(found, Engine::ALL);
        assert_eq!(Engine::parse("/bin/sh"), None);
    }

    #[test]
    fn only_a_complete_digest_pins_an_image() {
        let digest = "sha256:".to_owned() + &"0a".repeat(32);
        let is_pinned = |image: String| Container { image, ..Container::default() }.is_pinned();
        assert!(is_pinned(format!("x@{digest}")) && is_pinned(format!("x:1@{digest}")) && is_pinned(digest.clone()));
        for image in ["x", "x:1", "x@sha256:0a0a", "localhost:5000/x", &format!("{digest}/x"), &format!("x@{digest}0")]
        {
            assert!(!is_pinned(image.to_owned()), "{image}");
        }
    }
}
