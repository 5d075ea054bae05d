//! Commands that a running daemon runs for a process: the same output, and the same exit codes, as without it.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, FakeHttp, processes};

use crate::{
    rack::{Rack, Ran, fake, mcp_json, work_file},
    terminal::Terminal,
};

/// How long a test waits for something. On an idle machine nothing here takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(30);

/// How often a test runs a command until the daemon runs it: the daemon must have connected its servers by then.
const TRIES: usize = 50;

/// A process of `toolrack serve`, which dropping this ends.
pub(crate) struct Daemon {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
    /// The key to it.
    pub(crate) token: String,
}

impl Daemon {
    /// Starts a daemon with the options `more`, and returns when it listens.
    pub(crate) fn start(rack: &Rack, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--no-open", "--with-parent", "--json"], more].concat();
        let mut command = rack.command(&args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let up: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(up["pid"], child.id());
        let word = |name: &str| up[name].as_str().unwrap().to_owned();
        Self { child, address: word("address"), token: word("token") }
    }

    /// Returns how many files the daemon has open whose paths contain `below`.
    pub(crate) fn open_files(&self, below: &str) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let paths = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        paths.filter(|path| path.to_str().is_some_and(|path| path.contains(below))).count()
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the daemon a signal, and waits for its end; returns its exit code.
    pub(crate) fn ended_by(mut self, signal: &str) -> Option<i32> {
        // The daemon also ends when its stdin is closed, which `wait` does.
        let stdin = self.child.stdin.take();
        self.signal(signal);
        let code = self.child.wait().unwrap().code();
        drop(stdin);
        code
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap().success());
}

/// Creates a rack with the server `fake`, which writes down what it does, and with the servers `more`.
fn logged(more: &[(&str, Value)]) -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    let servers = [&[("fake", fake(&["--era", "both", "--log", effects.path_str()]))], more].concat();
    (Rack::with(&servers), effects)
}

/// Creates the same rack with a daemon that has connected its servers.
fn warm(more: &[(&str, Value)], options: &[&str]) -> (Rack, EffectLog, Daemon) {
    let (rack, effects) = logged(more);
    let daemon = Daemon::start(&rack, options);
    wait_until_used(&rack, &effects);
    (rack, effects, daemon)
}

/// Returns how many processes of the server have run a tool.
fn started(effects: &EffectLog) -> usize {
    effects.read().pids().into_iter().collect::<BTreeSet<_>>().len()
}

/// Runs a command again and again, until the daemon runs it: then no new process of the server runs the tool.
fn wait_until_used(rack: &Rack, effects: &EffectLog) {
    let used = (0..TRIES).any(|_| {
        let before = started(effects);
        let _ = rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0);
        before > 0 && started(effects) == before
    });
    assert!(used, "no command used the daemon");
}

/// Runs a command; returns whether it started a server of its own.
fn runs_alone(rack: &Rack, effects: &EffectLog, args: &[&str]) -> bool {
    let before = started(effects);
    let _ = rack.run(args).ends_with(0);
    started(effects) > before
}

const CALL: &[&str] = &["call", "fake/add", "a=1", "b=2"];

