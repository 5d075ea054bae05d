use std::{collections::BTreeSet, thread};

use serde_json::{Value, json};

use super::*;
use crate::{
    catalog::tests::{catalog, set, tool},
    glob::Pattern,
    spec::ServerName,
};

fn two_servers() -> [(&'static str, Arc<crate::catalog::ToolSet>); 2] {
    let read = tool("read", "Reads a file.", &[("path", "Which file.")]);
    [("fs", Arc::new(set(&[read, tool("list", "", &[])]))), ("git", Arc::new(set(&[tool("log", "The log.", &[])])))]
}

fn parsed(block: &ToolBlock) -> Value {
    serde_json::from_str(block.json().get()).unwrap()
}

fn names(block: &ToolBlock) -> Vec<&str> {
    block.tools().iter().map(|tool| &*tool.name).collect()
}

fn pattern(written: &str) -> Pattern {
    written.parse().unwrap()
}

#[test]
fn each_wire_writes_tools_in_its_own_form() {
    let catalog = catalog(1, &two_servers());
    let only = Arc::new(Selection::all().of_servers([ServerName::new("fs").unwrap()]));
    let of = |wire| parsed(&catalog.block(&BlockKind::new(wire).selection(only.clone())));
    let none = json!({ "type": "object", "properties": {} });
    let path = json!({
        "type": "object", "properties": { "path": { "type": "string", "description": "Which file." } },
    });
    assert_eq!(
        of(Wire::Anthropic),
        json!([
            { "name": "mcp__fs__list", "description": "MCP tool from fs", "input_schema": none },
            { "name": "mcp__fs__read", "description": "Reads a file.", "input_schema": path },
        ])
    );
    assert_eq!(
        of(Wire::OpenAiChat)[1],
        json!({
            "type": "function",
            "function": { "name": "mcp__fs__read", "description": "Reads a file.", "parameters": path },
        })
    );
    assert_eq!(
        of(Wire::OpenAiResponses)[0],
        json!({
            "type": "function", "name": "mcp__fs__list", "description": "MCP tool from fs", "parameters": none,
            "strict": false,
        })
    );
    let gemini = of(Wire::Gemini);
    let declarations = gemini[0]["functionDeclarations"].as_array().unwrap();
    assert_eq!(declarations[0], json!({ "name": "mcp__fs__list", "description": "MCP tool from fs" }));
    assert_eq!(declarations[1]["name"], "mcp__fs__read");
    assert!(declarations[1]["parameters"]["properties"]["path"].is_object());
}

#[test]
fn schemas_are_cleaned_as_asked_and_otherwise_as_the_wire_needs_it() {
    let strange = json!({
        "name": "t",
        "inputSchema": { "$schema": "x", "type": "object", "properties": { "a b": { "type": "string" } } },
    });
    let catalog = catalog(1, &[("s", Arc::new(set(&[strange])))]);
    let schema = |kind: BlockKind| {
        let block = catalog.block(&kind);
        serde_json::from_str::<Value>(block.tools()[0].input_schema.get()).unwrap()
    };
    assert_eq!(schema(BlockKind::new(Wire::Anthropic))["properties"], json!({}), "no such property name");
    let chat = schema(BlockKind::new(Wire::OpenAiChat));
    assert!(chat["properties"]["a b"].is_object() && chat.get("$schema").is_none());
    assert_eq!(schema(BlockKind::new(Wire::OpenAiChat).provider(Provider::None))["$schema"], "x");
}

#[test]
fn a_block_is_made_once_and_shared() {
    let catalog = catalog(1, &two_servers());
    let kind = BlockKind::new(Wire::Anthropic);
    let blocks: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| catalog.block(&kind.clone()))).collect();
        asked.into_iter().map(|block| block.join().unwrap()).collect()
    });
    assert!(blocks.iter().all(|block| Arc::ptr_eq(block, &blocks[0])));
    assert_eq!(blocks[0].bytes().as_ptr(), blocks[0].json().get().as_ptr(), "the bytes are not copied");
    let all = Selection::all().without_servers([]);
    assert!(Arc::ptr_eq(&catalog.block(&kind.selection(all)), &blocks[0]), "everything, said otherwise");
}

