//! Signing in with a browser or by pasting, staying signed in, and signing out.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};
use toolrack_testkit::authorization::{AuthorizationFault, FakeAuthorization};

use crate::rack::{Rack, Ran};

fn rack(server: &FakeAuthorization) -> Rack {
    Rack::with(&[("guarded", json!({ "url": server.mcp_url() }))])
}

/// The address to which a page sends the browser.
fn follow(url: &str) -> Option<String> {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer.lines().find_map(|line| line.split_once(": ").filter(|(name, _)| *name == "location"));
    location.map(|(_, location)| location.trim().to_owned())
}

/// The command with the page that it shows.
fn started(mut command: Command) -> (Child, BufReader<std::process::ChildStderr>, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut page = None;
    let mut text = String::new();
    while page.is_none() && stderr.read_line(&mut text).unwrap() > 0 {
        let line = text.lines().last().unwrap_or_default();
        page = line.strip_prefix("Sign in here: ").map(|page| page.trim().to_owned());
    }
    (child, stderr, page.unwrap_or_else(|| panic!("no page was shown: {text}")))
}

/// Runs a command to its end, with a browser that follows the redirects.
fn signed_in(rack: &Rack, args: &[&str]) -> Ran {
    let (mut child, mut stderr, page) = started(rack.command(args));
    drop(child.stdin.take());
    let back = follow(&page).unwrap();
    assert_eq!(follow(&back), None);
    let mut rest = Vec::new();
    stderr.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran::new(args, &Output { stderr: rest, ..output }, rack)
}

#[test]
fn a_user_signs_in_once_for_all_later_commands() {
    let server = FakeAuthorization::start([]);
    let rack = rack(&server);
    let before = rack.run(&["list", "--exit-code"]).ends_with(3);
    assert!(before.stdout.contains("needs sign-in: toolrack login guarded"), "{before}");
    let call = rack.run(&["call", "guarded/echo", "text=x", "--json"]).ends_with(3);
    assert_eq!(
        (&call.error()["code"], &call.error()["hint"]),
        (&json!("AUTH_REQUIRED"), &json!("toolrack login guarded"))
    );

    let login = signed_in(&rack, &["login", "guarded"]).ends_with(0);
    assert!(login.stdout.starts_with("signed in to guarded by http://127.0.0.1"), "{login}");
    let _ = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(0);
    server.expire_access_tokens();
    let _ = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(0);
    assert_eq!((server.counts().refreshes, server.counts().reused, server.counts().authorizations), (1, 0, 1));

    let status = rack.run(&["auth", "status", "--json"]).ends_with(0).json();
    let [account] = &*status["accounts"].as_array().unwrap().clone() else { panic!("{status}") };
    assert_eq!((&account["servers"], &account["signed_in"]), (&json!(["guarded"]), &json!(true)));

    server.revoke();
    let revoked = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(3);
    assert!(revoked.stderr.contains("toolrack login guarded"), "{revoked}");
    let _ = signed_in(&rack, &["login", "guarded"]).ends_with(0);
    let out = rack.run(&["logout", "guarded"]).ends_with(0);
    assert!(out.stdout.contains("the tokens are revoked"), "{out}");
    assert!(server.counts().revocations > 0);
    let _ = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(3);
    assert_eq!(rack.run(&["auth", "status", "--json"]).json(), json!({ "accounts": [] }));

    let rows = rack.run(&["audit", "list", "--json"]).ends_with(0).json()["rows"].as_array().unwrap().clone();
    let about = |row: &Value| row["kind"].as_str().filter(|kind| kind.contains("sign")).map(str::to_owned);
    let kinds: Vec<_> = rows.iter().filter_map(about).collect();
    let mut expected = ["signed_in", "sign_in_failed", "signed_in", "signed_out"];
    if kinds.first().is_some_and(|last| last == "signed_out") {
        expected.reverse();
    }
    assert_eq!(kinds, expected);
    assert!(rows.iter().any(|row| row["kind"] == "sign_in_failed" && row["code"] == "SIGN_IN_ENDED"), "{rows:?}");
    let _ = rack.run(&["audit", "verify"]).ends_with(0);
}

