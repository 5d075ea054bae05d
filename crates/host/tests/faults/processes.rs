//! Hosts that are killed: within three seconds none of their processes is left, even if these resist.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use toolrack_host::Era;
use toolrack_testkit::{EffectLog, fake_server_path, processes};

use crate::{
    programs::supervised,
    stage::{Over, Stage},
};

/// How long the processes of a host may continue to run after the host was killed.
const AFTERLIFE: Duration = Duration::from_secs(3);
/// The variable that marks the processes of one host.
const MARK: &str = "TOOLRACK_FAULT_VICTIM";

/// A host in a separate process, with one server.
struct Victim {
    host: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
    effects: EffectLog,
}

impl Victim {
    fn start(polite: bool, faults: &str) -> Self {
        let effects = EffectLog::new();
        let mut command = Command::new(supervised());
        command.arg("host").args(polite.then_some("--polite"));
        command.arg(format!("{MARK}={}", effects.path_str()));
        command.arg(fake_server_path()).args(["stdio", "--log", effects.path_str()]);
        command.args(faults.split_whitespace().flat_map(|fault| ["--fault", fault]));
        let mut host = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, says) = (host.stdin.take().unwrap(), BufReader::new(host.stdout.take().unwrap()));
        let mut victim = Self { host, orders, says, effects };
        assert_eq!(victim.heard(), "connected");
        victim
    }

    fn heard(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Requests a tool call, and returns its outcome.
    fn order(&mut self, call: &str) -> String {
        self.begin(call);
        self.heard()
    }

    /// Requests a tool call.
    fn begin(&mut self, call: &str) {
        writeln!(self.orders, "{call}").unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.host.id().cast_signed()), signal).unwrap();
    }

    /// The supervisor, the server and every process that it started, in whatever group or session.
    fn started(&self) -> Vec<u32> {
        processes::with_env(MARK, self.effects.path_str())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _dead_already = self.host.kill();
        let _collected_already = self.host.wait();
        for pid in self.started() {
            let _gone = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
    }
}

/// Five hosts at a time, because only a race can go wrong here.
fn nothing_survives(signal: Signal, polite: bool, faults: &str, orders: &[&str], started: usize) {
    let mut victims: Vec<Victim> = (0..5).map(|_| Victim::start(polite, faults)).collect();
    for victim in &mut victims {
        for order in orders {
            victim.order(order);
        }
        assert_eq!(victim.started().len(), started, "{orders:?} {:?}", victim.effects.read());
    }
    let started = Instant::now();
    victims.iter().for_each(|victim| victim.signal(signal));
    while started.elapsed() < AFTERLIFE && victims.iter().any(|victim| !victim.started().is_empty()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for victim in &mut victims {
        assert_eq!(victim.started(), [0; 0], "after {:?}", started.elapsed());
        victim.host.wait().unwrap();
    }
}

macro_rules! nothing_survives {
    ($($name:ident: $signal:ident, polite: $polite:expr;)+) => {$(
        mod $name {
            use nix::sys::signal::Signal::$signal;

            use super::nothing_survives;

            #[test]
            fn of_a_plain_server() {
                nothing_survives($signal, $polite, "", &["write"], 2);
            }

            #[test]
            fn of_a_server_with_grandchildren_of_every_kind() {
                let kinds = [
                    "spawn {}",
                    r#"spawn {"setsid": true}"#,
                    r#"spawn {"ignore_term": true}"#,
                    r#"spawn {"setsid": true, "ignore_term": true}"#,
                ];
                nothing_survives($signal, $polite, "", &kinds, 6);
            }

            #[test]
            fn of_a_server_that_outlives_its_stdin() {
                nothing_survives($signal, $polite, "ignore-eof", &["write"], 2);
            }

            #[test]
            fn of_a_server_that_ignores_everything() {
                let faults = "ignore-eof ignore-term grandchild=setsid+ignore-term";
                nothing_survives($signal, $polite, faults, &["write"], 3);
            }
        }
    )+};
}

nothing_survives! {
    after_sigkill: SIGKILL, polite: false;
    after_sigterm: SIGTERM, polite: false;
    after_a_shutdown_on_sigterm: SIGTERM, polite: true;
}

/// Processes that a server has spawned while it was used do not outlive a host that shuts down, either.
#[tokio::test]
async fn a_shutdown_ends_the_children_of_a_server() {
    for era in [Era::Legacy, Era::Modern] {
        let stage = Stage::new(Over::Stdio, era, "").await;
        stage.start().await;
        for (setsid, ignore_term) in [(false, false), (true, false), (false, true), (true, true)] {
            let spawned = stage.call("spawn", json!({"setsid": setsid, "ignore_term": ignore_term})).await;
            assert!(stage.processes().contains(&spawned.text().parse().unwrap()));
        }
        stage.finish().await;
    }
}

/// The host is killed in the middle of everything: a call in flight, a process that is frozen, a server that has just
/// died and is being started again.
#[test]
fn no_process_survives_a_host_killed_in_the_middle_of_a_call() {
    let mut victims: Vec<Victim> = ["", "freeze", "crash-holding-pipe", "fill-stderr", "stop-reading-stdin"]
        .map(|faults| Victim::start(false, faults))
        .into();
    for victim in &mut victims {
        victim.begin(r#"sleep {"ms": 400}"#);
        let effects = &victim.effects;
        let log = effects.wait_until(Duration::from_secs(10), |log| log.runs_of("sleep") == 1);
        assert_eq!(log.runs_of("sleep"), 1);
    }
    // Around the moment in which the tool ends, and the fault strikes.
    let started = Instant::now();
    for (victim, wait) in victims.iter().zip([0, 80, 20, 20, 20]) {
        std::thread::sleep(Duration::from_millis(wait));
        victim.signal(Signal::SIGKILL);
    }
    while started.elapsed() < AFTERLIFE && victims.iter().any(|victim| !victim.started().is_empty()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for victim in &victims {
        assert_eq!(victim.started(), [0; 0], "after {:?}", started.elapsed());
    }
}
