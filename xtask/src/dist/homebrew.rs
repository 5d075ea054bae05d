//! The Homebrew formula, for macOS and Linux.

use std::path::{Path, PathBuf};

use super::checksums::sha256;
use super::released::{REPOSITORY, Released};
use super::staged::write;
use super::target::Target;
use crate::report::{Step, Stop};

const FORMULA: &str = include_str!("../../dist/homebrew/toolrack.rb");

/// The systems that Homebrew runs on: npm's name of each, and the name of its block in a formula.
const SYSTEMS: &[(&str, &str)] = &[("darwin", "on_macos"), ("linux", "on_linux")];

/// Writes the Homebrew formula for these archives.
///
/// # Errors
/// When an archive cannot be read.
pub(crate) fn write_for(archives: &[(&Target, PathBuf)], released: &Released) -> Step {
    let mut parts = String::new();
    for (system, block) in SYSTEMS {
        let of_system = archives.iter().filter(|(target, _)| target.npm.0 == *system);
        let inner: Result<Vec<_>, Stop> =
            of_system.map(|(target, file)| archive_block(target, file, released)).collect();
        let inner = inner?.concat();
        if !inner.is_empty() {
            parts += &format!("  {block} do\n{inner}  end\n");
        }
    }
    let formula = FORMULA.replace("@REPOSITORY@", REPOSITORY).replace("@VERSION@", &released.version);
    write(&released.folder.join("toolrack.rb"), &formula.replace("@ARCHIVES@\n", &parts))
}

fn archive_block(target: &Target, file: &Path, released: &Released) -> Result<String, Stop> {
    let processor = if target.npm.1 == "arm64" { "on_arm" } else { "on_intel" };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (address, hash) = (released.address(), sha256(file)?);
    Ok(format!("    {processor} do\n      url \"{address}/{name}\"\n      sha256 \"{hash}\"\n    end\n"))
}

#[cfg(test)]
mod tests {
    use super::super::archive;
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::staged_for;
    use super::*;

    #[test]
    fn the_formula_has_the_address_and_the_hash_of_each_archive() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        let archives: Vec<_> = ["aarch64-apple-darwin", "x86_64-unknown-linux-gnu"]
            .map(|triple| staged_for(triple, folder.path()))
            .iter()
            .map(|staged| (staged.target, archive::pack(staged, &released).unwrap()))
            .collect();
        write_for(&archives, &released).unwrap();
        let formula = std::fs::read_to_string(released.folder.join("toolrack.rb")).unwrap();
        for (_, file) in &archives {
            assert!(formula.contains(&sha256(file).unwrap()), "{formula}");
            assert!(formula.contains(file.file_name().unwrap().to_str().unwrap()), "{formula}");
        }
        assert!(formula.contains("  on_macos do\n    on_arm do\n") && !formula.contains('@'), "{formula}");
    }
}
