//! The unchanged output of `call` and `read`, into a file or a pipe.

use std::{fs, path::PathBuf};

use insta::assert_snapshot;
use serde_json::json;
use toolrack_testkit::EffectLog;

use crate::rack::{Rack, fake, mcp_json, work_file};

fn rack() -> Rack {
    Rack::with(&[("fake", fake(&[]))])
}

fn file(rack: &Rack, name: &str) -> PathBuf {
    rack.home.work().join(name)
}

/// A call whose result is made of the pieces at these places: text, picture, sound, note, bytes, link.
fn call<'a>(places: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["call", "fake/image", "--no-validate", places], options].concat()
}

#[test]
fn bytes_go_into_a_pipe_as_they_are() {
    let rack = rack();
    for options in [&[][..], &["-o", "-"]] {
        let read = rack.command(&[&["read", "fake", "fake://blob"], options].concat()).output().unwrap();
        assert_eq!((&*read.stdout, &*read.stderr), (&[0, 1, 2][..], &b""[..]));
        let called = rack.command(&call("only:=[1]", options)).output().unwrap();
        assert!(called.stdout.starts_with(b"\x89PNG"), "{called:?}");
    }
}

#[test]
fn bytes_beside_something_else_are_described_in_a_pipe() {
    assert_snapshot!(rack().run(&call("only:=[0,1]", &[])), @"
        $ toolrack call fake/image --no-validate only:=[0,1]
        one of each
        [image image/png, 70 B]
        [0]
    ");
}

#[test]
fn binary_content_goes_to_the_file_and_other_output_to_stderr() {
    let rack = rack();
    assert_snapshot!(rack.run(&["read", "fake", "fake://blob", "--output", "blob"]), @"
        $ toolrack read fake fake://blob --output blob
        --- stderr ---
        wrote blob
        [0]
    ");
    assert_eq!(fs::read(file(&rack, "blob")).unwrap(), [0, 1, 2]);
    assert_snapshot!(rack.run(&call("only:=[0,4]", &["-o", "blob"])), @"
        $ toolrack call fake/image --no-validate only:=[0,4] -o blob
        --- stderr ---
        one of each
        [resource application/octet-stream, 3 B]
        wrote blob
        [0]
    ");
    let piped = rack.run(&call("only:=[0,4]", &["-o", "-", "-q"])).ends_with(0);
    assert_eq!((&*piped.stdout, &*piped.stderr), ("\0\u{1}\u{2}", ""));
}

#[test]
fn an_output_file_is_replaced_by_the_unchanged_text() {
    let rack = rack();
    work_file(&rack, "text", "more than what comes, so that something would be left of it");
    let _ = rack.run(&["call", "fake/echo", "text=a\u{1b}[1m\r\nb", "-o", "text"]).ends_with(0);
    assert_eq!(fs::read(file(&rack, "text")).unwrap(), b"a\x1b[1m\r\nb");
    let _ = rack.run(&call("only:=[0,3]", &["-o", "text"])).ends_with(0);
    assert_eq!(fs::read_to_string(file(&rack, "text")).unwrap(), "one of each\na note");
}

#[test]
fn one_file_does_not_take_several_pieces_that_are_not_text() {
    let rack = rack();
    assert_snapshot!(rack.run(&call("only:=[0,1,4]", &["-o", "all"])), @"
        $ toolrack call fake/image --no-validate only:=[0,1,4] -o all
        one of each
        [image image/png, 70 B]
        [resource application/octet-stream, 3 B]
        --- stderr ---
        error: 2 pieces of the result are not text, and a file can hold only one of them
        hint: `--json` prints them all, in Base64
        [1]
    ");
    assert!(!file(&rack, "all").exists());
}

#[test]
fn an_error_of_the_tool_is_shown_and_not_written() {
    let rack = rack();
    let ran = rack.run(&["call", "fake/fail", "message=no luck", "-o", "file"]).ends_with(5);
    assert_eq!(ran.stdout, "no luck\n");
    assert!(!file(&rack, "file").exists());
}

#[test]
fn a_place_that_is_not_there_is_known_before_a_tool_is_called() {
    let effects = EffectLog::new();
    let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
    assert_snapshot!(rack.run(&["call", "fake/echo", "text=x", "-o", "none/file"]), @"
        $ toolrack call fake/echo text=x -o none/file
        --- stderr ---
        error: cannot write none/file: there is no such file or folder
        hint: name a file that you may write to
        [1]
    ");
    let _ = rack.run(&["read", "fake", "fake://note", "-o", "."]).ends_with(1);
    assert_eq!(effects.read().lines.len(), 0, "no server was started");
    let _ = rack.run(&["read", "fake", "fake://note", "-o", "/dev/full"]).ends_with(1);
}

#[test]
fn a_file_and_a_document_exclude_each_other() {
    let rack = rack();
    for words in
        [&["--json", "call", "fake/echo", "-o", "x"][..], &["read", "fake", "fake://note", "-o", "-", "--json"]]
    {
        assert_eq!(rack.run(words).ends_with(2).error()["code"], "USAGE");
    }
}

#[test]
fn a_secret_that_a_server_repeats_is_in_no_file() {
    let mut server = fake(&[]);
    server["env"] = json!({ "API_TOKEN": "canary-in-a-file" });
    let rack = Rack::new();
    rack.home.write("toolrack/mcp.json", mcp_json(&[("fake", server)]));
    let _ = rack.run(&["call", "fake/env", "name=API_TOKEN", "-o", "file"]).ends_with(0);
    let written = fs::read_to_string(file(&rack, "file")).unwrap();
    assert!(written.contains("***") && !written.contains("canary"), "{written}");
}

#[test]
fn another_program_gets_exactly_the_bytes_of_a_text_and_no_secret() {
    let rack = Rack::with(&[("fake", fake_with_token())]);
    for text in ["a\r\nb\r", "\u{1b}[31mred\u{1b}[m", "a\u{202e}b\u{200b}c", "no line end", "one\n\n", " "] {
        let ran = rack.run(&["call", "fake/echo", &format!("text={text}")]).ends_with(0);
        assert_eq!(ran.stdout, text);
    }
    let ran = rack.run(&["call", "fake/echo", r#"text:="a\u0000b""#]).ends_with(0);
    assert_eq!(ran.stdout, "a\0b");
    let ran = rack.run(&["call", "fake/echo", "text=my canary-for-the-pipe\r"]).ends_with(0);
    assert_eq!(ran.stdout, "my ***\r");
}

/// A server that was given a secret.
fn fake_with_token() -> serde_json::Value {
    let mut entry = fake(&[]);
    entry["env"] = serde_json::json!({ "API_TOKEN": "canary-for-the-pipe" });
    entry
}
