//! The targets that Toolrack is released for, and the name of each in npm, Python and Debian.

use crate::report::Stop;

/// One target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Rust's target triple.
    pub(crate) triple: &'static str,
    /// npm's `os` and `cpu` of the target.
    pub(crate) npm: (&'static str, &'static str),
    /// Python's platform tag, at the end of a wheel's name.
    pub(crate) wheel: &'static str,
    /// The architecture in the words of Debian and container engines; `None` where Debian does not run.
    pub(crate) debian: Option<&'static str>,
}

/// All targets. A test checks that the release workflow builds the same ones.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-gnu",
        npm: ("linux", "x64"),
        wheel: "manylinux_2_17_x86_64",
        debian: Some("amd64"),
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        npm: ("linux", "arm64"),
        wheel: "manylinux_2_17_aarch64",
        debian: Some("arm64"),
    },
    Target { triple: "x86_64-apple-darwin", npm: ("darwin", "x64"), wheel: "macosx_10_12_x86_64", debian: None },
    Target { triple: "aarch64-apple-darwin", npm: ("darwin", "arm64"), wheel: "macosx_11_0_arm64", debian: None },
    Target { triple: "x86_64-pc-windows-msvc", npm: ("win32", "x64"), wheel: "win_amd64", debian: None },
];

impl Target {
    /// Returns the target with this triple.
    pub(crate) fn named(triple: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple)
    }

    /// Returns the file name of a program, with `.exe` on Windows.
    pub(crate) fn file_of(&self, program: &str) -> String {
        if self.is_windows() { format!("{program}.exe") } else { program.to_owned() }
    }

    pub(crate) fn is_linux(&self) -> bool {
        self.npm.0 == "linux"
    }

    pub(crate) fn is_windows(&self) -> bool {
        self.npm.0 == "win32"
    }
}

/// Returns the target of this machine.
///
/// # Errors
/// When Toolrack is not released for it.
pub(crate) fn here() -> Result<&'static Target, Stop> {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let is_this_machine = |target: &&Target| {
        let system = if system == "macos" { "apple" } else { system };
        target.triple.starts_with(processor) && target.triple.contains(system)
    };
    TARGETS
        .iter()
        .find(is_this_machine)
        .ok_or_else(|| Stop::Skipped(format!("Toolrack is not released for {system} on {processor}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{content, root};

    #[test]
    fn the_release_workflow_builds_for_every_kind_of_machine() {
        let workflow = content(&root().join(".github/workflows/release.yml"));
        let built: Vec<_> = workflow.lines().filter_map(|line| line.trim().strip_prefix("- { target: ")).collect();
        let built: Vec<_> = built.iter().filter_map(|line| line.split(',').next()).collect();
        assert_eq!(built, TARGETS.iter().map(|target| target.triple).collect::<Vec<_>>());
    }
}
