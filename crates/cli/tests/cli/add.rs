//! `toolrack add`

use insta::assert_snapshot;
use toolrack_testkit::{FakeHttp, fake_server_path};

use crate::rack::{Rack, work_file};

fn fake() -> &'static str {
    fake_server_path().to_str().unwrap()
}

#[test]
fn add_understands_three_usual_command_lines() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "dashes", "--", fake(), "stdio"]), @"
        $ toolrack add dashes -- [FAKE] stdio
        added the stdio server dashes to [HOME]/toolrack/mcp.json
        + dashes  stdio  user  connected (22 tools)
        [0]
    ");
    assert_snapshot!(rack.run(&["add", "plain", "-e", "A=1", fake(), "stdio", "--era", "both"]), @"
        $ toolrack add plain -e A=1 [FAKE] stdio --era both
        added the stdio server plain to [HOME]/toolrack/mcp.json
        + plain  stdio  user  connected (22 tools)
        [0]
    ");
    let server = FakeHttp::start::<&str>(&[]);
    let ran = rack.run(&["add", "url", server.url(), "-H", "X-Key: ${KEY:-k}"]).ends_with(0);
    assert!(ran.stdout.contains("added the http server url"), "{ran}");
    let written = rack.home.read("toolrack/mcp.json").replace(fake(), "[FAKE]").replace(server.url(), "[URL]");
    assert_snapshot!(written, @r#"
        {
          "mcpServers": {
            "dashes": {
              "type": "stdio",
              "command": "[FAKE]",
              "args": ["stdio"]
            },
            "plain": {
              "type": "stdio",
              "command": "[FAKE]",
              "args": ["stdio", "--era", "both"],
              "env": {
                "A": "1"
              }
            },
            "url": {
              "type": "http",
              "url": "[URL]",
              "headers": {
                "X-Key": "${KEY:-k}"
              }
            }
          }
        }
    "#);
}

#[test]
fn an_address_is_not_taken_for_a_program() {
    let rack = Rack::new();
    for (word, message) in [
        ("ftp://example.com/mcp", "must begin with http:// or https://"),
        ("wss://example.com/mcp", "must begin with http:// or https://"),
        ("example.com/mcp", "write https://example.com/mcp"),
        ("localhost:8080/mcp", "http://localhost:8080/mcp"),
        ("localhost:8080", "http://localhost:8080"),
        ("[::1]:80/x", "http://[::1]:80/x"),
    ] {
        let ran = rack.run(&["add", "v", word, "--no-test"]).ends_with(2);
        assert!(ran.stderr.contains(message), "{ran}");
    }
    assert!(!rack.home.root().join("toolrack/mcp.json").exists());
    work_file(&rack, "example.com/mcp", "");
    for words in [
        &["add", "a", "--no-test", "example.com/mcp"][..],
        &["add", "b", "--no-test", "--", "localhost:8080/mcp"],
        &["add", "c", "--no-test", "bin/server.py"],
        &["add", "d", "--no-test", "./server.sh"],
        &["add", "e", "HTTP://127.0.0.1:9/x", "--no-test"],
    ] {
        let _ = rack.run(words).ends_with(0);
    }
    let get = rack.run(&["get", "e", "--json"]).ends_with(0).json();
    assert_eq!((&get["entry"]["type"], &get["valid"]), (&"http".into(), &true.into()), "{get}");
}

#[test]
fn a_server_that_does_not_work_is_written_all_the_same() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "gone", "--", "/nonexistent/server"]), @"
        $ toolrack add gone -- /nonexistent/server
        added the stdio server gone to [HOME]/toolrack/mcp.json
        --- stderr ---
        error: the server gone ([HOME]/toolrack/mcp.json) is not connected: no such file: /nonexistent/server; check the path of the command
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [4]
    ");
    assert_snapshot!(rack.run(&["add", "later", "--no-test", "--", "/nonexistent/server"]), @"
        $ toolrack add later --no-test -- /nonexistent/server
        added the stdio server later to [HOME]/toolrack/mcp.json
        [0]
    ");
    assert_snapshot!(rack.run(&["list", "gone", "later"]), @"
        $ toolrack list gone later
        x gone   stdio  user  failed - no such file: /nonexistent/server; check the path of the command
          configured in [HOME]/toolrack/mcp.json
        x later  stdio  user  failed - no such file: /nonexistent/server; check the path of the command
          configured in [HOME]/toolrack/mcp.json
        [0]
    ");
}

#[test]
fn a_name_that_is_taken_is_refused_and_nothing_is_lost() {
    let rack = Rack::new();
    let before = "{\n  // mine\n  \"mcpServers\": { \"fs\": { \"command\": \"x\" } }, // keep\n}\n";
    rack.home.write("toolrack/mcp.json", before);
    assert_snapshot!(rack.run(&["add", "fs", "--", "y"]), @"
        $ toolrack add fs -- y
        --- stderr ---
        error: `fs` is already configured in [HOME]/toolrack/mcp.json: choose another name, remove it first, or replace it
        hint: `--replace` puts the new entry in its place
        [2]
    ");
    assert_eq!(rack.home.read("toolrack/mcp.json"), before);
    let _ = rack.run(&["add", "other", "--no-test", "--", "y"]).ends_with(0);
    let after = rack.home.read("toolrack/mcp.json");
    assert!(after.contains("// mine") && after.contains("// keep") && after.contains("\"other\""), "{after}");
}

#[test]
fn an_entry_for_the_project_is_trusted_for_the_user_who_added_it() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "-s", "project", "ours", "--", fake(), "stdio"]), @"
        $ toolrack add -s project ours -- [FAKE] stdio
        added the stdio server ours to [HOME]/work/.mcp.json
        + ours  stdio  project  connected (22 tools)
        [0]
    ");
    let changed = rack.home.read("work/.mcp.json").replace("\"stdio\"]", "\"stdio\", \"--era\", \"both\"]");
    work_file(&rack, ".mcp.json", &changed);
    let _ = rack.run(&["call", "ours/echo", "text=x"]).ends_with(7);
}

