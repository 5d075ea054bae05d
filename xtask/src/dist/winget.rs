//! The manifest for winget, the package manager of Windows: three files, which name the `.zip` of the programs.

use std::path::Path;

use super::archive;
use super::checksums::sha256;
use super::released::{REPOSITORY, Released};
use super::staged::{Staged, write};
use crate::report::Step;

/// The files of the manifest: the name and the template of each.
const MANIFEST: &[(&str, &str)] = &[
    ("Toolrack.Toolrack.yaml", include_str!("../../dist/winget/Toolrack.Toolrack.yaml")),
    ("Toolrack.Toolrack.installer.yaml", include_str!("../../dist/winget/Toolrack.Toolrack.installer.yaml")),
    ("Toolrack.Toolrack.locale.en-US.yaml", include_str!("../../dist/winget/Toolrack.Toolrack.locale.en-US.yaml")),
];

/// Packs the programs for Windows as a `.zip`, because winget does not unpack `.tar.gz`, and writes the manifest for
/// it. Does nothing if the programs for Windows were not built.
///
/// # Errors
/// With the message of `zip`.
pub(crate) fn write_for(staged: &[Staged], released: &Released) -> Step {
    match staged.iter().find(|staged| staged.target.is_windows()) {
        Some(windows) => manifest(&archive::zip(windows, released)?, released),
        None => Ok(()),
    }
}

fn manifest(archive: &Path, released: &Released) -> Step {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let (address, hash) = (format!("{}/{name}", released.address()), sha256(archive)?.to_uppercase());
    let filled = |text: &str| {
        let text = text.replace("@VERSION@", &released.version).replace("@REPOSITORY@", REPOSITORY);
        text.replace("@URL@", &address).replace("@SHA256@", &hash)
    };
    MANIFEST.iter().try_for_each(|(name, text)| write(&released.folder.join(name), &filled(text)))
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::staged_for;
    use super::*;
    use crate::run::{capture, program};

    #[test]
    fn the_manifest_of_winget_has_the_address_and_the_hash_of_the_zip_and_the_program_is_where_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        let staged =
            ["x86_64-pc-windows-msvc", "x86_64-unknown-linux-gnu"].map(|triple| staged_for(triple, folder.path()));
        write_for(&staged, &released).unwrap();
        let zip = released.folder.join("toolrack-9.9.9-x86_64-pc-windows-msvc.zip");
        let listed = capture(program("unzip").arg("-Z1").arg(&zip)).unwrap();
        let listed: Vec<_> = listed.lines().collect();
        assert!(listed.is_sorted() && listed.contains(&"bin/toolrack-supervisor.exe"), "{listed:?}");
        let of = |name: &str| std::fs::read_to_string(released.folder.join(name)).unwrap();
        let installer = of("Toolrack.Toolrack.installer.yaml");
        let named = installer.lines().find_map(|line| line.strip_prefix("- RelativeFilePath: ")).unwrap();
        assert!(listed.contains(&&*named.replace('\\', "/")), "{named} of {listed:?}");
        for part in ["/v9.9.9/toolrack-9.9.9-x86_64-pc-windows-msvc.zip", &sha256(&zip).unwrap().to_uppercase()] {
            assert!(installer.contains(part), "{part} of {installer}");
        }
        for (name, _) in MANIFEST {
            let text = of(name);
            assert!(text.contains("PackageVersion: 9.9.9\n") && !text.contains('@'), "{text}");
        }
        let first = std::fs::read(&zip).unwrap();
        std::fs::remove_file(&zip).unwrap();
        write_for(&staged, &released).unwrap();
        assert!(std::fs::read(&zip).unwrap() == first, "the same programs give the same bytes");
    }

    #[test]
    fn without_programs_for_windows_there_is_no_manifest_of_winget() {
        let folder = tempfile::tempdir().unwrap();
        let released = released(folder.path());
        write_for(&[staged_for("x86_64-unknown-linux-gnu", folder.path())], &released).unwrap();
        assert_eq!(std::fs::read_dir(&released.folder).unwrap().count(), 0);
    }
}
