//! Servers that no file configures: an address, a command behind `--`, JSON on the command line or from a pipe.

use std::fs;

use serde_json::json;
use toolrack_testkit::{FakeHttp, fake_server_path};

use crate::rack::{Rack, fake, mcp_json, work_file};

/// The words of a fake server, behind `--`.
fn with_server<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--", fake_server_path().to_str().unwrap(), "stdio"]].concat()
}

/// The names of the files below the configuration folder.
fn configured(rack: &Rack) -> Vec<String> {
    let folder = rack.home.home().join("toolrack");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".json") || name.ends_with(".toml"));
    names
}

#[test]
fn a_command_behind_dashes_is_a_server_for_this_one_time() {
    let rack = Rack::with(&[("other", fake(&[]))]);
    let before = configured(&rack);
    let tools = rack.run(&with_server(&["tools", "--json"])).ends_with(0).json();
    assert!(tools["tools"].as_array().unwrap().iter().all(|tool| tool["server"] == "once"), "{tools}");
    assert_eq!(rack.run(&with_server(&["call", "echo", "text=hi"])).ends_with(0).stdout, "hi");
    assert_eq!(rack.run(&with_server(&["call", "once/echo", "text=hi"])).ends_with(0).stdout, "hi");
    let test = rack.run(&with_server(&["test", "--json"])).ends_with(0).json();
    assert_eq!(test["servers"].as_array().unwrap().len(), 1, "the configured one was not started: {test}");
    let one = rack.run(&with_server(&["tools", "echo"])).ends_with(0);
    assert!(one.stdout.contains("text"), "{one}");
    assert_eq!(configured(&rack), before);
    let list = rack.run(&["list", "--json"]).ends_with(0);
    assert!(!list.stdout.contains("once"), "{list}");
}

#[test]
fn an_address_is_a_server_for_this_one_time() {
    let server = FakeHttp::start::<&str>(&[]);
    let rack = Rack::new();
    let tools = rack.run(&["tools", server.url(), "--json"]).ends_with(0).json();
    assert!(!tools["tools"].as_array().unwrap().is_empty(), "{tools}");
    assert_eq!(rack.run(&["call", server.url(), "echo", "text=hi"]).ends_with(0).stdout, "hi");
    assert_eq!(configured(&rack), Vec::<String>::new());
}

#[test]
fn resources_and_prompts_of_a_server_of_one_time_can_be_had() {
    let rack = Rack::new();
    let offers = rack.run(&with_server(&["resources", "--json"])).ends_with(0).json();
    let uri = offers["resources"][0]["uri"].as_str().unwrap();
    let read = rack.run(&with_server(&["read", uri, "--json"])).ends_with(0).json();
    assert_eq!((&read["server"], &read["uri"]), (&json!("once"), &json!(uri)));
    let offers = rack.run(&with_server(&["prompts", "--json"])).ends_with(0).json();
    assert_eq!(offers["prompts"][0]["name"], "greet");
    let filled = rack.run(&with_server(&["prompt", "greet", "name=Ada"])).ends_with(0);
    assert!(filled.stdout.contains("Ada"), "{filled}");
}

#[test]
fn an_error_about_a_server_for_one_command_shows_what_to_type() {
    let rack = Rack::new();
    let error = rack.run(&with_server(&["call", "ecko", "text=x", "--json"])).ends_with(5).error();
    assert_eq!(error["code"], "UNKNOWN_TOOL");
    let error = rack.run(&with_server(&["call", "add", "a=one", "--json"])).ends_with(2).error();
    assert!(error["hint"].as_str().unwrap().starts_with("`toolrack tools add -- "), "{error}");
    let _ = rack.run(&["tools", "--", "no-such-program-anywhere"]).ends_with(4);
    let _ = rack.run(&["call", "--", "npx"]).ends_with(2);
}

#[test]
fn tool_and_arguments_may_follow_the_command() {
    let path = fake_server_path().to_str().unwrap();
    let ran = Rack::new().run(&["call", "--", path, "stdio", "echo", "text=hi"]).ends_with(0);
    assert_eq!(ran.stdout, "hi");
}

#[test]
fn two_one_time_servers_are_distinguished_by_their_command() {
    let rack = Rack::new();
    assert_eq!(rack.run(&with_server(&["call", "echo", "text=1"])).ends_with(0).stdout, "1");
    let path = fake_server_path().to_str().unwrap();
    // This server has the same name and other tools, which does not count as a change of the first one.
    let other = ["call", "echo", "text=2", "--", path, "stdio", "--fault", "escape-text"];
    let other = rack.run(&other).ends_with(0);
    assert!(!other.stderr.contains("quarantine"), "{other}");
}

#[test]
fn a_configuration_is_typed_or_piped_in() {
    let rack = Rack::new();
    let json = mcp_json(&[("typed", fake(&[]))]);
    let call = ["--mcp-config", &json, "call", "typed/echo", "text=hi"];
    assert_eq!(rack.run(&call).ends_with(0).stdout, "hi");
    let piped = rack.run_with_stdin(&["--mcp-config", "-", "call", "typed/echo", "text=hi"], &json);
    assert_eq!(piped.ends_with(0).stdout, "hi");
    let broken = rack.run(&["--mcp-config", "{", "list", "--json"]).ends_with(2).error();
    assert!(broken["message"].as_str().unwrap().starts_with("--mcp-config:1:"), "{broken}");
    for twice in [&["call", "typed/echo", "--args", "-"][..], &["add-json", "x", "-"], &["secret", "set", "x"]] {
        let refused = rack.run_with_stdin(&[&["--mcp-config", "-"], twice].concat(), &json).ends_with(2);
        assert!(refused.stderr.contains("this command reads stdin for something else"), "{refused}");
    }
}

#[test]
fn a_command_that_names_the_working_folder_runs_there_without_a_question() {
    let rack = Rack::new();
    work_file(&rack, "srv.sh", "#!/bin/sh\npwd >\"$HOME/where\"\nexec \"$1\" stdio\n");
    let path = fake_server_path().to_str().unwrap();
    assert_eq!(rack.run(&["call", "echo", "text=x", "--", "sh", "./srv.sh", path]).ends_with(0).stdout, "x");
    let folder = fs::read_to_string(rack.home.home().join("where")).unwrap();
    assert!(folder.trim_end().ends_with("/work"), "{folder}");
    // A server that does not ask for it runs in its own folder, like every entry of the user.
    let entry = json!({ "command": path, "args": ["stdio"] });
    let list = rack.run(&["--mcp-config", &mcp_json(&[("mine", entry)]), "list", "--json"]).ends_with(0).json();
    let mine = list["servers"].as_array().unwrap().iter().find(|server| server["name"] == "mine").unwrap();
    assert_eq!((&mine["state"], &mine["scope"]), (&json!("connected"), &json!("command line")));
}
