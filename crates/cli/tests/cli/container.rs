//! Servers in containers, as an entry asks for it.

#![cfg(target_os = "linux")]

mod podman;
mod stand_in;

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::rack::{Rack, mcp_json, work_file};
use stand_in::{StandIn, lives};

/// The entry of a fake server with these options in a container.
fn contained(options: &[&str], container: &Value) -> Value {
    let args = [&["stdio"], options].concat();
    json!({ "command": fake_server_path(), "args": args, "container": container })
}

/// A home whose `docker` is the stand-in.
fn rack(engine: &StandIn, servers: &[(&str, Value)]) -> Rack {
    let rack = Rack::new().with_folder_on_path(&engine.programs());
    let rack = rack.env("DOCKER_CONFIG", engine.state().to_str().unwrap());
    rack.configure(servers);
    rack
}

fn docker(image: &str) -> Value {
    json!({ "image": image, "engine": "docker" })
}

/// A call that never ends, of a server that only `SIGKILL` can end.
fn endless(rack: &Rack) -> Child {
    let mut command = rack.command(&["call", "box/sleep", "ms=600000"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

const STUBBORN: &[&str] = &["--fault", "ignore-eof", "--fault", "ignore-term"];

#[test]
fn a_server_in_a_container_gets_its_variables_and_nothing_else_and_no_value_is_on_a_command_line() {
    let engine = StandIn::new();
    let mut entry = contained(&[], &docker("fake"));
    entry["env"] = json!({ "MY_TOKEN": "canary-in-env", "GREETING": "hello" });
    let rack = rack(&engine, &[("box", entry)]).env("OTHER_TOKEN", "canary-of-the-person");
    let ran = rack.run(&["call", "box/env", "name=GREETING"]).ends_with(0);
    assert!(ran.stdout.contains("hello"), "{ran}");
    let names = rack.run(&["call", "box/env"]).ends_with(0).stdout;
    assert!(names.contains("MY_TOKEN"), "{names}");
    for name in ["PATH", "HOME", "DOCKER_CONFIG", "OTHER_TOKEN"] {
        assert!(!names.contains(name), "{name}: {names}");
    }
    let calls = engine.calls();
    assert!(!calls.contains("canary"), "{calls}");
    for word in [
        "--rm",
        "--interactive",
        "--init",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--network=none",
        "--read-only",
        "--tmpfs=/tmp",
        "--pids-limit=128",
        "--memory=1073741824b",
        "--log-driver=none",
        "--pull=missing",
        "--env=MY_TOKEN",
        "--label=dev.toolrack.server=box",
        "--name toolrack-box-",
    ] {
        assert!(calls.contains(word), "{word}: {calls}");
    }
    assert!(engine.containers().is_empty(), "{calls}");
}

#[test]
fn container_options_reach_the_engine() {
    let engine = StandIn::new();
    let container = json!({
        "image": "fake", "engine": "docker", "network": "bridge", "mounts": ["~/a,b:/a", "/srv/conf:/conf:rw"], "read_only": false,
        "tmpfs": ["/tmp", "/cache"], "user": "1000:1000", "pull": "never",
        "limits": { "memory": "64MiB", "processes": 16, "cpus": 1.5 },
    });
    let rack = rack(&engine, &[("box", contained(&[], &container))]);
    let _ = rack.run(&["call", "box/echo", "text=x"]).ends_with(0);
    let calls = engine.calls();
    let home = rack.home.home();
    let mounted = format!("--mount=type=bind,\"source={}/a,b\",target=/a,readonly", home.display());
    for word in [
        "--network=bridge",
        &mounted,
        "--mount=type=bind,source=/srv/conf,target=/conf ",
        "--tmpfs=/cache",
        "--user=1000:1000",
        "--pull=never",
        "--memory=67108864b",
        "--pids-limit=16",
        "--cpus=1.500",
    ] {
        assert!(calls.contains(word), "{word}: {calls}");
    }
    assert!(!calls.contains("--read-only"), "{calls}");
}

/// Waits until the server has received the call. If it were killed earlier, the host would restart it, or it would end
/// by itself.
fn in_a_call(engine: &StandIn) -> (Rack, Child) {
    let log = engine.state().join("heard");
    let options = [STUBBORN, &["--log-all", "--log", log.to_str().unwrap()]].concat();
    let rack = rack(engine, &[("box", contained(&options, &docker("fake")))]);
    let host = endless(&rack);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(&log).is_ok_and(|heard| heard.contains("tools/call")) {
        assert!(Instant::now() < deadline, "no call came: {}", engine.calls());
        std::thread::sleep(Duration::from_millis(5));
    }
    (rack, host)
}

#[test]
fn no_container_survives_a_killed_host() {
    let engine = StandIn::new();
    let (_rack, mut host) = in_a_call(&engine);
    let server = engine.process();
    host.kill().unwrap();
    host.wait().unwrap();
    engine.wait_until_empty();
    assert!(!lives(server));
}

#[test]
fn a_container_whose_server_does_not_end_is_gone_when_the_command_is() {
    let engine = StandIn::new();
    let mut entry = contained(STUBBORN, &docker("fake"));
    entry["shutdown_timeout"] = json!("100ms");
    let rack = rack(&engine, &[("box", entry)]);
    let _ = rack.run(&["call", "box/echo", "text=x"]).ends_with(0);
    assert!(engine.containers().is_empty(), "{}", engine.calls());
    assert!(engine.calls().contains("rm --force --volumes toolrack-box-"), "{}", engine.calls());
}

#[test]
fn no_container_survives_a_killed_supervisor() {
    let engine = StandIn::new();
    let (_rack, mut host) = in_a_call(&engine);
    let supervisor = supervisor_of(host.id());
    let killed = std::process::Command::new("kill").args(["-KILL", &supervisor.to_string()]).status().unwrap();
    assert!(killed.success());
    host.wait().unwrap();
    assert!(engine.containers().is_empty(), "{}", engine.calls());
}

/// The child of `host` that supervises its server.
fn supervisor_of(host: u32) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let children = fs::read_to_string(format!("/proc/{host}/task/{host}/children")).unwrap_or_default();
        let all =
            fs::read_dir(format!("/proc/{host}/task")).unwrap().flatten().map(|task| task.path().join("children"));
        let all: String =
            all.filter_map(|path| fs::read_to_string(path).ok()).collect::<Vec<_>>().join(" ") + &children;
        let is_supervisor = |pid: &&str| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("__toolrack-supervise"))
        };
        if let Some(pid) = all.split_whitespace().find(is_supervisor) {
            return pid.parse().unwrap();
        }
        assert!(Instant::now() < deadline, "no supervisor: {all}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn fetching_an_image_ends_with_startup_timeout_and_leaves_nothing() {
    let engine = StandIn::new();
    let mut entry = contained(&[], &docker("slow"));
    entry["startup_timeout"] = json!("300ms");
    let rack = rack(&engine, &[("box", entry)]);
    let error = rack.run(&["--json", "call", "box/echo", "text=x"]).error();
    assert_eq!(error["code"], "TIMED_OUT");
    assert!(error["message"].as_str().unwrap().contains("Unable to find image 'slow' locally"), "{error}");
    assert!(engine.containers().is_empty());
}

#[test]
fn an_unavailable_image_is_an_error_with_the_next_step() {
    let engine = StandIn::new();
    let rack = rack(&engine, &[("box", contained(&[], &docker("missing")))]);
    let ran = rack.run(&["call", "box/echo", "text=x"]).ends_with(4);
    for words in ["its image is not on this machine and cannot be pulled", "pull access denied", "pull it by hand"] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
}

#[test]
fn without_an_engine_nothing_starts_and_the_error_says_so() {
    let empty = tempfile::tempdir().unwrap();
    let rack = Rack::new().env("PATH", empty.path().to_str().unwrap());
    rack.configure(&[("box", contained(&[], &json!("fake"))), ("dock", contained(&[], &docker("fake")))]);
    let error = rack.run(&["--json", "call", "box/echo", "text=x"]).ends_with(4).error();
    assert_eq!(error["code"], "CONTAINER_FAILED");
    assert!(error["message"].as_str().unwrap().contains("neither podman nor docker"), "{error}");
    let doctor = rack.run(&["doctor", "dock"]).ends_with(4);
    for words in ["docker is not on the PATH", "install podman or docker"] {
        assert!(doctor.stdout.contains(words), "{words}: {doctor}");
    }
}

#[test]
fn the_doctor_tells_of_engine_and_image() {
    let engine = StandIn::new();
    let pinned = "fake@sha256:".to_owned() + &"0a".repeat(32);
    let never = json!({ "image": "missing", "engine": "docker", "pull": "never" });
    let rack = rack(
        &engine,
        &[
            ("tag", contained(&[], &docker("fake"))),
            ("pinned", contained(&[], &docker(&pinned))),
            ("never", contained(&[], &never)),
        ],
    );
    let ran = rack.run(&["doctor", "--offline", "tag"]).ends_with(0);
    for words in ["docker 28.2.2 answers, rootless", "it has no digest", "write \"image\": \"fake@sha256:0123\""] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    let ran = rack.run(&["doctor", "--offline", "pinned"]).ends_with(0);
    assert!(!ran.stdout.contains("digest") && ran.stdout.contains("is here"), "{ran}");
    let ran = rack.run(&["doctor", "--offline", "never"]).ends_with(4);
    assert!(ran.stdout.contains("docker pull missing"), "{ran}");
}

#[test]
fn a_user_who_agrees_to_an_entry_sees_its_container_and_a_change_of_it_waits_again() {
    let engine = StandIn::new();
    let rack = rack(&engine, &[]);
    let entry = |image: &str| {
        let container = json!({ "image": image, "engine": "docker", "mounts": ["~/notes:/notes"] });
        json!({ "args": ["--fast"], "container": container })
    };
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", entry("fake"))]));
    let pending = rack.run(&["pending", "theirs"]).ends_with(0);
    for words in ["the command of its image --fast", "fake", "~/notes:/notes:ro", "\"network\":\"none\""] {
        assert!(pending.stdout.contains(words), "{words}: {pending}");
    }
    assert!(engine.calls().is_empty(), "the engine is not used before the user agreed");
    let _ = rack.run(&["trust", "theirs", "--yes"]).ends_with(0);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", entry("other"))]));
    let _ = rack.run(&["call", "theirs/echo", "text=x"]).ends_with(7);
    assert!(engine.calls().is_empty());
}

#[test]
fn a_link_to_the_socket_of_an_engine_is_not_mounted() {
    let engine = StandIn::new();
    let rack = rack(&engine, &[]);
    let _socket = std::os::unix::net::UnixListener::bind(rack.home.root().join("engine")).unwrap();
    std::os::unix::fs::symlink(rack.home.root().join("engine"), rack.home.home().join("harmless")).unwrap();
    let container = json!({ "image": "fake", "engine": "docker", "mounts": ["~/harmless:/x"] });
    rack.configure(&[("box", contained(&[], &container))]);
    let ran = rack.run(&["call", "box/echo", "text=x"]).ends_with(4);
    assert!(ran.stderr.contains("would give the server control of the whole machine"), "{ran}");
    assert!(engine.calls().is_empty());
}

#[test]
fn a_link_that_a_server_could_have_made_in_a_mount_is_not_mounted() {
    let engine = StandIn::new();
    let rack = rack(&engine, &[]);
    let shared = rack.home.home().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(rack.home.home(), shared.join("data")).unwrap();
    let mounts = ["~/shared:/shared:rw", "~/shared/data:/data"];
    rack.configure(&[("box", contained(&[], &json!({ "image": "fake", "engine": "docker", "mounts": mounts })))]);
    let ran = rack.run(&["call", "box/echo", "text=x"]).ends_with(4);
    assert!(ran.stderr.contains("a server could have made that link"), "{ran}");
    assert!(engine.calls().is_empty());
}

mod needs_docker {
    use super::*;

    /// Docker's own client, configured to ask a daemon that does not exist.
    #[test]
    fn a_silent_daemon_and_a_server_that_ends_have_different_errors() {
        let rack = Rack::with(&[("box", contained(&[], &docker("fake")))]);
        let nobody = format!("unix://{}/nobody.sock", rack.home.root().display());
        let rack = rack.env("DOCKER_HOST", nobody);
        let ran = rack.run(&["call", "box/echo", "text=x"]).ends_with(4);
        assert!(ran.stderr.contains("the engine is installed, but does not run"), "{ran}");
        let doctor = rack.run(&["doctor", "--offline", "box"]).ends_with(4);
        assert!(doctor.stdout.contains("is installed and does not answer"), "{doctor}");
    }
}
