//! Represents the environment variables of a process as data.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

use toolrack_host::spec::{InheritEnv, passes_to_the_client};

use crate::home::below_home;

/// A snapshot of environment variables.
///
/// The snapshot is passed around as data, so that no other code reads the environment of the process, and tests need no
/// environment. Its `Debug` prints only names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The home folder that the system records for the user of this process.
    system_home: Option<PathBuf>,
}

impl Environment {
    /// Creates an environment of the given variables.
    pub fn new<K: Into<OsString>, V: Into<OsString>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        Self {
            variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            system_home: None,
        }
    }

    /// Returns the variables of this process as they are now.
    #[must_use]
    pub fn of_process() -> Self {
        Self { variables: std::env::vars_os().collect(), system_home: std::env::home_dir() }
    }

    /// Returns the value of `name`, when it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Removes `name` from this snapshot, and so from all environments that are derived from it later. Returns its
    /// value.
    pub fn take(&mut self, name: &str) -> Option<OsString> {
        self.variables.remove(OsStr::new(name))
    }

    /// Returns the value of `name` as a path, when it is set and not empty.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let value = self.get(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    }

    /// As [`Self::path`], for a variable of Toolrack's own, with a leading `~` replaced by the home folder. A shell
    /// replaces the `~`, but other programs that set the variable do not.
    pub(crate) fn own_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.path(name)?;
        if let (Some(rest), Some(home)) = (path.to_str().and_then(below_home), self.home()) {
            return Some(home.join(rest));
        }
        Some(path)
    }

    /// Returns the user's home folder: `HOME` if it is set and not empty. Otherwise a snapshot of the process returns
    /// the home folder that the system records for the user, and any other snapshot returns `None`.
    #[must_use]
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| self.system_home.clone())
    }

    /// Returns all variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the harmless variables, which every child process may see; see [`InheritEnv::Safe`].
    pub fn safe(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.inherited(&InheritEnv::Safe)
    }

    /// Returns the variables that a child process inherits under this setting.
    pub(crate) fn inherited<'a>(&'a self, inherit: &'a InheritEnv) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
        self.iter().filter(|(name, value)| inherit.passes(name, value))
    }

    /// Returns the variables for the client of a container engine: the safe ones, and those that affect the engine.
    pub(crate) fn for_engine_clients(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.iter().filter(|(name, value)| passes_to_the_client(name, value))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_variables_are_places_language_and_network_only() {
        let environment = Environment::new([
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("https_proxy", "http://proxy"),
            ("GITHUB_TOKEN", "canary"),
            ("SHELL", "() { :; }; echo canary"),
            ("LD_PRELOAD", "canary"),
        ]);
        let safe: Vec<_> = environment.safe().map(|(name, _)| name).collect();
        assert_eq!(safe, ["LC_ALL", "PATH", "https_proxy"]);
    }

    #[test]
    fn debug_shows_no_value() {
        let environment = Environment::new([("TOKEN", "canary")]);
        assert_eq!(format!("{environment:?}"), r#"{"TOKEN"}"#);
    }

    #[test]
    fn an_empty_home_counts_as_none() {
        assert_eq!(Environment::new([("HOME", "")]).home(), None);
    }

    #[test]
    fn a_child_inherits_what_its_entry_says() {
        let environment = Environment::new([("PATH", "/bin"), ("TOKEN", "canary"), ("OTHER", "x")]);
        let names = |inherit: &InheritEnv| -> Vec<String> {
            environment.inherited(inherit).map(|(name, _)| name.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&InheritEnv::Safe), ["PATH"]);
        assert_eq!(names(&InheritEnv::All), ["OTHER", "PATH", "TOKEN"]);
        assert_eq!(names(&InheritEnv::None), [""; 0]);
    }

    #[test]
    fn a_removed_variable_is_passed_to_no_child() {
        let mut environment = Environment::new([("TOKEN", "canary"), ("PATH", "/bin")]);
        assert_eq!(environment.take("TOKEN"), Some("canary".into()));
        assert_eq!((environment.take("TOKEN"), environment.get("TOKEN")), (None, None));
        assert_eq!(environment.iter().count(), 1);
        assert_eq!(environment.path("PATH"), Some("/bin".into()));
        assert_eq!(Environment::new([("X", "")]).path("X"), None);
    }
}
