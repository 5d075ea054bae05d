//! A repository that was written to harm the user who clones it. Until the user has agreed, no command starts, contacts
//! or fills in anything of it, with any option.
//!
//! [`repository`] checks the state of the machine, and [`commands`] has the commands.

mod commands;
mod repository;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use self::{
    commands::LINES,
    repository::{ESCAPES, Fate, IN_FILE, OF_EVERY_KIND, Repository, SERVERS},
};
use crate::rack::mcp_json;

/// Every line of the table for each of `servers`, with `options`, each in a repository that was just cloned.
fn nothing_happens(options: &[&str], servers: &[(&str, Fate)]) {
    for line in LINES.iter() {
        for (words, code) in line.typed(servers) {
            let repository = Repository::clone();
            // The options come first: after `--` they would belong to another program.
            let words: Vec<&str> = options.iter().copied().chain(words.iter().map(String::as_str)).collect();
            let ran = repository.run("below", &words).ends_with(code);
            // The gateway speaks MCP, and gets no message here.
            if options.contains(&"--json") && line.command != "gateway" {
                // A command that shows what is wrong has shown it; every other failure is one line.
                let is_shown = code == 0 || !ran.stdout.is_empty();
                assert!(if is_shown { ran.json().is_object() } else { ran.error()["message"].is_string() }, "{ran}");
            }
        }
    }
}

#[test]
fn no_command_does_anything_for_a_repository_that_the_user_does_not_trust() {
    nothing_happens(&[], SERVERS);
}

#[test]
fn no_command_does_anything_for_it_when_a_program_asks() {
    nothing_happens(&["--json"], &SERVERS[..OF_EVERY_KIND]);
}

#[test]
fn no_command_does_anything_for_it_or_says_too_much_when_it_says_all() {
    nothing_happens(&["-vv"], &SERVERS[..OF_EVERY_KIND]);
}

#[test]
fn pressing_tab_in_it_does_nothing_and_offers_nothing_that_a_shell_would_run() {
    for words in [["call", ""], ["trust", ""], ["tools", "m"], ["call", "touches/"], ["prompt", "calls-home/"]] {
        let repository = Repository::clone();
        for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
            let mut command = repository.rack.command(&[&["--", "toolrack"], words.as_slice()].concat());
            command.env("TOOLRACK_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2");
            let mut ran = repository.finish("below", &words, command).ends_with(0);
            // Between a word and its description, for the shell that reads this.
            ran.stdout = ran.stdout.replace('\t', " ");
            repository.is_untouched(&ran);
            assert!(!ran.stdout.contains(['$', '`', ';', '|', '&']), "{ran}");
        }
    }
}

#[test]
fn adding_a_server_under_a_name_of_theirs_starts_neither() {
    let repository = Repository::clone();
    let ran = repository.run("below", &["add", "touches", "--", "/nonexistent/server"]).ends_with(0);
    assert!(ran.stderr.contains("the new entry is not used here: `touches` is"), "{ran}");
    let ran = repository.run("below", &["add", "builtin", "--", "/nonexistent/server"]).ends_with(0);
    assert!(ran.stderr.contains("the new entry is not used here: `builtin` is"), "{ran}");
}

#[test]
fn only_the_approved_content_of_an_entry_runs() {
    let repository = Repository::clone();
    let _ = repository.run("below", &["trust", "claims-trust", "off", "mine", "--yes"]).ends_with(0);
    let ran = repository.run_unchecked("below", &["tools"]).ends_with(0);
    repository.keeps_its_secrets(&ran);
    assert!(!repository.was_contacted(), "{ran}");
    // `off` is the person's own and still switched off; `mine` is the project's.
    assert_eq!(repository.started(), ["claims-trust", "mine"], "{ran}");

    // With one more argument it is another server, which no command runs.
    repository.forget_what_started();
    let mut file: Value = serde_json::from_str(&repository.rack.home.read("work/.mcp.json")).unwrap();
    file["mcpServers"]["claims-trust"]["args"].as_array_mut().unwrap().push(json!("x"));
    repository.rack.home.write("work/.mcp.json", file.to_string());
    for words in [["call", "claims-trust/x"], ["tools", "claims-trust"], ["test", "claims-trust"]] {
        let _ = repository.run("below", &words).ends_with(7);
    }
    let _ = repository.run("below", &["untrust", "mine"]).ends_with(0);
    let _ = repository.run("below", &["list"]).ends_with(0);
}

#[test]
fn a_server_that_was_trusted_gets_its_secret_and_no_other_program_sees_it() {
    let repository = Repository::clone();
    repository.rack.home.write(
        "work/below/.mcp.json",
        mcp_json(&[
            ("keeps", json!({ "command": "sh", "args": ["-c", "test \"$1\" = \"$A\" && test -n \"$A\" && echo started > \"$0\"",
                repository.rack.home.root().join("marks/keeps"), "${SECRET}"], "env": { "A": "${SECRET}" } })),
            ("tells", json!({ "command": "sh", "args": ["-c", "echo $A; echo $A >&2; exit 3"], "env": { "A": "${SECRET}" } })),
        ]),
    );
    for words in [
        ["trust", "keeps", "tells", "--yes"].as_slice(),
        &["get", "keeps"],
        &["-vv", "test", "keeps", "tells"],
        &["--json", "list", "keeps", "tells"],
        &["call", "tells/x"],
        &["why", "tells/x"],
        &["doctor", "tells"],
        &["logs", "tells"],
        &["config", "show"],
        &["untrust", "--all"],
    ] {
        let ran = repository.run_unchecked("below", words);
        repository.keeps_its_secrets(&ran);
    }
    assert_eq!(repository.started(), ["keeps"], "it got the secret");
}

