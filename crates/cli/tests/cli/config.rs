//! Configurations that are broken, half or hostile.

use insta::assert_snapshot;
use serde_json::json;

use crate::rack::{Rack, fake, mcp_json, work_file};

#[test]
fn a_file_that_cannot_be_read_is_shown_with_the_place() {
    let rack = Rack::new();
    rack.home.write(
        "toolrack/mcp.json",
        "{\n  \"mcpServers\": {\n    \"fs\": { \"command\": \"x\" \"args\": [] }\n  }\n}\n",
    );
    assert_snapshot!(rack.run(&["list"]), @r#"
        $ toolrack list
        + builtin  native  built in  connected (5 tools)
        --- stderr ---
        [HOME]/toolrack/mcp.json:3:27: error: this is not JSON: expected comma
          3 |     "fs": { "command": "*" "****": [] }
            |                           ^
          hint: this file is ignored until it can be read
        [0]
    "#);
    let error = rack.run(&["call", "fs/x", "--json"]).ends_with(2).error();
    assert_eq!(error["message"], "there is no server `fs` in the files that could be read");
}

#[test]
fn one_bad_entry_costs_only_itself() {
    let rack = Rack::with(&[("good", fake(&[])), ("bad", json!({ "command": "x", "url": "http://x" }))]);
    let ran = rack.run(&["call", "good/echo", "text=x"]).ends_with(0);
    assert_eq!(ran.stdout, "x");
    assert!(ran.stderr.contains("mcp.json:1:"), "{ran}");
    assert_snapshot!(rack.run(&["-q", "call", "bad/x"]).ends_with(2).stderr.lines().last().unwrap(), @"hint: correct the problems that are reported above");
}

#[test]
fn a_file_that_was_named_must_be_usable() {
    let rack = Rack::new();
    work_file(&rack, "broken.json", "{");
    assert_snapshot!(rack.run(&["--mcp-config", "nope.json", "list"]), @"
        $ toolrack --mcp-config nope.json list
        --- stderr ---
        error: [HOME]/work/nope.json: the file does not exist
        [2]
    ");
    let error = rack.run(&["--json", "--mcp-config", "broken.json", "list"]).ends_with(2).error();
    assert_eq!(error["code"], "CONFIG");
    assert!(error["message"].as_str().unwrap().contains("broken.json:1:1"), "{error}");
}

#[test]
fn files_that_are_named_add_to_the_others() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    work_file(&rack, "more.json", &mcp_json(&[("more", fake(&[]))]));
    assert_snapshot!(rack.run(&["--mcp-config", "more.json", "list"]), @"
        $ toolrack --mcp-config more.json list
        + builtin  native  built in      connected (5 tools)
        + fake     stdio   user          connected (22 tools)
        + more     stdio   command line  connected (22 tools)
        [0]
    ");
}

#[test]
fn a_variable_without_a_value_is_named_and_ends_with_2() {
    let rack = Rack::with(&[("fs", json!({ "command": "x", "env": { "KEY": "${NO_SUCH_VARIABLE}" } }))]);
    assert_snapshot!(rack.run(&["call", "fs/x"]), @"
        $ toolrack call fs/x
        --- stderr ---
        error: the server fs ([HOME]/toolrack/mcp.json) is not connected: `env.KEY`: the environment variable `NO_SUCH_VARIABLE` is not set; set it, write `${NO_SUCH_VARIABLE:-default}`, or write `$$` if a plain dollar sign is meant
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [2]
    ");
}

#[test]
fn secrets_of_a_configuration_appear_nowhere() {
    let server = json!({ "command": "/nonexistent/server", "args": ["--token", "canary"], "env": { "KEY": "canary" } });
    let rack =
        Rack::with(&[("fs", server), ("web", json!({ "url": "http://127.0.0.1:9/", "headers": { "A": "canary" } }))]);
    for args in
        [["list"].as_slice(), &["list", "--json"], &["-vv", "list"], &["tools"], &["why", "fs/x"], &["call", "web/x"]]
    {
        let ran = rack.run(args);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{ran}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_a_warning() {
    let rack = Rack::new();
    rack.home.write("toolrack/toolrack.db", "no database");
    let ran = rack.run(&["call", "builtin/list_directory"]).ends_with(0);
    assert!(ran.stderr.contains("toolrack.db is damaged"), "{ran}");
    assert_eq!(rack.run(&["-q", "call", "builtin/list_directory"]).stderr, "");
}

#[test]
fn an_agent_has_servers_of_its_own_on_top_of_those_of_all_agents() {
    let rack = Rack::new();
    let command = toolrack_testkit::fake_server_path().display();
    rack.home.write(
        "toolrack/toolrack.toml",
        format!(
            "unset = \"empty\"\n[[defaults.mcp]]\nname = \"all\"\ncommand = \"{command}\"\nargs = [\"stdio\"]\n\
             env = {{ KEY = \"${{NO_SUCH_VARIABLE}}\" }}\n\
             [[agents]]\nid = \"coder\"\n[[agents.mcp]]\nname = \"own\"\ncommand = \"{command}\"\nargs = [\"stdio\"]\n"
        ),
    );
    assert_snapshot!(rack.run(&["list"]), @"
        $ toolrack list
        + all      stdio   user      connected (22 tools)
        + builtin  native  built in  connected (5 tools)
        [0]
    ");
    assert_snapshot!(rack.run(&["--agent", "coder", "list"]), @"
        $ toolrack --agent coder list
        + all      stdio   user      connected (22 tools)
        + builtin  native  built in  connected (5 tools)
        + own      stdio   user      connected (22 tools)
        [0]
    ");
    // Nothing runs for an agent that is not configured, because its rules are unknown.
    for words in [&["call", "all/echo", "text=x"][..], &["list"], &["tools"], &["policy", "list"]] {
        let ran = rack.run(&[&["--agent", "codr"], words].concat()).ends_with(2);
        assert_eq!(ran.stdout, "", "{ran}");
        assert!(ran.stderr.contains("no agent is called `codr`") && ran.stderr.contains("`coder`"), "{ran}");
    }
}

#[test]
fn with_strict_every_command_fails_when_an_entry_is_broken() {
    let rack = Rack::with(&[("good", fake(&[])), ("bad", json!({ "command": 1 }))]);
    for words in
        [&["list"][..], &["tools", "good"], &["call", "good/echo", "message=x"], &["trust"], &["secret", "list"]]
    {
        let ran = rack.run(&[words, &["--strict"]].concat()).ends_with(2);
        assert!(ran.stderr.contains("mcp.json") && ran.stderr.contains("--strict"), "{ran}");
    }
    let _ = rack.run(&["list"]).ends_with(0);
    rack.configure(&[("good", fake(&[]))]);
    let _ = rack.run(&["list", "--strict"]).ends_with(0);
}
