//! The npm packages: `toolrack`, which is a launcher, and for each target a package with the programs. Of these, npm
//! installs the one that fits the machine. No package has an install script.

use std::fs;
use std::path::{Path, PathBuf};

use super::readme;
use super::released::{REPOSITORY, Released};
use super::staged::{PROGRAMS, Staged, copy_file, write};
use super::target::Target;
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program, root};

const LAUNCHER: &str = include_str!("../../dist/npm/launcher.js");

/// The licence files that go into every package.
const LICENCES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Lays out all packages below `folder`, and packs them for the release. The launcher comes last, because it depends on
/// the other packages.
///
/// # Errors
/// With the message of npm.
pub(crate) fn pack(builds: &[Staged], folder: &Path, released: &Released) -> Result<Vec<PathBuf>, Stop> {
    let packages = lay_out(builds, folder, released)?;
    packages.iter().map(|package| npm_pack(package, released)).collect()
}

fn npm_pack(package: &Path, released: &Released) -> Result<PathBuf, Stop> {
    let mut npm = program("npm");
    npm.args(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination"]).arg(&released.folder).arg(package);
    let output = capture(&mut npm)?;
    output
        .lines()
        .last()
        .map(|name| released.folder.join(name))
        .ok_or_else(|| Stop::Failed("npm packed nothing".into()))
}

/// Lays out the packages as in `node_modules`, each in the folder of its name.
fn lay_out(builds: &[Staged], folder: &Path, released: &Released) -> Result<Vec<PathBuf>, Stop> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed("empty", folder))?;
    }
    let mut packages = Vec::new();
    for build in builds {
        let package = folder.join(name(build.target));
        for program_name in PROGRAMS {
            let file = build.target.file_of(program_name);
            copy_file(&build.program(program_name), &package.join("bin").join(file), 0o755)?;
        }
        write(&package.join("README.md"), "The programs of the package `toolrack`, for one kind of machine.\n")?;
        write(&package.join("package.json"), &target_manifest(build.target, released))?;
        copy_licences(&package)?;
        packages.push(package);
    }
    let targets: Vec<_> = builds.iter().map(|build| build.target).collect();
    let package = folder.join("toolrack");
    write(&package.join("bin/toolrack.js"), &launcher(&targets))?;
    write(&package.join("package.json"), &launcher_manifest(&targets, released))?;
    write(&package.join("README.md"), &readme::for_registries(&released.version))?;
    copy_licences(&package)?;
    packages.push(package);
    Ok(packages)
}

fn copy_licences(package: &Path) -> Step {
    LICENCES.iter().try_for_each(|file| copy_file(&root().join(file), &package.join(file), 0o644))
}

/// Returns the name of the package for one target.
fn name(target: &Target) -> String {
    let (system, processor) = target.npm;
    let library = if target.is_linux() { "-gnu" } else { "" };
    format!("@toolrack/{system}-{processor}{library}")
}

/// Returns the launcher script, with the names of this release's packages filled in.
fn launcher(targets: &[&Target]) -> String {
    let package = |target: &&Target| format!("  '{}-{}': '{}',\n", target.npm.0, target.npm.1, name(target));
    LAUNCHER.replace("@PACKAGES@", &format!("{{\n{}}}", targets.iter().map(package).collect::<String>()))
}

/// Returns the `package.json` of the package `toolrack`.
fn launcher_manifest(targets: &[&Target], released: &Released) -> String {
    let version = &released.version;
    let packages: Vec<_> = targets.iter().map(|target| format!("    \"{}\": \"{version}\"", name(target))).collect();
    let packages = packages.join(",\n");
    let common = common(released);
    format!(
        "{{\n  \"name\": \"toolrack\",\n{common},\n  \"bin\": {{ \"toolrack\": \"bin/toolrack.js\" }},\n  \
         \"engines\": {{ \"node\": \">=18\" }},\n  \"optionalDependencies\": {{\n{packages}\n  }}\n}}\n"
    )
}

/// Returns the `package.json` of the package for one target.
fn target_manifest(target: &Target, released: &Released) -> String {
    let (name, common) = (name(target), common(released));
    let (system, processor) = target.npm;
    let library = if target.is_linux() { ",\n  \"libc\": [\"glibc\"]" } else { "" };
    format!(
        "{{\n  \"name\": \"{name}\",\n{common},\n  \"os\": [\"{system}\"],\n  \"cpu\": [\"{processor}\"]{library},\n  \
         \"preferUnplugged\": true\n}}\n"
    )
}

