//! Puts a secret into every place that an entry allows, and runs a whole session. The secret must reach only the
//! servers it was meant for; everything else is searched for it, byte by byte.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use toolrack_testkit::{FakeHttp, fake_server_path};

use crate::{
    provider::{Provider, Speech},
    rack::{Rack, Ran, fake},
};

/// The stored secrets by their purpose, and one in the environment. All have the same beginning.
const SECRETS: &[&str] = &["command", "arg", "env", "cwd", "header", "path", "query", "model", "unreachable"];
const CANARY: &str = "canary-9e21b4";

fn value(name: &str) -> String {
    format!("{CANARY}-{name}")
}

/// A home in which every field that may have a placeholder has one, and whose servers repeat what they get.
fn rack(web: &FakeHttp, model: &str) -> Rack {
    let rack = Rack::new().env("API_TOKEN", value("environment"));
    let work = rack.home.work();
    fs::create_dir(work.join(value("cwd"))).unwrap();
    std::os::unix::fs::symlink("/bin/sh", work.join(value("command"))).unwrap();
    let script = "echo \"got $KEY $1 $API_TOKEN $PWD\" >&2; exec \"$0\" stdio";
    let local = json!({
        "command": format!("{}/${{secret:command}}", work.display()),
        "args": ["-c", script, fake_server_path(), "${secret:arg}"],
        "env": { "KEY": "${secret:env}", "API_TOKEN": "${API_TOKEN}" },
        "cwd": format!("{}/${{secret:cwd}}", work.display()),
    });
    let mut lazy = local.clone();
    lazy["start"] = "lazy".into();
    rack.configure(&[
        ("local", local),
        ("lazy", lazy),
        (
            "web",
            json!({ "url": format!("{}?key=${{secret:query}}", web.url()), "headers": { "X-Team": "t ${secret:header}" } }),
        ),
        ("gone", json!({ "url": "http://127.0.0.1:9/${secret:unreachable}/mcp", "headers": { "X-Path": "${secret:path}" } })),
        ("plain", fake(&[])),
    ]);
    let settings =
        format!("[model]\nname = \"m\"\nbase_url = \"{model}\"\nwire = \"openai-chat\"\nkey = \"${{secret:model}}\"\n");
    rack.home.write("toolrack/toolrack.toml", settings);
    for name in SECRETS {
        let set = rack.run_with_stdin(&["secret", "set", name], &value(name)).ends_with(0);
        assert_clean(&set);
    }
    rack
}

fn assert_clean(ran: &Ran) {
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{ran}");
}

/// Every file below `folder`, except links.
fn files_below(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            files_below(&path, look);
        } else if metadata.is_file() {
            look(&path, &fs::read(&path).unwrap());
        }
    }
}

