//! Commands that show and change the configuration: `get`, `remove`, `enable`, `disable`, `add-json`, `config`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::rack::{Rack, fake, mcp_json, work_file};

#[test]
fn get_shows_the_entry_and_its_file_without_secrets() {
    let rack = Rack::with(&[(
        "web",
        json!({ "url": "https://example.com/mcp?key=canary", "headers": { "A": "canary", "B": "${B}" }, "timeout": 5 }),
    )]);
    assert_snapshot!(rack.run(&["get", "web"]), @"
        $ toolrack get web
        + web  enabled  user [HOME]/toolrack/mcp.json:1
          contacts  https://example.com/mcp?key=***
          sends     A: ***
          sends     B: ${B}
          setting   startup_timeout = 5.0
        [0]
    ");
    let json = rack.run(&["get", "web", "--json"]).ends_with(0);
    assert!(!json.stdout.contains("canary"), "{json}");
    let json = json.json();
    assert_eq!(json["line"], 1);
    assert_eq!((&json["trusted"], &json["valid"], &json["enabled"]), (&json!(true), &json!(true), &json!(true)));
    assert_snapshot!(rack.run(&["get", "wbe"]), @"
        $ toolrack get wbe
        --- stderr ---
        error: there is no server `wbe`
        hint: did you mean `web`?
        [2]
    ");
}

#[test]
fn get_shows_hidden_entries_and_problems() {
    let rack = Rack::with(&[("fs", fake(&[]))]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("fs", json!({ "command": "x", "comand": "y" }))]));
    assert_snapshot!(rack.run(&["-q", "get", "fs"]), @"
        $ toolrack -q get fs
        = fs  pending approval  project [HOME]/work/.mcp.json:1
          runs      x
          in        [HOME]/work
          replaces the entry of [HOME]/toolrack/mcp.json (user)
          `comand` is not a known field
        [0]
    ");
}

#[test]
fn remove_takes_one_entry_and_leaves_every_other_byte() {
    let rack = Rack::new();
    let file = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }, // about a\n    \"b\": { \"command\": \"y\" }\n  },\n}\n";
    rack.home.write("toolrack/mcp.json", file);
    assert_snapshot!(rack.run(&["remove", "b", "--dry-run"]), @r#"
        $ toolrack remove b --dry-run
        --- [HOME]/toolrack/mcp.json
        +++ [HOME]/toolrack/mcp.json
        @@ -1,7 +1,6 @@
         {
           // mine
           "mcpServers": {
        -    "a": { "command": "x" }, // about a
        -    "b": { "command": "y" }
        +    "a": { "command": "x" } // about a
           },
         }
        [0]
    "#);
    assert_eq!(rack.home.read("toolrack/mcp.json"), file);
    assert_snapshot!(rack.run(&["remove", "b"]), @"
        $ toolrack remove b
        removed the server b from [HOME]/toolrack/mcp.json
        [0]
    ");
    let after = rack.home.read("toolrack/mcp.json");
    assert!(after.contains("// mine") && after.contains("\"a\": { \"command\": \"x\" }"), "{after}");
    assert!(!after.contains("\"b\""), "{after}");
}

#[test]
fn removing_an_unknown_entry_fails() {
    let rack = Rack::with(&[("github", json!({ "command": "x" }))]);
    assert_snapshot!(rack.run(&["remove", "gihub"]), @"
        $ toolrack remove gihub
        --- stderr ---
        error: there is no server `gihub`
        hint: did you mean `github`?
        [2]
    ");
    assert_snapshot!(rack.run(&["remove", "builtin"]), @"
        $ toolrack remove builtin
        --- stderr ---
        error: `builtin` is a part of toolrack and cannot be removed
        hint: toolrack disable builtin
        [2]
    ");
    let error = rack.run(&["remove", "nope", "--json"]).ends_with(2).error();
    assert_eq!(error["code"], "UNKNOWN_SERVER");
    assert_eq!(rack.run(&["remove", "github", "-s", "local", "--json"]).ends_with(2).error()["code"], "UNKNOWN_SERVER");
}

#[test]
fn a_name_that_is_configured_twice_needs_a_scope() {
    let rack = Rack::with(&[("fs", json!({ "command": "x" }))]);
    work_file(&rack, ".mcp.json", &mcp_json(&[("fs", json!({ "command": "y" }))]));
    assert_snapshot!(rack.run(&["remove", "fs"]), @"
        $ toolrack remove fs
        --- stderr ---
        error: `fs` is configured more than once: project, user
        hint: say which one: toolrack remove fs --scope project
        [2]
    ");
    assert_snapshot!(rack.run(&["remove", "fs", "--scope", "project"]), @"
        $ toolrack remove fs --scope project
        removed the server fs from [HOME]/work/.mcp.json
        --- stderr ---
        `fs` now means the entry of [HOME]/toolrack/mcp.json (user)
        [0]
    ");
}

#[test]
fn a_server_is_switched_off_and_on_where_it_is_configured() {
    let rack = Rack::with(&[("fs", fake(&[]))]);
    assert_snapshot!(rack.run(&["disable", "fs"]), @"
        $ toolrack disable fs
        disabled fs in [HOME]/toolrack/mcp.json
        [0]
    ");
    assert_snapshot!(rack.run(&["list", "fs"]), @"
        $ toolrack list fs
        o fs  stdio  user  disabled
        [0]
    ");
    assert_snapshot!(rack.run(&["disable", "fs"]), @"
        $ toolrack disable fs
        fs is disabled already, in [HOME]/toolrack/mcp.json
        [0]
    ");
    assert_snapshot!(rack.run(&["enable", "fs", "--dry-run"]), @r#"
        $ toolrack enable fs --dry-run
        --- [HOME]/toolrack/mcp.json
        +++ [HOME]/toolrack/mcp.json
        @@ -1,1 +1,1 @@
        -{"mcpServers":{"fs":{"command":"[FAKE]","args":["stdio"], "enabled": false}}}
        +{"mcpServers":{"fs":{"command":"[FAKE]","args":["stdio"], "enabled": true}}}
        [0]
    "#);
    let enabled = rack.run(&["enable", "fs", "--json"]).ends_with(0).json();
    assert_eq!(enabled["scope"], "user");
    assert!(rack.run(&["list", "fs"]).stdout.contains("connected"));
}

#[test]
fn the_built_in_server_can_be_switched_off() {
    let rack = Rack::new();
    let _ = rack.run(&["disable", "builtin"]).ends_with(0);
    assert_snapshot!(rack.run(&["call", "builtin/list_directory"]), @"
        $ toolrack call builtin/list_directory
        --- stderr ---
        error: the server builtin (built in) is not connected: it is disabled
        hint: toolrack enable builtin
        [2]
    ");
    let _ = rack.run(&["enable", "builtin"]).ends_with(0);
    assert!(!rack.home.read("toolrack/mcp.json").contains("builtin"), "no entry is left in the file");
    let _ = rack.run(&["call", "builtin/list_directory"]).ends_with(0);
}

#[test]
fn disabling_a_project_s_server_changes_only_the_user_s_own_file_and_keeps_the_trust() {
    let rack = Rack::new();
    let file = mcp_json(&[("theirs", fake(&[]))]);
    work_file(&rack, ".mcp.json", &file);
    let _ = rack.run(&["trust", "--yes"]).ends_with(0);
    let off = rack.run(&["disable", "theirs", "--json"]).ends_with(0).json();
    assert_eq!(off["scope"], "local");
    assert_eq!(rack.home.read("work/.mcp.json"), file);
    assert_eq!(rack.run(&["list", "theirs", "--json"]).json()["servers"][0]["state"], "disabled");
    let _ = rack.run(&["enable", "theirs"]).ends_with(0);
    assert_eq!(rack.run(&["list", "theirs", "--json"]).json()["servers"][0]["state"], "connected");

    // With `--scope project` the shared file changes. The user who changes the entry trusts it, so it stays trusted.
    let _ = rack.run(&["disable", "theirs", "--scope", "project"]).ends_with(0);
    assert!(rack.home.read("work/.mcp.json").contains("enabled"));
    let got = rack.run(&["get", "theirs", "--json"]).json();
    assert_eq!((&got["trusted"], &got["enabled"]), (&json!(true), &json!(false)));
}

#[test]
fn removing_a_switched_server_of_a_project_leaves_nothing_behind() {
    let rack = Rack::new();
    work_file(&rack, ".mcp.json", &mcp_json(&[("theirs", fake(&[]))]));
    let _ = rack.run(&["disable", "theirs"]).ends_with(0);
    let _ = rack.run(&["remove", "theirs"]).ends_with(0);
    let left = rack.run(&["list"]).ends_with(0);
    assert!(!format!("{}{}", left.stdout, left.stderr).contains("theirs"), "{left}");
}

#[test]
fn json_of_every_shape_is_added() {
    let rack = Rack::new();
    let entry = fake(&[]).to_string();
    assert_snapshot!(rack.run(&["add-json", "one", &entry]), @r#"
        $ toolrack add-json one {"command":"[FAKE]","args":["stdio"]}
        added the stdio server one to [HOME]/toolrack/mcp.json
        + one  stdio  user  connected (22 tools)
        [0]
    "#);
    let file = mcp_json(&[("two", fake(&[]))]);
    let _ = rack.run_with_stdin(&["add-json", "two", "-"], &file).ends_with(0);
    work_file(&rack, "server.json", &entry);
    let _ = rack.run(&["add-json", "three", "@server.json", "--no-test"]).ends_with(0);
    let names: Vec<_> = rack.run(&["list", "--json"]).json()["servers"].as_array().unwrap().to_vec();
    let names: Vec<_> = names.iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["builtin", "one", "three", "two"]);
}

#[test]
fn json_that_is_not_a_server_is_refused_with_the_reason() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["add-json", "x", "{"]), @"
        $ toolrack add-json x {
        --- stderr ---
        error: the entry of `x` is not JSON: EOF while parsing an object at line 1 column 1
        [2]
    ");
    assert_snapshot!(rack.run(&["add-json", "x", r#"{ "command": "x", "url": "https://x" }"#]), @r#"
        $ toolrack add-json x { "command": "x", "url": "https://x" }
        --- stderr ---
        error: `x` cannot be added: both `command` and `url` are given
        [2]
    "#);
    let two = mcp_json(&[("a", fake(&[])), ("b", fake(&[]))]);
    assert_snapshot!(rack.run_with_stdin(&["add-json", "x", "-"], &two), @"
        $ toolrack add-json x -
        --- stderr ---
        error: the JSON has several servers, and none of them is called `x`
        hint: add them one by one, each by its name
        [2]
    ");
    assert!(!rack.home.root().join("toolrack/mcp.json").exists());
}

#[test]
fn add_dry_run_shows_the_change_and_writes_nothing() {
    let rack = Rack::with(&[("fs", json!({ "command": "x", "env": { "TOKEN": "canary" } }))]);
    let before = rack.home.read("toolrack/mcp.json");
    let ran = rack.run(&["add", "--dry-run", "-e", "KEY=canary", "--tools", "read_*", "new", "--", "npx", "-y", "srv"]);
    assert!(!ran.stdout.contains("canary") && ran.stdout.contains("+++"), "{ran}");
    assert!(ran.stdout.contains("read_*"), "{ran}");
    assert_eq!(rack.home.read("toolrack/mcp.json"), before);
    let _ = rack.run(&["add", "--replace", "--no-test", "fs", "--", "y"]).ends_with(0);
    assert!(!rack.home.read("toolrack/mcp.json").contains("canary"));
}

#[test]
fn a_variable_without_a_value_is_read_from_stdin_and_never_shown() {
    let rack = Rack::new();
    let args = ["add", "--no-test", "-e", "TOKEN", "-e", "OTHER=${OTHER}", "fs", "--", "x"];
    let ran = rack.run_with_stdin(&args, "canary-value\n").ends_with(0);
    assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{ran}");
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    assert_eq!(file["mcpServers"]["fs"]["env"], json!({ "TOKEN": "${secret:fs.TOKEN}", "OTHER": "${OTHER}" }));
    let secrets = rack.run(&["secret", "list"]).ends_with(0);
    assert!(secrets.stdout.contains("fs.TOKEN"), "{secrets}");
    let plain = [&["add", "--plain", "--replace"][..], &args[1..]].concat();
    let _ = rack.run_with_stdin(&plain, "canary-value\n").ends_with(0);
    assert!(rack.home.read("toolrack/mcp.json").contains("canary-value"));
    let error = rack.run_with_stdin(&args, "").ends_with(2);
    assert!(error.stderr.contains("no value for `TOKEN` was given"), "{error}");
}

#[test]
fn a_secret_given_to_add_is_sealed_unless_the_user_wants_it_in_the_file() {
    let rack = Rack::new();
    let file = || -> Value { serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap() };
    let args = ["--no-test", "-e", "API_TOKEN=canary-1", "-e", "LEVEL=3", "fs", "--", "x", "--password=canary-2"];
    let ran = rack.run(&[&["add"], &args[..]].concat()).ends_with(0);
    assert!(![&ran.stdout, &ran.stderr].iter().any(|text| text.contains("canary")), "{ran}");
    assert!(ran.stderr.contains("fs.API_TOKEN"), "{ran}");
    assert!(!rack.home.read("toolrack/mcp.json").contains("canary"), "{}", file());
    assert_eq!(file()["mcpServers"]["fs"]["env"], json!({ "API_TOKEN": "${secret:fs.API_TOKEN}", "LEVEL": "3" }));
    let entry =
        r#"{ "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer canary-3", "Accept": "y" } }"#;
    let _ = rack.run(&["add-json", "--no-test", "web", entry]).ends_with(0);
    let headers = json!({ "Authorization": "Bearer ${secret:web.Authorization}", "Accept": "y" });
    assert_eq!(file()["mcpServers"]["web"]["headers"], headers);
    let _ = rack.run(&[&["add", "--plain", "--replace"], &args[..]].concat()).ends_with(0);
    let _ = rack.run(&["add-json", "--plain", "--replace", "--no-test", "web", entry]).ends_with(0);
    let text = rack.home.read("toolrack/mcp.json");
    assert!(["canary-1", "canary-2", "canary-3"].iter().all(|canary| text.contains(canary)), "{text}");
}

#[test]
fn a_bearer_token_comes_from_a_variable() {
    let rack = Rack::new();
    let args = ["add", "--no-test", "web", "https://example.com/mcp", "--bearer-token-env", "DOCS_TOKEN"];
    let _ = rack.run(&args).ends_with(0);
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    assert_eq!(file["mcpServers"]["web"]["headers"]["Authorization"], "Bearer ${DOCS_TOKEN}");
    let ran = rack.run(&["add", "w", "https://x", "-H", "authorization: x", "--bearer-token-env", "T"]).ends_with(2);
    assert!(ran.stderr.contains("set the same header: give one of them"), "{ran}");
}

#[test]
fn config_path_names_every_file_that_is_read() {
    let rack = Rack::with(&[]);
    assert_snapshot!(rack.run(&["config", "path", "--scope", "user"]), @"
        $ toolrack config path --scope user
        [HOME]/toolrack/mcp.json
        [0]
    ");
    let files = rack.run(&["config", "path", "--json"]).ends_with(0).json();
    let shown: Vec<_> = files["files"].as_array().unwrap().iter().map(|file| file["scope"].as_str().unwrap()).collect();
    assert_eq!(shown, ["user", "user", "project", "project", "project", "local", "local"]);
    assert_eq!(files["files"][1]["exists"], true);
}

#[test]
fn config_validate_shows_every_mistake_with_its_place() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["config", "validate"]), @"
        $ toolrack config validate
        0 files read, 1 server configured, 0 errors and 0 warnings
        [0]
    ");
    work_file(&rack, "odd.json", "{ \"mcpServers\": { \"fs\": { \"command\": \"x\", \"argz\": [] } } }");
    assert_snapshot!(rack.run(&["config", "validate", "odd.json"]), @r#"
        $ toolrack config validate odd.json
        1 file read, 1 server configured, 0 errors and 1 warning
        --- stderr ---
        [HOME]/work/odd.json:1:43: warning: `fs`: `argz` is not a known field
          1 | { "mcpServers": { "fs": { "command": "*", "argz": [] } } }
            |                                           ^^^^^^
          hint: did you mean `args`?
        [0]
    "#);
    let _ = rack.run(&["config", "validate", "odd.json", "--strict"]).ends_with(2);
    rack.home.write("toolrack/mcp.json", "{ \"mcpServers\": { \"fs\": 1 } ");
    let ran = rack.run(&["config", "validate", "--json"]).ends_with(2).json();
    assert_eq!(ran["valid"], false);
    assert_eq!(ran["problems"][0]["line"], 1);
}

#[test]
fn config_show_names_the_file_of_each_entry() {
    let rack = Rack::with(&[("fs", json!({ "command": "x", "args": ["--token", "canary"] }))]);
    assert_snapshot!(rack.run(&["config", "show"]), @"
        $ toolrack config show
        + builtin  enabled  built in

        + fs  enabled  user [HOME]/toolrack/mcp.json:1
          runs      x --token '***'
        [0]
    ");
    let shown = rack.run(&["config", "show", "--json"]).ends_with(0).json();
    assert_eq!(shown["servers"].as_array().unwrap().len(), 2);
    assert_eq!(shown["problems"], json!([]));
}

#[test]
fn list_fails_on_request_when_something_is_down() {
    let rack = Rack::with(&[("fs", json!({ "command": "/nonexistent/server" }))]);
    let _ = rack.run(&["list"]).ends_with(0);
    let _ = rack.run(&["list", "--exit-code"]).ends_with(4);
    let _ = rack.run(&["list", "builtin", "--exit-code"]).ends_with(0);
    let _ = rack.run(&["disable", "fs"]).ends_with(0);
    let _ = rack.run(&["list", "--exit-code"]).ends_with(0);
}

#[test]
fn tools_can_be_searched() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert_snapshot!(rack.run(&["tools", "--search", "repeat the text that I gave", "--limit", "2"]), @"
        $ toolrack tools --search repeat the text that I gave --limit 2
        fake/echo(text: string)  [read-only]
            Returns the text that it was given.
        builtin/read_text_file(path: string, head?: integer, tail?: integer)  [read-only]
            Reads a text file, whole or only its first or last lines. At most 1 MiB is shown.
        [0]
    ");
    let found = rack.run(&["tools", "fake", "--search", "repaet text", "--json"]).ends_with(0).json();
    assert_eq!(found["tools"][0]["tool"], "echo");
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.0);
    assert_eq!(rack.run(&["tools", "fake", "--json"]).ends_with(0).json()["tools"][0]["score"], json!(null));
}

#[test]
fn a_search_without_results_gets_a_suggestion() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert_snapshot!(rack.run(&["tools", "--search", "xecho"]), @"
        $ toolrack tools --search xecho
        --- stderr ---
        no tool fits `xecho`; did you mean `fake/echo`?
        [0]
    ");
    assert_snapshot!(rack.run(&["tools", "--search", "xylophone"]), @"
        $ toolrack tools --search xylophone
        --- stderr ---
        no tool fits `xylophone`
        [0]
    ");
    let found = rack.run(&["tools", "fake", "--search", "\u{1b}[2Jxylophone", "--json"]).ends_with(0).json();
    assert_eq!(found["tools"], json!([]));
    assert_eq!(found["warnings"], json!([r"no tool fits `\u{1b}[2Jxylophone`"]));
    let _ = rack.run(&["tools", "--limit", "3"]).ends_with(2);
}

#[test]
fn only_validate_and_doctor_report_fields_of_other_programs() {
    let mut entry = fake(&[]);
    entry["x-other"] = json!(1);
    entry["timeuot"] = json!(5);
    entry["args"].as_array_mut().unwrap().push(json!("${secret:key}"));
    let rack = Rack::with(&[("a", entry)]);
    let _ = rack.run_with_stdin(&["secret", "set", "key"], "--tools=2").ends_with(0);
    let list = rack.run(&["list"]);
    assert!(!list.stderr.contains("`x-other`") && !list.stderr.contains("`ps`"), "{list}");
    assert!(list.stderr.contains("did you mean `timeout`?"), "{list}");
    let validate = rack.run(&["config", "validate"]).ends_with(0);
    assert!(validate.stderr.contains("`x-other`") && validate.stderr.contains("`ps`"), "{validate}");
    let doctor = rack.run(&["doctor", "--offline"]);
    assert!(doctor.stdout.contains("x-other") && doctor.stdout.contains("`ps`"), "{doctor}");
}