#[test]
fn more_kinds_than_are_kept_still_get_their_blocks() {
    let catalog = catalog(1, &two_servers());
    let kinds: Vec<_> = (0..40)
        .map(|n| {
            let without = Selection::all().without([pattern(&format!("other{n}/*"))]);
            BlockKind::new(Wire::Gemini).selection(without)
        })
        .collect();
    for kind in kinds.iter().chain(&kinds) {
        assert_eq!(catalog.block(kind).len(), 3);
    }
    let last = kinds.last().unwrap();
    assert!(Arc::ptr_eq(&catalog.block(last), &catalog.block(last)), "the newest is kept");
}

#[test]
fn the_bytes_stay_the_same_while_the_tools_do() {
    let mut servers = two_servers();
    let one = catalog(1, &servers);
    let kind = BlockKind::new(Wire::Anthropic);
    // The same tools, listed anew by another process.
    let other = catalog(9, &two_servers());
    assert_eq!(one.block(&kind).bytes(), other.block(&kind).bytes());

    let before = servers[0].1.clone();
    let read = tool("read", "Reads a file.", &[("path", "Which file.")]);
    servers[0].1 = Arc::new(set(&[tool("write", "Writes.", &[]), read]).reusing_unchanged(&before));
    let next = catalog(2, &servers);
    assert_eq!(names(&next.block(&kind)), ["mcp__fs__read", "mcp__fs__write", "mcp__git__log"]);
    for name in ["mcp__fs__read", "mcp__git__log"] {
        let schema = |catalog: &super::super::Catalog| catalog.block(&kind).get(name).unwrap().input_schema.clone();
        assert!(Arc::ptr_eq(&schema(&one), &schema(&next)), "{name} was not cleaned again");
    }
}

#[test]
fn a_changed_tool_is_not_taken_from_the_list_before() {
    let before = set(&[tool("read", "Reads.", &[])]);
    let after = set(&[tool("read", "Reads quickly.", &[])]).reusing_unchanged(&before);
    assert!(!Arc::ptr_eq(&before.tools[0], &after.tools[0]));
    let same = set(&[tool("read", "Reads.", &[])]).reusing_unchanged(&before);
    assert!(Arc::ptr_eq(&before.tools[0], &same.tools[0]));
}

#[test]
fn a_selection_is_of_servers_and_patterns() {
    let catalog = catalog(1, &two_servers());
    let chosen = |selection: Selection| {
        let block = catalog.block(&BlockKind::new(Wire::Anthropic).selection(selection));
        names(&block).into_iter().map(|name| name.trim_start_matches("mcp__").to_owned()).collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(chosen(Selection::all()), set(&["fs__list", "fs__read", "git__log"]));
    assert_eq!(chosen(Selection::all().only([pattern("l*")])), set(&["fs__list", "git__log"]));
    assert_eq!(chosen(Selection::all().only([pattern("mcp__git__*")])), set(&["git__log"]));
    assert_eq!(chosen(Selection::all().without([pattern("fs/*")])), set(&["git__log"]));
    let fs = || Selection::all().of_servers([ServerName::new("fs").unwrap()]);
    assert_eq!(chosen(fs().without([pattern("read")])), set(&["fs__list"]));
    assert_eq!(chosen(fs().only([pattern("log")])), set(&[]));
}

#[test]
fn an_empty_block_knows_that_it_is_empty() {
    for wire in Wire::ALL {
        let block = catalog(1, &[]).block(&BlockKind::new(wire));
        assert!(block.is_empty() && block.tokens() == 0, "{wire:?}");
    }
    let full = catalog(1, &two_servers()).block(&BlockKind::new(Wire::Anthropic));
    assert!(full.tokens() > 30, "{}", full.tokens());
}

/// A schema that nests too deeply to be parsed must not fail the request.
#[test]
fn a_schema_that_cannot_be_read_is_one_that_takes_anything() {
    let deep = format!(r#"{{"type":"object","properties":{}1{}}}"#, r#"{"a":"#.repeat(200), "}".repeat(200));
    let raw = RawValue::from_string(deep).unwrap();
    for wire in Wire::ALL {
        let cleaned = crate::catalog::cleaned::CleanedSchemas::default();
        let schema: Value = serde_json::from_str(cleaned.get(wire.provider(), &raw).json.get()).unwrap();
        assert_eq!(schema["properties"], json!({}), "{wire:?}");
    }
}