#[test]
fn a_local_entry_is_stored_among_the_user_s_own_files() {
    let rack = Rack::new();
    let ran = rack.run(&["--json", "add", "-s", "local", "mine", "--", fake(), "stdio"]).ends_with(0).json();
    assert!(ran["path"].as_str().unwrap().starts_with("[HOME]/toolrack/projects/"), "{ran}");
    assert_eq!(ran["server"]["state"], "connected");
    assert_eq!(ran["scope"], "local");
}

#[test]
fn arguments_of_add_that_contradict_each_other_are_refused() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "a/b", "--", "x"]), @"
        $ toolrack add a/b -- x
        --- stderr ---
        error: `a/b` cannot be a server name: `/` separates server and tool
        [2]
    ");
    assert_snapshot!(rack.run(&["add", "url", "https://example.com", "-e", "A=1"]), @"
        $ toolrack add url https://example.com -e A=1
        --- stderr ---
        error: `url` cannot be added: `env` means nothing to a server of type `http`
        [2]
    ");
    assert_snapshot!(rack.run(&["add", "url", "https://example.com", "more"]), @"
        $ toolrack add url https://example.com more
        --- stderr ---
        error: unexpected argument 'more' found

        Usage: toolrack add NAME URL [OPTIONS]

        For more information, try '--help'.
        [2]
    ");
    assert_snapshot!(rack.run(&["add", "x", "--tpyo", "y"]), @"
        $ toolrack add x --tpyo y
        --- stderr ---
        error: unexpected argument '--tpyo'; a command that begins with `-` goes after `--`
        hint: toolrack add --help
        [2]
    ");
    assert!(!rack.home.toolrack_home().join("mcp.json").exists());
}

#[test]
fn a_program_that_is_not_a_server_is_added_with_a_hint() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "cat", "--", "cat"]), @"
        $ toolrack add cat -- cat
        added the stdio server cat to [HOME]/toolrack/mcp.json
        --- stderr ---
        error: the server cat ([HOME]/toolrack/mcp.json) is not connected: initialize is not supported (error -32601)
        hint: check that the program or url of the entry in [HOME]/toolrack/mcp.json is an MCP server; correct or remove the entry
        [4]
    ");
    let _ = rack.run(&["get", "cat"]).ends_with(0);
}

