//! `toolrack gateway` in front of a daemon that ends.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, fake, mcp_json, work_file},
    warm::Daemon,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// An MCP client of the older era.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    reading: Option<JoinHandle<()>>,
}

impl Client {
    pub(crate) fn of(rack: &Rack) -> Self {
        Self::start(rack.command(&["gateway"]))
    }

    /// Starts this gateway, and begins the conversation.
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        let reading = std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = send.send(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        let stdin = child.stdin.take();
        let mut client = Self { child, stdin, lines, reading: Some(reading) };
        client.say(&json!({ "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        } }));
        assert!(client.answer(0)["result"]["capabilities"]["tools"].is_object());
        client.say(&json!({ "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn call(&mut self, id: u32, tool: &str, arguments: &Value) {
        let params = json!({ "name": format!("mcp__fake__{tool}"), "arguments": arguments });
        self.say(&json!({ "id": id, "method": "tools/call", "params": params }));
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(LIMIT).expect("something is said")
    }

    fn until(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let next = self.next();
            if is_it(&next) {
                return next;
            }
        }
    }

    pub(crate) fn answer(&self, id: u32) -> Value {
        self.until(|message| message["id"] == id)
    }

    fn changed(&self) {
        self.until(|message| message["method"] == "notifications/prompts/list_changed");
    }

    /// Waits until the tool is there: a daemon that has just started may not have connected its server yet.
    fn echoes(&mut self, from: u32, text: &str) {
        for id in from..from + 300 {
            self.call(id, "echo", &json!({ "text": text }));
            let answer = self.answer(id);
            if answer["result"]["content"][0]["text"] == text {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it never answered");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

#[test]
fn a_client_survives_the_end_of_its_daemon_and_no_call_is_repeated() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    rack.home.write("toolrack/toolrack.toml", "[policy]\nallow = \"fake/*\"\n");
    let daemon = Daemon::start(&rack, &[]);
    let mut client = Client::of(&rack);
    client.echoes(1_000, "first");
    client.call(1, "sleep", &json!({ "ms": 600_000 }));
    let _running = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);

    // Killed, with a call under way.
    drop(daemon);
    let lost = client.answer(1);
    let message = lost["error"]["message"].as_str().unwrap();
    assert!(message.contains("it is not known whether this was carried out"), "{lost}");
    assert_eq!(lost["error"]["data"]["code"], "DAEMON_LOST");
    // Requests that come meanwhile wait.
    client.say(&json!({ "id": 2, "method": "tools/list" }));
    let next = Daemon::start(&rack, &[]);
    client.changed();
    assert!(client.answer(2)["result"]["tools"].is_array());
    client.echoes(2_000, "second");

    // No other one comes.
    drop(next);
    client.changed();
    client.echoes(3_000, "alone");
    assert_eq!(effects.read().runs_of("sleep"), 1, "the call was made twice");
    drop(client.stdin.take());
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_that_is_to_have_other_servers_shares_no_daemon() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    rack.home.write("toolrack/toolrack.toml", "[policy]\nallow = \"fake/*\"\n");
    let other = work_file(&rack, "other.json", &mcp_json(&[]));
    let (other, folder) = (other.to_str().unwrap(), rack.home.work());
    let _daemon = Daemon::start(&rack, &[]);
    let started = || effects.read().pids().into_iter().collect::<BTreeSet<_>>().len();
    let servers_of = |options: &[&str], variables: &[(&str, &str)]| {
        let before = started();
        let mut command = rack.command(&[&["gateway"], options].concat());
        command.envs(variables.iter().copied());
        Client::start(command).echoes(1_000, "here");
        started() - before
    };
    assert_eq!(servers_of(&[], &[]), 1, "the server of the daemon");
    assert_eq!(servers_of(&[], &[("TOOLRACK_NO_DAEMON", "0")]), 0, "the same server");
    for options in [
        &["--no-daemon"][..],
        &["--root", folder.to_str().unwrap()],
        &["--mcp-config", other],
        &["--mcp-config", r#"{ "mcpServers": {} }"#],
    ] {
        assert_eq!(servers_of(options, &[]), 1, "{options:?}");
    }
    assert_eq!(servers_of(&[], &[("TOOLRACK_NO_DAEMON", "1")]), 1);
}
