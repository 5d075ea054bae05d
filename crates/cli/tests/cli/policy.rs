//! Rules about calls, their verdict on a call, and standing answers of users.

use std::fs;

use serde_json::{Value, json};
use toolrack_host::{Answers as _, DefinitionHash, NewAnswer, Principal, ServerName, Way, principal::Kind};
use toolrack_store::Store;
use toolrack_testkit::EffectLog;

use crate::{
    rack::{Rack, Ran, fake, mcp_json, work_file},
    sessions::{block_on, database},
    terminal::Terminal,
    warm::Daemon,
};

/// A home with these rules and the server `fake`, and the log of what its tools did.
fn ruled(rules: &str) -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    rack.home.write("toolrack/toolrack.toml", rules);
    (rack, effects)
}

/// Asks a model that makes these calls.
fn mock(rack: &Rack, calls: &[(&str, Value)], args: &[&str]) -> Ran {
    script(rack, calls);
    rack.run(&[&["ask", "--model", "mock/script.json"], args, &["go"]].concat())
}

fn script(rack: &Rack, calls: &[(&str, Value)]) {
    let calls = calls
        .iter()
        .map(|(tool, input)| json!({ "tool_calls": [{ "name": format!("mcp__fake__{tool}"), "input": input }] }));
    let answers: Vec<_> = calls.chain([json!({ "text": "done" })]).collect();
    work_file(rack, "script.json", &json!(answers).to_string());
}

fn decisions(rack: &Rack) -> Vec<String> {
    let rows = rack.run(&["audit", "list", "-n", "1000", "--json"]).ends_with(0).json();
    let calls = rows["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "call");
    calls.map(|row| format!("{}: {}", row["decision"].as_str().unwrap(), row["why"].as_str().unwrap())).collect()
}

const RULES: &str = r#"[policy]
allow = ["fake/add", "fake/write"]
deny = "fake/echo"

[[policy.rules]]
deny = "fake/write"
arguments.path = "/etc/*"
"#;

#[test]
fn the_rules_of_a_file_apply_to_models_and_to_typed_calls() {
    let (rack, effects) = ruled(RULES);
    let calls = [
        ("add", json!({ "a": 1, "b": 2 })),
        ("write", json!({ "path": "/tmp/x" })),
        ("write", json!({ "path": "/etc/x" })),
    ];
    let _ = mock(&rack, &calls, &[]).ends_with(0);
    assert_eq!((effects.read().runs_of("add"), effects.read().runs_of("write")), (1, 1));
    let _ = rack.run(&["call", "fake/write", "path=y"]).ends_with(0);
    for typed in [["call", "fake/write", "path=/etc/x"], ["call", "fake/echo", "text=x"]] {
        let refused = rack.run(&typed).ends_with(6);
        assert!(refused.stderr.contains("(toolrack.toml:"), "{refused}");
    }
    // A typed rule does not allow what a file forbids.
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &["--allow", "*"]).ends_with(0);
    let _ = rack.run(&["--strict-mcp-config", "--mcp-config", "none.json", "list"]);
    assert_eq!((effects.read().runs_of("echo"), effects.read().runs_of("write")), (0, 2));
    assert_eq!(
        decisions(&rack),
        [
            "allowed: the rule allow `fake/add` (toolrack.toml:2)",
            "allowed: the rule allow `fake/write` (toolrack.toml:2)",
            "denied: the rule deny `fake/write` (toolrack.toml:6)",
            "allowed: the rule allow `fake/write` (toolrack.toml:2)",
            "denied: the rule deny `fake/write` (toolrack.toml:6)",
            "denied: the rule deny `fake/echo` (toolrack.toml:3)",
            "denied: the rule deny `fake/echo` (toolrack.toml:3)",
        ]
    );
}

#[test]
fn a_typed_call_runs_unless_a_rule_requires_the_user_to_confirm() {
    let (rack, effects) = ruled("[policy]\nconfirm = \"fake/write\"\n");
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(0);
    let refused = rack.run(&["call", "fake/write", "path=a"]).ends_with(6);
    assert!(refused.stderr.contains("no user can be asked"), "{refused}");
    assert_eq!(effects.read().runs_of("write"), 0);
    let (rack, _effects) = ruled("[policy]\notherwise = \"deny\"\nallow_read_only = true\n");
    let _ = rack.run(&["call", "fake/write", "path=a"]).ends_with(6);
    let _ = rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0);
}

