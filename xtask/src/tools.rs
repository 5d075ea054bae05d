//! Tools that cargo installs: used if they are installed, otherwise built into `.cache/tools`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Stop;
use crate::run::{cargo, execute, output, program, root};

/// A program that cargo installs.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The package, and the name of its program.
    name: &'static str,
    /// The word after `cargo`, for a cargo subcommand.
    subcommand: Option<&'static str>,
    /// The features to build in place of the package's defaults.
    features: Option<&'static str>,
    /// The version to install if none is installed.
    version: &'static str,
    /// The oldest usable version.
    oldest: (u64, u64, u64),
}

/// The test runner.
pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    subcommand: Some("nextest"),
    features: None,
    version: "0.9.143",
    oldest: (0, 9, 100),
};

/// The dependency checker.
pub(crate) const DENY: Tool =
    Tool { name: "cargo-deny", subcommand: Some("deny"), features: None, version: "0.20.2", oldest: (0, 18, 0) };

/// Builds the guide as a book. It is built without its web server, which would double the build time.
pub(crate) const MDBOOK: Tool =
    Tool { name: "mdbook", subcommand: None, features: Some("search"), version: "0.5.4", oldest: (0, 5, 0) };

/// Embeds the list of crates into each program.
pub(crate) const AUDITABLE: Tool = Tool {
    name: "cargo-auditable",
    subcommand: Some("auditable"),
    features: None,
    version: "0.7.7",
    oldest: (0, 6, 0),
};

/// Writes the list of a program's crates for other tools.
pub(crate) const CYCLONEDX: Tool = Tool {
    name: "cargo-cyclonedx",
    subcommand: Some("cyclonedx"),
    features: None,
    version: "0.5.9",
    oldest: (0, 5, 0),
};

impl Tool {
    /// Returns the tool, if it is installed and new enough.
    pub(crate) fn found(&self) -> Option<Command> {
        let cargo = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        let by_default = self.subcommand.map_or_else(|| self.name.into(), |_| cargo);
        [by_default, self.built_path()]
            .into_iter()
            .find(|path| self.is_new_enough(path))
            .map(|path| self.command(&path))
    }

    /// Returns the tool, and first installs it if necessary. Cargo builds it from source, which takes minutes. It is
    /// not optimised: that would take twice as long and later save only seconds.
    ///
    /// # Errors
    /// Cargo's error of the installation.
    pub(crate) fn installed(&self) -> Result<Command, Stop> {
        if let Some(command) = self.found() {
            return Ok(command);
        }
        let package = format!("{}@{}", self.name, self.version);
        let mut install = cargo(["install", "--debug", "--locked", "--root"]);
        install.arg(root().join(".cache/tools")).arg(&package).env("CARGO_PROFILE_DEV_DEBUG", "false");
        install.args(self.features.iter().flat_map(|features| ["--no-default-features", "--features", features]));
        execute(&mut install)?;
        self.found().ok_or_else(|| Stop::Failed(format!("{package} was installed, but does not run")))
    }

    /// Returns the path of the tool that [`installed`](Self::installed) builds.
    fn built_path(&self) -> PathBuf {
        root().join(".cache/tools/bin").join(self.name)
    }

    fn is_new_enough(&self, path: &Path) -> bool {
        let printed = output(self.command(path).arg("--version"));
        printed.and_then(|printed| version(&printed)).is_some_and(|version| version >= self.oldest)
    }

    /// Cargo gives a subcommand its name as the first argument; a direct call has to do the same.
    fn command(&self, path: &Path) -> Command {
        let mut command = program(path);
        command.args(self.subcommand);
        command
    }
}

/// Returns the first three numbers in a program's own version text.
fn version(printed: &str) -> Option<(u64, u64, u64)> {
    let mut words = printed.split_whitespace().map(|word| word.trim_start_matches('v'));
    let word = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Returns the major version of a Node.
pub(crate) fn node_major(node: &Path) -> Option<u64> {
    version(&output(program(node).arg("--version"))?).map(|(major, ..)| major)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"), Some((0, 9, 143)));
        assert_eq!(version("v22.23.3\n"), Some((22, 23, 3)));
        assert_eq!(version("mdbook v0.5.4\n"), Some((0, 5, 4)));
        assert_eq!(version("1.0.0-rc.1"), Some((1, 0, 0)));
        assert_eq!(version("cargo-deny"), None);
    }
}
