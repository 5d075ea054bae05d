//! The command line of `cargo xtask dist`, and the build that it asks for.

use std::env;
use std::path::PathBuf;

use super::needed;
use super::target::{self, Target};
use super::tools;
use crate::report::Stop;
use crate::run::{execute, root};
use crate::tools::AUDITABLE;

/// The options of `cargo xtask dist`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The folders of programs that are already built, each with its target.
    programs: Vec<(&'static Target, PathBuf)>,
    /// Whether to install and run every package after it is made.
    pub(crate) check: bool,
    /// Whether to build the programs and pack nothing. The release workflow has machines that only build.
    pub(crate) only_build: bool,
}

impl Plan {
    /// Reads `--programs TRIPLE=FOLDER`, `--check` and `--only-build`.
    ///
    /// # Errors
    /// When an argument is unknown, or its value is missing or wrong.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--check" => plan.check = true,
                "--only-build" => plan.only_build = true,
                "--programs" => {
                    let value = words.next().and_then(|value| value.split_once('='));
                    let (triple, folder) = value.ok_or("--programs needs TRIPLE=FOLDER")?;
                    let target = Target::named(triple).ok_or_else(|| format!("unknown target: {triple}"))?;
                    plan.programs.push((target, root().join(folder)));
                }
                other => return Err(format!("unknown option of dist: {other}")),
            }
        }
        if plan.only_build && (plan.check || !plan.programs.is_empty()) {
            return Err("--only-build packs nothing, so it cannot be combined with --check or --programs".into());
        }
        Ok(plan)
    }

    /// Returns the folders of the programs that `--programs` named, or else the folder of a new optimised build for
    /// this machine.
    ///
    /// # Errors
    /// With cargo's message, when the build fails.
    pub(super) fn built(&self) -> Result<Vec<(&'static Target, PathBuf)>, Stop> {
        if !self.programs.is_empty() {
            return Ok(self.programs.clone());
        }
        build(target::here()?).map(|built| vec![built])
    }
}

/// Optimises all crates together. The programs become a sixth smaller, but the build is too slow for everyday use.
const WHOLE_PROGRAM: (&str, &str) = ("CARGO_PROFILE_RELEASE_LTO", "fat");

/// Flags for Linux that make calls between functions of the same program direct. With rustc's default, `full`, every
/// such call goes through a table of 28,000 addresses, which the loader fills in at each start. With these flags only a
/// short table remains. `-z now` protects it as `full` would; [`needed::check_protected`] checks that.
const DIRECT_CALLS: &str = "-Crelro-level=partial -Clink-arg=-Wl,-z,now";

/// Builds the programs with `cargo auditable`, which embeds the list of their crates. For Linux, zig links them against
/// an old glibc, whatever glibc this machine has.
fn build(target: &'static Target) -> Result<(&'static Target, PathBuf), Stop> {
    let mut cargo = AUDITABLE.installed()?;
    let package = ["--release", "--locked", "--package", "toolrack"];
    cargo.env(WHOLE_PROGRAM.0, WHOLE_PROGRAM.1);
    if !target.is_linux() {
        execute(cargo.arg("build").args(package))?;
        return Ok((target, root().join("target/release")));
    }
    let python = tools::python();
    python.install()?;
    let (major, minor) = needed::OLDEST_GLIBC;
    cargo.arg("zigbuild").args(package).args(["--target", &format!("{}.{major}.{minor}", target.triple)]);
    let mut folders = vec![python.venv.join("bin")];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(folders).map_err(|error| Stop::Failed(format!("PATH cannot be longer: {error}")))?;
    let flags = [env::var("RUSTFLAGS").unwrap_or_default(), DIRECT_CALLS.to_owned()].join(" ");
    execute(cargo.env("PATH", path).env("RUSTFLAGS", flags.trim()))?;
    Ok((target, root().join("target").join(target.triple).join("release")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_with_their_target() {
        let parse = |line: &str| Plan::parse(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>());
        let plan = parse("--programs x86_64-unknown-linux-gnu=target/release --check").unwrap();
        assert!(plan.check);
        assert_eq!(plan.programs[0].1, root().join("target/release"));
        assert!(parse("--programs sparc=there").unwrap_err().contains("sparc"));
        assert!(parse("--only-build").unwrap().only_build && parse("--only-build --check").is_err());
        assert!(parse("--programs").is_err() && parse("--fast").is_err());
    }
}
