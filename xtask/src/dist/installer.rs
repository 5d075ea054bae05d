//! The installer: `install.sh`. It contains the hashes of the archives, so that it installs only what was released,
//! whatever mirror it downloads from.

use std::path::PathBuf;

use super::checksums::sha256;
use super::released::Released;
use super::staged::write;
use super::target::Target;
use crate::report::Stop;

const SCRIPT: &str = include_str!("../../dist/install.sh");

/// Writes the installer for these archives.
///
/// # Errors
/// When an archive cannot be read.
pub(crate) fn write_for(archives: &[(&Target, PathBuf)], released: &Released) -> Result<PathBuf, Stop> {
    let lines: Result<Vec<_>, Stop> =
        archives.iter().map(|(target, file)| Ok(format!("{} {}", target.triple, sha256(file)?))).collect();
    let file = released.folder.join("install.sh");
    write(&file, &script(&lines?.join("\n"), released))?;
    Ok(file)
}

fn script(hashes: &str, released: &Released) -> String {
    let script = SCRIPT.replace("@VERSION@", &released.version).replace("@HASHES@", hashes);
    script.replace("@BASE@", &released.address()).replace("@REPOSITORY@", super::released::REPOSITORY)
}

/// `sh` runs the installer, which downloads from a file server on this machine.
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use super::super::archive;
    use super::super::file_server::{Fault, FileServer};
    use super::super::staged::fixtures::{TOOLRACK, staged};
    use super::super::{released::fixtures::released, staged::PROGRAMS};
    use super::*;

    /// A release with a tiny archive for this machine, and an empty home.
    struct Scene {
        folder: tempfile::TempDir,
        released: Released,
        script: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (staged, released) = (staged(folder.path()), released(folder.path()));
            let archive = archive::pack(&staged, &released).unwrap();
            // The archive may be for another target than this machine. Its programs are scripts, so a copy does.
            let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let target = Target::named(&here).unwrap();
            let named = released.folder.join(format!("{}.tar.gz", archive::name(&released.version, &here)));
            if archive != named {
                fs::copy(&archive, &named).unwrap();
            }
            let script = write_for(&[(target, named)], &released).unwrap();
            fs::create_dir_all(folder.path().join("home")).unwrap();
            Self { folder, released, script }
        }

        fn home(&self) -> PathBuf {
            self.folder.path().join("home")
        }

        /// Runs the installer against `served`, with only the programs of `path`.
        fn install(&self, served: &FileServer, path: &Path) -> Output {
            let mut sh = Command::new("/bin/sh");
            sh.arg(&self.script).env_clear().env("HOME", self.home()).env("PATH", path).stdin(Stdio::null());
            sh.env("TMPDIR", self.folder.path()).env("TOOLRACK_BASE_URL", served.address()).output().unwrap()
        }

        /// All files in the home.
        fn installed(&self) -> Vec<PathBuf> {
            let (mut files, mut folders) = (Vec::new(), vec![self.home()]);
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() { folders.push(path) } else { files.push(path) }
                }
            }
            files
        }

        fn assert_refused(&self, outcome: &Output, why: &str) {
            let output = String::from_utf8_lossy(&outcome.stderr);
            assert!(!outcome.status.success(), "{output}");
            assert!(output.contains(why) && output.ends_with("Nothing was installed.\n"), "{output}");
            assert_eq!(self.installed(), <[PathBuf; 0]>::default());
            assert!(
                !fs::read_dir(self.folder.path())
                    .unwrap()
                    .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("tmp.") })
            );
        }
    }

    /// A folder for `PATH` with the programs that the installer always needs, those of `extra`, and no others.
    fn path_with(folder: &Path, extra: &[&str]) -> PathBuf {
        let bin = folder.join("only");
        fs::create_dir_all(&bin).unwrap();
        let needed = ["cp", "cut", "find", "gzip", "mkdir", "mktemp", "mv", "rm", "sed", "tar", "uname"];
        for name in needed.iter().chain(extra) {
            let found = ["/usr/bin", "/bin"].iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
            std::os::unix::fs::symlink(found.unwrap_or_else(|| panic!("this machine has no {name}")), bin.join(name))
                .unwrap();
        }
        bin
    }

    /// Replaces the link to a program by a script that runs `commands`, and then the program.
    fn put_before(link: &Path, commands: &str) {
        let program = fs::read_link(link).unwrap();
        fs::remove_file(link).unwrap();
        fs::write(link, format!("#!/bin/sh\n{commands}\nexec {} \"$@\"\n", program.display())).unwrap();
        fs::set_permissions(link, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// The `PATH` of this machine.
    const SYSTEM_PATH: &str = "/usr/bin:/bin";

    #[test]
    fn a_user_with_an_empty_home_gets_both_programs_and_removes_them_with_the_command_that_the_installer_prints() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        let outcome = scene.install(&served, Path::new(SYSTEM_PATH));
        let printed = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(outcome.status.success(), "{outcome:?}");
        for name in PROGRAMS {
            let program = scene.home().join(".local/bin").join(name);
            assert_eq!(fs::read_to_string(&program).unwrap(), TOOLRACK);
            assert!(Command::new(program).arg("--version").output().unwrap().status.success());
        }
        assert!(scene.home().join(".local/share/man/man1/toolrack.1").is_file());
        assert!(printed.contains("Your PATH does not have that folder"), "{printed}");
        assert!(!scene.installed().iter().any(|file| file.to_string_lossy().contains(".new.")));

        // The installed program keeps its data beside its files.
        let kept = scene.home().join(".local/share/toolrack/toolrack.db");
        fs::write(&kept, "mine").unwrap();
        let command = printed.split_once("To remove it, and nothing that is yours:\n").unwrap().1;
        let removed =
            Command::new("/bin/sh").args(["-c", command]).env_clear().env("PATH", SYSTEM_PATH).status().unwrap();
        assert!(removed.success(), "{command}");
        assert_eq!(scene.installed(), [kept]);
    }

    #[test]
    fn the_installer_works_with_wget_alone_too() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        let outcome = scene.install(&served, &path_with(scene.folder.path(), &["wget", "sha256sum"]));
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(scene.home().join(".local/bin/toolrack").is_file());
    }

    #[test]
    fn an_archive_with_another_hash_is_not_installed() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::Changed).unwrap();
        scene.assert_refused(&scene.install(&served, Path::new(SYSTEM_PATH)), "not the one that was released");
    }

    #[test]
    fn a_download_that_breaks_off_installs_nothing() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::BrokenOff).unwrap();
        scene.assert_refused(&scene.install(&served, Path::new(SYSTEM_PATH)), "cannot be downloaded");
        // Without a `Content-Length` curl cannot tell that the file is incomplete; the hash can.
        let served = FileServer::start(&scene.released.folder, Fault::BrokenOffWithoutLength).unwrap();
        scene.assert_refused(&scene.install(&served, Path::new(SYSTEM_PATH)), "not the one that was released");
    }

    #[test]
    fn a_disk_that_fills_up_leaves_the_earlier_installation_as_it_was() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        assert!(scene.install(&served, Path::new(SYSTEM_PATH)).status.success());
        let program = scene.home().join(".local/bin/toolrack");
        fs::write(&program, "the earlier version").unwrap();
        let installed = || {
            let mut files = scene.installed();
            files.sort();
            files
        };
        let before = installed();

        // A `cp` that writes half of the program, and then fails.
        let bin = path_with(scene.folder.path(), &["curl", "sha256sum"]);
        put_before(&bin.join("cp"), "case $1 in */bin/toolrack) printf half >\"$2\"; exit 1 ;; esac");
        let outcome = scene.install(&served, &bin);
        let output = String::from_utf8_lossy(&outcome.stderr);
        assert!(!outcome.status.success() && output.contains("bin/toolrack cannot be written"), "{output}");
        assert!(output.ends_with("Nothing was installed.\n"), "{output}");
        assert_eq!(fs::read_to_string(&program).unwrap(), "the earlier version");
        assert_eq!(installed(), before);
    }

    #[test]
    fn a_program_that_cannot_be_replaced_is_not_reported_as_if_nothing_was_installed() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        // A `mv` that fails at the last file: by then, the others are in place.
        let bin = path_with(scene.folder.path(), &["curl", "sha256sum"]);
        put_before(&bin.join("mv"), "case $3 in */bin/toolrack) exit 1 ;; esac");
        let outcome = scene.install(&served, &bin);
        let output = String::from_utf8_lossy(&outcome.stderr);
        assert!(!outcome.status.success() && output.contains("bin/toolrack cannot be replaced"), "{output}");
        assert!(output.ends_with("run the installer again.\n"), "{output}");
        assert!(scene.home().join(".local/bin/toolrack-supervisor").is_file());
        assert!(!scene.installed().iter().any(|file| file.to_string_lossy().contains(".new.")), "no copy is left");
    }

    #[test]
    fn a_machine_that_can_check_no_hash_installs_nothing() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        let outcome = scene.install(&served, &path_with(scene.folder.path(), &["curl"]));
        scene.assert_refused(&outcome, "neither sha256sum, shasum nor openssl");
    }

    #[test]
    fn an_installer_that_arrives_in_part_does_nothing() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        let full = fs::read_to_string(&scene.script).unwrap();
        for (at, _) in full.match_indices('\n').filter(|(at, _)| at + 1 < full.len()) {
            fs::write(&scene.script, &full[..at]).unwrap();
            scene.install(&served, Path::new(SYSTEM_PATH));
            assert_eq!(scene.installed(), <[PathBuf; 0]>::default(), "after {} bytes", at);
        }
    }

    #[test]
    fn an_installation_replaces_each_program_as_a_whole() {
        let scene = Scene::new();
        let served = FileServer::start(&scene.released.folder, Fault::None).unwrap();
        assert!(scene.install(&served, Path::new(SYSTEM_PATH)).status.success());
        let program = scene.home().join(".local/bin/toolrack");
        let before = fs::File::open(&program).unwrap();
        assert!(scene.install(&served, Path::new(SYSTEM_PATH)).status.success());
        // The open file is still the old program: the installer renamed a new file over its name.
        use std::os::unix::fs::MetadataExt as _;
        assert_ne!(before.metadata().unwrap().ino(), fs::metadata(&program).unwrap().ino());
    }
}