/// Twenty processes that are started at once, and call.
fn twenty_call(rack: &Rack) {
    let args = ["call", "guarded/echo", "text=x"];
    let mut commands: Vec<_> = (0..20).map(|_| rack.command(&args)).collect();
    for command in &mut commands {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let children: Vec<_> = commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
    for child in children {
        let ran = Ran::new(&args, &child.wait_with_output().unwrap(), rack).ends_with(0);
        assert!(ran.stdout.contains('x'), "{ran}");
    }
}

/// Refresh tokens rotate here, and using one twice ends the sign-in. So two processes that renewed at the same time
/// would end it for all.
#[test]
fn of_twenty_commands_that_find_an_old_token_one_renews_it_and_all_succeed() {
    let server = FakeAuthorization::start([]);
    let rack = rack(&server);
    let _ = signed_in(&rack, &["login", "guarded"]).ends_with(0);
    let renewed = |server: &FakeAuthorization| (server.counts().refreshes, server.counts().reused);

    // The server refuses it, although it has not expired.
    server.expire_access_tokens();
    twenty_call(&rack);
    assert_eq!(renewed(&server), (1, 0));

    // It has expired: an earlier command stored a token with a life of zero.
    server.set_faults([AuthorizationFault::Lives(0)]);
    let _ = signed_in(&rack, &["login", "guarded"]).ends_with(0);
    server.set_faults([]);
    let (before, _) = renewed(&server);
    twenty_call(&rack);
    assert_eq!(renewed(&server), (before + 1, 0));
    assert_eq!(server.counts().authorizations, 2, "the user need not sign in again");
}

#[test]
fn without_a_browser_the_user_pastes_the_address() {
    let server = FakeAuthorization::start([]);
    let rack = rack(&server);
    let args = ["login", "guarded", "--no-browser", "--json"];
    let (mut child, mut stderr, page) = started(rack.command(&args));
    let back = follow(&page).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "https://elsewhere.example/?code=1\n{back}").unwrap();
    let mut rest = Vec::new();
    stderr.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let ran = Ran::new(&args, &Output { stderr: rest, ..output }, &rack).ends_with(0);
    assert!(ran.stderr.contains("That is another address"), "{ran}");
    assert_eq!((&ran.json()["server"], &ran.json()["renewable"]), (&json!("guarded"), &json!(true)));
}

/// The tokens are in the database, sealed, and nowhere else.
#[test]
fn no_token_is_printed_or_stored_in_plain_text() {
    let server = FakeAuthorization::start([]);
    let rack = rack(&server);
    let mut text = String::new();
    for args in [&["login", "guarded", "-vv"][..], &["login", "guarded", "-vv", "--account", "work"]] {
        let ran = signed_in(&rack, args).ends_with(0);
        text += &(ran.stdout + &ran.stderr);
    }
    server.expire_access_tokens();
    for args in [&["call", "guarded/echo", "text=x", "-vv"][..], &["auth", "status", "--json"], &["logs"], &["doctor"]]
    {
        let ran = rack.run(args);
        text += &(ran.stdout + &ran.stderr);
    }
    let mut files = Vec::new();
    collect(rack.home.root(), &mut files);
    let given = server.issued_secrets();
    assert!(given.len() >= 4, "{given:?}");
    for secret in given {
        assert!(!text.contains(&secret), "{secret} was printed: {text}");
        for (path, bytes) in &files {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} is in {path}");
        }
    }
}

fn collect(folder: &std::path::Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if let Ok(bytes) = std::fs::read(&path) {
            files.push((path.display().to_string(), bytes));
        }
    }
}

