//! `SHA256SUMS`: the hashes of all files of a release, in the format that `sha256sum --check` reads.

use std::fs;
use std::path::{Path, PathBuf};

use super::released::Released;
use super::staged::write;
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program};

/// The name of the checksum file.
pub(crate) const FILE: &str = "SHA256SUMS";

/// Returns the SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// When `sha256sum` cannot read it.
pub(crate) fn sha256(path: &Path) -> Result<String, Stop> {
    let printed = capture(program("sha256sum").arg("--binary").arg(path))?;
    // A backslash comes first if the name of the file is printed with escapes.
    let digits: String = printed.trim_start_matches('\\').chars().take_while(char::is_ascii_hexdigit).collect();
    if digits.len() == 64 {
        Ok(digits)
    } else {
        Err(Stop::Failed(format!("sha256sum printed no hash, but {printed:?}")))
    }
}

/// Writes the hashes of all files of the release.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn write_for(released: &Released) -> Step {
    let lines: Result<Vec<_>, Stop> = files(&released.folder)?
        .iter()
        .filter_map(|path| Some((path, path.file_name()?.to_str()?)))
        .filter(|(_, name)| *name != FILE)
        .map(|(path, name)| Ok(format!("{}  {name}\n", sha256(path)?)))
        .collect();
    write(&released.folder.join(FILE), &lines?.concat())
}

/// Returns the files of a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let entries = fs::read_dir(folder).map_err(failed("read", folder))?;
    let mut files: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::*;

    #[test]
    fn the_hashes_are_those_that_sha256sum_checks() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        write(&released.folder.join("a"), "abc").unwrap();
        write(&released.folder.join("b"), "").unwrap();
        write_for(&released).unwrap();
        let sums = fs::read_to_string(released.folder.join(FILE)).unwrap();
        assert!(sums.starts_with("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"), "{sums}");
        let check = || capture(program("sha256sum").args(["--check", FILE]).current_dir(&released.folder));
        check().unwrap();
        write(&released.folder.join("b"), "changed").unwrap();
        check().unwrap_err();
    }
}