#[test]
fn a_mistake_in_the_rules_is_shown_with_its_place_and_nothing_runs() {
    let (rack, effects) = ruled("[policy]\nallow = \"fake/*\"\ndenny = \"fake/write\"\n");
    let refused = rack.run(&["call", "fake/write", "path=a"]).ends_with(6);
    assert!(refused.stderr.contains("toolrack.toml:3:1: error: `policy.denny` is not a known key"), "{refused}");
    assert!(refused.stderr.contains("`[policy]` has errors (toolrack.toml:3)"), "{refused}");
    assert_eq!(effects.read().runs_of("write"), 0);
    let _ = rack.run(&["config", "validate"]).ends_with(2);
}

#[test]
fn a_project_forbids_and_cannot_allow() {
    let (rack, _effects) = ruled("[policy]\notherwise = \"deny\"\nallow = [\"fake/add\", \"fake/echo\"]\n");
    fs::create_dir_all(rack.home.work().join(".toolrack")).unwrap();
    work_file(&rack, ".toolrack/toolrack.toml", "[policy]\nallow = \"*\"\nconfirm = \"fake/echo\"\n");
    let ran = rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0);
    assert!(ran.stderr.contains("a project can forbid calls"), "{ran}");
    let _ = rack.run(&["call", "fake/write", "path=a"]).ends_with(6);
    let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(6);
    let tested = rack.run(&["policy", "test", "fake/echo", "--client", "cli", "--json"]).ends_with(0).json();
    assert_eq!((&tested["verdict"], &tested["rules"][1]["only_stricter"]), (&json!("confirm"), &json!(true)));
}

#[test]
fn policy_test_names_the_deciding_rule_with_its_line_and_why_others_do_not_decide() {
    let (rack, effects) = ruled(RULES);
    let page = rack.run(&["policy", "test", "fake/write", "path=/etc/passwd"]).ends_with(0).stdout;
    assert!(page.starts_with("fake/write: deny, because the rule deny `fake/write` (toolrack.toml:6)\n"), "{page}");
    assert!(page.contains("a rule that denies wins") && page.contains("decides"), "{page}");
    assert!(page.contains("the server's claims about it are not known"), "{page}");
    let json = |words: &[&str]| rack.run(&[&["policy", "test", "--json"], words].concat()).ends_with(0).json();
    let tested = json(&["fake/write", "path=notes"]);
    assert_eq!((&tested["verdict"], &tested["annotations"]), (&json!("allow"), &Value::Null));
    let fates: Vec<_> = tested["rules"].as_array().unwrap().iter().map(|rule| rule["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["silent", "decides"]);
    assert_eq!(tested["rules"][0]["because"], "the arguments differ");
    assert!(effects.read().runs().is_empty() && effects.read().pids().is_empty(), "nothing is started");

    assert_eq!(json(&["fake/delete"])["verdict"], "confirm");
    assert_eq!(json(&["fake/delete", "--client", "cli"])["verdict"], "allow");
    assert_eq!(json(&["builtin/read_file", "path=a"])["verdict"], "allow");
    assert_eq!(json(&["builtin/list_directory"])["annotations"]["readOnlyHint"], true);
    let _ = rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0);
    assert_eq!(json(&["fake/write"])["annotations"]["destructiveHint"], true);
    let _ = rack.run(&["policy", "test", "fake"]).ends_with(2);
    let _ = rack.run(&["policy", "test", "none/tool"]).ends_with(2);
    let _ = rack.run(&["policy", "test", "fake/write", "--client", "me"]).ends_with(2);

    let listed = rack.run(&["policy", "list"]).ends_with(0).stdout;
    assert_eq!(listed.lines().count(), 5, "{listed}");
    assert!(
        listed.contains("toolrack/toolrack.toml:6") && listed.contains("everything else needs an approval"),
        "{listed}"
    );
}

/// The end of the question about a call.
const RUN_IT: &str = "[e]dit [?] ";

/// The server `fake` behind a script, so that its definitions can change while its entry stays the same.
fn changing(says: &str) -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    let rack = Rack::new().env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    write_server(&rack, &effects, says);
    rack.home.write(
        "toolrack/mcp.json",
        mcp_json(&[("fake", json!({ "command": "sh", "args": [rack.home.work().join("server.sh")] }))]),
    );
    (rack, effects)
}

