//! Servers in a sandbox, as an entry asks for it.

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::rack::{Rack, installed, mcp_json, work_file};

/// A fake server that first tries things, and says on stderr how they went.
fn curious(tries: &str, sandbox: &Value) -> Value {
    let script = format!(
        "try() {{ if \"$@\" >/dev/null 2>&1; then echo \"did: $*\"; else echo \"could not: $*\"; fi >&2; }}\n\
         {tries}\nexec \"$0\" stdio"
    );
    let folder = fake_server_path().parent().unwrap();
    let mut sandbox = sandbox.clone();
    if let Some(members) = sandbox.as_object_mut() {
        let read = members.entry("read").or_insert_with(|| json!([])).as_array_mut().unwrap();
        read.push(json!(folder));
    }
    json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "sandbox": sandbox })
}

mod needs_landlock {
    use super::*;

    #[test]
    fn a_server_in_a_sandbox_works_and_sees_nothing_of_the_home() {
        let rack = Rack::new();
        let root = rack.home.root().canonicalize().unwrap();
        let home = rack.home.home().canonicalize().unwrap();
        let secret = home.join(".ssh/id_x");
        std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
        std::fs::write(&secret, "canary").unwrap();
        let tries = format!(
            "try cat {0}/.ssh/id_x; try touch {0}/new; try touch here; try touch \"$HOME/mine\"; try touch \"$TMPDIR/t\"; \
             try cat {1}/toolrack/mcp.json; echo \"home: $HOME\" >&2",
            home.display(),
            root.display()
        );
        rack.configure(&[("box", curious(&tries, &json!({})))]);
        let ran = rack.run(&["call", "box/echo", "text=hello"]).ends_with(0);
        assert!(ran.stdout.contains("hello"), "{ran}");
        let logs = rack.run(&["logs", "box"]).ends_with(0).stdout;
        for line in [
            "could not: cat [HOME]/home/.ssh/id_x",
            "could not: touch [HOME]/home/new",
            "did: touch here",
            "could not: cat [HOME]/toolrack/mcp.json",
            "home: [HOME]/toolrack/sandbox/box-",
        ] {
            assert!(logs.contains(line), "{line}: {logs}");
        }
        assert_eq!(logs.matches("did: ").count(), 3, "{logs}");
        assert!(!home.join("new").exists());
    }

    #[test]
    fn a_server_with_too_many_processes_is_killed_with_that_reason() {
        let tries = "i=0; while [ $i -lt 64 ]; do sleep 100 & i=$((i+1)); done; sleep 100";
        let rack = Rack::with(&[("many", curious(tries, &json!({ "limits": { "processes": 8 } })))]);
        let ran = rack.run(&["call", "many/echo", "text=x"]).ends_with(4);
        assert!(ran.stderr.contains("more than 8 processes (sandbox.limits.processes)"), "{ran}");
    }

    #[test]
    fn a_sandbox_that_the_system_lacks_starts_nothing_and_doctor_says_why() {
        let rack = Rack::with(&[("box", curious("", &json!({ "write": ["/no/such/folder"] })))]);
        let error = rack.run(&["--json", "call", "box/echo", "text=x"]).ends_with(4).error();
        assert_eq!(error["code"], "SANDBOX_FAILED");
        let doctor = rack.run(&["doctor"]).ends_with(4);
        for words in ["landlock", "seccomp", "namespaces", "`sandbox.write` names /no/such/folder"] {
            assert!(doctor.stdout.contains(words), "{words}: {doctor}");
        }
    }

    mod needs_node {
        use super::*;

        #[test]
        fn a_real_server_of_node_works_in_a_sandbox() {
            let node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node").canonicalize().unwrap();
            let modules = installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules").canonicalize().unwrap();
            let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
            let sandbox = json!({ "read": [modules] });
            let direct = json!({ "command": node, "args": [script, "stdio"], "sandbox": sandbox });
            // As `npx` does it: a shell between, so that it is not the process that the server began as.
            let behind = json!({
                "command": "sh", "args": ["-c", "\"$0\" \"$@\"; exit $?", node, script, "stdio"], "sandbox": sandbox,
            });
            let rack = Rack::with(&[("direct", direct), ("behind", behind)]);
            for server in ["direct", "behind"] {
                let ran = rack.run(&["call", &format!("{server}/echo"), "message=hello"]).ends_with(0);
                assert!(ran.stdout.contains("hello"), "{ran}");
            }
        }
    }
}

#[test]
fn a_user_who_agrees_to_an_entry_sees_its_sandbox_and_a_change_of_it_waits_again() {
    let rack = Rack::new();
    let entry = |sandbox: &Value| curious("", sandbox);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", entry(&json!({ "connect": [5432] })))]));
    let pending = rack.run(&["pending", "theirs"]).ends_with(0);
    assert!(pending.stdout.contains("sandbox") && pending.stdout.contains("5432"), "{pending}");
    let _ = rack.run(&["trust", "theirs", "--yes"]).ends_with(0);
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", entry(&json!({ "connect": "any" })))]));
    let _ = rack.run(&["call", "theirs/echo", "text=x"]).ends_with(7);
}

#[test]
fn a_sandbox_that_is_not_understood_is_an_error_and_nothing_runs() {
    let rack = Rack::with(&[("box", curious("", &json!({ "conect": [443] })))]);
    let ran = rack.run(&["call", "box/echo", "text=x"]);
    assert_ne!(ran.code, Some(0), "{ran}");
    let shown = rack.run(&["config", "validate"]);
    assert!(shown.stderr.contains("`sandbox.conect` is not a known field"), "{shown}");
}
