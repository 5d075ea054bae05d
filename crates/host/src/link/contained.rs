//! Explains why a container engine, Docker or Podman, did not run a container.

use crate::link::error::LinkError;

/// The problem and the next step, if the command is not in the image.
const NO_COMMAND: (&str, &str) =
    ("its command is not in the image", "check `command`, or leave it out to run the default command of the image");

/// Replaces `error` by the problem of the engine or the image, if the exit status indicates one (`docker-run(1)` and
/// `podman-run(1)`, "Exit Status").
pub(super) fn explain_exit(error: LinkError) -> LinkError {
    let LinkError::Exited { exit, stderr, noise } = error else { return error };
    let (why, next) = match &*exit {
        "exit status 125" => engine_problem(&stderr.to_lowercase()),
        "exit status 126" => ("its command is in the image, but is not executable", "check `command`"),
        "exit status 127" => NO_COMMAND,
        // The init process of Podman's containers exits with 1 instead of 127.
        "exit status 1" if stderr.contains("failed to exec pid1") => NO_COMMAND,
        _ => return LinkError::Exited { exit, stderr, noise },
    };
    LinkError::Container { why, next, stderr }
}

/// Finds the problem and the next step by the known messages of the engines: the engines print no codes.
fn engine_problem(stderr: &str) -> (&'static str, &'static str) {
    // Phrases of which the engine's stderr contains one, the problem, and the next step.
    const KNOWN_PROBLEMS: &[(&[&str], &str, &str)] = &[
        (
            &["permission denied while trying to connect"],
            "this user may not use the engine",
            "use an engine that needs no root (`podman`, rootless Docker), or ask the administrator for access to this one",
        ),
        (
            &["cannot connect to", "daemon running", "unable to connect to podman", "connection refused"],
            "the engine is installed, but does not run",
            "start it (`systemctl start docker`, `podman machine start`), then check with `toolrack doctor`",
        ),
        (
            &[
                "no such image",
                "image not known",
                "unable to find image",
                "pull access denied",
                "manifest unknown",
                "short-name",
                "initializing source",
                "repository does not exist",
                "invalid reference format",
            ],
            "its image is not on this machine and cannot be pulled",
            "check its name, or pull it by hand (`docker pull`, `podman pull`)",
        ),
        (
            &["bind source path does not exist", "error stat'ing", "statfs", "mounts denied"],
            "the source of a mount does not exist",
            "check `container.mounts`",
        ),
        (
            &["network not found", "unable to find network", "network with name"],
            "its network does not exist",
            "check `container.network`",
        ),
    ];
    let problem = KNOWN_PROBLEMS.iter().find(|(phrases, ..)| phrases.iter().any(|phrase| stderr.contains(phrase)));
    problem.map_or(("the engine refused it", "check `container`"), |(_, why, next)| (why, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(exit: &str, stderr: &str) -> String {
        let (exit, stderr) = (exit.to_owned(), stderr.to_owned());
        explain_exit(LinkError::Exited { exit, stderr, noise: String::new() }).to_string()
    }

    #[test]
    fn error_messages_of_engines_are_recognized() {
        for (stderr, meaning) in [
            (
                "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "does not run",
            ),
            (
                "docker: permission denied while trying to connect to the Docker daemon socket at unix:///…",
                "may not use",
            ),
            ("Error: x: image not known", "image is not on this machine"),
            (
                "Unable to find image 'x:latest' locally | docker: Error response from daemon: pull access denied for x",
                "image is not on this machine",
            ),
            (
                "docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /x",
                "source of a mount",
            ),
            ("Error: statfs /x: no such file or directory", "source of a mount"),
            ("Error: unable to find network with name or ID x: network not found", "network"),
            ("Error: something new", "refused"),
        ] {
            let why = why("exit status 125", stderr);
            assert!(why.contains(meaning) && why.contains(stderr), "{why}");
        }
        assert!(why("exit status 127", "").contains("not in the image"));
        let of_init = why("exit status 1", "ERROR (catatonit:6): failed to exec pid1: No such file or directory");
        assert!(of_init.contains("not in the image"), "{of_init}");
    }

    #[test]
    fn the_exit_status_of_the_server_is_reported_unchanged() {
        assert!(why("exit status 1", "Cannot connect to the Docker daemon").starts_with("the server process ended"));
        assert!(why("killed by signal 9 (SIGKILL)", "").starts_with("the server process ended"));
    }
}