/// The daemon's answer, with head and body.
pub(crate) fn ask_daemon(address: &str, token: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The events that the daemon still keeps.
fn events_of_daemon(address: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nlast-event-id: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The stream never ends, but the kept events come immediately.
    let _silent_by_now = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn a_session_at_the_command_line(rack: &Rack) {
    for (args, code, says) in [
        (&["list"][..], 0, "local"),
        (&["list", "--json"], 0, "unreachable"),
        (&["tools", "--json"], 0, "local"),
        (&["call", "local/env", "name=KEY"], 0, "***"),
        (&["call", "local/env", "name=API_TOKEN", "--json"], 0, "***"),
        (&["call", "local/cwd"], 0, "***"),
        (&["call", "lazy/env", "name=KEY"], 0, "***"),
        (&["call", "web/headers", "--json"], 0, "***"),
        (&["-vv", "call", "web/headers"], 0, "***"),
        (&["call", "gone/echo", "text=x"], 4, ""),
        (&["get", "local", "--json"], 0, "${secret:env}"),
        (&["get", "web"], 0, "${secret:header}"),
        (&["config", "show"], 0, "${secret:arg}"),
        (&["why", "gone"], 4, ""),
        (&["test"], 4, "local"),
        (&["doctor"], 4, "secret.key"),
        (&["secret", "list", "--json"], 0, "header"),
        (&["ask", "--allow", "*", "what is the key?"], 0, "I was not told."),
        (&["sessions", "show", "--full"], 0, "***"),
        (&["sessions", "export", "last", "--format", "json"], 0, "***"),
        (&["logs", "-n", "500"], 0, "got *** ***"),
        (&["logs", "--json"], 0, "got *** ***"),
    ] {
        let ran = rack.run(args);
        assert_clean(&ran);
        let ran = ran.ends_with(code);
        assert!(ran.stdout.contains(says) || (says == "unreachable" && ran.stdout.contains("gone")), "{says}: {ran}");
    }
    // Too long for a terminal, and so kept as a file.
    let long = json!({ "text": value("env").repeat(20_000) }).to_string();
    let ran = rack.run_with_stdin(&["call", "local/echo", "--args", "-"], &long).ends_with(0);
    assert_clean(&ran);
}

fn a_session_with_the_daemon(rack: &Rack) {
    let mut command = rack.command(&["serve", "--listen", "127.0.0.1:0", "--with-parent", "--allow", "*"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = command.spawn().unwrap();
    let mut lines = BufReader::new(daemon.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let (address, token) = line.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/#token=")).unwrap();
    // Call without waiting: a call waits for a server that is starting.
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments }).to_string();
    let key = call("local/env", json!({ "name": "KEY" }));
    for (request, body, says) in [
        ("POST /api/v1/calls", key.as_str(), "***"),
        ("POST /api/v1/calls", &call("web/headers", json!({})), "***"),
        ("POST /api/v1/calls", &call("gone/echo", json!({})), "gone"),
        ("GET /api/v1/servers", "", "gone"),
        ("GET /api/v1/servers/gone", "", "gone"),
        ("GET /api/v1/servers/local/logs", "", "got *** ***"),
        ("GET /api/v1/tools", "", "local"),
        ("GET /api/v1/config", "", "${secret:path}"),
        ("GET /api/v1/overview", "", "servers"),
        ("GET /api/v1/sessions", "", "what is the key?"),
        ("GET /metrics", "", "toolrack"),
    ] {
        let answer = ask_daemon(address, token, request, body);
        assert!(!answer.contains(CANARY), "{request}: {answer}");
        assert!(answer.contains(says), "{request}: {answer}");
    }
    let events = events_of_daemon(address, token);
    assert!(events.contains("tool_") && !events.contains(CANARY), "{events}");
    drop(daemon.stdin.take());
    let ended = daemon.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && !output.contains(CANARY), "{output}");
}

#[test]
fn no_byte_of_a_secret_is_printed_sent_or_stored() {
    let web = FakeHttp::start::<&str>(&[]);
    let guessed = value("env");
    let (begun, rest) = guessed.split_at(5);
    let provider = Provider::start([
        Speech::Chat.calls(&[
            ("call_1", "mcp__local__env", json!({ "name": "KEY" })),
            ("call_2", "mcp__web__headers", json!({})),
        ]),
        // A model can invent one, or know it from the user's message.
        Speech::Chat.says(&["I was not told. Is it ", begun, rest, "?"]),
    ]);
    let rack = rack(&web, &provider.url());
    a_session_at_the_command_line(&rack);
    a_session_with_the_daemon(&rack);

    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|requests| !requests.body.contains(CANARY)));
    let sent = format!("Bearer {}", value("model"));
    assert!(
        requests.iter().all(|requests| requests.header("authorization") == Some(&sent)),
        "the key itself must arrive"
    );
    let mut looked = 0;
    files_below(rack.home.root(), &mut |path, bytes| {
        looked += bytes.len();
        if let Some(at) = bytes.windows(CANARY.len()).position(|window| window == CANARY.as_bytes()) {
            let around = &bytes[at.saturating_sub(200)..bytes.len().min(at + 200)];
            panic!("{}: {}", path.display(), String::from_utf8_lossy(around).escape_debug());
        }
    });
    assert!(looked > 100_000, "only {looked} bytes were looked through");
}

