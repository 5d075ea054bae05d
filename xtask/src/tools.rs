//! Tools that cargo installs: used where they are installed, and built into `.cache/tools` where they are not.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Stop;
use crate::run::{cargo, output, program, root, show};

/// A cargo subcommand.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The name after `cargo`.
    name: &'static str,
    /// The version to install when there is none.
    version: &'static str,
    /// The oldest usable version.
    oldest: (u64, u64, u64),
}

/// The test runner.
pub(crate) const NEXTEST: Tool = Tool { name: "nextest", version: "0.9.143", oldest: (0, 9, 100) };

/// The dependency checker.
pub(crate) const DENY: Tool = Tool { name: "deny", version: "0.20.2", oldest: (0, 18, 0) };

/// Writes into each program which crates it was built from.
pub(crate) const AUDITABLE: Tool = Tool { name: "auditable", version: "0.7.7", oldest: (0, 6, 0) };

/// Lists the crates of a program, for others to read.
pub(crate) const CYCLONEDX: Tool = Tool { name: "cyclonedx", version: "0.5.9", oldest: (0, 5, 0) };

impl Tool {
    /// The tool, if it is there and new enough.
    pub(crate) fn found(&self) -> Option<Command> {
        let cargo = env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        [cargo, self.own()].into_iter().find(|place| self.is_new_enough(place)).map(|place| self.command(&place))
    }

    /// The tool, installed if need be. Builds it from source, which takes minutes.
    ///
    /// # Errors
    /// Cargo's error of the installation.
    pub(crate) fn installed(&self) -> Result<Command, Stop> {
        if let Some(command) = self.found() {
            return Ok(command);
        }
        let package = format!("cargo-{}@{}", self.name, self.version);
        let to = root().join(".cache/tools");
        show(cargo(["install", "--locked", "--root"]).arg(&to).arg(&package))?;
        self.found().ok_or_else(|| Stop::Failed(format!("{package} was installed, but does not run")))
    }

    /// The path that [`installed`](Self::installed) builds.
    fn own(&self) -> PathBuf {
        root().join(".cache/tools/bin").join(format!("cargo-{}", self.name))
    }

    fn is_new_enough(&self, place: &Path) -> bool {
        let said = output(self.command(place).arg("--version"));
        said.and_then(|said| version(&said)).is_some_and(|version| version >= self.oldest)
    }

    /// Cargo hands a subcommand its own name as the first argument, and so do we where we call it directly.
    fn command(&self, place: &Path) -> Command {
        let mut command = program(place);
        command.arg(self.name);
        command
    }
}

/// The first three numbers in a program's own version text.
fn version(said: &str) -> Option<(u64, u64, u64)> {
    let word = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The major version of a Node.
pub(crate) fn node_major(node: &Path) -> Option<u64> {
    version(output(program(node).arg("--version"))?.trim_start_matches('v')).map(|(major, ..)| major)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"), Some((0, 9, 143)));
        assert_eq!(version("22.23.3\n"), Some((22, 23, 3)));
        assert_eq!(version("1.0.0-rc.1"), Some((1, 0, 0)));
        assert_eq!(version("cargo-deny"), None);
    }
}
