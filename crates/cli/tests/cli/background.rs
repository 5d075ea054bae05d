//! `toolrack daemon`: a daemon without a terminal, from its start to its end.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolrack_testkit::processes;

use crate::{
    rack::{Rack, fake},
    warm::{Daemon, kill},
};

/// A time-out that is long enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

const START: &[&str] = &["daemon", "start", "--listen", "127.0.0.1:0"];

/// Ends the daemon of a home, even if the test fails.
struct Home(Rack);

impl Home {
    fn new() -> Self {
        Self(Rack::with(&[("fake", fake(&[]))]))
    }

    fn start(&self) -> Value {
        self.0.run(&[START, &["--json"]].concat()).ends_with(0).json()
    }

    fn status(&self) -> Value {
        let ran = self.0.run(&["daemon", "status", "--json"]);
        let status = ran.json();
        let code = match (status["running"] == true, status["answers"] == true) {
            (true, true) => 0,
            (true, false) => 4,
            (false, _) => 1,
        };
        assert_eq!(ran.code, Some(code), "{ran}");
        status
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.0.run(&["daemon", "stop", "--patience", "1s"]);
    }
}

fn pid(of: &Value) -> u32 {
    u32::try_from(of["pid"].as_u64().unwrap()).unwrap()
}

/// A process that has nothing to do with Toolrack.
fn unrelated_process() -> Child {
    Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_daemon_is_started_found_and_ended() {
    let home = Home::new();
    assert_eq!(home.status()["running"], false);
    let up = home.start();
    let status = home.status();
    assert_eq!((&status["pid"], &status["url"], &status["answers"]), (&up["pid"], &up["url"], &Value::Bool(true)));
    assert_eq!(home.0.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0).stdout, "3");
    let again = home.start();
    assert_eq!(again["pid"], up["pid"], "the running daemon is used");
    let shown = home.0.run(&["daemon", "status"]).ends_with(0);
    assert!(shown.stdout.contains("server") && shown.stdout.contains(up["url"].as_str().unwrap()), "{shown}");

    let data = home.0.home.toolrack_home();
    let log = data.join("daemon.log");
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&log).unwrap().contains(up["token"].as_str().unwrap()), "the key is in the log");

    let servers = processes::descendants(pid(&up));
    let stopped = home.0.run(&["daemon", "stop", "--json"]).ends_with(0).json();
    assert_eq!((&stopped["stopped"], &stopped["pid"], &stopped["killed"]), (&true.into(), &up["pid"], &false.into()));
    assert!(processes::wait_all_gone(&servers, LIMIT), "something was left running");
    assert_eq!(home.status()["running"], false);
    assert_eq!(home.0.run(&["daemon", "stop", "--json"]).ends_with(0).json()["stopped"], false);
    for left in ["daemon.json", "run/cli.sock", "run/mcp.sock"] {
        assert!(!data.join(left).exists(), "{left} is left");
    }
}

#[test]
fn restart_ends_a_running_daemon_first_and_reports_if_none_runs() {
    let home = Home::new();
    let restart = ["daemon", "restart", "--listen", "127.0.0.1:0"];
    let first = home.0.run(&restart).ends_with(0);
    assert!(first.stderr.contains("no daemon is up") && first.stdout.starts_with("http://"), "{first}");
    let before = home.status();
    let servers = processes::descendants(pid(&before));

    let up = home.0.run(&[&restart[..], &["--deny", "*", "--json"]].concat()).ends_with(0).json();
    assert_eq!(up["before"], json!({ "stopped": true, "pid": before["pid"], "killed": false }));
    assert!(processes::wait_all_gone(&servers, LIMIT), "something was left running");
    let status = home.status();
    assert_eq!((&status["pid"], &status["url"], &status["answers"]), (&up["pid"], &up["url"], &true.into()));
    assert_ne!(up["pid"], before["pid"]);

    for wrong in [
        &["--with-parent"][..],
        &["--team", "missing.toml"],
        &["--tls-cert", "missing.pem", "--tls-key", "missing.pem"],
        &["--token-file", "."],
    ] {
        let refused = home.0.run(&[&restart[..], wrong].concat()).ends_with(2);
        assert!(!refused.stderr.contains("has ended"), "{refused}");
    }
    assert_eq!(home.status()["pid"], up["pid"], "a daemon that cannot be started does not end the running one");
}