/// Servers that get secrets which are not marked as such: in arguments of their entries, and under names without
/// `token`.
fn outspoken(web: &FakeHttp) -> Rack {
    let rack = Rack::new()
        .env("OPENAI_KEY", value("key"))
        .env("SLACK_PAT", value("pat"))
        .env("PGPASS", value("pass"))
        .env("DATABASE_URL", format!("postgres://u:{}@h/db", value("url")));
    let script = "echo \"got $DB_PASS $LEAK_URL $A $B $C $D $SLACK_PAT $*\" >&2; exec \"$0\" stdio";
    let bearer = format!("Authorization: Bearer {}", value("bearer"));
    let password = format!("--password={}", value("password"));
    rack.configure(&[
        (
            "local",
            json!({
                "command": "sh",
                "args": ["-c", script, fake_server_path(), "--api-key", value("arg"), password, "--header", bearer],
                "env": {
                    "DB_PASS": value("literal"),
                    "LEAK_URL": format!("postgres://u:{}@h/db", value("in-url")),
                    "A": "${OPENAI_KEY}",
                    "B": "${PGPASS}",
                    "C": "${DATABASE_URL}",
                    "D": "a word",
                },
                "inherit_env": ["SLACK_PAT"],
            }),
        ),
        (
            "web",
            json!({ "url": format!("{}?key={}", web.url(), value("query")), "headers": { "X-Api-Key": value("header") } }),
        ),
    ]);
    rack
}

#[test]
fn secrets_of_an_entry_are_hidden_wherever_its_server_repeats_them() {
    let web = FakeHttp::start::<&str>(&[]);
    let rack = outspoken(&web);
    for (args, says) in [
        (&["get", "local"][..], "***"),
        (&["get", "web", "--json"], "***"),
        (&["call", "local/env", "name=DB_PASS"], "***"),
        (&["call", "local/env", "name=LEAK_URL"], "postgres://u:***@h/db"),
        (&["call", "local/env", "name=A", "--json"], "***"),
        (&["call", "local/env", "name=B"], "***"),
        (&["call", "local/env", "name=C"], "postgres://u:***@h/db"),
        (&["call", "local/env", "name=D"], "a word"),
        (&["call", "local/env", "name=SLACK_PAT"], "***"),
        (&["call", "web/headers", "--json"], "***"),
        (&["-vv", "list"], "web"),
        (&["logs", "-n", "500"], "--password=*** --header Authorization: Bearer ***"),
    ] {
        let ran = rack.run(args);
        assert_clean(&ran);
        let ran = ran.ends_with(0);
        assert!(ran.stdout.contains(says), "{says}: {ran}");
    }
    files_below(rack.home.root(), &mut |path, bytes| {
        let is_there = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!is_there || path.ends_with("toolrack/mcp.json"), "{}", path.display());
    });
}

#[test]
fn a_secret_of_one_server_goes_to_another_only_if_the_user_approves() {
    let rack = Rack::with(&[("other", fake(&[]))]);
    let mut owner = fake(&[]);
    owner["env"] = json!({ "KEY": "${secret:env}" });
    rack.configure(&[("owner", owner), ("other", fake(&[]))]);
    let _ = rack.run_with_stdin(&["secret", "set", "env"], &value("env")).ends_with(0);
    let calls = |server: &str| {
        let input = json!({ "text": format!("see {}", value("env")) });
        json!([{ "tool_calls": [{ "name": format!("mcp__{server}__echo"), "input": input }] }, { "text": "done" }])
    };
    for (server, code) in [("owner", 0), ("other", 6)] {
        crate::rack::work_file(&rack, "script.json", &calls(server).to_string());
        let ran = rack.run(&["ask", "--model", "mock/script.json", "--allow", "*", "go"]).ends_with(code);
        assert_clean(&ran);
        assert_eq!(ran.stderr.contains("a secret in the arguments that other was not given"), code == 6, "{ran}");
    }
}
