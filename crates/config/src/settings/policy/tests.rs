use serde_json::{Map, json};
use toolrack_host::{Caller, Gate as _, GateRequest, ServerName, Verdict, Way, mcp::Annotations};

use super::*;
use crate::settings::{ReadContext, Settings};

fn read(text: &str) -> (Policy, Vec<Problem>) {
    let (settings, problems) =
        Settings::read(&Document::new(Some("/home/ada/toolrack.toml".into()), text), ReadContext::default());
    (settings.policy, problems)
}

fn judged(policy: &Policy, tool: &str, path: &str, way: Way) -> String {
    let server = ServerName::new("fs").unwrap();
    let arguments = Map::from_iter([("path".to_owned(), json!(path))]);
    let (caller, annotations) = (Caller::local(way), Annotations::default());
    match policy.judge(&GateRequest::unlisted(&server, tool, &arguments, &annotations).with_caller(&caller)) {
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
fn a_problem_names_the_field_that_it_is_about() {
    for (text, field) in [
        ("policy = true", "policy"),
        ("[policy]\nallows = \"*\"", "policy.allows"),
        ("[policy]\nrules = [1]", "policy.rules[0]"),
        ("[[policy.rules]]\nread_only = true", "policy.rules[0]"),
        ("[[policy.rules]]\nallow = \"*\"\nread_only = 1", "policy.rules[0].read_only"),
        ("[[policy.rules]]\nallow = \"*\"\nargument = {}", "policy.rules[0].argument"),
    ] {
        let (_, problems) = read(text);
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_deref()).collect();
        assert_eq!(fields, [Some(field)], "{text}");
    }
}

#[test]
fn a_wrong_policy_is_reported_with_its_line_and_denies_every_call() {
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

/// The blocks of the documentation that have a `[policy]`.
fn documented() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("SECURITY.md")];
    for folder in ["docs", "docs/guide"] {
        pages.extend(std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let pages = pages.into_iter().filter(|page| page.extension().is_some_and(|kind| kind == "md"));
    let texts = pages.map(|page| std::fs::read_to_string(page).unwrap()).collect::<Vec<_>>();
    let blocks = texts.iter().flat_map(|text| text.split("```toml\n").skip(1));
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned());
    blocks.filter(|block| block.contains("policy")).collect()
}

#[test]
fn every_rule_of_the_documentation_holds_against_odd_spellings() {
    let blocks = documented();
    assert!(!blocks.is_empty());
    for block in &blocks {
        let (policy, problems) = read(block);
        assert_eq!(problems, [], "{block}");
        // Only known conditions are documented: for a new one, this test needs arguments that try to evade it.
        for rule in policy.rules() {
            for condition in rule.conditions().iter().filter(|condition| condition.starts_with("arguments.")) {
                let known = [r#"arguments.path = "notes/*""#, r#"arguments.path = { regex = "(?i).*\.(key|pem)\W*" }"#];
                assert!(known.contains(&&**condition), "{condition}");
            }
        }
    }
    let policy = read(&blocks[0]).0;
    let fate = |path: &str| judged(&policy, "write_file", path, Way::Agent);
    for path in [
        "a.key",
        "a\n/../a.key",
        "a\r\n/../a.key",
        "a\r/../a.key",
        "a\0/../a.key",
        "a\u{85}b.key",
        "a\u{2028}/../a.key",
        "a\u{2029}/../a.key",
        "a\u{fffd}/../a.key",
        "\u{feff}a.key",
        "a.KEY",
        "a.Pem",
        "a.key\n",
        "a.key\0",
        "a.key\r\n",
        "a.key/",
        "a.key/.",
        "a.key ",
        "notes/../a.pem",
        "[\"a.key\"]",
    ] {
        assert!(fate(path).starts_with("deny: "), "{path:?}: {}", fate(path));
    }
    for (path, expected) in [
        ("notes/a\n.md", "allow: "),
        ("\nnotes/a.md", "confirm: "),
        ("Notes/a.md", "confirm: "),
        ("a.keys", "confirm: "),
    ] {
        assert!(fate(path).starts_with(expected), "{path:?}: {}", fate(path));
    }
}

#[test]
fn the_gate_judges_the_arguments_that_are_sent() {
    let rule = "[policy]\notherwise = \"allow\"\n[[policy.rules]]\ndeny = \"*\"\narguments.path = \"a.key\"\n";
    let policy = read(rule).0;
    let server = ServerName::new("fs").unwrap();
    for (sent, is_denied) in [
        (r#"{"p\u0061th":"a.key"}"#, true),
        (r#"{"path":"\u0061.key"}"#, true),
        (r#"{"path":"b","path":"a.key"}"#, true),
        (r#"{"path":"a.key","path":"b"}"#, false),
        (r#"{"path":["b",{"c":"a.key"}]}"#, true),
        (r#"{"path":{"a.key":1}}"#, true),
    ] {
        let arguments: Map<_, _> = serde_json::from_str(sent).unwrap();
        let (caller, annotations) = (Caller::local(Way::Agent), Annotations::default());
        let verdict =
            policy.judge(&GateRequest::unlisted(&server, "read", &arguments, &annotations).with_caller(&caller));
        assert_eq!(matches!(verdict, Verdict::Deny { .. }), is_denied, "{sent}");
        // The policy judges the same map that is sent to the server, and a map has each name once.
        let written = serde_json::to_string(&arguments).unwrap();
        assert_eq!(written.matches("path").count(), 1, "{written}");
    }
}