#[test]
fn the_log_of_a_daemon_is_followed_across_a_rotation_until_an_interrupt() {
    let home = Home::new();
    let data = home.0.home.toolrack_home();
    let log = data.join("daemon.log");
    home.0.home.write("toolrack/daemon.log", "left out\nfirst\n");
    for (more, line) in [(&[][..], "first\n"), (&["--json"], "{\"line\":\"first\"}\n")] {
        let mut command = home.0.command(&[&["daemon", "logs", "--follow", "-n", "1"], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut next = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(next(), line);
        std::fs::rename(&log, data.join("daemon.log.old")).unwrap();
        std::fs::write(&log, "\x1b[31mred\u{202e}\n").unwrap();
        let escaped = next();
        assert!(escaped.contains("red") && !escaped.contains(['\x1b', '\u{202e}']), "{escaped:?}");
        std::fs::write(&log, "first\n").unwrap();
        assert_eq!(next(), line, "the log was truncated");
        kill("INT", child.id());
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn a_daemon_in_the_background_has_no_terminal_and_a_session_of_its_own() {
    let home = Home::new();
    let up = home.start();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(&up))).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
    assert_eq!((fields[3], fields[4]), (pid(&up).to_string().as_str(), "0"), "{stat}");
}

#[test]
fn a_daemon_that_does_not_start_says_why_and_leaves_no_process() {
    let home = Home::new();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let ran = home.0.run(&["daemon", "start", "--listen", &address]).ends_with(1);
    assert!(ran.stderr.contains("is in use by another program"), "{ran}");
    assert_eq!(home.status()["running"], false);
    let logs = home.0.run(&["daemon", "logs"]).ends_with(0);
    assert!(logs.stdout.contains("is in use by another program"), "{logs}");
    let _ = home.0.run(&["daemon", "start", "--nonsense"]).ends_with(2);
    let _ = home.0.run(&["daemon", "start", "--with-parent"]).ends_with(2);
}

#[test]
fn a_daemon_whose_sockets_cannot_be_opened_does_not_start_and_says_why() {
    let rack = Rack::new();
    // A path of a socket has at most about a hundred bytes.
    let data = rack.home.root().join("x".repeat(120));
    let rack = rack.env("TOOLRACK_HOME", data.to_str().unwrap());
    let ran = rack.run(START).ends_with(1);
    assert!(ran.stderr.contains("/run cannot be opened") && ran.stderr.contains("hint: set TOOLRACK_HOME"), "{ran}");
}

#[test]
fn the_files_of_a_killed_daemon_are_removed_and_do_not_disturb_commands() {
    let home = Home::new();
    let up = home.start();
    kill("KILL", pid(&up));
    assert!(processes::wait_gone(pid(&up), LIMIT));
    let socket = home.0.home.toolrack_home().join("run/cli.sock");
    assert!(socket.exists());
    assert_eq!(home.status()["running"], false);
    assert!(!socket.exists());
    let next = home.start();
    assert_ne!(next["pid"], up["pid"]);
    assert_eq!(home.status()["pid"], next["pid"]);
}

#[test]
fn an_unrelated_process_with_the_pid_of_a_dead_daemon_is_not_ended() {
    let home = Home::new();
    let up = home.start();
    kill("KILL", pid(&up));
    assert!(processes::wait_gone(pid(&up), LIMIT));
    let mut unrelated = unrelated_process();
    let file = home.0.home.toolrack_home().join("daemon.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    record["pid"] = unrelated.id().into();
    std::fs::write(&file, record.to_string()).unwrap();
    assert_eq!(home.0.run(&["daemon", "stop", "--json"]).ends_with(0).json()["stopped"], false);
    assert!(unrelated.try_wait().unwrap().is_none(), "it was ended");
    unrelated.kill().unwrap();
    let _ = unrelated.wait();
    assert!(!file.exists());
}

#[test]
fn a_daemon_that_hangs_is_noticed_and_killed() {
    let home = Home::new();
    let up = home.start();
    kill("STOP", pid(&up));
    let status = home.status();
    assert_eq!((&status["running"], &status["answers"]), (&Value::Bool(true), &Value::Bool(false)));
    let stopped = home.0.run(&["daemon", "stop", "--patience", "200ms", "--json"]).ends_with(0).json();
    assert_eq!(stopped["killed"], true);
    assert!(processes::wait_gone(pid(&up), LIMIT));
}

#[test]
fn a_daemon_at_a_terminal_is_found_as_well() {
    let home = Home::new();
    let daemon = Daemon::start(&home.0, &["--grace", "2m"]);
    assert_eq!(home.status()["running"], true);
    let record = std::fs::read(home.0.home.toolrack_home().join("daemon.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["seconds_for_calls"], 120, "`daemon stop` waits for calls as long as the daemon does");
    let _ = home.0.run(&["daemon", "stop"]).ends_with(0);
    assert_eq!(home.status()["running"], false);
    drop(daemon);
}

/// The daemon as a unit of systemd.
mod unit {
    use super::*;

    const FILE: &str = ".config/systemd/user/toolrack.service";

    #[test]
    fn a_unit_is_written_shown_replaced_and_removed() {
        let rack = Rack::new();
        let file = rack.home.root().join("units/toolrack.service");
        let folder = file.parent().unwrap().to_str().unwrap();
        let install =
            |allow: &str| rack.run(&["daemon", "install", "--unit-folder", folder, "--allow", allow]).ends_with(0);
        let output = install("fs/*").stdout;
        for word in ["toolrack.service", "systemctl --user enable --now toolrack", "toolrack daemon uninstall"] {
            assert!(output.contains(word), "{output}");
        }
        let command = |allow: &str| format!("\" \"serve\" \"--detached\" \"--no-open\" \"--allow\" \"{allow}\"\n");
        assert!(std::fs::read_to_string(&file).unwrap().contains(&command("fs/*")));
        let _ = install("git/*");
        assert!(std::fs::read_to_string(&file).unwrap().contains(&command("git/*")));
        let uninstall = ["daemon", "uninstall", "--unit-folder", folder];
        let output = rack.run(&uninstall).ends_with(0).stdout;
        assert!(output.contains("removed") && !file.exists(), "{output}");
        let again = rack.run(&[&uninstall[..], &["--json"]].concat()).ends_with(0).json();
        assert_eq!(again["removed"], false);
    }

    #[test]
    fn a_unit_that_the_user_wrote_is_neither_replaced_nor_removed() {
        let rack = Rack::new();
        rack.home.write("units/toolrack.service", "[Service]\nExecStart=/mine\n");
        let file = rack.home.root().join("units/toolrack.service");
        let folder = file.parent().unwrap().to_str().unwrap();
        for verb in ["install", "uninstall"] {
            let ran = rack.run(&["daemon", verb, "--unit-folder", folder]).ends_with(1);
            assert!(ran.stderr.contains("was not written by"), "{ran}");
        }
        assert!(std::fs::read_to_string(file).unwrap().contains("/mine"));
    }

    #[test]
    fn a_users_unit_is_where_systemd_looks() {
        let rack = Rack::new();
        let home = rack.home.root().join("of-the-user");
        let rack = rack.env("HOME", home.to_str().unwrap()).env("XDG_CONFIG_HOME", "");
        let _ = rack.run(&["daemon", "install"]).ends_with(0);
        assert!(home.join(FILE).is_file());
    }

    mod needs_systemd_manager {
        use super::*;

        /// systemd for one user, whose units are in the home of the test.
        struct Systemd {
            rack: Rack,
            process: Child,
        }

        impl Systemd {
            fn start(rack: Rack) -> Self {
                let process = in_booted_namespace(&rack, &["/lib/systemd/systemd", "--user"]).spawn().unwrap();
                let systemd = Self { rack, process };
                systemd.until("systemd runs", || systemd.output_of(&["is-system-running"]).trim() == "running");
                systemd
            }

            fn output_of(&self, words: &[&str]) -> String {
                let output = in_booted_namespace(&self.rack, &["systemctl", "--user"]).args(words).output().unwrap();
                String::from_utf8_lossy(&output.stdout).into_owned()
            }

            fn systemctl(&self, words: &[&str]) {
                let status = in_booted_namespace(&self.rack, &["systemctl", "--user"]).args(words).status().unwrap();
                assert!(status.success(), "{words:?}");
            }

            /// The values of these properties of the unit.
            fn properties(&self, names: &str) -> Vec<String> {
                let values = self.output_of(&["show", "--value", "--property", names, "toolrack"]);
                values.lines().map(str::to_owned).collect()
            }

            /// Waits until a daemon answers whose process is not `old`. Returns its process id.
            fn wait_for_daemon(&self, old: u32) -> u32 {
                let mut found = 0;
                self.until("a daemon answers", || {
                    let status = self.rack.run(&["daemon", "status", "--json"]).json();
                    found = if status["answers"] == true { pid(&status) } else { 0 };
                    found != 0 && found != old
                });
                found
            }

            fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
                let deadline = Instant::now() + LIMIT;
                while !is_so() {
                    assert!(Instant::now() < deadline, "timed out waiting: {what}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }

        /// A command in its own mount namespace, in which systemd appears to have booted the system.
        fn in_booted_namespace(rack: &Rack, words: &[&str]) -> Command {
            let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";
            let mut command = Command::new("unshare");
            rack.set_environment(&mut command);
            command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).args(words);
            command
        }

        impl Drop for Systemd {
            fn drop(&mut self) {
                // systemd ends its units first.
                kill("TERM", self.process.id());
                let _ = self.process.wait();
            }
        }

        #[test]
        fn the_unit_restarts_a_killed_daemon_and_stops_it_in_order() {
            let rack = Rack::with(&[("fake", fake(&[]))]);
            let folder = |name: &str| {
                let folder = rack.home.root().join(name);
                std::fs::create_dir_all(&folder).unwrap();
                folder.to_str().unwrap().to_owned()
            };
            let (home, config, runtime) = (folder("home"), folder("home/.config"), folder("runtime"));
            let rack = rack.env("HOME", home).env("XDG_CONFIG_HOME", config).env("XDG_RUNTIME_DIR", runtime);
            let _ = rack.run(&["daemon", "install", "--listen", "127.0.0.1:0"]).ends_with(0);
            let systemd = Systemd::start(rack);
            systemd.systemctl(&["enable", "--now", "toolrack"]);
            let first = systemd.wait_for_daemon(0);
            assert_eq!(systemd.properties("MainPID"), [first.to_string()]);
            kill("KILL", first);
            let second = systemd.wait_for_daemon(first);
            assert_eq!(systemd.properties("NRestarts"), ["1"]);
            systemd.systemctl(&["stop", "toolrack"]);
            assert!(processes::wait_gone(second, LIMIT));
            assert_eq!(systemd.properties("ActiveState,Result"), ["success", "inactive"], "it did not fail");

            systemd.systemctl(&["start", "toolrack"]);
            let third = systemd.wait_for_daemon(second);
            let _ = systemd.rack.run(&["daemon", "stop"]).ends_with(0);
            systemd.until("the unit has ended", || systemd.properties("ActiveState") == ["inactive"]);
            assert!(processes::wait_gone(third, LIMIT));
            assert_eq!(
                systemd.properties("NRestarts,Result"),
                ["success", "0"],
                "systemd does not restart a daemon that the user stopped"
            );
        }
    }

    mod needs_systemd {
        use super::*;

        #[test]
        fn systemd_accepts_both_units() {
            let rack = Rack::new();
            for system in [&[][..], &["--system"]] {
                let folder = rack.home.root().join(format!("units{}", system.len()));
                let name = folder.to_str().unwrap();
                let words =
                    [&["daemon", "install", "--unit-folder", name, "--token-file", "a b%$\"\\/"], system].concat();
                let _ = rack.run(&words).ends_with(0);
                let mut verify = Command::new("systemd-analyze");
                verify.args(["verify", "--man=no", "--recursive-errors=one"]).arg(folder.join("toolrack.service"));
                let output = verify.output().unwrap();
                let printed = String::from_utf8_lossy(&output.stderr);
                // systemd also warns about units of this machine.
                let ours: Vec<_> = printed.lines().filter(|line| line.contains("toolrack.service")).collect();
                assert!(output.status.success() && ours.is_empty(), "{printed}");
            }
        }
    }
}
