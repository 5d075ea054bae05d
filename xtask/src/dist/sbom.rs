//! The bill of materials (SBOM) of the programs in CycloneDX, which `cargo cyclonedx` writes. The programs carry the
//! same list when `cargo auditable` has built them.

use std::fs;
use std::path::PathBuf;

use super::released::Released;
use super::staged::write;
use crate::report::{Step, Stop};
use crate::run::{capture, content, failed, root};
use crate::tools::CYCLONEDX;

/// Writes the bill of materials for the release. `cargo cyclonedx` writes a file into the folder of each crate; only
/// the file for the program `toolrack` is kept.
///
/// # Errors
/// With the message of `cargo cyclonedx`.
pub(crate) fn write_for(released: &Released) -> Step {
    let name = format!("toolrack-{}.cdx", released.version);
    let mut tool = CYCLONEDX.installed()?;
    tool.args([
        "--manifest-path",
        "crates/cli/Cargo.toml",
        "--format",
        "json",
        "--spec-version",
        "1.5",
        "--target",
        "all",
    ]);
    tool.args(["--no-build-deps", "--quiet", "--override-filename", &name]);
    let outcome = capture(tool.env("SOURCE_DATE_EPOCH", released.time.to_string()));
    let file = format!("{name}.json");
    let bill = content(&root().join("crates/cli").join(&file));
    for folder in members()? {
        // A crate for which the tool wrote nothing has nothing to remove.
        let _ = fs::remove_file(folder.join(&file));
    }
    // A failure is reported only now, after the files of all crates were removed.
    outcome?;
    if bill.is_empty() {
        return Err(Stop::Failed("cargo-cyclonedx wrote no bill of materials for the programs".into()));
    }
    write(&released.folder.join(file), &without_local_paths(&bill))
}

/// Returns the folders of the workspace's crates.
fn members() -> Result<Vec<PathBuf>, Stop> {
    let crates = root().join("crates");
    let entries = fs::read_dir(&crates).map_err(failed("read", &crates))?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(folders.chain(["bench", "xtask"].map(|name| root().join(name))).collect())
}

/// Replaces absolute paths of our own crates by paths relative to the repository, so that no path of this machine is
/// published.
fn without_local_paths(bill: &str) -> String {
    bill.replace(&format!("{}/", root().display()), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_of_materials_names_no_folder_of_the_machine_that_packed_it() {
        let bill = format!("{{\"bom-ref\": \"path+file://{}/crates/host#0.1.0\"}}", root().display());
        assert_eq!(without_local_paths(&bill), "{\"bom-ref\": \"path+file://crates/host#0.1.0\"}");
    }
}
