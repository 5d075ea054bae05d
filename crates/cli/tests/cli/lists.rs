//! `list`, `tools`, `resources`, `prompts`, `read`, `prompt`, `why`.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::FakeHttp;

use crate::{
    rack::{Rack, fake},
    warm::kill,
};

fn mixed() -> Rack {
    Rack::with(&[
        ("fake", fake(&["--era", "both"])),
        ("old", fake(&["--era", "legacy"])),
        ("off", json!({ "command": "x", "enabled": false })),
        ("gone", json!({ "command": "/nonexistent/server" })),
        ("half", fake(&["--fault", "list-fails"])),
    ])
}

#[test]
fn a_broken_entry_is_listed_as_broken() {
    let rack = Rack::with(&[("broken", json!({ "command": 5 }))]);
    assert_snapshot!(rack.run(&["list"]), @r#"
        $ toolrack list
        x broken   ?       user      failed - `command` must be text, not a number
          configured in [HOME]/toolrack/mcp.json
        + builtin  native  built in  connected (5 tools)
        --- stderr ---
        [HOME]/toolrack/mcp.json:1:36: error: `broken`: `command` must be text, not a number
          1 | {"mcpServers":{"broken":{"command":5}}}
            |                                    ^
        [0]
    "#);
    assert_snapshot!(rack.run(&["list", "broken", "--json"]).stdout, @r#"{"servers":[{"name":"broken","state":"failed","transport":null,"era":null,"scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":false,"tools":0,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":"`command` must be text, not a number"}]}"#);
    assert_snapshot!(rack.run(&["tools", "broken"]), @r#"
        $ toolrack tools broken
        --- stderr ---
        [HOME]/toolrack/mcp.json:1:36: error: `broken`: `command` must be text, not a number
          1 | {"mcpServers":{"broken":{"command":5}}}
            |                                    ^
        error: the entry of `broken` is broken ([HOME]/toolrack/mcp.json:1)
        hint: correct the problems that are reported above
        [2]
    "#);
}

#[test]
fn every_server_is_listed_with_how_it_is() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["list"]), @"
        $ toolrack list
        + builtin  native  built in  connected (5 tools)
        + fake     stdio   user      connected (22 tools)
        x gone     stdio   user      failed - no such file: /nonexistent/server; check the path of the command
          configured in [HOME]/toolrack/mcp.json
        ! half     stdio   user      connected - tools failed - told to fail (error -32603)
          configured in [HOME]/toolrack/mcp.json
        o off      stdio   user      disabled
        + old      stdio   user      connected (22 tools)
        [0]
    ");
}

#[test]
fn the_list_for_programs_has_every_documented_field() {
    let rack = mixed();
    let document = rack.run(&["list", "--json"]).ends_with(0).json();
    let servers: Vec<_> = document["servers"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_snapshot!(servers.join("\n"), @r#"
        {"name":"builtin","state":"connected","transport":"native","era":"modern","scope":"built in","source":null,"enabled":true,"tools":5,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":null}
        {"name":"fake","state":"connected","transport":"stdio","era":"modern","scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":true,"tools":22,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":null}
        {"name":"gone","state":"failed","transport":"stdio","era":null,"scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":true,"tools":0,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":"no such file: /nonexistent/server; check the path of the command"}
        {"name":"half","state":"tools_failed","transport":"stdio","era":"legacy","scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":true,"tools":0,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":"told to fail (error -32603)"}
        {"name":"off","state":"disabled","transport":"stdio","era":null,"scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":false,"tools":0,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":null}
        {"name":"old","state":"connected","transport":"stdio","era":"legacy","scope":"user","source":"[HOME]/toolrack/mcp.json","enabled":true,"tools":22,"quarantined":[],"findings":{"count":0,"kinds":[]},"error":null}
    "#);
}

#[test]
fn a_list_is_narrowed_by_names() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["list", "off"]), @"
        $ toolrack list off
        o off  stdio  user  disabled
        [0]
    ");
    assert_snapshot!(rack.run(&["list", "fkae"]), @"
        $ toolrack list fkae
        --- stderr ---
        error: there is no server `fkae`
        hint: did you mean `fake`?
        [2]
    ");
}

#[test]
fn tools_of_a_named_server_that_is_not_there_end_with_its_reason() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["tools", "gone"]), @"
        $ toolrack tools gone
        --- stderr ---
        error: the server gone ([HOME]/toolrack/mcp.json) is not connected: no such file: /nonexistent/server; check the path of the command
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [4]
    ");
    assert_snapshot!(rack.run(&["tools", "half"]), @"
        $ toolrack tools half
        --- stderr ---
        error: `half` is connected, but its tools cannot be listed: told to fail (error -32603)
        [4]
    ");
}

#[test]
fn tools_of_all_servers_are_shown_although_some_are_not_there() {
    let rack = Rack::with(&[("gone", json!({ "command": "/nonexistent/server" }))]);
    assert_snapshot!(rack.run(&["tools"]), @"
        $ toolrack tools
        builtin (5 tools, about 0 tokens)
          current_time(timezone?: string)  [read-only]
              Tells the time of this machine.
          file_info(path: string)  [read-only]
              Tells kind, size, times and permissions of a file or folder.
          list_directory(path?: string)  [read-only]
              Lists a folder: one line per entry, as `[DIR] name`, `[FILE] name  size` or `[LINK] name`.
          read_text_file(path: string, head?: integer, tail?: integer)  [read-only]
              Reads a text file, whole or only its first or last lines. At most 1 MiB is shown.
          search_files(pattern: string, path?: string)  [read-only]
              Finds files and folders by name, down to 32 folders deep and at most 1,000 of them. Links are not followed.
        --- stderr ---
        warning: the server gone ([HOME]/toolrack/mcp.json) is not connected: no such file: /nonexistent/server; check the path of the command
        [0]
    ");
    let document = rack.run(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(document["tools"].as_array().unwrap().len(), 5);
    assert_eq!(document["warnings"].as_array().unwrap().len(), 1);
    assert_snapshot!(document["tools"][2], @r#"{"name":"mcp__builtin__list_directory","server":"builtin","tool":"list_directory","title":"List a folder","description":"Lists a folder: one line per entry, as `[DIR] name`, `[FILE] name  size` or `[LINK] name`.","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"path":{"description":"A folder, relative to the working folder. Default: the working folder itself.","type":"string","default":"."}},"type":"object"},"annotations":{"title":"List a folder","readOnlyHint":true,"idempotentHint":true,"openWorldHint":false},"tokens":0,"score":null,"policy":null}"#);
}

#[test]
fn an_unusable_tool_is_reported_and_affects_no_other_tool() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "bad-tool"]))]);
    let ran = rack.run(&["tools", "fake"]).ends_with(0);
    assert_snapshot!(ran.stderr, @"
        warning: `fake`: the tool bad_schema cannot be used: its inputSchema is not an object
        warning: `fake`: the tool (without a name) cannot be used: it cannot be read: missing field `name` at line 1 column 61
        warning: `fake`: the tool (without a name) cannot be used: it cannot be read: invalid type: integer `7`, expected an object at line 1 column 1
        not shown: 3 that cannot be used
    ");
    assert!(ran.stdout.contains("echo(text: string)"), "{ran}");
}

#[test]
fn a_tool_is_shown_in_full_under_every_name() {
    let rack = Rack::with(&[("fake", fake(&["--era", "both"]))]);
    rack.home.write("toolrack/toolrack.toml", "[policy]\ndeny = [\"fake/big\"]\n");
    assert_snapshot!(rack.run(&["tools", "fake/sleep"]), @"
        $ toolrack tools fake/sleep
        fake/sleep  mcp__fake__sleep
          Waits; with progress every 100 ms if `progress` is true and the request has a progress token.

          ms        a whole number  needed
          progress  true or false

        a model's call: confirm, because no rule allows it
        the server claims nothing about it
        [0]
    ");
    let shown = rack.run(&["tools", "fake/sleep"]).stdout;
    for name in ["fake.sleep", "sleep", "mcp__fake__sleep"] {
        assert_eq!(rack.run(&["tools", name]).ends_with(0).stdout, shown, "{name}");
    }
    let denied = rack.run(&["tools", "fake/big", "--json"]).ends_with(0).json();
    assert_eq!(denied["tools"].as_array().unwrap().len(), 1);
    assert_eq!(denied["tools"][0]["policy"]["verdict"], "deny", "{denied}");
    assert!(rack.run(&["tools", "fake/big", "--schema"]).stdout.contains("\n  \"properties\": {"));
    assert_snapshot!(Rack::new().run(&["tools", "builtin/read_text_file"]), @"
        $ toolrack tools builtin/read_text_file
        builtin/read_text_file  mcp__builtin__read_text_file  [read-only]
          Read a text file
          Reads a text file, whole or only its first or last lines. At most 1 MiB is shown.

          path  text            needed  A file, relative to the working folder.
          head  a whole number          Return only this many lines from the start.
          tail  a whole number          Return only this many lines from the end.

        a model's call: allow, because the rule allow `builtin/*`
        the server claims read_only = true, idempotent = true, open_world = false
        [0]
    ");
}

#[test]
fn an_unknown_tool_has_the_same_error_as_in_a_call() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let named = rack.run(&["tools", "fake/ehco"]).ends_with(5);
    assert_eq!(named.stderr, rack.run(&["call", "fake/ehco"]).ends_with(5).stderr);
    assert!(named.stderr.ends_with("hint: did you mean `fake/echo`?\n"), "{named}");
    for (word, meant) in [("ehco", "fake/echo"), ("fkae", "fake")] {
        let ran = rack.run(&["tools", word]).ends_with(2);
        let expected = format!("error: there is no server and no tool `{word}`\nhint: did you mean `{meant}`?\n");
        assert_eq!(ran.stderr, expected);
    }
    assert_snapshot!(rack.run(&["tools", "fake/echo", "fake"]), @"
        $ toolrack tools fake/echo fake
        --- stderr ---
        error: `fake/echo` is a tool, and one is shown at a time
        hint: toolrack tools fake/echo
        [2]
    ");
}

#[test]
fn schemas_are_shown_when_asked_for() {
    let rack = Rack::new();
    let ran = rack.run(&["tools", "builtin", "--schema"]).ends_with(0);
    assert!(ran.stdout.contains("\n        \"properties\": {"), "{ran}");
}

#[test]
fn resources_are_listed_and_read() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert_snapshot!(rack.run(&["resources"]), @"
        $ toolrack resources
        fake
          fake://note  [text/plain]
              note: A short text.
          fake://blob  [application/octet-stream]
              blob: Three bytes.
          fake://asked  [text/plain]
              asked: A text that the person is asked for.
          fake://note/{name}  [text/plain]
              named note: A text with a name.
        [0]
    ");
    assert_snapshot!(rack.run(&["read", "fake", "fake://note"]), @"
        $ toolrack read fake fake://note
        a note
        [0]
    ");
    assert_snapshot!(rack.run(&["read", "fake", "fake://note", "--json"]), @r#"
        $ toolrack read fake fake://note --json
        {"server":"fake","uri":"fake://note","contents":[{"uri":"fake://note","mimeType":"text/plain","text":"a note"}]}
        [0]
    "#);
    let _ = rack.run(&["read", "fake", "fake://nope"]).ends_with(5);
    let _ = rack.run(&["read", "nope", "fake://note"]).ends_with(2);
}

#[test]
fn prompts_are_listed_and_filled_in() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert_snapshot!(rack.run(&["prompts"]), @"
        $ toolrack prompts
        fake
          greet(name)
              Greets a person.
          asked()
              A prompt that the person is asked for.
        [0]
    ");
    assert_snapshot!(rack.run(&["prompt", "fake/greet", "name=Ada"]), @"
        $ toolrack prompt fake/greet name=Ada
        user:
        Say hello to Ada.
        [0]
    ");
    assert_snapshot!(rack.run(&["prompt", "fake/greet", "name=Ada", "--json"]), @r#"
        $ toolrack prompt fake/greet name=Ada --json
        {"server":"fake","prompt":"greet","description":null,"messages":[{"role":"user","content":{"type":"text","text":"Say hello to Ada."}}]}
        [0]
    "#);
    assert_snapshot!(rack.run(&["prompt", "greet"]), @"
        $ toolrack prompt greet
        --- stderr ---
        error: `greet` names no prompt: write server/prompt
        hint: `toolrack prompts` shows all prompts
        [2]
    ");
}

#[test]
fn resources_and_prompts_of_an_idle_server_are_listed_because_a_request_starts_it() {
    let mut entry = fake(&[]);
    entry["start"] = json!("lazy");
    let rack = Rack::with(&[("fake", entry)]);
    // Its tools are known from now on, so it is not started to list them.
    let _ = rack.run(&["tools", "fake"]).ends_with(0);
    assert_eq!(rack.run(&["list", "fake", "--json"]).json()["servers"][0]["state"], "idle");
    for (list, item) in [("resources", "fake://note"), ("prompts", "greet(name)")] {
        for args in [&[list, "fake"][..], &[list]] {
            let ran = rack.run(args).ends_with(0);
            assert!(ran.stdout.contains(item), "{ran}");
        }
    }
    rack.home.write("work/script.json", "[]");
    let typed = "/mcp\n/resources\n/prompts\n/quit\n";
    let ran = rack.run_with_stdin(&["chat", "--model", "mock/script.json"], typed).ends_with(0);
    for shown in ["idle", "fake://note", "greet(name)"] {
        assert!(ran.stdout.contains(shown), "{shown}: {ran}");
    }
}

#[test]
fn a_server_without_resources_and_prompts_has_none() {
    assert_snapshot!(Rack::new().run(&["resources"]), @"
        $ toolrack resources
        --- stderr ---
        there are no resources
        [0]
    ");
    assert_snapshot!(Rack::new().run(&["prompts", "builtin"]), @"
        $ toolrack prompts builtin
        --- stderr ---
        there are no prompts
        [0]
    ");
}

/// `toolrack read` with these words, and the lines that it prints.
fn followed(rack: &Rack, words: &[&str]) -> (std::process::Child, impl FnMut() -> String + use<>) {
    let mut child = rack.command(&[&["read"], words].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let next = move || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line
    };
    (child, next)
}

#[test]
fn a_followed_resource_is_printed_again_after_each_change_until_the_user_interrupts() {
    for era in ["legacy", "both"] {
        let server = FakeHttp::start(&["--era", era]);
        let rack = Rack::with(&[("fake", json!({ "url": server.url() }))]);
        for (option, line) in [("--follow", "a note\n"), ("--watch", "a note\n"), ("--json", "{\"server\":\"fake\"")] {
            let options: &[&str] = if option == "--json" { &["--follow", "--json"] } else { &[option] };
            let (mut child, mut next) = followed(&rack, &[&["fake", "fake://note"], options].concat());
            assert!(next().starts_with(line), "{era} {option}");
            for _ in 0..2 {
                let _ = rack.run(&["call", "fake/touch"]).ends_with(0);
                assert!(next().starts_with(line), "{era} {option}");
            }
            kill("INT", child.id());
            assert_eq!(child.wait().unwrap().code(), Some(130), "{era} {option}");
        }
    }
}

#[test]
fn a_resource_is_followed_no_longer_when_its_server_is_gone_and_not_at_all_without_subscriptions() {
    let server = FakeHttp::start(&["--era", "legacy"]);
    let rack = Rack::with(&[("fake", json!({ "url": server.url(), "retry": false }))]);
    let (mut child, mut next) = followed(&rack, &["fake", "fake://note", "--follow"]);
    assert_eq!(next(), "a note\n");
    drop(server);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let _ = rack.run(&["read", "builtin", "x://y", "--follow"]).ends_with(5);
}

#[test]
fn why_follows_a_tool_from_the_file_to_its_name() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["why", "fake/echo"]), @"
        $ toolrack why fake/echo
        fake/echo can be called
        + config       [HOME]/toolrack/mcp.json (user)
        + trust        trusted
        + start        connected
        + negotiation  2026-07-28 (modern era)
        + list         listed
        + filter       shown
        + name         models see it as mcp__fake__echo
        [0]
    ");
    assert_snapshot!(rack.run(&["why", "fake/nope"]), @"
        $ toolrack why fake/nope
        fake/nope cannot be called
        + config       [HOME]/toolrack/mcp.json (user)
        + trust        trusted
        + start        connected
        + negotiation  2026-07-28 (modern era)
        x list         the server lists 22 tools, and this is not one of them
        [5]
    ");
    assert_snapshot!(rack.run(&["why", "gone/x"]), @"
        $ toolrack why gone/x
        gone/x cannot be called
        + config  [HOME]/toolrack/mcp.json (user)
        + trust   trusted
        x start   no such file: /nonexistent/server; check the path of the command
        --- stderr ---
        error: the server gone ([HOME]/toolrack/mcp.json) is not connected: no such file: /nonexistent/server; check the path of the command
        hint: correct the entry in [HOME]/toolrack/mcp.json
        [4]
    ");
    assert_snapshot!(rack.run(&["why", "nope/x"]), @"
        $ toolrack why nope/x
        --- stderr ---
        error: there is no server `nope`
        hint: `toolrack list` shows all servers
        [5]
    ");
    assert_eq!(rack.run(&["why", "fake/echo", "--json"]).ends_with(0).json()["present"], true);
}

#[test]
fn why_accepts_every_name_that_call_accepts_and_fails_for_unknown_ones() {
    let rack = mixed();
    for (word, code, present) in [
        ("fake.echo", 0, true),
        ("mcp__fake__echo", 0, true),
        ("fake", 0, true),
        ("fake.nope", 5, false),
        ("nope", 5, false),
    ] {
        let ran = rack.run(&["why", word, "--json"]).ends_with(code);
        assert_eq!(ran.json()["present"], present, "{ran}");
    }
    let one = Rack::with(&[("fake", fake(&[]))]);
    let (called, why) = (one.run(&["call", "echo", "text=x"]), one.run(&["why", "echo", "--json"]));
    assert_eq!((called.code, why.code), (Some(0), Some(0)), "{called} {why}");
}
