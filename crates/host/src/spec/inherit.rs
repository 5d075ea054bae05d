//! Chooses the environment variables that a child process inherits from the host: by default a few harmless ones, so
//! that no server gets the user's secrets.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use super::affects_engine_client;

/// The variables that a child process inherits by default: folders, the user, and the settings of the network. None of
/// them should contain a secret.
///
/// The first eight are the list of the official SDKs; servers behind a company's network need the proxies and
/// certificate bundles.
const SAFE_VARIABLES: &[&str] = &[
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The variables that a child process inherits from [`HostBuilder::environment`](crate::HostBuilder::environment), or
/// from the [`Resolver`](crate::Resolver).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InheritEnv {
    /// HOME LOGNAME PATH SHELL TERM USER TMPDIR LANG LC_*, proxy and CA variables. The default.
    #[default]
    Safe,
    /// All variables, including secrets.
    All,
    /// No variables.
    None,
    /// The safe list and these variables.
    Names(Vec<String>),
}

impl InheritEnv {
    /// Returns whether this variable is inherited.
    #[must_use]
    pub fn passes(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_safe = || is_safe(name) && !is_shell_function(value);
        match self {
            Self::None => false,
            Self::All => true,
            Self::Safe => is_safe(),
            Self::Names(names) => is_safe() || names.iter().any(|other| name == other.as_str()),
        }
    }
}

/// Returns whether the client of a container engine gets this variable: a safe one, or one that affects the client.
#[must_use]
pub fn passes_to_the_client(name: &OsStr, value: &OsStr) -> bool {
    (is_safe(name) || name.to_str().is_some_and(affects_engine_client)) && !is_shell_function(value)
}

fn is_safe(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| SAFE_VARIABLES.contains(&name) || name.starts_with("LC_"))
}

/// Returns whether the value is a shell function: old shells export functions as variables, and a shell would run their
/// text.
fn is_shell_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

/// Returns `path` without its relative or empty elements, which refer to the working folder and its unknown files;
/// `None` when all elements are absolute.
#[must_use]
pub fn absolute_path(path: &OsStr) -> Option<OsString> {
    let is_relative = |folder: &PathBuf| !folder.is_absolute();
    if !std::env::split_paths(path).any(|folder| is_relative(&folder)) {
        return None;
    }
    let folders = std::env::split_paths(path).filter(|folder| !is_relative(folder));
    // Joining cannot fail: the folders come from a path that was split.
    Some(std::env::join_paths(folders).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_absolute_folders() {
        for (path, kept) in
            [(".:/usr/bin", Some("/usr/bin")), ("/a::/b:bin", Some("/a:/b")), ("/a:/b", None), (":", Some(""))]
        {
            assert_eq!(absolute_path(OsStr::new(path)), kept.map(OsString::from), "{path}");
        }
    }
}
