//! Putting Toolrack into the files of other programs, and taking it out again.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, mcp_json, work_file},
    terminal::Terminal,
};

/// The file of each program in the home, and a text that it contains.
const FILES: &[(&str, &str, &str)] = &[
    ("claude-code", ".claude.json", "{\n  \"numStartups\": 1\n}"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{ \"mcpServers\": {} }\r\n"),
    ("cursor", ".cursor/mcp.json", "{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"K\":\"canary\"}}}}"),
    ("vscode", ".config/Code/User/mcp.json", "{\n\t// mine\n\t\"servers\": {},\n}\n"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", ""),
    ("codex", ".codex/config.toml", "# mine\nmodel = \"m\""),
    ("gemini", ".gemini/settings.json", "\u{feff}{}\n"),
    ("opencode", ".config/opencode/opencode.json", "{ \"$schema\": \"https://opencode.ai/config.json\" }\n"),
    ("qbit", ".qbit/mcp.json", "{\"mcpServers\":{\"a\":{\"transport\":\"stdio\",\"command\":\"x\"}}}\n"),
    ("synapse", ".config/synapse/mcp_servers.json", "{\n  \"mcpServers\": {\n  }\n}"),
    ("zed", ".config/zed/settings.json", "// Zed settings\n{\n  \"theme\": \"One\",\n}\n"),
];

fn file(rack: &Rack, path: &str) -> PathBuf {
    rack.home.home().join(path)
}

#[test]
fn programs_on_the_machine_are_listed_with_their_connection() {
    let rack = Rack::new().with_binary_on_path();
    rack.home.write("home/.cursor/mcp.json", "{}");
    rack.home.write("home/.codex/config.toml", "[mcp_servers.rack]\ncommand = \"toolrack\"\nargs = [\"gateway\"]\n");
    rack.home.write("home/.gemini/settings.json", "{ broken");
    work_file(
        &rack,
        ".vscode/mcp.json",
        r#"{ "servers": { "t": { "command": "/x/toolrack", "args": ["gateway"] } } }"#,
    );
    assert_snapshot!(rack.run(&["connect"]), @"
        $ toolrack connect
        o cursor  not connected                  [HOME]/home/.cursor/mcp.json
        + vscode  connected as t (this project)  [HOME]/home/.config/Code/User/mcp.json
        + codex   connected as rack              [HOME]/home/.codex/config.toml
        x gemini  its file cannot be read        [HOME]/home/.gemini/settings.json
        not found here: claude-code, claude-desktop, windsurf, opencode, zed, qbit, synapse
        --- stderr ---
        warning: [HOME]/home/.gemini/settings.json:1:3: this is not JSON: expected string for object property
        `toolrack connect cursor` gives it the tools of all servers
        [0]
    ");
    let json = rack.run(&["connect", "--json"]).ends_with(0).json();
    let named: Vec<_> = json["clients"].as_array().unwrap().iter().map(|row| row["client"].as_str().unwrap()).collect();
    assert_eq!(named.len(), FILES.len(), "{json}");
    assert_eq!(json["clients"][5]["connected"], json!(["rack"]), "{json}");
}

#[test]
fn every_program_is_connected_and_gets_its_bytes_back() {
    let rack = Rack::new().with_binary_on_path();
    for (program, path, before) in FILES {
        let file = rack.home.write(PathBuf::from("home").join(path), before);
        let shown = rack.run(&["connect", program, "--dry-run"]).ends_with(0);
        assert!(shown.stdout.starts_with("--- [HOME]") && shown.stdout.contains("gateway"), "{shown}");
        assert!(!shown.stdout.contains("canary"), "{shown}");
        assert_eq!(fs::read_to_string(&file).unwrap(), *before);
        let _ = rack.run(&["connect", program, "--yes"]).ends_with(0);
        assert!(fs::read_to_string(&file).unwrap().contains("gateway"));
        let again = rack.run(&["connect", program, "--yes"]).ends_with(0);
        assert!(again.stdout.contains("is connected already"), "{again}");
        let undone = rack.run(&["connect", program, "--undo", "--yes"]).ends_with(0);
        assert!(undone.stdout.contains("exactly as it was before"), "{undone}");
        assert_eq!(fs::read_to_string(&file).unwrap(), *before, "{program}");
    }
}

#[test]
fn connect_and_undo_report_what_they_did() {
    let rack = Rack::new().with_binary_on_path();
    rack.home.write("home/.codex/config.toml", "model = \"m\"\n");
    assert_snapshot!(rack.run(&["connect", "codex", "--yes", "--", "--server", "fs"]), @"
        $ toolrack connect codex --yes -- --server fs
        connected Codex: toolrack is in [HOME]/home/.codex/config.toml
        --- stderr ---
        Codex has the tools when it is restarted; `toolrack connect codex --undo` undoes this
        [0]
    ");
    assert_snapshot!(rack.run(&["connect", "codex", "--undo", "--dry-run"]), @r#"
        $ toolrack connect codex --undo --dry-run
        --- [HOME]/home/.codex/config.toml
        +++ [HOME]/home/.codex/config.toml
        @@ -1,5 +1,1 @@
         model = "m"
        -
        -[mcp_servers.toolrack]
        -command = "toolrack"
        -args = ["gateway", "--server", "fs"]
        [0]
    "#);
    let changed = rack.home.read("home/.codex/config.toml") + "\n[tui]\n";
    rack.home.write("home/.codex/config.toml", changed);
    assert_snapshot!(rack.run(&["connect", "codex", "--undo", "--yes"]), @"
        $ toolrack connect codex --undo --yes
        disconnected Codex: toolrack was taken out of [HOME]/home/.codex/config.toml, which has changed since and keeps everything else
        [0]
    ");
    assert_eq!(rack.home.read("home/.codex/config.toml"), "model = \"m\"\n\n[tui]\n");
    assert_snapshot!(rack.run(&["connect", "codex", "--undo", "--yes"]), @"
        $ toolrack connect codex --undo --yes
        --- stderr ---
        error: [HOME]/home/.codex/config.toml has no server `toolrack`, so there is nothing to undo
        hint: `toolrack connect` shows which programs are connected, and by which name
        [2]
    ");
}

#[test]
fn connect_writes_only_what_the_user_has_seen() {
    let rack = Rack::new().with_binary_on_path();
    assert_snapshot!(rack.run(&["connect", "gemini"]), @"
        $ toolrack connect gemini
        --- stderr ---
        error: the file of Gemini CLI changes only when a user agrees to it, and no user can be asked
        hint: `--dry-run` shows the change, `--yes` agrees to it
        [2]
    ");
    assert!(!file(&rack, ".gemini").exists());

    let rack = rack.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    for (answer, is_written) in [("n\r", false), ("y\r", true)] {
        let mut terminal = Terminal::run(&rack, &["connect", "gemini"]);
        let before = terminal.expect("[y/N]");
        assert!(before.contains("mcpServers") && before.contains("Make "), "{before}");
        terminal.type_in(answer);
        let (_, code) = terminal.end();
        assert_eq!((code == 0, file(&rack, ".gemini/settings.json").exists()), (is_written, is_written));
    }
    let _ = rack.run(&["connect", "gemini", "--undo", "--yes"]).ends_with(0);
    assert!(!file(&rack, ".gemini").exists());
}

#[test]
fn a_file_that_cannot_be_edited_stays_unchanged_with_a_hint() {
    let rack = Rack::new().with_binary_on_path();
    let theirs = mcp_json(&[("toolrack", json!({ "command": "theirs" }))]);
    rack.home.write("home/.cursor/mcp.json", &theirs);
    assert_snapshot!(rack.run(&["connect", "cursor", "--yes"]), @"
        $ toolrack connect cursor --yes
        --- stderr ---
        error: [HOME]/home/.cursor/mcp.json has another server called `toolrack`
        hint: give Toolrack another name there: toolrack connect cursor --name rack
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "cursor", "--undo", "--yes"]), @"
        $ toolrack connect cursor --undo --yes
        --- stderr ---
        error: [HOME]/home/.cursor/mcp.json has another server called `toolrack`
        hint: `toolrack connect` shows which programs are connected, and by which name
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "cursor", "--yes", "--name", "rack"]), @"
        $ toolrack connect cursor --yes --name rack
        connected Cursor: rack is in [HOME]/home/.cursor/mcp.json
        --- stderr ---
        Cursor has the tools when it is restarted; `toolrack connect cursor --undo --name rack` undoes this
        [0]
    ");
    let _ = rack.run(&["connect", "cursor", "--undo", "--yes", "--name", "rack"]).ends_with(0);
    assert_eq!(rack.home.read("home/.cursor/mcp.json"), theirs);

    rack.home.write("home/.config/zed/settings.json", "{\n  // mine\n  \"a\": [1,\n}\n");
    assert_snapshot!(rack.run(&["connect", "zed", "--yes"]), @"
        $ toolrack connect zed --yes
        --- stderr ---
        error: [HOME]/home/.config/zed/settings.json:4:1: this is not JSON: unexpected close brace
        hint: nothing was changed in it: correct it, and try again
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "zed", "--http", "--yes"]), @"
        $ toolrack connect zed --http --yes
        --- stderr ---
        error: Zed cannot be connected over HTTP: it looks up no variables in headers, so the token would be in its file. Leave `--http` out: the gateway over stdio shares the servers of a running daemon as well
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "windsurf", "--project", "--yes"]), @"
        $ toolrack connect windsurf --project --yes
        --- stderr ---
        error: Windsurf has no file for a single project: leave `--project` out
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "codex", "--yes", "--", "--sever", "fs"]), @"
        $ toolrack connect codex --yes -- --sever fs
        --- stderr ---
        error: `toolrack gateway` would refuse this: unexpected argument '--sever' found
        hint: toolrack gateway --help
        [2]
    ");
    assert_snapshot!(rack.run(&["connect", "codex", "--yes", "--http=ftp://x"]), @"
        $ toolrack connect codex --yes --http=ftp://x
        --- stderr ---
        error: `ftp://x` is no endpoint of a daemon: it must begin with http:// or https://, and end with /mcp
        hint: leave it out, or write http://127.0.0.1:7717/mcp
        [2]
    ");
}

#[test]
fn the_entry_that_connect_writes_starts_a_gateway() {
    // Not on the path: the whole path of the program is written.
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let _ = rack.run(&["connect", "claude-code", "--yes"]).ends_with(0);
    let file: Value = serde_json::from_str(&rack.home.read("home/.claude.json")).unwrap();
    let entry = &file["mcpServers"]["toolrack"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_toolrack"), "{entry}");
    let mut command = Command::new(entry["command"].as_str().unwrap());
    rack.set_environment(&mut command);
    command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    let mut gateway = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    writeln!(gateway.stdin.take().unwrap(), "{hello}").unwrap();
    let output = gateway.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"capabilities\""));
}