/// Every kind of command that a daemon can run, with and without success. `\s` stands for a space in a word.
const COMMANDS: &[&str] = &[
    "list",
    "list --json",
    "list --exit-code",
    "list fake --color always",
    "list nope",
    "tools",
    "tools fake",
    "tools fake --schema",
    "tools --json",
    "tools --search add\\snumbers",
    "tools --search add\\snumbers --json --limit 3",
    "tools --search zzzzz",
    "tools fak",
    "tools fake/add",
    "tools add --json",
    "tools fake.add --schema",
    "tools fake/addd",
    "tools fake/add fake",
    "tools off",
    "call fake/add a=1 b=2",
    "call add a=1 b=2",
    "call mcp__fake__echo text=a",
    "call fake/add a=1 b=2 --json",
    "call fake/add a=1 b=two",
    "call fake/add a=1 b=two --json",
    "call fake/add a=1 c=2",
    "call fake/add a=1 c=2 --quiet --no-validate",
    "call fake/add a",
    "call fake/addd",
    "call nope/add",
    "call add2",
    "call off/add",
    "call theirs/add",
    "call fake/fail",
    "call fake/fail --json",
    "call fake/image --color always",
    "call fake/image only:=[1] --no-validate --output picture",
    "call fake/image only:=[0,4] --no-validate -o bytes",
    "call fake/image only:=[4] --no-validate",
    "call fake/image -o everything",
    "call fake/echo text=a -o none/a",
    "call fake/structured --json",
    "call fake/env name=API_TOKEN",
    "call fake/env name=HOME",
    "call fake/cwd",
    "call fake/protocol_error",
    "call fake/sleep ms=60000 --timeout 100ms",
    "call fake/sleep ms=300 progress:=true",
    "call fake/elicit",
    "call fake/elicit --no-input",
    "call fake/sample",
    "call fake/roots",
    "call fake/add --args @args.json",
    "call fake/add --args -",
    "call fake/add --args @nope.json",
    "call fake/add --args {\"a\":1,\"b\":4}",
    "call fake/add -- a=1 b=2",
    "call builtin/list_directory path=.",
    "call builtin/list_directory -- path=folder",
    "resources",
    "resources --json",
    "resources nope",
    "read fake fake://note",
    "read fake fake://note --json",
    "read fake fake://blob",
    "read fake fake://blob -o -",
    "read fake fake://note -o note",
    "read fake fake://nope",
    "read off fake://note",
    "prompts",
    "prompts fake --json",
    "prompt fake/greet name=Ada",
    "prompt fake/greet name=Ada --json",
    "prompt fake/nope",
    "prompt greet",
];