#[test]
fn a_server_s_mistake_in_a_sign_in_is_reported_and_no_page_is_opened() {
    for (wrong, code, exit) in [
        (AuthorizationFault::sends_users_to("javascript:alert(1)"), "SIGN_IN_UNSAFE_URL", 3),
        (AuthorizationFault::no_pkce(), "SIGN_IN_WITHOUT_PKCE", 3),
        (AuthorizationFault::NoRegistration, "SIGN_IN_NO_CLIENT", 3),
    ] {
        let server = FakeAuthorization::start([wrong]);
        let ran = rack(&server).run(&["login", "guarded", "--json"]).ends_with(exit);
        assert_eq!(ran.error()["code"], Value::from(code), "{ran}");
        assert!(!ran.stderr.contains("Sign in here"), "{ran}");
    }
}

#[test]
fn only_servers_with_a_url_are_signed_in_to() {
    let rack = Rack::with(&[
        ("local", crate::rack::fake(&[])),
        ("keyed", json!({ "url": "http://127.0.0.1:1/mcp", "headers": { "authorization": "Bearer x" } })),
    ]);
    let local = rack.run(&["login", "local"]).ends_with(2);
    assert!(local.stderr.contains("runs on this machine"), "{local}");
    let keyed = rack.run(&["login", "keyed"]).ends_with(2);
    assert!(keyed.stderr.contains("has an `Authorization` header"), "{keyed}");
    let _ = rack.run(&["login", "nobody"]).ends_with(2);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    rack.configure(&[("guarded", json!({ "url": "http://127.0.0.1:1/mcp" }))]);
    let refused = rack.run(&["login", "guarded", "--port", &port, "--json"]).ends_with(3);
    assert_eq!(refused.error()["code"], "SIGN_IN_NO_PORT", "{refused}");
    let ran = rack.run(&["login", "guarded", "--json"]).ends_with(4);
    assert_eq!(ran.error()["code"], "SIGN_IN_UNAVAILABLE", "{ran}");
    let message = ran.error()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("cannot sign in to `guarded` ([HOME]/toolrack/mcp.json): "), "{ran}");
}

/// The key comes from outside; no output and no stored file contains it.
#[test]
fn headers_of_a_helper_program_are_sent_and_never_shown() {
    let server = FakeAuthorization::start([]);
    let key = server.issue_token();
    let rack = Rack::new();
    let file = crate::rack::work_file(&rack, "key", &key);
    let script = format!("printf '{{\"Authorization\":\"Bearer %s\"}}' \"$(cat {})\"", file.display());
    let entry = json!({ "url": server.mcp_url(), "headers_helper": ["sh", "-c", script] });
    rack.configure(&[("guarded", entry.clone())]);
    let echoed = rack.run(&["call", "guarded/echo", &format!("text=it is {key}"), "-vv"]).ends_with(0);
    assert!(echoed.stdout.contains("it is ***"), "{echoed}");
    let mut output = echoed.stdout + &echoed.stderr;
    for args in [&["get", "guarded"][..], &["get", "guarded", "--json"], &["logs"], &["doctor"], &["audit", "list"]] {
        let ran = rack.run(args);
        output += &(ran.stdout + &ran.stderr);
    }
    assert!(output.contains("headers_helper") && !output.contains(&key), "{output}");
    let mut files = Vec::new();
    collect(&rack.home.root().join("toolrack"), &mut files);
    for (path, bytes) in &files {
        assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()), "it is in {path}");
    }

    // What a project brings is run when the user has agreed to it, and to this program.
    let rack = Rack::new();
    let ran = rack.home.work().join("ran");
    let project = |script: &str| {
        let entry = json!({ "url": server.mcp_url(), "headers_helper": ["sh", "-c", script] });
        crate::rack::work_file(&rack, ".mcp.json", &crate::rack::mcp_json(&[("guarded", entry)]));
    };
    project(&format!("touch {}; {script}", ran.display()));
    let pending = rack.run(&["pending"]);
    assert!(pending.stdout.contains("headers_helper"), "{pending}");
    let _ = rack.run(&["list"]);
    assert!(!ran.exists());
    let _ = rack.run(&["trust", "guarded", "--yes"]).ends_with(0);
    let _ = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(0);
    assert!(ran.exists());
    project(&script);
    let _ = rack.run(&["call", "guarded/echo", "text=x"]).ends_with(7);
}
