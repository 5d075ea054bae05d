//! `list`, `tools`, `resources`, `prompts`, `read`, `prompt`, `why`.

use insta::assert_snapshot;
use serde_json::json;

use crate::rack::{Rack, fake};

fn mixed() -> Rack {
    Rack::with(&[
        ("fake", fake(&["--era", "both"])),
        ("old", fake(&["--era", "legacy"])),
        ("off", json!({ "command": "x", "enabled": false })),
        ("gone", json!({ "command": "/nonexistent/server" })),
        ("half", fake(&["--fault", "list-fails"])),
        ("broken", json!({ "command": 5 })),
    ])
}

#[test]
fn every_server_is_listed_with_how_it_is() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["list"]), @"");
}

#[test]
fn the_list_for_programs_has_every_documented_field() {
    let rack = mixed();
    let document = rack.run(&["list", "--json"]).ends_with(0).json();
    let servers: Vec<_> = document["servers"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_snapshot!(servers.join("\n"), @"");
}

#[test]
fn a_list_is_narrowed_by_names() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["list", "off", "broken"]), @"");
    assert_snapshot!(rack.run(&["list", "fkae"]), @"");
}

#[test]
fn tools_of_a_named_server_that_is_not_there_end_with_its_reason() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["tools", "gone"]), @"");
    assert_snapshot!(rack.run(&["tools", "half"]), @"");
    assert_snapshot!(rack.run(&["tools", "broken"]), @"");
}

#[test]
fn tools_of_all_servers_are_shown_although_some_are_not_there() {
    let rack = Rack::with(&[("gone", json!({ "command": "/nonexistent/server" }))]);
    assert_snapshot!(rack.run(&["tools"]), @"");
    let document = rack.run(&["tools", "--json"]).ends_with(0).json();
    assert_eq!(document["tools"].as_array().unwrap().len(), 5);
    assert_eq!(document["warnings"].as_array().unwrap().len(), 1);
    assert_snapshot!(document["tools"][2], @"");
}

#[test]
fn a_tool_that_cannot_be_used_is_told_and_costs_no_other() {
    let rack = Rack::with(&[("fake", fake(&["--fault", "bad-tool"]))]);
    let ran = rack.run(&["tools", "fake"]).ends_with(0);
    assert_snapshot!(ran.stderr, @"");
    assert!(ran.stdout.contains("echo(text: string)"), "{ran}");
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
    assert_snapshot!(rack.run(&["resources"]), @"");
    assert_snapshot!(rack.run(&["read", "fake", "fake://note"]), @"");
    assert_snapshot!(rack.run(&["read", "fake", "fake://blob"]), @"");
    assert_snapshot!(rack.run(&["read", "fake", "fake://note", "--json"]), @"");
    let _ = rack.run(&["read", "fake", "fake://nope"]).ends_with(5);
    let _ = rack.run(&["read", "nope", "fake://note"]).ends_with(2);
}

#[test]
fn prompts_are_listed_and_filled_in() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    assert_snapshot!(rack.run(&["prompts"]), @"");
    assert_snapshot!(rack.run(&["prompt", "fake/greet", "name=Ada"]), @"");
    assert_snapshot!(rack.run(&["prompt", "fake/greet", "name=Ada", "--json"]), @"");
    assert_snapshot!(rack.run(&["prompt", "greet"]), @"");
}

#[test]
fn a_server_without_resources_and_prompts_has_none() {
    assert_snapshot!(Rack::new().run(&["resources"]), @"");
    assert_snapshot!(Rack::new().run(&["prompts", "builtin"]), @"");
}

#[test]
fn why_follows_a_tool_from_the_file_to_its_name() {
    let rack = mixed();
    assert_snapshot!(rack.run(&["why", "fake/echo"]), @"");
    assert_snapshot!(rack.run(&["why", "fake/nope"]), @"");
    assert_snapshot!(rack.run(&["why", "gone/x"]), @"");
    assert_snapshot!(rack.run(&["why", "nope/x"]), @"");
    assert_eq!(rack.run(&["why", "fake/echo", "--json"]).ends_with(0).json()["present"], true);
}
