//! What a fresh machine can do, with nothing configured.

use insta::assert_snapshot;
use serde_json::json;

use crate::rack::{Rack, mcp_json, work_file};

#[test]
fn a_fresh_machine_lists_a_folder() {
    let rack = Rack::new();
    work_file(&rack, "README.md", "# Hello\n");
    work_file(&rack, "src/main.rs", "");
    assert_snapshot!(rack.run(&["call", "builtin/list_directory", "path=."]), @"");
}

#[test]
fn the_built_in_tools_read_below_the_working_folder_and_nowhere_else() {
    let rack = Rack::new();
    work_file(&rack, "poem.txt", "one\ntwo\nthree\n");
    rack.home.write("secret.txt", "canary");
    assert_snapshot!(rack.run(&["call", "builtin/read_text_file", "path=poem.txt", "tail=2"]), @"");
    let outside = rack.run(&["call", "builtin/read_text_file", "path=../secret.txt"]);
    assert_snapshot!(outside, @"");
    assert_snapshot!(rack.run(&["call", "builtin/search_files", "pattern=*.txt"]), @"");
}

#[test]
fn the_built_in_tools_are_shown_with_signature_and_badge() {
    assert_snapshot!(Rack::new().run(&["tools"]), @"");
}

#[test]
fn a_configuration_switches_the_built_in_server_off() {
    let rack = Rack::with(&[("builtin", json!({ "enabled": false }))]);
    assert_snapshot!(rack.run(&["list"]), @"");
    assert_snapshot!(rack.run(&["call", "builtin/current_time"]), @"");
    assert_eq!(rack.run(&["tools", "--json"]).ends_with(0).json()["tools"], json!([]));
}

#[test]
fn a_configuration_puts_another_server_in_its_place() {
    let rack = Rack::with(&[("builtin", crate::rack::fake(&[]))]);
    assert_snapshot!(rack.run(&["call", "builtin/add", "a=1", "b=2"]), @"");
}

#[test]
fn only_named_files_count_when_the_command_line_says_so() {
    let rack = Rack::with(&[("fake", crate::rack::fake(&[]))]);
    rack.home.write("work/other.json", mcp_json(&[]));
    assert_snapshot!(rack.run(&["list", "--strict-mcp-config", "--mcp-config", "other.json"]), @"");
}
