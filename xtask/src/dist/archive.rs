//! The `.tar.gz` archive of the staged folder, which a user can unpack anywhere, and the `.zip` that winget needs for
//! Windows. Both are reproducible: the same programs give the same bytes.

use std::path::PathBuf;
use std::process::Command;

use super::released::Released;
use super::staged::Staged;
use crate::debian;
use crate::report::Stop;
use crate::run::{capture, program};

/// Packs the staged folder as a `.tar.gz`.
///
/// # Errors
/// With the message of `tar`.
pub(crate) fn pack(staged: &Staged, released: &Released) -> Result<PathBuf, Stop> {
    let folder = name(&released.version, staged.target.triple);
    let file = released.folder.join(format!("{folder}.tar.gz"));
    let mut tar = reproducible_tar(released);
    // Put all files into one folder of this name.
    tar.arg(format!("--transform=s,^\\.,{folder},")).args(["--gzip", "--file"]).arg(&file);
    capture(tar.arg("--directory").arg(&staged.prefix).arg("."))?;
    Ok(file)
}

/// Packs the staged folder as a `.zip`, without a top folder.
///
/// # Errors
/// With the message of `zip`; skipped where `zip` is missing and cannot be installed.
pub(crate) fn zip(staged: &Staged, released: &Released) -> Result<PathBuf, Stop> {
    debian::install(&["zip"])?;
    let file = released.folder.join(format!("{}.zip", name(&released.version, staged.target.triple)));
    let listed = capture(program("find").arg(&staged.prefix).args(["-type", "f", "-printf", "%P\\n"]))?;
    let mut files: Vec<_> = listed.lines().collect();
    files.sort_unstable();
    // `zip` stores the modification time of each file.
    let time = format!("@{}", released.time);
    capture(program("touch").current_dir(&staged.prefix).args(["--date", &time, "--"]).args(&files))?;
    let mut zip = program("zip");
    zip.current_dir(&staged.prefix).env("TZ", "UTC").args(["-X", "-9", "--quiet"]).arg(&file);
    capture(zip.args(&files))?;
    Ok(file)
}

/// Returns the name of an archive without its extension, which is also the name of the one folder in it.
pub(crate) fn name(version: &str, triple: &str) -> String {
    format!("toolrack-{version}-{triple}")
}

/// Returns `tar` with a fixed order, owner, mode and time, so that it writes the same bytes for the same files.
fn reproducible_tar(released: &Released) -> Command {
    let mut tar = program("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg("--mode=u+rwX,go+rX,go-w").arg(format!("--mtime=@{}", released.time)).env("GZIP", "-9n");
    tar
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::staged;
    use super::*;

    #[test]
    fn an_archive_has_one_folder_with_all_that_is_staged_and_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (staged, released) = (staged(folder.path()), released(folder.path()));
        let file = pack(&staged, &released).unwrap();
        let listed = capture(program("tar").arg("--list").arg("--file").arg(&file)).unwrap();
        let listed: Vec<_> = listed.lines().collect();
        let top = "toolrack-9.9.9-x86_64-unknown-linux-gnu/";
        assert!(listed.iter().all(|name| name.starts_with(top)), "{listed:?}");
        for name in ["bin/toolrack", "bin/toolrack-supervisor", "share/man/man1/toolrack.1"] {
            assert!(listed.contains(&format!("{top}{name}").as_str()), "{name} of {listed:?}");
        }
        let first = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(std::fs::read(pack(&staged, &released).unwrap()).unwrap() == first);
    }
}
