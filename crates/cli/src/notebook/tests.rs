use serde_json::json;

use super::*;

const LISTING: ToolsHash = ToolsHash(7);

fn tool(name: &str) -> Tool {
    Tool::new(name, None, &json!({}))
}

fn server(name: &str, hash: &str) -> ConfiguredServer {
    let file_stem = content_hash(&json!(name));
    ConfiguredServer { name: name.to_owned(), file_stem, hash: hash.to_owned() }
}

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn notes_are_valid_only_for_the_entry_that_was_connected() {
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    notebook.write_tools(&server("fs", "one"), LISTING, vec![tool("read"), tool("write")]);
    assert_eq!(names(&notebook.read_tools(&server("fs", "one"))), ["read", "write"]);
    assert_eq!(notebook.read_tools(&server("fs", "two")), []);
    assert_eq!(notebook.read_tools(&server("other", "one")), []);
    notebook.write_tools(&server("fs", "two"), LISTING, vec![tool("list")]);
    assert_eq!(notebook.read_tools(&server("fs", "one")), [], "the changed entry has taken its place");
    assert_eq!(names(&notebook.read_tools(&server("fs", "two"))), ["list"]);
}

#[test]
fn a_note_says_from_which_listing_it_was_made() {
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    let fs = server("fs", "one");
    assert!(!notebook.is_up_to_date(&fs, LISTING));
    notebook.write_tools(&fs, LISTING, vec![tool("read")]);
    assert!(notebook.is_up_to_date(&fs, LISTING));
    assert!(!notebook.is_up_to_date(&fs, ToolsHash(77)));
    assert!(!notebook.is_up_to_date(&server("fs", "two"), LISTING));
    notebook.write_tools(&fs, LISTING, vec![]);
    assert!(notebook.is_up_to_date(&fs, LISTING), "no tools are a listing too");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_notes() {
    use std::os::unix::fs::PermissionsExt;
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    notebook.write_tools(&server("fs", "one"), LISTING, vec![tool("read")]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&notebook.folder), 0o700);
    assert_eq!(mode(&notebook.file(&server("fs", "one"))), 0o600);
}

#[test]
fn a_damaged_note_is_ignored_and_replaced() {
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    let fs = server("fs", "one");
    notebook.write_tools(&fs, LISTING, vec![tool("read")]);
    for damage in ["", "{", "[]", r#"{"form":99,"hash":"one","tools":[]}"#] {
        std::fs::write(notebook.file(&fs), damage).unwrap();
        assert_eq!(notebook.read_tools(&fs), [], "{damage}");
        notebook.write_tools(&fs, LISTING, vec![tool("read")]);
        assert_eq!(names(&notebook.read_tools(&fs)), ["read"]);
    }
}

#[test]
fn there_are_never_too_many_notes() {
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    std::fs::create_dir_all(&notebook.folder).unwrap();
    for number in 0..MAX_SERVERS + 3 {
        std::fs::write(notebook.folder.join(format!("{number}.json")), "{}").unwrap();
    }
    let fs = server("fs", "x");
    notebook.write_tools(&fs, LISTING, vec![tool("t")]);
    assert_eq!(names(&notebook.read_tools(&fs)), ["t"]);
    assert_eq!(std::fs::read_dir(&notebook.folder).unwrap().count(), MAX_SERVERS);
}

#[test]
fn only_names_that_need_no_quotes_are_noted() {
    let data = tempfile::tempdir().unwrap();
    let notebook = Notebook::below(data.path());
    let fs = server("fs", "one");
    let bad = ["$(id)", "`id`", "a b", "a;b", "-rf", "*", "~", "a\nb", "\u{202e}x", "", "a'b", "!x", "é|"];
    let mut tools: Vec<_> = bad.iter().map(|name| tool(name)).collect();
    tools.extend([tool("ok"), tool(&"x".repeat(MAX_NAME_BYTES + 1)), tool("größe.v2")]);
    notebook.write_tools(&fs, LISTING, tools);
    assert_eq!(names(&notebook.read_tools(&fs)), ["ok", "größe.v2"]);
}

#[test]
fn arguments_are_noted_with_the_values_that_they_can_have() {
    let schema = json!({
        "properties": {
            "path": { "type": "string", "description": "Where.\nMore." },
            "dry": { "type": "boolean" },
            "mode": { "enum": ["fast", "slow", "$(id)", 5] },
            "a b": { "type": "string" },
        },
    });
    let tool = Tool::new("t", Some("\u{1b}[31mRed\nsecond line"), &schema);
    assert_eq!(tool.about, "\\u{1b}[31mRed");
    let argument = |name: &str| tool.arguments.iter().find(|argument| argument.name == name).unwrap();
    assert_eq!(tool.arguments.len(), 3);
    assert_eq!(argument("path").about, "Where.");
    assert_eq!(argument("path").values, [] as [&str; 0]);
    assert_eq!(argument("dry").values, ["true", "false"]);
    assert_eq!(argument("mode").values, ["fast", "slow"]);
}

#[test]
fn odd_schemas_are_noted_without_arguments() {
    for schema in [json!(null), json!([]), json!({ "properties": 5 }), json!({ "properties": { "x": true } })] {
        assert!(Tool::new("t", None, &schema).arguments.len() <= 1);
    }
}

#[test]
fn a_secret_that_a_server_repeats_is_not_noted() {
    let schema = json!({ "properties": {
        "canary": {}, "path": { "description": "Below canary.", "enum": ["canary", "ok"] },
    } });
    let tool = mcp::Tool {
        name: "read".to_owned(),
        title: None,
        description: Some("Knows canary.".to_owned()),
        input_schema: serde_json::from_value(schema).unwrap(),
        output_schema: None,
        annotations: mcp::Annotations::default(),
        task: mcp::TaskSupport::default(),
        icons: None,
        meta: None,
    };
    let noted = Tool::from_mcp(&tool, &|text| text.replace("canary", "***"));
    let json = serde_json::to_string(&noted).unwrap();
    assert!(!json.contains("canary") && json.contains("Knows ***."), "{json}");
    assert_eq!(noted.arguments.len(), 1);
    assert_eq!(noted.arguments[0].values, ["ok"]);
}
