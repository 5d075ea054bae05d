//! Asks a container engine, Docker or Podman, for facts about itself and about an image, without starting a container.

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

/// The state of an engine and an image.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The engine's program.
    pub program: PathBuf,
    /// The engine's facts about itself; or the reason why it does not answer, escaped.
    pub engine: Result<EngineInfo, String>,
    /// The engine's answer about the image.
    pub image: ImageStatus,
}

/// Whether an image is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageStatus {
    /// The engine does not answer, so it was not asked.
    NotAsked,
    /// The image is not on this machine, or the engine refuses to look. Programs cannot tell these cases apart.
    Missing,
    /// The engine answered an earlier question, but then did not answer this one in time, or could not be asked.
    Unknown {
        /// The reason, escaped.
        why: String,
    },
    /// The image is on this machine.
    Present {
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

/// Asks the engine of `plan` about itself and the image. Returns `None` if the plan has no container. Takes at most ten
/// seconds, five for each question.
///
/// # Errors
/// When the engine is not installed.
pub async fn inspect_engine(server: &ServerName, plan: &ChildPlan) -> Option<Result<EngineReport, SpawnError>> {
    let container = plan.container.as_deref()?;
    let container_command = ContainerCommand::new(server, container);
    let env = plan.env.clone();
    let engine_program = tokio::task::spawn_blocking(move || container_command.find_engine(&env)).await;
    let (program, is_podman) = match engine_program.unwrap_or(Err(SpawnError::ShuttingDown)) {
        Ok(engine_program) => engine_program,
        Err(error) => return Some(Err(error)),
    };
    // The format is a Go template; the two engines have different fields.
    let format = if is_podman {
        "{{.Version.Version}}|{{.Host.Security.Rootless}}"
    } else {
        "{{.ServerVersion}}|{{.SecurityOptions}}"
    };
    let output = run_client(&program, &["info", "--format", format], &plan.env).await;
    let engine = output.map_err(ClientError::into_text).and_then(|output| parse_engine_info(&output));
    let image = if engine.is_ok() {
        let args = ["image", "inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", "--"];
        let args = args.into_iter().chain([&*container.container.image]);
        ImageStatus::from_answer(run_client(&program, &args.collect::<Vec<_>>(), &plan.env).await)
    } else {
        ImageStatus::NotAsked
    };
    Some(Ok(EngineReport { program, engine, image }))
}

impl ImageStatus {
    /// Reads the answer to `image inspect`: a line for each digest.
    fn from_answer(answer: Result<String, ClientError>) -> Self {
        match answer {
            Ok(output) => {
                Self::Present { digests: output.lines().map(quote).filter(|line| !line.is_empty()).collect() }
            }
            Err(ClientError::Refused(_)) => Self::Missing,
            Err(ClientError::NoAnswer(why)) => Self::Unknown { why },
        }
    }
}

/// Parses `VERSION|true` or `VERSION|[name=seccomp,profile=builtin name=rootless]`.
fn parse_engine_info(output: &str) -> Result<EngineInfo, String> {
    let (version, security) = output.trim().split_once('|').ok_or_else(|| format!("it answers {}", quote(output)))?;
    if version.is_empty() {
        return Err("its daemon does not answer".to_owned());
    }
    let rootless = security == "true" || security.contains("name=rootless");
    Ok(EngineInfo { version: quote(version), rootless })
}

/// The reason why the engine's client printed no answer, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientError {
    /// The client has ended with an error, of which this is the last line.
    Refused(String),
    /// The client cannot be started, or has not ended in time.
    NoAnswer(String),
}

impl ClientError {
    fn into_text(self) -> String {
        match self {
            Self::Refused(why) | Self::NoAnswer(why) => why,
        }
    }
}

/// Runs the engine's client and returns its output.
async fn run_client(program: &PathBuf, args: &[&str], env: &[(OsString, OsString)]) -> Result<String, ClientError> {
    let mut command = Command::new(program);
    command.args(args.iter().map(OsStr::new)).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(ENGINE_TIMEOUT, command.output()).await {
        Ok(output) => output.map_err(|error| ClientError::NoAnswer(error.to_string()))?,
        Err(_) => return Err(ClientError::NoAnswer(format!("it says nothing within {} s", ENGINE_TIMEOUT.as_secs()))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last_line = stderr.lines().rfind(|line| !line.trim().is_empty());
    Err(ClientError::Refused(quote(last_line.unwrap_or("it fails and does not say why"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_output_of_both_engines_is_parsed() {
        let of = |version: &str, rootless| Ok(EngineInfo { version: version.to_owned(), rootless });
        assert_eq!(parse_engine_info("4.3.1|false\n"), of("4.3.1", false));
        assert_eq!(parse_engine_info("5.2.0|true\n"), of("5.2.0", true));
        assert_eq!(parse_engine_info("28.2.2|[name=seccomp,profile=builtin name=cgroupns]\n"), of("28.2.2", false));
        assert_eq!(parse_engine_info("28.2.2|[name=seccomp,profile=builtin name=rootless]\n"), of("28.2.2", true));
        // What Docker's client prints without its daemon, before it fails.
        assert!(parse_engine_info("|[]\n").is_err());
    }

    #[test]
    fn an_image_is_here_with_its_digests_or_missing() {
        let here =
            |digests: &[&str]| ImageStatus::Present { digests: digests.iter().map(ToString::to_string).collect() };
        assert_eq!(
            ImageStatus::from_answer(Ok("a@sha256:1\n\nb@sha256:2\n".to_owned())),
            here(&["a@sha256:1", "b@sha256:2"])
        );
        assert_eq!(ImageStatus::from_answer(Ok("\n".to_owned())), here(&[]), "an image that was made here");
        assert_eq!(
            ImageStatus::from_answer(Err(ClientError::Refused("no such image".to_owned()))),
            ImageStatus::Missing
        );
        let why = || "it says nothing within 5 s".to_owned();
        assert_eq!(ImageStatus::from_answer(Err(ClientError::NoAnswer(why()))), ImageStatus::Unknown { why: why() });
    }
}
