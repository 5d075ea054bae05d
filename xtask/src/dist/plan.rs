//! What is to be shipped, as it is typed.

use std::path::PathBuf;

use super::target::{self, Target};
use crate::report::Stop;
use crate::run::{cargo, root, show};

/// What `cargo xtask dist` is asked to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Programs that were built already, and for what.
    programs: Vec<(&'static Target, PathBuf)>,
    /// Whether all that was made is installed and run.
    pub(crate) check: bool,
}

impl Plan {
    /// Reads `--programs TRIPLE=FOLDER` and `--check`.
    ///
    /// # Errors
    /// For words that mean nothing here.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--check" => plan.check = true,
                "--programs" => {
                    let value = words.next().and_then(|value| value.split_once('='));
                    let (triple, folder) = value.ok_or("--programs wants TRIPLE=FOLDER")?;
                    let target = Target::named(triple).ok_or_else(|| format!("no such kind of machine: {triple}"))?;
                    plan.programs.push((target, root().join(folder)));
                }
                other => return Err(format!("dist knows no {other}")),
            }
        }
        Ok(plan)
    }

    /// The folders of the programs: those that were named, or else those of a new optimised build for this machine.
    ///
    /// # Errors
    /// With cargo's, when they are built.
    pub(super) fn built(&self) -> Result<Vec<(&'static Target, PathBuf)>, Stop> {
        if !self.programs.is_empty() {
            return Ok(self.programs.clone());
        }
        show(&mut cargo(["build", "--release", "--locked", "--package", "toolrack"]))?;
        Ok(vec![(target::here()?, root().join("target/release"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_with_their_kind_of_machine() {
        let parse = |line: &str| Plan::parse(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>());
        let plan = parse("--programs x86_64-unknown-linux-gnu=target/release --check").unwrap();
        assert!(plan.check);
        assert_eq!(plan.programs[0].1, root().join("target/release"));
        assert!(parse("--programs sparc=there").unwrap_err().contains("sparc"));
        assert!(parse("--programs").is_err() && parse("--fast").is_err());
    }
}
