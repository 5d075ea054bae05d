//! Installs every package as a new user with an empty home does, from registries on this machine, and measures the time
//! from the install command to the first result.

mod container;
mod debian;
mod npm;
mod python;
mod shell;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::released::Released;
use super::staged::write;
use crate::report::{Report, Step, Stop};
use crate::run::{failed, program, root};

/// The time limit for the first result.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The text that the first command prints if it works.
const RESULT: &str = "[FILE] first-result.txt";

/// The packages that `dist` made, for this machine and others.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    /// The npm packages, in the order in which they are published.
    pub(crate) npm: Vec<PathBuf>,
    /// The Python wheels.
    pub(crate) wheels: Vec<PathBuf>,
    /// The Debian packages.
    pub(crate) debian: Vec<PathBuf>,
    /// The container images.
    pub(crate) images: Vec<PathBuf>,
}

/// How long each install command took to its first result.
#[derive(Debug, Default)]
struct Times(Vec<(&'static str, Duration)>);

/// Installs each package, and runs `toolrack` from it.
pub(crate) fn run(report: &mut Report, packages: &Packages, released: &Released) {
    let mut times = Times::default();
    report.step("a line of shell", || shell::check(released, &mut times));
    report.step("npx, from a registry on this machine", || npm::check(&packages.npm, &mut times));
    report.step("uvx and pip, from an index on this machine", || python::check(&packages.wheels, &mut times));
    report.step("dpkg, in a separate root folder", || debian::check(&packages.debian, &mut times));
    report.step("an image, run by Podman", || container::check(&packages.images, released, &mut times));
    println!("── first results, in an empty home");
    for (name, time) in &times.0 {
        println!("   {:>5.2} s  {name}", time.as_secs_f64());
    }
    println!();
}

/// A new user: an empty home, and a folder to work in.
#[derive(Debug)]
struct NewUser {
    folder: PathBuf,
}

impl NewUser {
    /// Creates the user `name`, without the files of an earlier run.
    fn new(name: &str) -> Result<Self, Stop> {
        let folder = root().join("target/dist/check").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed("empty", &folder))?;
        }
        write(&folder.join("work/first-result.txt"), "")?;
        let newcomer = Self { folder };
        fs::create_dir_all(newcomer.home()).map_err(failed("make", &newcomer.folder))?;
        Ok(newcomer)
    }

    /// Deletes everything in the home of this user.
    fn empty_home(&self) -> Step {
        let home = self.home();
        fs::remove_dir_all(&home).and_then(|()| fs::create_dir_all(&home)).map_err(failed("empty", &home))
    }

    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Returns a command that runs a program of this machine as this user: with the user's home, working folder and
    /// environment.
    fn command(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = program(name);
        command.env_clear().env("HOME", self.home()).current_dir(self.folder.join("work"));
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command
    }
}

impl Times {
    /// Runs `command`, and records how long it takes to its first result. `line` is what a user would type for it.
    ///
    /// # Errors
    /// When the command fails, prints no result, or takes longer than [`TIME_LIMIT`].
    fn record_first_result(&mut self, line: &'static str, command: &mut Command) -> Step {
        println!("   {line}");
        let started = Instant::now();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Stop::Failed(format!("`{line}` cannot run: {error}")))?;
        let time = started.elapsed();
        if !output.status.success() || !String::from_utf8_lossy(&output.stdout).contains(RESULT) {
            let printed = [output.stdout, output.stderr].concat();
            return Err(Stop::Failed(format!(
                "`{line}` printed no result: {}",
                String::from_utf8_lossy(&printed).trim()
            )));
        }
        self.0.push((line, time));
        if time > TIME_LIMIT {
            return Err(Stop::Failed(format!("`{line}` took {:.1} s", time.as_secs_f64())));
        }
        Ok(())
    }
}
