//! A new user runs `npx`, which installs the packages from a registry on this machine.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

use super::{NewUser, Times};
use crate::dist::staged::write;
use crate::dist::tools;
use crate::packages::Npm;
use crate::report::{Step, Stop};
use crate::run::{capture, program};

/// Publishes the packages in their order, and runs the last one, the launcher, with `npx`.
pub(super) fn check(packages: &[PathBuf], times: &mut Times) -> Step {
    let tools = tools::npm();
    tools.install()?;
    let newcomer = NewUser::new("npm")?;
    let registry = Registry::start(&tools, &newcomer.folder)?;
    for package in packages {
        // The registry asks for no token, but npm does not publish without one.
        let token = format!("--//{}/:_authToken=any", registry.address);
        let mut npm = newcomer.command("npm");
        npm.args(["publish", "--loglevel=error", "--registry", &registry.url(), &token]).arg(package);
        capture(&mut npm)?;
    }
    // Delete what `npm publish` has left there, so that `npx` begins with nothing.
    newcomer.empty_home()?;
    let mut npx = newcomer.command("npx");
    npx.args(["-y", "toolrack", "call", "builtin/list_directory", "path=."]).env("npm_config_registry", registry.url());
    times.record_first_result("npx -y toolrack call builtin/list_directory path=.", &mut npx)
}

/// A running Verdaccio, which `drop` stops.
struct Registry {
    address: String,
    process: Child,
    /// Drains stdout, so that the registry never blocks on a full pipe.
    reader: Option<JoinHandle<()>>,
}

impl Registry {
    /// Starts an empty registry, with its files in `folder`.
    fn start(tools: &Npm, folder: &Path) -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::Failed(format!("the registry cannot start: {error}"));
        // The listener is dropped at once: Verdaccio listens on the free port that it found.
        let free_address =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).map_err(failed)?;
        let address = free_address.to_string();
        let config = folder.join("registry/config.yaml");
        write(&config, CONFIG)?;
        let node = tools.node().ok_or_else(|| Stop::Skipped("Node 22 is not there".into()))?;
        let mut command = program(node);
        command.arg(tools.modules().join("verdaccio/bin/verdaccio")).arg("--config").arg(&config);
        command.args(["--listen", &address]).stdout(Stdio::piped()).stderr(Stdio::null());
        let process = command.spawn().map_err(failed)?;
        let mut registry = Self { address, process, reader: None };
        registry.wait().map(|()| registry)
    }

    /// Waits until the registry has printed its address.
    fn wait(&mut self) -> Step {
        let Some(stdout) = self.process.stdout.take() else { return Ok(()) };
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while !line.contains("http address") {
            line.clear();
            if lines.read_line(&mut line).is_ok_and(|read| read == 0) {
                return Err(Stop::Failed("the registry ended before it listened".into()));
            }
        }
        self.reader = Some(thread::spawn(move || drop(lines.read_to_end(&mut Vec::new()))));
        Ok(())
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // An error means that the registry has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// The registry keeps its packages beside this file, lets every user publish, and asks no upstream registry.
const CONFIG: &str = "storage: ./storage
packages:
  '**':
    access: $all
    publish: $all
log: { type: stdout, level: warn }
max_body_size: 200mb
";