fn write_server(rack: &Rack, effects: &EffectLog, says: &str) {
    let program = toolrack_testkit::fake_server_path().display().to_string();
    let script = format!("{program} stdio --log {} | sed -u 's/Returns the text/{says}/g'\n", effects.path_str());
    work_file(rack, "server.sh", &script);
}

/// A model calls `echo` at a terminal, and the user gives these answers.
fn answering(rack: &Rack, answers: &[&str]) -> String {
    script(rack, &[("echo", json!({ "text": "x" }))]);
    let mut terminal = Terminal::run(rack, &["ask", "--model", "mock/script.json", "go"]);
    for answer in answers {
        terminal.expect(RUN_IT);
        terminal.type_in(&format!("{answer}\n"));
    }
    let (shown, code) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    shown
}

/// Looks at the tools as they are now, and agrees to `echo`.
fn approve(rack: &Rack) {
    let _ = rack.run(&["tools", "fake"]).ends_with(0);
    let approved = rack.run(&["trust", "approve", "fake/echo", "--yes"]).ends_with(0);
    assert!(approved.to_string().contains("fake/echo"), "{approved}");
}

#[test]
fn always_is_for_good_until_the_tool_changes_or_it_is_taken_back() {
    let (rack, effects) = changing("Returns the text");
    answering(&rack, &["a"]);
    answering(&rack, &[]);
    // The answer is also valid where no user can be asked.
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(0);
    let _ = mock(&rack, &[("write", json!({ "path": "x" }))], &[]).ends_with(6);
    assert_eq!((effects.read().runs_of("echo"), effects.read().runs_of("write")), (3, 0));
    let listed = rack.run(&["policy", "answers", "--json"]).ends_with(0).json();
    assert_eq!(listed["answers"].as_array().unwrap().len(), 1);
    assert_eq!((&listed["answers"][0]["tool"], &listed["answers"][0]["way"]), (&json!("echo"), &json!("agent")));
    let tested = rack.run(&["policy", "test", "fake/echo", "--json"]).ends_with(0).json();
    assert_eq!((&tested["verdict"], &tested["answer"]["tool"]), (&json!("confirm"), &json!("echo")));

    // Approving another definition does not approve its calls.
    write_server(&rack, &effects, "Sends the text away");
    approve(&rack);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(6);
    write_server(&rack, &effects, "Returns the text");
    approve(&rack);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(0);

    let _ = rack.run(&["policy", "forget", "fake/echo"]).ends_with(0);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(6);
    let _ = rack.run(&["policy", "forget", "fake/echo"]).ends_with(2);
    let why = decisions(&rack);
    assert!(why[0].starts_with("confirmed: no rule allows it; always, for this tool"), "{why:?}");
    assert!(why[1].starts_with("remembered: a user said `always` on 2"), "{why:?}");
    assert!(why[6].starts_with("unasked: "), "{why:?}");
}

#[test]
fn the_answer_of_a_member_is_not_shown_for_the_calls_of_others() {
    let (rack, _effects) = ruled("");
    let store_answer = |principal: Option<&Principal>| {
        let server = ServerName::new("fake").unwrap();
        let tools = [("echo".to_owned(), DefinitionHash::from_bytes([1; 32]))];
        let (fingerprint, by) = ("a", Way::Gateway);
        block_on(async {
            let store = Store::open(database(&rack)).await.unwrap();
            let answer = NewAnswer { server: &server, fingerprint, tools: &tools, of_server: false, principal, by };
            assert!(store.remember(answer).await);
            store.close().await;
        });
    };
    let tested = || rack.run(&["policy", "test", "fake/echo", "--json"]).ends_with(0).json()["answer"].clone();
    store_answer(Some(&Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap()));
    assert_eq!(tested(), Value::Null);
    store_answer(None);
    assert_eq!(tested()["member"], Value::Null);
    assert_eq!(tested()["tool"], "echo");
}

#[test]
fn no_answer_overrides_a_rule_and_one_for_the_session_ends_with_it() {
    let (rack, effects) = changing("Returns the text");
    answering(&rack, &["t"]);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(6);
    answering(&rack, &["s"]);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" })), ("write", json!({ "path": "x" }))], &[]).ends_with(0);
    rack.home.write("toolrack/toolrack.toml", "[policy]\ndeny = \"fake/write\"\n");
    let _ = mock(&rack, &[("write", json!({ "path": "x" }))], &[]).ends_with(0);
    assert_eq!((effects.read().runs_of("echo"), effects.read().runs_of("write")), (3, 1));
    let _ = rack.run(&["policy", "forget", "--all"]).ends_with(0);
    let _ = mock(&rack, &[("echo", json!({ "text": "x" }))], &[]).ends_with(6);
}

