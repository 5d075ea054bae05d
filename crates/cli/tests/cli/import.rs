//! Bringing in what other programs have configured.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::rack::{Rack, fake, mcp_json, work_file};

/// A home in which Cursor and Claude Desktop have servers, and this project has one of VS Code's.
fn home() -> Rack {
    let rack = Rack::with(&[("same", json!({ "command": "x" }))]);
    rack.home.write(
        "home/.cursor/mcp.json",
        mcp_json(&[
            ("fake", fake(&[])),
            ("same", json!({ "command": "x" })),
            ("two", json!({ "command": "cursors", "env": { "KEY": "canary" } })),
        ]),
    );
    rack.home.write(
        "home/.codeium/windsurf/mcp_config.json",
        mcp_json(&[("fake", fake(&[])), ("two", json!({ "serverUrl": "https://example.com/mcp" }))]),
    );
    work_file(&rack, ".vscode/mcp.json", "{ // comment\n \"servers\": { \"theirs\": { \"command\": \"x\" }, } }");
    rack
}

fn servers(rack: &Rack) -> Vec<String> {
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    file["mcpServers"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn import_lists_the_servers_and_adds_none_unasked() {
    let rack = home();
    assert_snapshot!(rack.run(&["import"]), @"
        $ toolrack import
        Cursor ([HOME]/home/.cursor/mcp.json)
          + fake  new           [FAKE] stdio
          o same  already here  x
          + two   new           cursors

        VS Code ([HOME]/work/.vscode/mcp.json, this project's)
          + theirs  new  x

        Windsurf ([HOME]/home/.codeium/windsurf/mcp_config.json)
          o fake  already here                                       [FAKE] stdio
          ! two   another program means something else by this name  https://example.com/mcp
        --- stderr ---
        nothing was added; `toolrack import --all` adds all from your own files, `--server NAME` a single one
        [0]
    ");
    assert_eq!(servers(&rack), ["same"]);
    let json = rack.run(&["import", "--json"]).ends_with(0);
    assert!(!json.stdout.contains("canary"), "{json}");
    let json = json.json();
    let states: Vec<_> =
        json["offers"].as_array().unwrap().iter().map(|offer| offer["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["new", "same", "new", "new", "same", "rival"], "{json}");
}

#[test]
fn all_adds_the_user_s_own_servers() {
    let rack = home();
    assert_snapshot!(rack.run(&["import", "--all"]), @"
        $ toolrack import --all
        Cursor ([HOME]/home/.cursor/mcp.json)
          + fake  new           [FAKE] stdio
          o same  already here  x
          + two   new           cursors

        VS Code ([HOME]/work/.vscode/mcp.json, this project's)
          + theirs  new  x

        Windsurf ([HOME]/home/.codeium/windsurf/mcp_config.json)
          o fake  already here                                       [FAKE] stdio
          ! two   another program means something else by this name  https://example.com/mcp
        added fake to [HOME]/toolrack/mcp.json
        --- stderr ---
        warning: `two` means several things: choose one, such as toolrack import cursor --server two
        `theirs` comes from a project file of VS Code: to add it, use --server
        `toolrack list` connects to them
        [0]
    ");
    assert_eq!(servers(&rack), ["same", "fake"]);
    assert!(rack.run(&["list", "fake"]).stdout.contains("connected"));
}

#[test]
fn servers_that_another_program_has_for_one_folder_stay_in_that_folder() {
    let rack = Rack::new();
    let work = rack.home.work().canonicalize().unwrap();
    let below = work.join("below");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(work.join(".git")).unwrap();
    let servers = |name: &str| json!({ "mcpServers": { name: { "command": "x", "args": [name] } } });
    let claude = json!({ "projects": {
        work.to_str().unwrap(): servers("here"),
        below.to_str().unwrap(): servers("deeper"),
        work.parent().unwrap().to_str().unwrap(): servers("above"),
    } });
    rack.home.write("home/.claude.json", claude.to_string());
    let ran = rack.run(&["import", "--all"]).ends_with(0);
    assert!(ran.stderr.contains("`above` is for") && ran.stderr.contains("alone: choose it with --server"), "{ran}");
    assert!(ran.stdout.contains("/projects/") && !ran.stdout.contains("added above"), "{ran}");
    let get = rack.run(&["get", "here", "--json"]).ends_with(0);
    assert!(get.stdout.contains("local"), "{get}");
    assert!(!rack.home.root().join("toolrack/mcp.json").exists(), "nothing is for every folder");
    let again = rack.run(&["import", "--all"]).ends_with(0);
    assert!(again.stderr.contains("nothing was added; `--server NAME`"), "{again}");
    assert!(!again.stderr.contains("import --all"), "{again}");
    let _ = rack.run(&["import", "--server", "above"]).ends_with(0);
    assert!(!rack.home.root().join("toolrack/mcp.json").exists(), "it is for this project when it is chosen");
}

#[test]
fn one_is_chosen_by_name_and_program_and_may_be_renamed() {
    let rack = home();
    assert_snapshot!(rack.run(&["import", "--server", "two"]), @"
        $ toolrack import --server two
        Cursor ([HOME]/home/.cursor/mcp.json)
          + fake  new           [FAKE] stdio
          o same  already here  x
          + two   new           cursors

        VS Code ([HOME]/work/.vscode/mcp.json, this project's)
          + theirs  new  x

        Windsurf ([HOME]/home/.codeium/windsurf/mcp_config.json)
          o fake  already here                                       [FAKE] stdio
          ! two   another program means something else by this name  https://example.com/mcp
        --- stderr ---
        error: `two` of Cursor and of Windsurf differ
        hint: say whose: toolrack import cursor --server two
        [2]
    ");
    let _ = rack.run(&["import", "windsurf", "--server", "two=docs"]).ends_with(0);
    let file: Value = serde_json::from_str(&rack.home.read("toolrack/mcp.json")).unwrap();
    assert_eq!(file["mcpServers"]["docs"]["url"], "https://example.com/mcp");
    let _ = rack.run(&["import", "--server", "theirs"]).ends_with(0);
    assert_eq!(servers(&rack), ["same", "docs", "theirs"]);
    let ran = rack.run(&["import", "--server", "thiers"]).ends_with(2);
    assert!(ran.stderr.contains("did you mean `theirs`?"), "{ran}");
}

#[test]
fn a_taken_name_is_refused_with_a_hint_and_a_dry_run_writes_nothing() {
    let rack = home();
    rack.configure(&[("two", json!({ "command": "mine" }))]);
    let before = rack.home.read("toolrack/mcp.json");
    let ran = rack.run(&["import", "cursor", "--server", "two"]).ends_with(2);
    assert!(ran.stderr.contains("--server two=NEW"), "{ran}");
    let ran = rack.run(&["import", "cursor", "--server", "two=three", "--dry-run"]).ends_with(0);
    assert!(ran.stdout.contains("+++") && !ran.stdout.contains("canary"), "{ran}");
    assert_eq!(rack.home.read("toolrack/mcp.json"), before);
}

#[test]
fn a_broken_file_of_another_program_costs_only_itself() {
    let rack = home();
    rack.home.write("home/.cursor/mcp.json", "{ broken");
    let ran = rack.run(&["import", "--all"]).ends_with(0);
    assert!(ran.stderr.contains(".cursor/mcp.json:1:3"), "{ran}");
    assert_eq!(servers(&rack), ["same", "fake", "two"]);
}

#[test]
fn secrets_that_another_program_stores_in_plain_text_are_sealed() {
    let rack = Rack::new();
    let entry = json!({ "command": "x", "args": ["--api-key", "canary-arg"], "env": { "API_TOKEN": "canary-env", "MODE": "fast" } });
    let web = json!({ "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer canary-header" } });
    rack.home.write("home/.cursor/mcp.json", mcp_json(&[("gh", entry), ("web", web)]));
    let dry = rack.run(&["import", "--all", "--dry-run"]).ends_with(0);
    assert!(dry.stdout.contains("${secret:gh.API_TOKEN}"), "{dry}");
    assert!(rack.run(&["secret", "list"]).ends_with(0).stdout.is_empty());

    assert_snapshot!(rack.run(&["import", "--all"]), @"
        $ toolrack import --all
        Cursor ([HOME]/home/.cursor/mcp.json)
          + gh   new  x --api-key '***'
          + web  new  https://example.com/mcp
        added gh to [HOME]/toolrack/mcp.json
        added web to [HOME]/toolrack/mcp.json
        --- stderr ---
        kept among the stored secrets: API_TOKEN as gh.API_TOKEN, argument as gh.argument; the file says ${secret:NAME}; `--plain` writes values into it
        kept among the stored secrets: Authorization as web.Authorization; the file says ${secret:NAME}; `--plain` writes values into it
        `toolrack list` connects to them
        [0]
    ");
    let file = rack.home.read("toolrack/mcp.json");
    assert!(!file.contains("canary"), "{file}");
    for placeholder in ["${secret:gh.API_TOKEN}", "${secret:gh.argument}", "Bearer ${secret:web.Authorization}", "fast"]
    {
        assert!(file.contains(placeholder), "{placeholder}: {file}");
    }
    let again = rack.run(&["import", "--json"]).ends_with(0).json();
    assert_eq!(
        (&again["offers"][0]["state"], &again["offers"][1]["state"]),
        (&"same".into(), &"same".into()),
        "{again}"
    );

    let _ = rack.run(&["remove", "gh"]).ends_with(0);
    let _ = rack.run(&["import", "--server", "gh", "--plain"]).ends_with(0);
    assert!(rack.home.read("toolrack/mcp.json").contains("canary-env"));
}
