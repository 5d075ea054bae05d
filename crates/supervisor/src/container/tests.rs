#![expect(clippy::disallowed_methods, reason = "the engine of these tests is a script")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;

/// A fake client of an engine: a shell script that records its command lines.
struct Engine {
    folder: tempfile::TempDir,
}

impl Engine {
    /// The client runs `on_ps` for `ps` and `on_rm` for `rm`, in the folder of the engine.
    fn new(on_ps: &str, on_rm: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Self { folder };
        let at = engine.folder.path().display().to_string();
        let script = format!(
            "#!/bin/sh\ncd {at} || exit 9\necho \"$@\" >> command-lines\ncase $1 in ps) {on_ps} ;; rm) {on_rm} ;; esac\n"
        );
        fs::write(engine.program(), script).unwrap();
        fs::set_permissions(engine.program(), fs::Permissions::from_mode(0o755)).unwrap();
        engine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self) -> PathBuf {
        self.at("engine")
    }

    fn removal(&self) -> Removal {
        Removal::new(self.program(), "toolrack-x-1")
    }

    /// The recorded command lines, in order.
    fn command_lines(&self) -> Vec<String> {
        fs::read_to_string(self.at("command-lines")).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

const PS: &str = "ps --all --quiet --filter name=toolrack-x-1";
const RM: &str = "rm --force --volumes toolrack-x-1";

/// Lists a container while the file `container` exists.
const BY_FILE: &str = "[ -e container ] && echo 0123456789ab; true";

#[test]
fn a_listed_container_is_removed_with_its_volumes_and_looked_for_again() {
    let engine = Engine::new(BY_FILE, "rm container");
    fs::write(engine.at("container"), "").unwrap();
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS, RM, PS]);
}

#[test]
fn the_engine_is_asked_only_once_about_a_container_that_is_gone() {
    let engine = Engine::new(BY_FILE, "exit 1");
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS]);
}

#[test]
fn a_container_that_removed_itself_counts_as_gone_even_if_its_removal_fails() {
    let engine = Engine::new(BY_FILE, "rm container; echo no such container >&2; exit 1");
    fs::write(engine.at("container"), "").unwrap();
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS, RM, PS]);
}

#[test]
fn a_container_that_appears_after_its_client_was_killed_is_removed() {
    // At the first look-up, the container does not exist yet.
    let late = "if [ ! -e looked ]; then touch looked container; else [ -e container ] && echo 01; true; fi";
    let engine = Engine::new(late, "rm container");
    assert!(engine.removal().carry_out(ClientEnd::Killed));
    assert_eq!(engine.command_lines(), [PS, PS, RM, PS]);
    let engine = Engine::new(BY_FILE, "exit 1");
    assert!(engine.removal().carry_out(ClientEnd::Killed));
    assert_eq!(engine.command_lines(), [PS, PS], "no container appeared");
}

#[test]
fn a_removal_that_fails_is_tried_again() {
    let engine = Engine::new(BY_FILE, "if [ -e tried ]; then rm container; else touch tried; exit 1; fi");
    fs::write(engine.at("container"), "").unwrap();
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS, RM, PS, PS, RM, PS]);
}

#[test]
fn a_silent_engine_is_asked_again_unless_its_client_reported_a_failure() {
    let fails_once = "if [ -e failed ]; then true; else touch failed; echo cannot connect >&2; exit 1; fi";
    let engine = Engine::new(fails_once, "true");
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS, PS]);
    let engine = Engine::new("exit 1", "true");
    assert!(engine.removal().carry_out(ClientEnd::EngineFailed), "there is no engine, hence no container");
    assert_eq!(engine.command_lines(), [PS]);
    let none = Removal::new(engine.at("no-such-program"), "x");
    assert!(none.carry_out(ClientEnd::EngineFailed));
}

#[test]
fn the_container_of_a_client_that_failed_is_removed() {
    let engine = Engine::new(BY_FILE, "rm container");
    fs::write(engine.at("container"), "").unwrap();
    assert!(engine.removal().carry_out(ClientEnd::EngineFailed));
    assert_eq!(engine.command_lines(), [PS, RM, PS]);
}

#[test]
fn an_answer_that_is_only_a_new_line_lists_nothing() {
    let engine = Engine::new("echo; echo '  '", "exit 1");
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert_eq!(engine.command_lines(), [PS]);
}

#[test]
fn a_process_that_holds_the_client_s_output_open_does_not_delay_the_removal() {
    // A process in the background holds the pipe until the removal is done, or for 20 s.
    let holds = "(for i in $(seq 400); do [ -e done ] && exit; sleep 0.05; done) & [ -e container ] && echo 01; true";
    let engine = Engine::new(holds, "rm container");
    fs::write(engine.at("container"), "").unwrap();
    let started = Instant::now();
    assert!(engine.removal().carry_out(ClientEnd::Exited));
    assert!(started.elapsed() < Duration::from_secs(10), "it waited for the end of the output");
    fs::write(engine.at("done"), "").unwrap();
}

#[test]
fn the_engine_s_client_gets_only_the_variables_of_the_server() {
    let engine = Engine::new("env > variables", "true");
    let removal = engine.removal().with_env(vec![("DOCKER_HOST".into(), "unix:///x".into())]);
    assert!(removal.carry_out(ClientEnd::Exited));
    let variables = fs::read_to_string(engine.at("variables")).unwrap();
    assert!(variables.contains("DOCKER_HOST=unix:///x\n"), "{variables}");
    // The shell adds variables of its own, so look only for inherited ones.
    let inherited: Vec<_> =
        variables.lines().filter(|line| line.starts_with("CARGO") || line.starts_with("HOME")).collect();
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some() && inherited.is_empty(), "{inherited:?}");
}

#[test]
fn a_removal_is_read_from_exactly_one_word_and_needs_an_engine() {
    let engine = OsString::from("/usr/bin/podman");
    let removal = Removal::new(&engine, "toolrack=x\u{fc}");
    assert_eq!(Removal::from_words(&[removal.word()], Some(&engine)), Some(removal.clone()));
    assert_eq!(Removal::from_words(&[removal.word()], None), None);
    assert_eq!(Removal::from_words(&[], Some(&engine)), None);
    assert_eq!(Removal::from_words(&[removal.word(), removal.word()], Some(&engine)), None);
    for word in ["confined=yes", "container", "CONTAINER=x", " container=x", ""] {
        assert_eq!(Removal::from_words(&[word.into()], Some(&engine)), None, "{word:?}");
    }
}

#[test]
fn a_command_that_is_late_is_killed_and_counts_as_failed() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    assert!(!wait_or_kill(&mut child, Instant::now()));
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    for (program, succeeds) in [("/bin/true", true), ("/bin/false", false)] {
        let mut child = Command::new(Path::new(program)).spawn().unwrap();
        assert_eq!(wait_or_kill(&mut child, Instant::now() + COMMAND_LIMIT), succeeds, "{program}");
    }
}
