//! Builds the command line with which an engine, Docker or Podman, runs a server in a container.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use toolrack_supervisor::{container::Removal, links};

use crate::{
    link::process::child::{
        ChildCommand,
        resolve::{SpawnError, search},
    },
    resolve::ContainerPlan,
    spec::{Container, Engine, Mount, Pull, ServerName},
};

/// The label of each container of Toolrack; its value is the name of the server.
const LABEL: &str = "dev.toolrack.server";

/// The most characters of a server's name that become part of the name of its container.
const SLUG_CHARS: usize = 40;

/// A container in which to run a [`ChildCommand`]. The command and its working folder are then paths in the image.
#[derive(Clone, Debug)]
pub struct ContainerCommand {
    engine: Engine,
    /// The unique name of the container.
    name: String,
    /// The options between `run` and the image.
    options: Vec<OsString>,
    image: String,
    mounts: Vec<Mount>,
}

impl ContainerCommand {
    /// Creates a container of `server`.
    pub(crate) fn new(server: &ServerName, plan: &ContainerPlan) -> Self {
        let name = format!("toolrack-{}{:016x}", slug(server.as_str()), rand::random::<u64>());
        let options = options(&name, server, plan);
        let Container { engine, image, mounts, .. } = plan.container.clone();
        Self { engine, name, options, image, mounts }
    }

    /// Replaces `command` by the engine's command that runs it in the container. Returns how to remove the container.
    /// Blocking: searches for the engine.
    pub(super) fn wrap(self, command: &mut ChildCommand) -> Result<Removal, SpawnError> {
        // The engine would read a name that begins with a dash as an option.
        if self.image.is_empty() || self.image.starts_with('-') {
            let why = "`container.image` must be the name of an image".to_owned();
            return Err(SpawnError::NotContained { why });
        }
        refuse_dangerous_mounts(&self.mounts)?;
        let (engine, is_podman) = self.find_engine(&command.env)?;
        let mut args: Vec<OsString> = vec!["run".into()];
        args.extend(self.options);
        if is_podman {
            // Without this, Podman passes on the user's proxy, whose URL may contain a password.
            args.push("--http-proxy=false".into());
        }
        if let Some(folder) = command.cwd.take() {
            args.extend(["--workdir".into(), folder.into_os_string()]);
        }
        // Without a program, the container runs the default command of the image.
        let program = std::mem::replace(&mut command.program, engine.clone().into_os_string());
        if !program.is_empty() {
            let mut entrypoint = OsString::from("--entrypoint=");
            entrypoint.push(program);
            args.push(entrypoint);
        }
        args.push(self.image.into());
        args.append(&mut command.args);
        command.args = args;
        Ok(Removal::new(engine, self.name).with_env(command.env.clone()))
    }

    /// Finds the engine's program, and returns whether it is Podman.
    pub(super) fn find_engine(&self, env: &[(OsString, OsString)]) -> Result<(PathBuf, bool), SpawnError> {
        for program in self.engine.programs() {
            if let Ok(path) = search(OsStr::new(program), env) {
                return Ok((path, *program == "podman"));
            }
        }
        let programs = self.engine.programs().join(" nor ");
        let why = if self.engine == Engine::Auto {
            format!("no engine is installed: neither {programs} is on the PATH")
        } else {
            format!("the engine of the container is not installed: {programs} is not on the PATH")
        };
        Err(SpawnError::NotContained { why })
    }
}

/// Refuses mounts that give too much access. Follows links, as the engine would. The engine itself refuses a mount that
/// does not exist.
#[expect(clippy::disallowed_methods, reason = "the sources of mounts are files of this machine")]
fn refuse_dangerous_mounts(mounts: &[Mount]) -> Result<(), SpawnError> {
    for Mount { source, write, .. } in mounts {
        let is_socket = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
        let is_dangerous = |real_path: &Path| Mount::gives_too_much(real_path, *write) || is_socket(real_path);
        if Path::new(source).canonicalize().is_ok_and(|real_path| is_dangerous(&real_path)) {
            let why = format!("the mount of {source} would give the server control of the whole machine");
            return Err(SpawnError::NotContained { why });
        }
        if let Some(link) = links::first_untrusted_link(Path::new(source)) {
            let link = link.display();
            let why = format!(
                "`container.mounts` names {source}, which leads through the symbolic link {link}, and a server could \
                 have made that link: name its target instead"
            );
            return Err(SpawnError::NotContained { why });
        }
    }
    Ok(())
}

/// Returns the options between `run` and the image.
fn options(name: &str, server: &ServerName, plan: &ContainerPlan) -> Vec<OsString> {
    let container = &plan.container;
    let mut options: Vec<String> = ["--rm", "--interactive", "--init", "--name", name].map(str::to_owned).into();
    options.push(format!("--label={LABEL}={server}"));
    options.extend(["--cap-drop=ALL", "--security-opt=no-new-privileges"].map(str::to_owned));
    // The output is the protocol, which needs no log. The engine need not wait when it stops the container: the
    // supervisor has already given the server time to end.
    options.extend(["--log-driver=none", "--stop-timeout=0"].map(str::to_owned));
    options.push(format!("--network={}", container.network.as_deref().unwrap_or("none")));
    options.push(format!("--pids-limit={}", container.processes));
    options.push(format!("--memory={}b", container.memory));
    options.extend(container.millicpus.map(|cpus| format!("--cpus={}.{:03}", cpus / 1000, cpus % 1000)));
    options.push(match container.pull {
        Pull::Missing => "--pull=missing".to_owned(),
        Pull::Never => "--pull=never".to_owned(),
    });
    if !container.writable {
        options.push("--read-only".to_owned());
    }
    options.extend(container.tmpfs.iter().map(|folder| format!("--tmpfs={folder}")));
    options.extend(container.user.iter().map(|user| format!("--user={user}")));
    options.extend(container.mounts.iter().map(mount_option));
    // Pass only the names. The engine's client takes the values from its environment, so they are on no command line.
    options.extend(plan.variables.iter().map(|variable| format!("--env={variable}")));
    options.into_iter().map(Into::into).collect()
}

/// Returns the value of `--mount`, one record of CSV. (`--volume` would create a folder for a missing source.)
fn mount_option(mount: &Mount) -> String {
    let field = |name: &str, value: &str| {
        let field = format!("{name}={value}");
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    let mut record = ["type=bind".to_owned(), field("source", &mount.source), field("target", &mount.target)].join(",");
    if !mount.write {
        record.push_str(",readonly");
    }
    format!("--mount={record}")
}

/// Returns the part of `name` that the name of a container may contain, followed by a dash.
fn slug(name: &str) -> String {
    let allowed_chars = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let slug: String = allowed_chars.take(SLUG_CHARS).collect();
    let slug = slug.trim_matches('-');
    if slug.is_empty() { String::new() } else { format!("{slug}-") }
}
