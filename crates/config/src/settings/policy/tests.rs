use serde_json::{Map, json};
use toolrack_host::{Caller, Gate as _, GateRequest, ServerName, Verdict, Way, mcp::Annotations};

use super::*;
use crate::settings::{Settings, Wanted};

fn read(text: &str) -> (Policy, Vec<Problem>) {
    let (settings, problems) =
        Settings::read(&Document::new(Some("/home/ada/toolrack.toml".into()), text), Wanted::default());
    (settings.policy, problems)
}

fn judged(policy: &Policy, tool: &str, path: &str, way: Way) -> String {
    let server = ServerName::new("fs").unwrap();
    let arguments = Map::from_iter([("path".to_owned(), json!(path))]);
    let (caller, annotations) = (Caller::by(way), Annotations::default());
    match policy.judge(&GateRequest::unlisted(&server, tool, &arguments, &annotations).by(&caller)) {
        Verdict::Allow { why } => format!("allow: {why}"),
        Verdict::Confirm { why, .. } => format!("confirm: {why}"),
        Verdict::Deny { why } => format!("deny: {why}"),
    }
}

const FULL: &str = r#"[policy]
otherwise = "deny"
allow_read_only = false
allow = ["fs/read_*", "git/*"]
confirm = "fs/write"
deny = ["*/delete_*"]

[[policy.rules]]
allow = "fs/write"
arguments = { path = "/tmp/*" }

[[policy.rules]]
deny = "*"
client = ["gateway", "program"]
arguments."/path" = { regex = '.*\.(key|pem)' }
"#;

#[test]
fn rules_are_read_and_say_where_they_stand() {
    let (policy, problems) = read(FULL);
    assert_eq!(problems, []);
    let judged = |tool: &str, path: &str, way| judged(&policy, tool, path, way);
    assert_eq!(judged("read_x", "", Way::Agent), "allow: the rule allow `fs/read_*` (toolrack.toml:4)");
    assert_eq!(judged("write", "/etc", Way::Agent), "confirm: the rule confirm `fs/write` (toolrack.toml:5)");
    assert_eq!(judged("write", "/tmp/a", Way::Agent), "allow: the rule allow `fs/write` (toolrack.toml:9)");
    assert_eq!(judged("delete_x", "", Way::Agent), "deny: the rule deny `*/delete_*` (toolrack.toml:6)");
    assert_eq!(judged("read_x", "a.key", Way::Gateway), "deny: the rule deny `*` (toolrack.toml:13)");
    assert_eq!(judged("other", "", Way::Cli), "deny: no rule allows it");
    assert_eq!(read("").0, Policy::default());
    assert!(read("[policy]\n").0.is_empty());
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_lets_nothing_run() {
    for (text, line, message) in [
        ("policy = true", 1, "must be a table"),
        ("[policy]\nallows = \"*\"", 2, "did you mean `allow`?"),
        ("[policy]\ndeny = \"fs/[\"", 2, "unclosed"),
        ("[policy]\ndeny = 5", 2, "text, or a list of texts"),
        ("[policy]\nallow = [\"a\",\n 5]", 2, "text, or a list of texts"),
        ("[policy]\notherwise = \"ask\"", 2, "`allow`, `confirm` or `deny`"),
        ("[policy]\nallow_read_only = 1", 2, "`true` or `false`"),
        ("[policy]\nrules = \"*\"", 2, "[[policy.rules]]"),
        ("[[policy.rules]]\nallow = \"*\"\ndeny = \"*\"", 1, "one of"),
        ("[[policy.rules]]\nclient = \"cli\"", 1, "one of"),
        ("[[policy.rules]]\nallow = \"*\"\nargument = {}", 3, "did you mean `arguments`?"),
        ("[[policy.rules]]\nallow = \"*\"\narguments = {}", 3, "a table of arguments"),
        ("[[policy.rules]]\nallow = \"*\"\narguments = { a = 5 }", 3, "a glob, or"),
        ("[[policy.rules]]\nallow = \"*\"\narguments = { a = { regex = \"(\" } }", 3, "unclosed group"),
        ("[[policy.rules]]\nallow = \"*\"\nclient = []", 3, "text, or a list"),
        ("[[policy.rules]]\nallow = \"*\"\nclient = \"gateway/\"", 3, "empty"),
        ("[[policy.rules]]\nallow = \"*\"\ndestructive = \"no\"", 3, "`true` or `false`"),
        ("[[policy.rules]]\nallow = []", 2, "text, or a list"),
    ] {
        let (policy, problems) = read(text);
        assert!(problems.iter().all(Problem::is_error), "{problems:?}");
        assert!(problems[0].message.contains(message), "{text}: {}", problems[0]);
        assert_eq!(problems[0].line, Some(line), "{text}");
        let why = judged(&policy, "read", "", Way::Cli);
        assert_eq!(why, format!("deny: `[policy]` has errors (toolrack.toml:{line})"), "{text}");
    }
    let many = format!("[policy]\nallow = [{}]", "\"a\",".repeat(MAX_RULES + 1));
    assert!(read(&many).1[0].message.contains("more than 1000"));
    assert!(judged(&read("[policy\n").0, "read", "", Way::Cli).starts_with("deny: toolrack.toml cannot be read"));
}

#[test]
fn no_text_makes_reading_panic() {
    for text in [
        "[policy]\nrules = [1, []]",
        "[policy.rules]\na = 1",
        "[policy]\narguments = 1",
        "[[policy.rules]]\ndeny = [[]]",
    ] {
        assert!(!read(text).1.is_empty(), "{text}");
    }
}
