//! What works on a fresh machine without any configuration.

use insta::assert_snapshot;
use serde_json::json;

use crate::rack::{Rack, mcp_json, work_file};

#[test]
fn a_fresh_machine_lists_a_folder() {
    let rack = Rack::new();
    work_file(&rack, "README.md", "# Hello\n");
    work_file(&rack, "src/main.rs", "");
    assert_snapshot!(rack.run(&["call", "builtin/list_directory", "path=."]), @"
        $ toolrack call builtin/list_directory path=.
        [FILE] README.md  8 B
        [DIR] src
        [0]
    ");
}

#[test]
fn a_model_gets_the_result_of_a_built_in_tool_once_and_programs_get_text_and_structure() {
    let rack = Rack::new();
    work_file(&rack, "README.md", "# Hello\n");
    let ran = rack.run(&["call", "builtin/list_directory", "--json"]);
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(outcome["text"], "[FILE] README.md  8 B");
    assert_eq!(outcome["structured"]["entries"][0]["name"], "README.md");
}

#[test]
fn the_built_in_tools_read_below_the_working_folder_and_nowhere_else() {
    let rack = Rack::new();
    work_file(&rack, "poem.txt", "one\ntwo\nthree\n");
    rack.home.write("secret.txt", "canary");
    assert_snapshot!(rack.run(&["call", "builtin/read_text_file", "path=poem.txt", "tail=2"]), @"
        $ toolrack call builtin/read_text_file path=poem.txt tail=2
        two
        three
        [0]
    ");
    let outside = rack.run(&["call", "builtin/read_text_file", "path=../secret.txt"]);
    assert_snapshot!(outside, @"
        $ toolrack call builtin/read_text_file path=../secret.txt
        `../secret.txt` is outside the working folder
        --- stderr ---
        error: `builtin/read_text_file` reported an error
        [5]
    ");
    assert_snapshot!(rack.run(&["call", "builtin/search_files", "pattern=*.txt"]), @"
        $ toolrack call builtin/search_files pattern=*.txt
        poem.txt
        [0]
    ");
}

#[test]
fn the_built_in_tools_are_shown_with_signature_and_badge() {
    assert_snapshot!(Rack::new().run(&["tools"]), @"
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
        [0]
    ");
}

#[test]
fn a_configuration_switches_the_built_in_server_off() {
    let rack = Rack::with(&[("builtin", json!({ "enabled": false }))]);
    assert_snapshot!(rack.run(&["list"]), @"
        $ toolrack list
        o builtin  native  built in  disabled
        --- stderr ---
        no servers are configured; `toolrack add NAME -- COMMAND` adds one, `toolrack import` those of other programs
        [0]
    ");
    assert_snapshot!(rack.run(&["call", "builtin/current_time"]), @"
        $ toolrack call builtin/current_time
        --- stderr ---
        error: the server builtin (built in) is not connected: it is disabled
        hint: toolrack enable builtin
        [2]
    ");
    assert_eq!(rack.run(&["tools", "--json"]).ends_with(0).json()["tools"], json!([]));
}

#[test]
fn a_configuration_puts_another_server_in_its_place() {
    let rack = Rack::with(&[("builtin", crate::rack::fake(&[]))]);
    assert_snapshot!(rack.run(&["call", "builtin/add", "a=1", "b=2"]), @"
        $ toolrack call builtin/add a=1 b=2
        3
        [0]
    ");
}

#[test]
fn only_named_files_count_when_the_command_line_says_so() {
    let rack = Rack::with(&[("fake", crate::rack::fake(&[]))]);
    rack.home.write("work/other.json", mcp_json(&[]));
    assert_snapshot!(rack.run(&["list", "--strict-mcp-config", "--mcp-config", "other.json"]), @"
        $ toolrack list --strict-mcp-config --mcp-config other.json
        + builtin  native  built in  connected (5 tools)
        --- stderr ---
        no servers are configured; `toolrack add NAME -- COMMAND` adds one, `toolrack import` those of other programs
        [0]
    ");
}
