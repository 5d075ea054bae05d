//! A repository that was written to harm whoever clones it: nothing of it is started, contacted or filled in by any
//! command, with any option, until the person has agreed.
//!
//! What must be true of the machine is written down in [`repository`], what is typed in [`commands`].

mod commands;
mod repository;

use std::{fs, path::Path, process::Command};

use self::{
    commands::LINES,
    repository::{ESCAPES, IN_FILE, Repository},
};

/// Every line of the table, with `options` behind it, each in a repository that was just cloned.
fn nothing_happens(options: &[&str]) {
    for line in LINES {
        for (words, code) in line.typed() {
            let repository = Repository::clone();
            // Before the arguments: what follows `--` would be for somebody else.
            let words: Vec<&str> = options.iter().copied().chain(words.iter().map(String::as_str)).collect();
            let ran = repository.run("below", &words).ends_with(code);
            if options.contains(&"--json") {
                assert!(code != 0 || ran.json().is_object(), "{ran}");
                assert!(code == 0 || ran.error()["message"].is_string(), "{ran}");
            }
        }
    }
}

#[test]
fn no_command_does_anything_for_a_repository_that_nobody_trusts() {
    nothing_happens(&[]);
}

#[test]
fn no_command_does_anything_for_it_when_a_program_asks() {
    nothing_happens(&["--json"]);
}

#[test]
fn no_command_does_anything_for_it_or_says_too_much_when_it_says_all() {
    nothing_happens(&["-vv"]);
}

#[test]
fn adding_a_server_under_a_name_of_theirs_starts_neither() {
    let repository = Repository::clone();
    let ran = repository.run("below", &["add", "touches", "--", "/nonexistent/server"]).ends_with(0);
    assert!(ran.stderr.contains("what counts for `touches` is"), "{ran}");
    let ran = repository.run("below", &["add", "builtin", "--", "/nonexistent/server"]).ends_with(0);
    assert!(ran.stderr.contains("what counts for `builtin` is"), "{ran}");
}

/// Every command that asks for no server by name, in a repository whose `.mcp.json` is this. None fails because of it.
fn a_file_harms_nobody(make: impl Fn(&Repository)) {
    nothing_happens_in(&make, &[&[], &["--json"], &["-vv"]]);
}

fn nothing_happens_in(make: &dyn Fn(&Repository), ways: &[&[&str]]) {
    let repository = Repository::empty();
    make(&repository);
    for line in LINES {
        if let [(words, 0)] = line.typed().as_slice() {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            for options in ways {
                let ran = repository.run("", &[*options, &words].concat()).ends_with(0);
                assert!(ran.stderr.contains(".mcp.json"), "the file is named: {ran}");
                assert!(ran.stderr.len() < 4_000, "{} bytes of stderr", ran.stderr.len());
            }
        }
    }
}

#[test]
fn a_pipe_in_place_of_the_file_blocks_no_command() {
    a_file_harms_nobody(|repository| {
        let pipe = repository.rack.home.work().join(".mcp.json");
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    });
}

#[test]
fn a_link_in_place_of_the_file_shows_nothing_of_what_it_leads_to() {
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
        a_file_harms_nobody(|repository| link(&target, repository));
    }
    for device in ["/dev/zero", "/dev/tty", "/proc/self/environ", "/"] {
        a_file_harms_nobody(|repository| link(Path::new(device), repository));
    }
}

fn link(target: &Path, repository: &Repository) {
    std::os::unix::fs::symlink(target, repository.rack.home.work().join(".mcp.json")).unwrap();
}

#[test]
fn a_file_that_is_nested_without_end_overflows_nothing() {
    let most = 4 * 1024 * 1024;
    let objects = r#"{"mcpServers":"#.to_owned() + &r#"{"a":"#.repeat(most / 5 - 3);
    let comments = "/* */".repeat(most / 5) + "[";
    let lines = "[\n".repeat(most / 3);
    let closed = format!("{}{}", "[".repeat(most / 2), "]".repeat(most / 2));
    for text in ["[".repeat(most), objects, comments, lines, closed] {
        nothing_happens_in(&|repository| drop(repository.rack.home.write("work/.mcp.json", &text)), &[&[]]);
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
        // As they are, where JSON allows none.
        format!("{{\"mcpServers\": {{\"{ESCAPES}\": 1 2}}}}"),
        format!("// {ESCAPES}\n{{\"mcpServers\": {{\"a\": {{\"command\": \"{ESCAPES}\"}}}}}}"),
    ] {
        a_file_harms_nobody(|repository| drop(repository.rack.home.write("work/.mcp.json", &text)));
    }
}
