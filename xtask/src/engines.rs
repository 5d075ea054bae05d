//! Container engines: Podman, from Debian's package, and Docker's client if it is installed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{self, is_there};
use crate::report::Report;
use crate::run::{output, program, root};

/// Podman, a runtime for it that works inside most sandboxes, and the init process of its containers.
const PODMAN: &[&str] = &["podman", "runc", "catatonit"];

/// Installs Podman if it is missing and `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    report.step("podman from Debian", || debian::install(PODMAN));
}

/// Returns the test modules that cannot run here, and why.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let podman = podman_problem().map(|why| ("needs_podman", why));
    let docker = (!is_there("docker")).then_some(("needs_docker", "there is no `docker` on the path"));
    podman.into_iter().chain(docker)
}

/// Returns the reason why Podman does not run; `None` if it does. Starts a container to find out, because no other
/// check shows all the ways in which a machine can prevent that.
pub(crate) fn podman_problem() -> Option<&'static str> {
    if !PODMAN.iter().all(|name| is_there(name)) {
        return Some("podman, runc or catatonit is not there (`cargo xtask install`, as root on Debian)");
    }
    if output(program("id").arg("-u")).is_none_or(|id| id.trim() != "0") {
        return Some("the tests run podman as root, and this user is not root");
    }
    let folder = root().join(".cache/podman");
    let runs = run_true(&folder).is_some();
    // Files that cannot be removed do no harm: the next check writes over them.
    let _ = fs::remove_dir_all(&folder);
    (!runs).then_some("podman is installed, but cannot run a container on this machine")
}

/// Runs the program `true` in a container with the options of the tests; `None` if that fails.
fn run_true(folder: &Path) -> Option<()> {
    let files = folder.join("files");
    let linked = output(program("ldd").arg("/bin/true"))?;
    let libraries = linked.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    for file in libraries.chain(["/bin/true".into()]) {
        let target = files.join(file.strip_prefix("/").ok()?);
        fs::create_dir_all(target.parent()?).ok()?;
        fs::copy(&file, target).ok()?;
    }
    let mut podman = podman(folder).ok()?;
    podman.args(["run", "--rm", "--init", "--network=none", "--read-only", "--memory=64m", "--pids-limit=16"]);
    output(podman.arg("--rootfs").arg(&files).arg("/bin/true")).map(drop)
}

/// Returns a `podman` command that works inside most sandboxes, with all its data in `folder`.
///
/// # Errors
/// When Podman's settings cannot be written.
pub(crate) fn podman(folder: &Path) -> io::Result<Command> {
    fs::create_dir_all(folder)?;
    let containers = folder.join("containers.conf");
    let limits = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";
    let engine = "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n";
    fs::write(&containers, [limits, engine].concat())?;
    let place = folder.display();
    let storage = folder.join("storage.conf");
    let content = format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{place}/store\"\nrunroot = \"{place}/run\"\n");
    fs::write(&storage, content)?;
    let mut podman = program("podman");
    podman.env("CONTAINERS_CONF", &containers).env("CONTAINERS_STORAGE_CONF", &storage);
    Ok(podman)
}
