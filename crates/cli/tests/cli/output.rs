//! Where output goes, and how it looks.

use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::json;

use crate::rack::{Rack, fake};

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let rack = Rack::new();
    assert!(!rack.run(&["list"]).stdout.contains('\u{1b}'));
    assert!(rack.run(&["list", "--color", "always"]).stdout.contains("\u{1b}[32m"));
    let forced = Rack::new().env("CLICOLOR_FORCE", "1");
    assert!(forced.run(&["list"]).stdout.contains("\u{1b}[32m"));
    assert!(!forced.run(&["list", "--color", "never"]).stdout.contains('\u{1b}'));
    let refused = Rack::new().env("NO_COLOR", "1");
    assert!(!refused.run(&["list"]).stdout.contains('\u{1b}'));
}

#[test]
fn signs_are_unicode_only_where_the_locale_is() {
    assert!(Rack::new().run(&["list"]).stdout.is_ascii());
    assert_snapshot!(Rack::new().env("LANG", "C.UTF-8").run(&["list"]), @"
        $ toolrack list
        ✔ builtin  native  built in  connected (5 tools)
        --- stderr ---
        no servers are configured; `toolrack add NAME -- COMMAND` adds one, `toolrack import` those of other programs
        [0]
    ");
}

#[test]
fn stdout_holds_data_only() {
    let rack = Rack::with(&[("gone", json!({ "command": "/nonexistent/server" }))]);
    for args in [["list"], ["tools"], ["resources"], ["prompts"]] {
        let ran = rack.run(&[args.as_slice(), &["--json"]].concat()).ends_with(0);
        assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
        assert!(ran.json().is_object());
    }
    let failed = rack.run(&["--json", "call", "gone/x"]).ends_with(4);
    assert_eq!(failed.stdout, "");
    assert_eq!(failed.stderr.lines().count(), 1, "{failed}");
}

#[test]
fn quiet_drops_warnings_and_keeps_errors() {
    let rack = Rack::with(&[("gone", json!({ "command": "/nonexistent/server" }))]);
    assert!(rack.run(&["tools"]).stderr.starts_with("warning: "));
    assert_eq!(rack.run(&["tools", "-q"]).stderr, "");
    assert!(rack.run(&["call", "gone/x", "-q"]).stderr.starts_with("error: "));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let mut command = rack.command(&["call", "fake/big", "bytes=190000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_command_that_follows_a_log_ends_when_its_output_is_closed() {
    let rack = Rack::new();
    rack.home.write("toolrack/daemon.log", "one line\n");
    let mut command = rack.command(&["daemon", "logs", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["lsit"]), @"
        $ toolrack lsit
        --- stderr ---
        error: unrecognized subcommand 'lsit'

          tip: a similar subcommand exists: 'list'

        Usage: toolrack [OPTIONS] <COMMAND>

        For more information, try '--help'.
        [2]
    ");
    assert_snapshot!(rack.run(&["--json", "lsit"]), @r#"
        $ toolrack --json lsit
        --- stderr ---
        {"error":{"code":"USAGE","message":"unrecognized subcommand 'lsit'","hint":"a similar subcommand exists: 'list'","server":null,"tool":null}}
        [2]
    "#);
    for (words, message, hint) in [
        (&["call"][..], "the following required arguments were not provided: <TOOL>", "toolrack call --help"),
        (&["policy"], "`toolrack policy` takes a command", "toolrack policy --help"),
        (&["tools", "--limit", "x"], "invalid value 'x' for '--limit <COUNT>': invalid digit found in string", ""),
    ] {
        let error = rack.run(&[&["--json"], words].concat()).ends_with(2).error();
        assert_eq!(error["message"], message);
        assert!(error["hint"].as_str().unwrap().starts_with(hint), "{error}");
    }
    assert_eq!(rack.run(&["help", "call"]).ends_with(0).stdout, rack.run(&["call", "--help"]).stdout);
    assert_eq!(rack.run(&["help"]).ends_with(0).stdout, rack.run(&["--help"]).stdout);
    assert_snapshot!(rack.run(&["call", "--help"]), @r#"
        $ toolrack call --help
        Call a tool and print its result

        Usage: toolrack call [OPTIONS] <TOOL> [NAME=VALUE]... [-- <COMMAND>...]

        Arguments:
          <TOOL>           The tool: server/tool, server.tool, or the name that a model sees; after the
                           address of a server, only the tool's own name
          [NAME=VALUE]...  The arguments of the tool: NAME=VALUE or NAME:=JSON
          [COMMAND]...     Use only the server that this command starts, and only this time

        Options:
              --args <JSON>     All arguments as one JSON object: the JSON itself, @FILE, or - for stdin
              --timeout <TIME>  End the call after this long without a sign of life, such as 30s or 2m
              --no-validate     Send the arguments even if they do not fit the tool's schema
          -o, --output <FILE>   Write the result into this file as it is, decoded if it is not text; - for
                                stdout
          -h, --help            Print help

        Options of every command:
              --mcp-config <FILE>     Read the servers of this file as well: a path, - for stdin, or JSON
                                      itself; repeatable
              --strict-mcp-config     Use only the servers of the files given with --mcp-config
              --strict                Fail when anything in the configuration is broken
              --agent <AGENT>         Use the servers of this agent of toolrack.toml as well
              --json                  Print one JSON document; errors are one line of JSON on stderr
              --color <WHEN>          When to use colour [default: auto] [possible values: auto, always,
                                      never]
          -q, --quiet                 Print no notes and warnings
          -v, --verbose...            Print what the servers write; twice (-vv) also all protocol messages
              --no-input              Never ask anything, even on a terminal
              --root <DIR>            Give this folder to servers that ask for roots; may be given more than
                                      once
              --no-daemon             Start the servers here, even if a running daemon has them already
              --answer <FIELD=VALUE>  Answer a field of a server's form in advance; may be given more than
                                      once
              --answers <FILE>        Answer fields of forms in advance with the JSON object in this file

        How values are read:
          path=README.md       a value, read as the tool's schema says: text, number, true or false
          paths=a paths=b      several values for a list
          filter:='{"a": 1}'   JSON as it stands
          '{"path": "."}'      a JSON object sets several at once

        For a server that is not configured, write the tool after its address, or before `--` and its
        command.

        Examples:
          toolrack call fs/read_text_file path=README.md head=10
          toolrack call https://example.com/mcp echo message=hi
          toolrack call echo message=hi -- npx -y my-server
          toolrack call fs/edit --args @edit.json
          toolrack call browser/screenshot -o page.png
          echo '{"path": "."}' | toolrack call builtin/list_directory --args -
        [0]
    "#);
    let help = rack.run(&["--help"]).ends_with(0);
    assert!(help.stdout.contains("Exit codes:"));
    assert!(rack.run(&["--version"]).ends_with(0).stdout.starts_with("toolrack "));
    assert_eq!(rack.run(&[]).ends_with(2).stdout, "");
}