#[test]
fn over_http_no_file_gets_the_token() {
    let rack = Rack::new().with_binary_on_path();
    assert_snapshot!(rack.run(&["connect", "vscode", "--http", "--yes"]), @"
        $ toolrack connect vscode --http --yes
        connected VS Code: toolrack is in [HOME]/home/.config/Code/User/mcp.json
        --- stderr ---
        start the daemon with `toolrack up --token-file FILE`, and VS Code with TOOLRACK_TOKEN set to the token in FILE; `toolrack connect vscode --undo` undoes this
        [0]
    ");
    let file = rack.home.read("home/.config/Code/User/mcp.json");
    assert!(file.contains("http://127.0.0.1:7717/mcp") && file.contains("Bearer ${env:TOOLRACK_TOKEN}"), "{file}");
    // The gateway in a program's file is not offered as a server to import.
    let import = rack.run(&["import"]).ends_with(0);
    assert!(!import.stdout.contains("toolrack "), "{import}");
}

#[test]
fn a_broken_configuration_of_toolrack_does_not_prevent_it() {
    let rack = Rack::new().with_binary_on_path();
    rack.home.write("toolrack/mcp.json", "{ broken");
    let _ = rack.run(&["connect", "cursor", "--yes"]).ends_with(0);
    let document = rack.run(&["connect", "cursor", "--undo", "--yes", "--json"]).ends_with(0).json();
    assert_eq!((&document["removed"], &document["exact"]), (&json!(true), &json!(true)), "{document}");
}