/// Returns the fields that every `package.json` has.
fn common(released: &Released) -> String {
    let version = &released.version;
    format!(
        "  \"version\": \"{version}\",\n  \"description\": \"Give any AI agent the tools of any set of MCP servers\",\n  \
         \"license\": \"MIT OR Apache-2.0\",\n  \"repository\": {{ \"type\": \"git\", \"url\": \"git+{REPOSITORY}.git\" }}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::{staged, staged_for};
    use super::*;

    fn laid_out(folder: &Path) -> PathBuf {
        let modules = folder.join("node_modules");
        lay_out(&[staged(folder), staged_for("aarch64-apple-darwin", folder)], &modules, &released(folder)).unwrap();
        modules
    }

    fn json(path: &Path) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_package_names_one_package_for_each_kind_of_machine_and_runs_no_script() {
        let folder = tempfile::tempdir().unwrap();
        let modules = laid_out(folder.path());
        let main = json(&modules.join("toolrack/package.json"));
        let expected = serde_json::json!({ "@toolrack/linux-x64-gnu": "9.9.9", "@toolrack/darwin-arm64": "9.9.9" });
        assert_eq!(main["optionalDependencies"], expected);
        let linux = json(&modules.join("@toolrack/linux-x64-gnu/package.json"));
        let of_linux = ["os", "cpu", "libc"].map(|key| linux[key][0].as_str().unwrap());
        assert_eq!(of_linux, ["linux", "x64", "glibc"]);
        let mac = json(&modules.join("@toolrack/darwin-arm64/package.json"));
        assert!(mac.get("libc").is_none());
        assert!(
            [main, linux, mac].iter().all(|package| package.get("scripts").is_none() && package["version"] == "9.9.9")
        );
    }

    /// The launcher, run by the machine's Node.
    mod needs_node {
        use std::os::unix::process::ExitStatusExt as _;
        use std::process::{Command, Output};

        use super::*;

        /// Runs the launcher with `script` as the program and `before` as Node's first arguments.
        fn launched(script: &str, before: &[&str], words: &[&str]) -> Output {
            let folder = tempfile::tempdir().unwrap();
            let modules = folder.path().join("node_modules");
            let here = super::super::super::target::here().unwrap();
            let staged = staged_for(here.triple, folder.path());
            write(&staged.program("toolrack"), script).unwrap();
            lay_out(&[staged], &modules, &released(folder.path())).unwrap();
            let mut node = Command::new("node");
            node.args(before).arg(modules.join("toolrack/bin/toolrack.js")).args(words).output().unwrap()
        }

        /// Makes `process.execve` throw, as on Windows.
        const REFUSED: &[&str] =
            &["--import", "data:text/javascript,process.execve=()=>{throw%20new%20Error('unavailable')}"];

        /// Removes `process.execve`, so that the tests cover the path for an older Node on a newer one.
        const OLDER: &[&str] = &["--import", "data:text/javascript,process.execve=undefined"];

        #[test]
        fn arguments_and_exit_code_are_passed_on() {
            for before in [&[][..], OLDER, REFUSED] {
                let output =
                    launched("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n", before, &["call", "a b", "--x=$HOME"]);
                assert_eq!(String::from_utf8_lossy(&output.stdout), "call|a b|--x=$HOME|", "{output:?}");
                assert_eq!(output.status.code(), Some(7));
            }
        }

        #[test]
        fn a_program_that_a_signal_ended_ends_its_launcher_the_same_way() {
            for before in [&[][..], OLDER] {
                let output = launched("#!/bin/sh\nkill -TERM $$\n", before, &[]);
                assert_eq!(output.status.signal(), Some(15), "{output:?}");
            }
        }

        #[test]
        fn a_signal_to_the_launcher_reaches_the_program() {
            // The program signals the launcher: its parent, or itself where `execve` made them one process.
            let script = "#!/bin/sh\nsleep 60 >/dev/null 2>&1 &\ntrap 'kill $!; echo asked; exit 3' TERM\n\
                          case $(ps -o args= -p $PPID) in\n*toolrack.js*) kill -TERM $PPID ;;\n*) kill -TERM $$ ;;\nesac\nwait\n";
            for before in [&[][..], OLDER] {
                let output = launched(script, before, &[]);
                assert_eq!(output.status.code(), Some(3), "{output:?}");
                assert_eq!(String::from_utf8_lossy(&output.stdout), "asked\n");
            }
        }

        #[test]
        fn a_program_that_may_not_be_run_is_an_error_and_no_core_dump() {
            let folder = tempfile::tempdir().unwrap();
            let modules = folder.path().join("node_modules");
            let here = super::super::super::target::here().unwrap();
            lay_out(&[staged_for(here.triple, folder.path())], &modules, &released(folder.path())).unwrap();
            let program = modules.join(name(here)).join("bin/toolrack");
            fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
            let output = Command::new("node").arg(modules.join("toolrack/bin/toolrack.js")).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(stderr.starts_with("error: ") && stderr.contains("cannot be started"), "{stderr}");
        }

        #[test]
        fn a_machine_without_its_package_is_told_what_to_do() {
            let folder = tempfile::tempdir().unwrap();
            let modules = laid_out(folder.path());
            fs::remove_dir_all(modules.join("@toolrack")).unwrap();
            let output = Command::new("node").arg(modules.join("toolrack/bin/toolrack.js")).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && stderr.contains("hint: "), "{stderr}");
        }
    }
}
