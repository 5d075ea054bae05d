//! A Python wheel for each target. pip and uv put the programs themselves on the user's path, without a Python wrapper.

use std::fs;
use std::path::{Path, PathBuf};

use super::readme;
use super::released::{REPOSITORY, Released};
use super::staged::{PROGRAMS, Staged, copy_file, write};
use super::tools;
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program, root};

/// Lays a wheel out below `folder`, and packs it for the release with its `RECORD`.
///
/// # Errors
/// With the message of `wheel pack`.
pub(crate) fn pack(staged: &Staged, folder: &Path, released: &Released) -> Result<PathBuf, Stop> {
    let folder = folder.join(staged.target.triple);
    lay_out(staged, &folder, released)?;
    let python = tools::python();
    python.install()?;
    let mut wheel = program(python.python());
    wheel.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&released.folder).arg(&folder);
    // The variable sets the time of every file in the wheel.
    capture(wheel.env("SOURCE_DATE_EPOCH", released.time.to_string()))?;
    Ok(released.folder.join(format!("toolrack-{}-{}.whl", released.version, tag(staged))))
}

/// Returns the wheel's tag: any Python 3, no Python ABI, one platform.
fn tag(staged: &Staged) -> String {
    format!("py3-none-{}", staged.target.wheel)
}

fn lay_out(staged: &Staged, folder: &Path, released: &Released) -> Step {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed("empty", folder))?;
    }
    let part_folder = |part: &str| folder.join(format!("toolrack-{}.{part}", released.version));
    let (info, data) = (part_folder("dist-info"), part_folder("data"));
    for name in PROGRAMS {
        let file = staged.target.file_of(name);
        copy_file(&staged.program(name), &data.join("scripts").join(file), 0o755)?;
    }
    let share = data.join("data");
    fs::create_dir_all(&share).map_err(failed("make", &share))?;
    capture(program("cp").args(["-R"]).arg(staged.prefix.join("share")).arg(&share))?;
    for page in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy_file(&root().join(page), &info.join("licenses").join(page), 0o644)?;
    }
    let generator = format!("toolrack-xtask {}", released.version);
    let wheel = format!("Wheel-Version: 1.0\nGenerator: {generator}\nRoot-Is-Purelib: false\nTag: {}\n", tag(staged));
    write(&info.join("WHEEL"), &wheel)?;
    write(&info.join("METADATA"), &metadata(&released.version))
}

/// Returns the `METADATA` file, which PyPI shows.
fn metadata(version: &str) -> String {
    let readme = readme::for_registries(version);
    format!(
        "Metadata-Version: 2.4\nName: toolrack\nVersion: {version}\n\
         Summary: Give any AI agent the tools of any set of MCP servers\n\
         License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n\
         Project-URL: Source, {REPOSITORY}\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::{staged, staged_for};
    use super::*;

    #[test]
    fn a_wheel_brings_both_programs_as_scripts_and_says_what_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        let laid = folder.path().join("wheel");
        lay_out(&staged(folder.path()), &laid, &released).unwrap();
        let read = |path: &str| fs::read_to_string(laid.join(path)).unwrap();
        assert!(PROGRAMS.iter().all(|name| read(&format!("toolrack-9.9.9.data/scripts/{name}")).starts_with("#!")));
        assert_eq!(read("toolrack-9.9.9.data/data/share/man/man1/toolrack.1"), "manual\n");
        assert!(read("toolrack-9.9.9.dist-info/WHEEL").ends_with("Tag: py3-none-manylinux_2_17_x86_64\n"));
        let metadata = read("toolrack-9.9.9.dist-info/METADATA");
        assert!(metadata.starts_with("Metadata-Version: 2.4\nName: toolrack\nVersion: 9.9.9\n"), "{metadata}");
        assert!(metadata.contains("\n\n# Toolrack\n"));
    }

    #[test]
    fn a_wheel_for_windows_has_programs_of_windows() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        let laid = folder.path().join("wheel");
        lay_out(&staged_for("x86_64-pc-windows-msvc", folder.path()), &laid, &released).unwrap();
        assert!(laid.join("toolrack-9.9.9.data/scripts/toolrack.exe").is_file());
    }
}