/// Runs the command `line`, with `{"a":3,"b":4}` on its stdin.
fn shown(rack: &Rack, line: &str, no_daemon: bool) -> Ran {
    let words: Vec<String> = line.split(' ').map(|word| word.replace("\\s", " ")).collect();
    // In front, because words after `--` are no options.
    let args: Vec<&str> =
        no_daemon.then_some("--no-daemon").into_iter().chain(words.iter().map(String::as_str)).collect();
    rack.run_with_stdin(&args, r#"{"a":3,"b":4}"#)
}

#[test]
fn a_command_prints_the_same_with_and_without_a_daemon() {
    let secret = json!({ "API_TOKEN": "${API_TOKEN}" });
    let effects = EffectLog::new();
    let mut server = fake(&["--era", "both", "--log", effects.path_str()]);
    server["env"] = secret;
    let mut off = fake(&[]);
    off["disabled"] = json!(true);
    let rack = Rack::with(&[("fake", server), ("off", off)]).env("API_TOKEN", "canary-of-the-table");
    work_file(&rack, "args.json", r#"{ "a": 1, "b": 2 }"#);
    work_file(&rack, "folder/file", "");
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    let _daemon = Daemon::start(&rack, &[]);
    wait_until_used(&rack, &effects);
    for line in COMMANDS {
        let before = started(&effects);
        let warm = shown(&rack, line, false);
        assert_eq!(started(&effects), before, "the daemon did not run `{line}`: {warm}");
        let alone = shown(&rack, line, true);
        assert_eq!((&warm.stdout, &warm.stderr, warm.code), (&alone.stdout, &alone.stderr, alone.code), "`{line}`");
    }
    assert!(!shown(&rack, "call fake/env name=API_TOKEN", false).stdout.contains("canary"));
}

#[test]
fn a_large_result_arrives_complete() {
    let (rack, effects, _daemon) = warm(&[], &[]);
    let before = started(&effects);
    let text = rack.run(&["call", "fake/big", "bytes=600000", "fill=é"]).ends_with(0).stdout;
    let alone = rack.run(&["call", "fake/big", "bytes=600000", "fill=é", "--no-daemon"]).ends_with(0).stdout;
    assert_eq!(text.len(), alone.len());
    assert!(text.len() >= 600_000 && !text.contains("truncated"), "{}", text.len());
    assert_eq!(started(&effects), before + 1, "only the command with `--no-daemon` ran alone");
}

#[test]
fn a_file_is_written_in_the_folder_of_the_command_and_its_bytes_stay_as_they_are() {
    let (rack, effects, _daemon) = warm(&[], &[]);
    let before = started(&effects);
    let words = ["call", "fake/image", "only:=[1]", "--no-validate"];
    let warm = rack.command(&words).output().unwrap().stdout;
    let _ = rack.run(&[&words[..], &["-o", "picture"]].concat()).ends_with(0);
    assert_eq!(started(&effects), before, "the daemon did not run it");
    assert!(warm.starts_with(b"\x89PNG"), "{warm:?}");
    assert_eq!(std::fs::read(rack.home.work().join("picture")).unwrap(), warm);
    assert_eq!(rack.command(&[&words[..], &["--no-daemon"]].concat()).output().unwrap().stdout, warm);
}

#[test]
fn without_a_terminal_a_server_s_question_does_not_wait_for_the_dashboard() {
    for era in ["legacy", "modern"] {
        let effects = EffectLog::new();
        let rack = Rack::with(&[("fake", fake(&["--era", era, "--log", effects.path_str()]))]);
        let _daemon = Daemon::start(&rack, &[]);
        wait_until_used(&rack, &effects);
        let before = started(&effects);
        let warm = rack.run(&["call", "fake/elicit"]);
        assert_eq!(started(&effects), before, "the daemon did not run it");
        let alone = rack.run(&["call", "fake/elicit", "--no-daemon"]);
        // Only the result may differ, because the server knows that the daemon has a user to ask.
        assert_eq!((&warm.stderr, warm.code), (&alone.stderr, alone.code), "{era}");
    }
}

#[test]
fn a_server_s_question_comes_to_the_terminal_of_the_command() {
    let with_terminal = |rack: Rack| rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let transcript = |args: &[&str], rack: &Rack| {
        let mut terminal = Terminal::run(rack, args);
        let mut seen = terminal.expect("Ctrl-D leaves the form.");
        for typed in ["old", "36", "Ada", "", "", "2", ""] {
            seen += &terminal.expect(": ");
            terminal.type_in(&format!("{typed}\n"));
        }
        seen += &terminal.expect("Send this to `fake`? [y]es [n]o [e]dit ");
        terminal.type_in("y\n");
        let (rest, code) = terminal.end();
        (seen + &rest, code)
    };
    for era in ["legacy", "modern"] {
        let effects = EffectLog::new();
        let rack = with_terminal(Rack::with(&[("fake", fake(&["--era", era, "--log", effects.path_str()]))]));
        let _daemon = Daemon::start(&rack, &[]);
        wait_until_used(&rack, &effects);
        let before = started(&effects);
        let warm = transcript(&["call", "fake/elicit"], &rack);
        assert_eq!(started(&effects), before, "the daemon did not run it");
        assert_eq!(warm, transcript(&["call", "fake/elicit", "--no-daemon"], &rack), "{era}");
        assert!(warm.0.contains(r#""age":36"#) && warm.1 == 0, "{warm:?}");
    }
}

#[test]
fn ctrl_c_cancels_the_call_and_leaves_the_daemon_and_its_server_alone() {
    let (rack, effects, daemon) = warm(&[], &[]);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let runs = effects.read().runs_of("sleep");
        let cancelled = effects.read().cancelled().len();
        let mut command = rack.command(&["call", "fake/sleep", "ms=600000"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") > runs);
        kill(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let _ = effects.wait_until(LIMIT, |effects| effects.cancelled().len() > cancelled);
    }
    // A killed process cannot tell the daemon that it has ended.
    let (runs, cancelled) = (effects.read().runs_of("sleep"), effects.read().cancelled().len());
    let mut child = rack.command(&["call", "fake/sleep", "ms=600000"]).stdout(Stdio::null()).spawn().unwrap();
    let _ = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") > runs);
    child.kill().unwrap();
    let _ = child.wait();
    let _ = effects.wait_until(LIMIT, |effects| effects.cancelled().len() > cancelled);
    wait_until_used(&rack, &effects);
    drop(daemon);
}

#[test]
fn a_resource_is_followed_through_the_daemon_until_the_user_interrupts_and_again_after_that() {
    let (rack, effects, _daemon) = warm(&[], &[]);
    let before = started(&effects);
    for _ in 0..2 {
        let mut command = rack.command(&["read", "fake", "fake://note", "--follow"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert_eq!(next(), "a note");
        for _ in 0..3 {
            let _ = rack.run(&["call", "fake/touch"]).ends_with(0);
            assert_eq!(next(), "a note");
        }
        kill("INT", child.id());
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    assert_eq!(started(&effects), before, "each command used the server of the daemon");
}

#[test]
fn a_signal_ends_a_command_whose_output_is_not_read() {
    let (rack, _, _daemon) = warm(&[], &[]);
    for signal in ["INT", "TERM"] {
        // More than a pipe holds.
        let mut command = rack.command(&["call", "fake/big", "bytes=90000", "fill=é", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        kill(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(if signal == "INT" { 130 } else { 143 }));
    }
}

#[test]
fn a_command_with_other_servers_than_the_daemon_runs_alone() {
    let (rack, effects, _daemon) = warm(&[], &[]);
    let other = work_file(&rack, "other.json", &mcp_json(&[]));
    let other = other.to_str().unwrap();
    let folder = rack.home.work();
    let folder = folder.to_str().unwrap();
    for more in [&["--no-daemon"][..], &["--mcp-config", other], &["--root", folder], &["-vv"]] {
        assert!(runs_alone(&rack, &effects, &[CALL, more].concat()), "{more:?}");
    }
    assert!(!runs_alone(&rack, &effects, CALL));
    let before = started(&effects);
    assert!(rack.command(CALL).env("TOOLRACK_NO_DAEMON", "1").output().unwrap().status.success());
    assert_eq!(started(&effects), before + 1, "the variable had no effect");
    let irrelevant =
        [("TERM", "another"), ("USER", "another user"), ("LANG", "xx"), ("PATH", "/nowhere:/usr/bin:/bin")];
    for (name, value) in irrelevant.into_iter().chain([("TOOLRACK_NO_DAEMON", "0"), ("UNRELATED", "x")]) {
        let before = started(&effects);
        assert!(rack.command(CALL).env(name, value).output().unwrap().status.success());
        assert_eq!(started(&effects), before, "{name} makes no difference");
    }
    let elsewhere = rack.home.write("elsewhere/x", "");
    let before = started(&effects);
    assert!(rack.command(CALL).current_dir(elsewhere.parent().unwrap()).output().unwrap().status.success());
    assert_eq!(started(&effects), before + 1, "the server of a command in another folder must run in that folder");
}

#[test]
fn a_changed_file_applies_to_the_next_command() {
    let (rack, effects, _daemon) = warm(&[], &[]);
    let second = EffectLog::new();
    let servers = [
        ("fake", fake(&["--era", "both", "--log", effects.path_str()])),
        ("second", fake(&["--log", second.path_str()])),
    ];
    rack.configure(&servers);
    let _ = rack.run(&["call", "second/add", "a=1", "b=2"]).ends_with(0);
    rack.configure(&servers[1..]);
    let _ = rack.run(CALL).ends_with(5);
    rack.home.write("toolrack/mcp.json", "{");
    let _ = rack.run(CALL).ends_with(2);
}

#[test]
fn the_rules_of_the_daemon_do_not_ask_about_typed_calls() {
    let (rack, effects, _daemon) = warm(&[], &["--deny", "fake/echo"]);
    assert!(
        !runs_alone(&rack, &effects, &["call", "fake/write", "text=x"]),
        "the user typed the call, and so approved it"
    );
    let denied = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    assert_eq!(denied.stdout, "x", "the rules of the command itself do not deny it");
}

/// An entry whose server adds a line to the file `starts`, and ends.
fn gone(starts: &std::path::Path) -> Value {
    let script = "echo started >> \"$0\"; echo no licence >&2; exit 3";
    json!({ "command": "sh", "args": ["-c", script, starts], "retry": "off" })
}

#[test]
fn commands_that_show_all_servers_use_the_daemon_even_if_a_server_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let unset = json!({ "command": "true", "args": ["${NOWHERE}"], "retry": "off" });
    let (rack, effects, _daemon) = warm(&[("gone", gone(&starts)), ("unset", unset)], &[]);
    // The daemon may not have tried to start it yet.
    assert!((0..TRIES).any(|_| !runs_alone(&rack, &effects, &["list"])), "no command used the daemon");
    let all = || (started(&effects), std::fs::read_to_string(&starts).unwrap());
    let before = all();
    for args in [&["list"][..], &["tools"], &["tools", "--search", "adds numbers"], &["resources"], &["prompts"]] {
        for more in [&[][..], &["--json"]] {
            let args = [args, more].concat();
            let warm = rack.run(&args).ends_with(0);
            assert_eq!(all(), before, "{args:?} started something: {warm}");
            let output = format!("{}{}", warm.stdout, warm.stderr);
            assert!(output.contains("fake") && output.contains("no licence") && output.contains("NOWHERE"), "{warm}");
        }
    }
    let servers = rack.run(&["list", "--json"]).json();
    let states: Vec<_> = servers["servers"].as_array().unwrap().iter().map(|server| &server["state"]).collect();
    assert_eq!(states, ["connected", "connected", "failed", "failed"], "the first is the built-in server");
    assert_eq!(rack.run(&["list", "--exit-code"]).code, Some(4));
    assert_eq!(all(), before);
}

#[test]
fn a_command_that_needs_a_server_that_is_down_tries_to_start_it() {
    let (rack, _, _daemon) = warm(&[("gone", json!({ "command": "/nonexistent/server" }))], &[]);
    for args in [&["list", "gone"][..], &["tools", "gone"], &["call", "gone/x"], &["resources", "gone"]] {
        let (warm, alone) = (rack.run(args), rack.run(&[args, &["--no-daemon"]].concat()));
        assert_eq!((&warm.stdout, &warm.stderr, warm.code), (&alone.stdout, &alone.stderr, alone.code), "{args:?}");
    }
}

#[test]
fn a_command_runs_alone_if_the_daemon_has_ended_or_hangs_or_another_program_has_its_socket() {
    let (rack, effects, daemon) = warm(&[], &[]);
    let socket = rack.home.toolrack_home().join("run/cli.sock");
    assert_eq!(std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    daemon.signal("STOP");
    assert!(runs_alone(&rack, &effects, CALL), "the command waits for a daemon that does not answer");
    daemon.signal("CONT");
    wait_until_used(&rack, &effects);
    daemon.signal("KILL");
    assert!(runs_alone(&rack, &effects, CALL));
    assert!(socket.exists(), "a killed daemon leaves its socket");
    std::fs::remove_file(&socket).unwrap();
    let other_program = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other_program.accept().unwrap();
        stream.write_all(b"220 mail ready\r\n").unwrap();
    });
    assert!(runs_alone(&rack, &effects, CALL));
    answering.join().unwrap();
}

#[test]
fn a_command_fails_if_the_daemon_dies_while_it_runs_it_and_no_call_is_made_twice() {
    // With a server over HTTP, because a child process would end with the daemon.
    let effects = EffectLog::new();
    let server = FakeHttp::start(&["--era", "both", "--log", effects.path_str()]);
    let rack = Rack::with(&[("fake", json!({ "url": server.url() }))]);
    let daemon = Daemon::start(&rack, &[]);
    let used = (0..TRIES).any(|_| {
        let before = effects.read().count_of("initialize") + effects.read().count_of("server/discover");
        let _ = rack.run(CALL).ends_with(0);
        before == effects.read().count_of("initialize") + effects.read().count_of("server/discover")
    });
    assert!(used);
    let mut command = rack.command(&["call", "fake/sleep", "ms=600000", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    daemon.signal("KILL");
    let output = child.wait_with_output().unwrap();
    let ran = Ran::new(&["call", "fake/sleep"], &output, &rack).ends_with(4);
    assert_eq!(ran.error()["code"], "DAEMON_LOST", "{ran}");
    assert_eq!(effects.read().runs_of("sleep"), 1);
}

#[test]
fn a_daemon_that_ends_during_a_call_leaves_no_process() {
    let (rack, effects, daemon) = warm(&[], &["--grace", "100ms"]);
    let mut command = rack.command(&["call", "fake/sleep", "ms=600000"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
    let servers = processes::descendants(daemon.child.id());
    assert!(!servers.is_empty());
    daemon.signal("TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    assert!(processes::wait_all_gone(&servers, LIMIT), "a process of a server still runs");
}

/// Runs a command with `-v` and these variables; returns why it did not use the daemon, empty if it did.
fn unused(rack: &Rack, more: &[&str], variables: &[(&str, &str)]) -> String {
    let words = [CALL, &["-v"], more].concat();
    let output = rack.command(&words).envs(variables.iter().copied()).output().unwrap();
    let ran = Ran::new(&words, &output, rack).ends_with(0);
    let printed = ran.stderr.lines().find_map(|line| line.split_once("the running daemon was not used: "));
    printed.map(|(_, why)| why.to_owned()).unwrap_or_default()
}

#[test]
fn a_server_that_the_daemon_is_still_connecting_is_not_said_to_be_unknown() {
    let rack = Rack::with(&[("mute", json!({ "command": "sleep", "args": ["600"] }))]);
    let _daemon = Daemon::start(&rack, &[]);
    let status = rack.run(&["daemon", "status"]).ends_with(0);
    assert!(status.stdout.contains("commands here do not use it: `mute` is connecting there"), "{status}");
}

#[test]
fn a_command_with_another_variable_that_an_entry_uses_runs_alone_and_names_the_variable() {
    let effects = EffectLog::new();
    let mut entry = fake(&["--era", "both", "--log", effects.path_str()]);
    entry["env"] = json!({ "KEY": "${SERVICE_KEY:-none}" });
    let rack = Rack::with(&[("fake", entry)]);
    let _daemon = Daemon::start(&rack, &[]);
    assert!((0..TRIES).any(|_| unused(&rack, &[], &[]).is_empty()), "no command used the daemon");
    assert_eq!(unused(&rack, &[], &[("USER", "another"), ("PATH", "/bin:/usr/bin")]), "");
    let why = unused(&rack, &[], &[("SERVICE_KEY", "canary-of-a-key")]);
    assert_eq!(why, "`fake` has another `KEY` there");
    assert_eq!(unused(&rack, &["--no-daemon"], &[]), "`--no-daemon` is set");
    assert!(unused(&rack, &["-v"], &[]).contains("-vv"));

    let run_with_key = |words: &[&str]| {
        let output = rack.command(words).env("SERVICE_KEY", "canary-of-a-key").output().unwrap();
        Ran::new(words, &output, &rack).ends_with(0)
    };
    let status = run_with_key(&["daemon", "status"]);
    assert!(status.stdout.contains("commands here do not use it: `fake` has another `KEY` there"), "{status}");
    let doctor = run_with_key(&["doctor", "--offline"]);
    assert!(doctor.stdout.contains("do not use it: `fake` has another `KEY` there"), "{doctor}");
    let same = rack.run(&["daemon", "status", "--json"]).ends_with(0).json();
    assert_eq!(same["unused"], json!([]), "{same}");
}

#[test]
fn with_verbose_the_user_sees_stderr_of_servers_as_it_is_written() {
    let script = "echo starting up >&2; exec \"$0\" stdio";
    let entry = json!({ "command": "sh", "args": ["-c", script, toolrack_testkit::fake_server_path()] });
    let rack = Rack::with(&[("noisy", entry)]);
    let call = ["call", "noisy/echo", "text=x"];
    let loud = rack.run(&[&call[..], &["-v"]].concat()).ends_with(0);
    assert!(loud.stderr.contains("noisy stderr: starting up"), "{loud}");
    assert_eq!(loud.stdout, "x");
    let quiet = rack.run(&call).ends_with(0);
    assert!(!quiet.stderr.contains("starting up"), "{quiet}");
}