#[test]
fn edited_arguments_are_checked_and_judged_before_they_are_taken() {
    let (rack, effects) = changing("Returns the text");
    rack.home.write("toolrack/toolrack.toml", "[[policy.rules]]\ndeny = \"*\"\narguments.text = \"secret*\"\n");
    script(&rack, &[("echo", json!({ "text": "x" }))]);
    let mut terminal = Terminal::run(&rack, &["ask", "--model", "mock/script.json", "go"]);
    terminal.expect(RUN_IT);
    terminal.type_in("e");
    for (typed, expected) in [
        ("{\"text\": 5}", "the tool does not take these arguments"),
        ("{\"text\": \"secret plan\"}", "it is not allowed: the rule deny `*` (toolrack.toml:2)"),
        ("{\"text\": \"plan\"}", "\"text\": \"plan\""),
    ] {
        terminal.expect("as JSON");
        terminal.type_in(&format!("{typed}\n"));
        terminal.expect(expected);
    }
    terminal.expect(RUN_IT);
    terminal.type_in("y\n");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(effects.read().runs_of("echo"), 1);
    assert_eq!(decisions(&rack), ["edited: no rule allows it"]);
}

/// An MCP client that gives itself this name calls `write`; returns the answer.
fn by_client(rack: &Rack, name: &str) -> String {
    let about =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" } });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "mcp__fake__write", "arguments": { "path": "a" } } }),
    ];
    let input = lines.map(|line| format!("{line}\n")).concat();
    let answers = rack.run_with_stdin(&["gateway"], &input).ends_with(0).stdout;
    let answer = answers.lines().find(|line| line.contains("\"id\":2")).unwrap_or(&answers);
    answer.to_owned()
}

#[test]
fn saved_rules_apply_from_the_next_call_and_match_callers() {
    let (rack, effects) = ruled("[policy]\nallow = \"fake/*\"\n");
    let _daemon = Daemon::start(&rack, &[]);
    // Its servers may still be starting.
    let written = (0..50).find(|_| by_client(&rack, "an-editor").contains("written"));
    assert!(written.is_some(), "{}", by_client(&rack, "an-editor"));
    let rules = "[policy]\nallow = \"fake/*\"\n\n[[policy.rules]]\ndeny = \"fake/w*\"\nclient = \"gateway/an-*\"\n";
    rack.home.write("toolrack/toolrack.toml", rules);
    // A typed command has the daemon look at the file now, and not a moment later.
    let _ = rack.run(&["call", "fake/write", "path=a"]).ends_with(0);
    let refused = by_client(&rack, "an-editor");
    assert!(refused.contains("the rule deny `fake/w*` (toolrack.toml:5)"), "{refused}");
    assert!(by_client(&rack, "another").contains("written"));
    rack.home.write("toolrack/toolrack.toml", "[policy]\ndeny = \"fake/write\"\n");
    let _ = rack.run(&["call", "fake/write", "path=a"]).ends_with(6);
    assert!(by_client(&rack, "another").contains("the rule deny `fake/write`"));
    assert_eq!(effects.read().runs_of("write"), 3);
}

#[test]
fn rules_apply_in_every_spelling_and_rules_that_match_nothing_are_reported() {
    let deny = "[policy]\ndeny = [\"mcp__fake__big\", \"fake_fail\", \"fake.echo\", \"mcp__gone__x\"]\n";
    let (rack, _effects) = ruled(deny);
    for call in [&["call", "fake/big", "bytes=10"][..], &["call", "fake/fail"], &["call", "fake/echo", "text=x"]] {
        let ran = rack.run(call).ends_with(6);
        assert!(ran.stderr.contains("deny"), "{ran}");
    }
    assert_eq!(rack.run(&["call", "fake/add", "a=1", "b=2"]).ends_with(0).stderr, "");
    let problem = "the rule deny `mcp__gone__x` names no configured server";
    for command in [&["config", "validate"][..], &["policy", "list"], &["policy", "test", "fake/big"]] {
        let ran = rack.run(command);
        assert!(ran.stderr.contains(problem) && !ran.stderr.contains("fake_fail"), "{ran}");
    }
    assert!(rack.run(&["doctor", "--offline"]).stdout.contains(problem));
}