/// Runs the commands that name no server, in a repository with this `.mcp.json`. Only commands that look for mistakes
/// may fail.
fn a_file_does_no_harm(make: impl Fn(&Repository), options: &[&str], commands: &[&str]) {
    let repository = Repository::empty();
    make(&repository);
    for line in LINES.iter().filter(|line| commands.contains(&line.command.as_str())) {
        for (words, code) in line.typed(&[]) {
            let words: Vec<&str> = options.iter().copied().chain(words.iter().map(String::as_str)).collect();
            let ran = repository.run("below", &words);
            assert!(ran.code == Some(0) || ran.code == Some(code), "{ran}");
            // `-vv` shows each message, also those with the built-in server.
            let most = if options.contains(&"-vv") { 20_000 } else { 4_000 };
            assert!(ran.stderr.len() < most, "{} bytes of stderr: {ran}", ran.stderr.len());
            assert!(line.command != "list" || ran.stderr.contains(".mcp.json"), "the file is named: {ran}");
        }
    }
}

/// Commands that together run all code which shows or checks a file.
const READERS: &[&str] = &["list", "import", "pending", "doctor", "config show", "config validate"];

#[test]
fn a_pipe_in_place_of_the_file_blocks_no_command() {
    let pipe = |repository: &Repository| {
        let pipe = repository.rack.home.work().join(".mcp.json");
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    };
    // A user who names a pipe means it.
    let commands: Vec<&str> =
        LINES.iter().map(|line| line.command.as_str()).filter(|name| *name != "config validate").collect();
    a_file_does_no_harm(pipe, &[], &commands);
    a_file_does_no_harm(pipe, &["--json"], &["list", "import", "pending", "doctor"]);
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("passwd", format!("ada:{IN_FILE}:0:0:Ada:/home/ada:/bin/sh\n")),
        ("netrc", format!("machine example.com login ada password {IN_FILE}\n")),
        ("pgpass", format!("localhost:5432:*:ada:{IN_FILE}\n")),
        ("env", format!("# {IN_FILE}\nTOKEN={IN_FILE}\nOTHER=\"{IN_FILE}\"\n")),
        ("key", format!("-----BEGIN PRIVATE KEY-----\n{IN_FILE}\n-----END PRIVATE KEY-----\n")),
        ("npmrc", format!("//registry.example.com/:_authToken={IN_FILE}\n_auth = {IN_FILE}\n")),
        ("json", format!("{{\"token\": \"{IN_FILE}\", \"tokens\": [\"{IN_FILE}\"], {IN_FILE}")),
    ] {
        let target = folder.path().join(name);
        fs::write(&target, text).unwrap();
        a_file_does_no_harm(|repository| link(&target, repository), &[], READERS);
        a_file_does_no_harm(|repository| link(&target, repository), &["--json"], READERS);
    }
    for device in ["/dev/zero", "/dev/tty", "/proc/self/environ", "/"] {
        a_file_does_no_harm(|repository| link(Path::new(device), repository), &["-vv"], READERS);
    }
}

fn link(target: &Path, repository: &Repository) {
    std::os::unix::fs::symlink(target, repository.rack.home.work().join(".mcp.json")).unwrap();
}

#[test]
fn a_file_that_is_nested_without_end_overflows_nothing() {
    let most = 4 * 1024 * 1024;
    let commands = ["list", "config validate"];
    let objects = r#"{"mcpServers":"#.to_owned() + &r#"{"a":"#.repeat(most / 5 - 3);
    let comments = "/* */".repeat(most / 5) + "[";
    let lines = "[\n".repeat(most / 3);
    let closed = format!("{}{}", "[".repeat(most / 2), "]".repeat(most / 2));
    for text in ["[".repeat(most), objects, comments, lines, closed] {
        a_file_does_no_harm(|repository| drop(repository.rack.home.write("work/.mcp.json", &text)), &[], &commands);
    }
}

#[test]
fn a_file_of_escapes_moves_no_cursor() {
    let escaped = serde_json::to_string(ESCAPES).unwrap();
    for text in [
        ESCAPES.to_owned(),
        format!("{{\"mcpServers\": {{{escaped}: {escaped}}}}}"),
        format!("{{{escaped}: {{{escaped}: {escaped}}}}}"),
        format!("{{\"mcpServers\": {{\"a\": {{{escaped}: {escaped}, \"command\": [{escaped}]}}}}}}"),
        // Unescaped, where JSON does not allow it.
        format!("{{\"mcpServers\": {{\"{ESCAPES}\": 1 2}}}}"),
        format!("// {ESCAPES}\n{{\"mcpServers\": {{\"a\": {{\"command\": \"{ESCAPES}\"}}}}}}"),
    ] {
        for options in [[].as_slice(), &["--json"], &["-vv"]] {
            a_file_does_no_harm(
                |repository| drop(repository.rack.home.write("work/.mcp.json", &text)),
                options,
                READERS,
            );
        }
    }
}
