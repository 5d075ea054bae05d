//! Asks a container engine for facts about itself and about an image, without starting a container.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::{
    link::process::child::{container::ContainerCommand, resolve::SpawnError},
    resolve::ChildPlan,
    spec::ServerName,
    text::quote,
};

/// How long an engine may take to answer.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of a look at an engine and an image.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The engine's program.
    pub program: PathBuf,
    /// The engine's facts about itself; or the reason why it does not answer, escaped.
    pub engine: Result<EngineInfo, String>,
    /// What the engine says about the image.
    pub image: ImageLook,
}

/// Whether an image is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageLook {
    /// The engine does not answer, so it was not asked.
    NotAsked,
    /// `image inspect` failed. Usually, the image is not on this machine. The engine may also have failed, or not have
    /// answered in time, although it has just answered `info`.
    Missing,
    /// The image is on this machine.
    Here {
        /// The names with digests by which it was fetched. Empty for an image that was made here.
        digests: Vec<String>,
    },
}

/// An engine's facts about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The version of the engine, escaped.
    pub version: String,
    /// Whether the engine runs without root, so that root in a container is not root outside.
    pub rootless: bool,
}

/// Asks the engine of `plan` about itself and the image. Returns `None` if the plan has no container. Takes 10 s at
/// most.
///
/// # Errors
/// When the engine is not installed.
pub async fn look(server: &ServerName, plan: &ChildPlan) -> Option<Result<EngineReport, SpawnError>> {
    let container = plan.container.as_deref()?;
    let container_command = ContainerCommand::new(server, container);
    let env = plan.env.clone();
    let found = tokio::task::spawn_blocking(move || container_command.find(&env)).await;
    let (program, is_podman) = match found.unwrap_or(Err(SpawnError::ShuttingDown)) {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    // The format is a Go template; the two engines have different fields.
    let format = if is_podman {
        "{{.Version.Version}}|{{.Host.Security.Rootless}}"
    } else {
        "{{.ServerVersion}}|{{.SecurityOptions}}"
    };
    let engine =
        run_client(&program, &["info", "--format", format], &plan.env).await.and_then(|reported| facts(&reported));
    let image = if engine.is_ok() {
        let words = ["image", "inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", "--"];
        let words = words.into_iter().chain([&*container.container.image]);
        ImageLook::of(run_client(&program, &words.collect::<Vec<_>>(), &plan.env).await)
    } else {
        ImageLook::NotAsked
    };
    Some(Ok(EngineReport { program, engine, image }))
}

impl ImageLook {
    /// Reads the answer to `image inspect`: a line for each digest. Any error counts as [`Self::Missing`].
    fn of(answer: Result<String, String>) -> Self {
        let Ok(printed) = answer else { return Self::Missing };
        Self::Here { digests: printed.lines().map(quote).filter(|line| !line.is_empty()).collect() }
    }
}

/// Parses `VERSION|true` or `VERSION|[name=seccomp,profile=builtin name=rootless]`.
fn facts(output: &str) -> Result<EngineInfo, String> {
    let (version, security) = output.trim().split_once('|').ok_or_else(|| format!("it answers {}", quote(output)))?;
    if version.is_empty() {
        return Err("its daemon does not answer".to_owned());
    }
    let rootless = security == "true" || security.contains("name=rootless");
    Ok(EngineInfo { version: quote(version), rootless })
}

/// Runs the engine's client and returns its output; if it fails, the error is the last line of its stderr.
async fn run_client(program: &PathBuf, words: &[&str], env: &[(OsString, OsString)]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(words.iter().map(OsStr::new)).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(ENGINE_TIMEOUT, command.output()).await {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("it says nothing within {} s", ENGINE_TIMEOUT.as_secs())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(quote(printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it fails and does not say why")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_output_of_both_engines_is_parsed() {
        let of = |version: &str, rootless| Ok(EngineInfo { version: version.to_owned(), rootless });
        assert_eq!(facts("4.3.1|false\n"), of("4.3.1", false));
        assert_eq!(facts("5.2.0|true\n"), of("5.2.0", true));
        assert_eq!(facts("28.2.2|[name=seccomp,profile=builtin name=cgroupns]\n"), of("28.2.2", false));
        assert_eq!(facts("28.2.2|[name=seccomp,profile=builtin name=rootless]\n"), of("28.2.2", true));
        // What Docker's client prints without its daemon, before it fails.
        assert!(facts("|[]\n").is_err());
    }

    #[test]
    fn an_image_is_here_with_its_digests_or_missing() {
        let here = |digests: &[&str]| ImageLook::Here { digests: digests.iter().map(ToString::to_string).collect() };
        assert_eq!(ImageLook::of(Ok("a@sha256:1\n\nb@sha256:2\n".to_owned())), here(&["a@sha256:1", "b@sha256:2"]));
        assert_eq!(ImageLook::of(Ok("\n".to_owned())), here(&[]), "an image that was made here");
        assert_eq!(ImageLook::of(Err("no such image".to_owned())), ImageLook::Missing);
    }
}
