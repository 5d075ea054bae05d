//! Finding out what is wrong: test, doctor, logs, why.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    sync::mpsc,
    time::Duration,
};

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::fake_server_path;

use crate::{
    rack::{Rack, fake, mcp_json, work_file},
    warm::kill,
};

#[test]
fn test_shows_how_far_each_step_came() {
    let rack = Rack::with(&[("good", fake(&["--tools", "2"])), ("gone", json!({ "command": "/nonexistent/server" }))]);
    assert_snapshot!(rack.run(&["test", "good"]), @"
        $ toolrack test good
        + good  works: 24 tools, about 0 tokens, 0 ms
          says it is fake-server 0.1.0
          tells models:
            A server for tests. It does what its script says.
          + config       [HOME]/toolrack/mcp.json (user)
          + trust        trusted
          + start        connected
          + negotiation  2025-11-25 (legacy era)
          + list         24 tools
        [0]
    ");
    assert_snapshot!(rack.run(&["test", "gone"]), @"
        $ toolrack test gone
        x gone  does not work, 0 ms
          + config  [HOME]/toolrack/mcp.json (user)
          + trust   trusted
          x start   no such file: /nonexistent/server; check the path of the command
        --- stderr ---
        error: the server gone ([HOME]/toolrack/mcp.json) is not connected: no such file: /nonexistent/server; check the path of the command
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [4]
    ");
    let json = rack.run(&["test", "--json"]).ends_with(4).json();
    let verdicts: Vec<_> = json["servers"].as_array().unwrap().iter().map(|server| server["ok"].as_bool()).collect();
    assert_eq!(verdicts, [Some(true), Some(false), Some(true)]);
    assert_eq!(json["servers"][2]["era"], "legacy");
    assert!(json["servers"][2]["duration_ms"].is_u64(), "{json}");
}

#[test]
fn a_check_starts_a_server_that_is_otherwise_started_for_a_call() {
    let rack = Rack::new();
    // The server starts as long as there is no such file.
    let broken = rack.home.work().join("broken");
    let script = "[ ! -e \"$1\" ] && exec \"$0\" stdio";
    let entry = json!({ "command": "sh", "args": ["-c", script, fake_server_path(), broken], "start": "lazy" });
    rack.configure(&[("fake", entry.clone())]);
    // Its tools are known from now on.
    let _ = rack.run(&["tools", "fake"]).ends_with(0);
    assert_eq!(rack.run(&["list", "fake", "--json"]).json()["servers"][0]["state"], "idle");
    let tested = rack.run(&["test", "fake", "--json"]).ends_with(0).json();
    let server = &tested["servers"][0];
    assert_eq!((&server["ok"], &server["state"]), (&json!(true), &json!("connected")), "{tested}");
    assert_eq!(server["protocol_version"], "2025-11-25", "{tested}");
    let checked = rack.run(&["doctor", "fake"]).ends_with(0);
    assert!(checked.stdout.contains("connected, MCP 2025-11-25 (legacy era)"), "{checked}");
    let entry = entry.to_string();
    let add = ["add-json", "fake", &entry, "--replace", "--json"];
    assert_eq!(rack.run(&add).ends_with(0).json()["server"]["state"], "connected");

    work_file(&rack, "broken", "");
    assert_eq!(rack.run(&["list", "fake", "--json"]).json()["servers"][0]["state"], "idle");
    for args in [&["test", "fake"][..], &["doctor", "fake"], &add] {
        let _ = rack.run(args).ends_with(4);
    }
}

#[test]
fn why_of_a_server_alone_says_how_far_it_came() {
    let rack = Rack::with(&[("good", fake(&["--tools", "2"]))]);
    assert_snapshot!(rack.run(&["why", "good"]), @"
        $ toolrack why good
        good can be used
        + config       [HOME]/toolrack/mcp.json (user)
        + trust        trusted
        + start        connected
        + negotiation  2025-11-25 (legacy era)
        + list         24 tools
        [0]
    ");
}

#[test]
fn doctor_names_each_problem_and_the_next_step() {
    let rack = Rack::with(&[
        ("good", fake(&["--tools", "2"])),
        ("gone", json!({ "command": "no-such-program" })),
        ("unset", json!({ "command": "x", "env": { "KEY": "${NO_SUCH_VARIABLE}" } })),
        ("odd", json!({ "command": "x", "argz": [] })),
    ]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    let ran = rack.run(&["doctor", "--offline"]).ends_with(4);
    for words in ["no-such-program", "NO_SUCH_VARIABLE", "argz", "toolrack trust theirs", "can be read and written"] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    assert!(!ran.stdout.contains("connected"), "{ran}");
    let json = rack.run(&["doctor", "good", "--json"]).ends_with(0).json();
    assert_eq!(json["ok"], true);
    assert!(json["checks"].as_array().unwrap().iter().any(|check| check["area"] == "server"), "{json}");
    let _ = rack.run(&["doctor", "theirs"]).ends_with(7);
    // The reason why it cannot be started is reported once.
    let json = rack.run(&["doctor", "--json"]).ends_with(4).json();
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.iter().filter(|check| check["subject"] == "gone").count(), 1, "{json}");
    let _ = rack.run(&["doctor", "gone"]).ends_with(4);
}

#[test]
fn the_doctor_has_nothing_to_say_of_a_healthy_rack() {
    assert_snapshot!(Rack::with(&[("good", fake(&["--tools", "2"]))]).run(&["doctor"]), @"
        $ toolrack doctor
        + file       [HOME]/toolrack/mcp.json     read (user), 1 server
        + data       [HOME]/toolrack/toolrack.db  can be read and written
        + secrets    [HOME]/toolrack/secret.key   none is stored
        + sandbox    namespaces                                 [LAYER]
        + sandbox    landlock                                   [LAYER]
        + sandbox    seccomp                                    [LAYER]
        + container  engine                                     [ENGINES]
        + program    good                                       [FAKE]
        + server     builtin                                    connected, MCP 2026-07-28 (modern era), 5 tools
        + server     good                                       connected, MCP 2025-11-25 (legacy era), 24 tools
        nothing is wrong
        [0]
    ");
}

#[test]
fn the_doctor_tells_a_closed_port_from_a_server_that_speaks_no_mcp() {
    let rack = Rack::with(&[("web", json!({ "url": "http://127.0.0.1:9/mcp" }))]);
    let ran = rack.run(&["doctor", "web"]).ends_with(4);
    assert!(ran.stdout.contains("port 9 of 127.0.0.1: connection refused"), "{ran}");
}

#[cfg(unix)]
#[test]
fn doctor_warns_of_secrets_that_other_users_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let rack = Rack::with(&[("web", json!({ "url": "https://127.0.0.1:9", "headers": { "A": "canary" } }))]);
    let path = rack.home.root().join("toolrack/mcp.json");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let ran = rack.run(&["doctor", "--offline"]).ends_with(0);
    assert!(ran.stdout.contains("chmod 600") && !ran.stdout.contains("canary"), "{ran}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(!rack.run(&["doctor", "--offline"]).stdout.contains("chmod"));
}

/// A server that writes to stderr, and repeats its secret there.
fn talker() -> serde_json::Value {
    let script = "echo \"token: $API_TOKEN\" >&2; printf 'bad \\033[2J escape\\n' >&2; exec \"$0\" stdio";
    json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": { "API_TOKEN": "canary-value" } })
}

#[test]
fn logs_that_are_followed_from_no_line_on_show_new_lines_alone() {
    let script = "echo \"run $$$$\" >&2; exec \"$0\" stdio";
    let rack = Rack::with(&[("talker", json!({ "command": "sh", "args": ["-c", script, fake_server_path()] }))]);
    let _ = rack.run(&["tools", "talker"]).ends_with(0);
    let old = rack.run(&["logs", "--json"]).json()["lines"][0]["text"].as_str().unwrap().to_owned();
    let mut child = rack.command(&["logs", "--follow", "-n", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, first_line) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let _ = sender.send(line);
    });
    // A run whose line is stored before the command has looked for the newest one shows nothing: then run it again.
    let line = (0..30).find_map(|_| {
        let _ = rack.run(&["tools", "talker"]).ends_with(0);
        first_line.recv_timeout(Duration::from_secs(1)).ok()
    });
    kill("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    reader.join().unwrap();
    let line = line.expect("a new line is shown");
    assert!(line.contains("run ") && !line.trim_end().ends_with(&old), "{old} {line}");
}

#[test]
fn logs_store_stderr_without_secrets_and_escapes() {
    let rack = Rack::with(&[("talker", talker()), ("quiet", fake(&[]))]);
    assert_snapshot!(rack.run(&["logs"]), @"
        $ toolrack logs
        --- stderr ---
        nothing has been written yet; servers write while a command uses them
        [0]
    ");
    let _ = rack.run(&["tools", "talker"]).ends_with(0);
    let ran = rack.run(&["logs", "talker"]).ends_with(0);
    let texts: Vec<_> = ran.stdout.lines().filter_map(|line| line.split_once("stderr  ")).map(|line| line.1).collect();
    assert_eq!(texts, ["token: ***", "bad \\u{1b}[2J escape"], "{ran}");
    let json = rack.run(&["logs", "--json", "-n", "1"]).ends_with(0).json();
    assert_eq!(json["lines"][0]["server"], "talker");
    assert_eq!(json["lines"][0]["kind"], "stderr");
    assert_eq!(rack.run(&["logs", "quiet", "--json"]).json()["lines"], json!([]));
    let _ = rack.run(&["logs", "nope"]).ends_with(2);
    for entry in std::fs::read_dir(rack.home.toolrack_home()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.ends_with("mcp.json") {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "{}", path.display());
        }
    }
}

#[test]
fn test_and_tools_show_the_instructions_of_a_server_and_cut_long_ones() {
    let long = fake(&["--fault", "long-description"]);
    let rack = Rack::with(&[("fake", fake(&[])), ("long", long)]);
    let expected = "  tells models:\n    A server for tests. It does what its script says.\n";
    for verb in ["test", "tools"] {
        let shown = rack.run(&[verb, "fake"]).ends_with(0).stdout;
        assert!(shown.contains(expected), "{shown}");
        let cut = rack.run(&[verb, "long"]).ends_with(0).stdout;
        assert!(cut.contains("    Instructions, line 1.") && !cut.contains("Instructions, line 100."), "{cut}");
        assert!(cut.contains("more: `toolrack tools long --full` shows all of it"), "{cut}");
    }
    assert!(rack.run(&["tools", "long", "--full"]).ends_with(0).stdout.contains("    Instructions, line 5000."));
    assert!(!rack.run(&["tools"]).ends_with(0).stdout.contains("tells models"), "of all servers it is too much");
    let test = rack.run(&["test", "long", "--json"]).ends_with(0).json();
    let tools = rack.run(&["tools", "long", "--json"]).ends_with(0).json();
    for instructions in [&test["servers"][0]["instructions"], &tools["servers"][0]["instructions"]] {
        assert!(instructions.as_str().unwrap().contains("Instructions, line 5000."));
    }
}

#[test]
fn the_error_for_output_that_is_not_a_message_quotes_an_example() {
    let script = "echo 'usage: serve [--stdio] \u{1b}[2J'; echo '  --stdio  speak MCP'; exit 2";
    let rack = Rack::with(&[("noisy", json!({ "command": "sh", "args": ["-c", script] }))]);
    let sent = "2 times it sent output that is not an MCP message: usage: serve [--stdio] \\u{1b}[2J";
    for args in [["test", "noisy"], ["why", "noisy"]] {
        let ran = rack.run(&args);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(sent), "{ran}");
    }
}

#[test]
fn a_secret_that_a_server_repeats_when_it_dies_is_not_printed() {
    let script = "echo \"cannot sign in with $API_TOKEN\" >&2; exit 3";
    let entry = json!({ "command": "sh", "args": ["-c", script], "env": { "API_TOKEN": "canary-value" } });
    let rack = Rack::with(&[("dies", entry)]);
    for args in
        [["list"].as_slice(), &["list", "--json"], &["test", "dies"], &["doctor", "--json"], &["call", "dies/x"]]
    {
        let ran = rack.run(args);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains("canary") && all.contains("cannot sign in with ***"), "{ran}");
    }
}

#[cfg(unix)]
#[test]
fn one_file_by_two_names_gives_one_entry() {
    let rack = Rack::new();
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    std::fs::create_dir(rack.home.work().join(".toolrack")).unwrap();
    std::os::unix::fs::symlink("../.mcp.json", rack.home.work().join(".toolrack/mcp.json")).unwrap();
    let doctor = rack.run(&["doctor", "--offline"]);
    assert!(!doctor.stdout.contains("configured twice"), "{doctor}");
}
