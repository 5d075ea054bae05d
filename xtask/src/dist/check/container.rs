//! Podman runs the image: not as root, with a read-only file system, and without a network.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::{NewUser, Times};
use crate::dist::image;
use crate::dist::released::Released;
use crate::engines::podman;
use crate::report::{Step, Stop};
use crate::run::{capture, failed};

/// The options that confine every container of this check.
const CONFINED: &[&str] = &["--read-only", "--network=none", "--cap-drop=all", "--security-opt=no-new-privileges"];

/// The name of the container in which the daemon runs.
const DAEMON: &str = "toolrack-dist-check";

/// Loads the image, calls a tool, and asks a daemon in it for its health.
pub(super) fn check(images: &[PathBuf], released: &Released, times: &mut Times) -> Step {
    let image = images.first().ok_or_else(|| Stop::Skipped("there is no image for this machine".into()))?;
    let newcomer = NewUser::new("container")?;
    let engine = Engine { store: newcomer.folder.join("podman") };
    let name = image::name(released);
    capture(engine.podman()?.arg("load").arg("--quiet").arg("--input").arg(image))?;
    let user = capture(engine.podman()?.args(["image", "inspect", "--format", "{{.Config.User}}", &name]))?;
    if user.trim() != "65532:65532" {
        return Err(Stop::Failed(format!("the image runs as {}", user.trim())));
    }
    let work = format!("{}:/work:ro", newcomer.folder.join("work").display());
    let mut run = engine.podman()?;
    run.args(["run", "--rm", "--volume", &work, "--workdir", "/work"]).args(CONFINED);
    run.args([&name, "call", "builtin/list_directory", "path=."]);
    times.record_first_result("podman run toolrack call builtin/list_directory path=.", &mut run)?;
    let healthy = check_health(&engine, &name);
    // Removes the container also when the health check failed.
    capture(engine.podman()?.args(["rm", "--force", "--ignore", "--time", "10", DAEMON]))?;
    healthy
}

/// Starts a daemon, waits until it prints its address, and has Podman run the health check of the image.
fn check_health(engine: &Engine, name: &str) -> Step {
    let mut run = engine.podman()?;
    run.args(["run", "--name", DAEMON]).args(CONFINED).arg(name);
    let mut process =
        run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed("run", Path::new("podman")))?;
    let Some(stdout) = process.stdout.take() else { return Ok(()) };
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        if lines.read_line(&mut line).is_ok_and(|read| read == 0) {
            let _ = process.wait();
            return Err(Stop::Failed("the daemon in the container ended before it listened".into()));
        }
    }
    // Drains stdout, so that the daemon never blocks on a full pipe. The thread ends with the container.
    let reader = thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
    let health = capture(engine.podman()?.args(["healthcheck", "run", DAEMON])).map(drop);
    let ended = capture(engine.podman()?.args(["stop", "--time", "20", DAEMON])).map(drop);
    // Only reap the process and the thread: `health` and `ended` have the outcome.
    let _ = process.wait();
    let _ = reader.join();
    health.and(ended)
}

/// Podman with its own image store, so that the check leaves the user's images alone.
struct Engine {
    store: PathBuf,
}

impl Engine {
    fn podman(&self) -> Result<Command, Stop> {
        podman(&self.store).map_err(failed("write the settings of Podman in", &self.store))
    }
}