#[test]
fn a_command_in_one_word_is_split_with_a_note() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add", "fs", "npx -y pkg", "--no-test"]), @"
        $ toolrack add fs npx -y pkg --no-test
        --- stderr ---
        error: `npx -y pkg` is one word with spaces in it, and no program has that name
        hint: write the program and each of its arguments as words of their own, and options of `add` before the name
        [2]
    ");
    assert_snapshot!(rack.run(&["add", "--no-test", "fs", "npx -y '@scope/a pkg'"]), @"
        $ toolrack add --no-test fs npx -y '@scope/a pkg'
        added the stdio server fs to [HOME]/toolrack/mcp.json
        --- stderr ---
        `npx -y '@scope/a pkg'` was one word: the program is `npx`, and the rest its arguments
        [0]
    ");
    let get = rack.run(&["get", "fs", "--json"]).ends_with(0).json();
    assert_eq!((&get["entry"]["command"], &get["entry"]["args"][1]), (&"npx".into(), &"@scope/a pkg".into()), "{get}");
    // If a program has this name, the word is not split.
    work_file(&rack, "my server", "");
    let _ = rack.run(&["add", "--no-test", "mine", "./my server"]).ends_with(0);
    assert_eq!(rack.run(&["get", "mine", "--json"]).json()["entry"]["command"], "./my server");
    for unclear in ["npx -y 'open", "/nonexistent/my server"] {
        let ran = rack.run(&["add", "--no-test", "odd", unclear]).ends_with(2);
        assert!(ran.stderr.contains("is one word with spaces in it"), "{ran}");
    }
}

#[test]
fn what_only_a_shell_understands_is_refused_with_a_hint() {
    let rack = Rack::new();
    for words in [
        &["API_TOKEN=hunter2 npx -y pkg"][..],
        &["API_TOKEN=hunter2", "npx", "-y", "pkg"],
        &["API_TOKEN=https://u:hunter2@h/db", "npx", "-y", "pkg"],
        &["--", "API_TOKEN=x/hunter2 npx -y pkg"],
        &["API_TOKEN='hunter2 npx"],
    ] {
        let ran = rack.run(&[&["add", "--no-test", "x"][..], words].concat()).ends_with(2);
        assert!(ran.stderr.contains("sets a variable") && ran.stderr.contains("-e API_TOKEN=VALUE"), "{ran}");
        assert!(!ran.stderr.contains("hunter2"), "{ran}");
    }
    for line in ["npx -y pkg | tee log", "cd /x && npx pkg", "npx pkg;", "npx pkg 2> log"] {
        let ran = rack.run(&["add", "--no-test", "x", line]).ends_with(2);
        assert!(ran.stderr.contains("no shell runs the command"), "{ran}");
    }
    let _ = rack.run(&["add", "--no-test", "x", "--", "sh", "-c", "npx pkg | tee log"]).ends_with(0);
    let _ = rack.run(&["add", "--no-test", "y", "sh -c 'cd /x; npx pkg;'"]).ends_with(0);
}

#[test]
fn an_address_is_never_a_program_and_odd_names_are_refused() {
    let rack = Rack::new();
    for words in [
        &["add", "--no-test", "-t", "stdio", "web", "https://example.com/mcp"][..],
        &["add", "--no-test", "web", "--", "https://example.com/mcp"],
    ] {
        let ran = rack.run(words).ends_with(2);
        assert!(ran.stderr.contains("is an address, not a program"), "{ran}");
    }
    let ran = rack.run(&["add-json", "web", r#"{ "command": "https://example.com/mcp" }"#]).ends_with(2);
    assert!(ran.stderr.contains("write it as `url`"), "{ran}");
    assert_snapshot!(rack.run(&["add", "bad name!", "--", "x"]), @"
        $ toolrack add bad name! -- x
        --- stderr ---
        error: `bad name!` is not a name for a server: a name has only letters, digits and `_-.@:`, and does not begin with `-`
        hint: call it `bad-name`
        [2]
    ");
    assert_snapshot!(rack.run(&["add", "-e", "BAD NAME=1", "x", "--", "x"]), @"
        $ toolrack add -e BAD NAME=1 x -- x
        --- stderr ---
        error: invalid value 'BAD NAME=1' for '--env <NAME[=VALUE]>': the name of an environment variable has letters, digits and `_`, and begins with no digit

        For more information, try '--help'.
        [2]
    ");
    assert_snapshot!(rack.run(&["add"]), @"
        $ toolrack add
        --- stderr ---
        error: nothing says what to add: there is no name, and no command or URL
        hint: toolrack add NAME -- COMMAND [ARGUMENT]..., toolrack add NAME URL, or toolrack add --help
        [2]
    ");
    assert!(!rack.home.toolrack_home().join("mcp.json").exists());
}
