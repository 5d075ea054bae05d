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
    assert_snapshot!(Rack::new().env("LANG", "C.UTF-8").run(&["list"]), @"");
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
fn a_reader_that_goes_away_is_no_error() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let mut command = rack.command(&["call", "fake/big", "bytes=190000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let rack = Rack::new();
    assert_snapshot!(rack.run(&["lsit"]), @"");
    assert_snapshot!(rack.run(&["--json", "lsit"]), @"");
    assert_snapshot!(rack.run(&["call", "--help"]), @"");
    let help = rack.run(&["--help"]).ends_with(0);
    assert!(help.stdout.contains("Exit codes:"));
    assert!(rack.run(&["--version"]).ends_with(0).stdout.starts_with("toolrack "));
    assert_eq!(rack.run(&[]).ends_with(2).stdout, "");
}

#[test]
fn without_a_home_the_error_says_what_to_set() {
    let rack = Rack::new();
    let output = rack
        .command(&["list"])
        .env_remove("TOOLRACK_HOME")
        .env_remove("HOME")
        .env("XDG_CONFIG_HOME", "")
        .output()
        .unwrap();
    // Some systems know the home folder without the variable.
    if output.status.code() == Some(2) {
        assert!(String::from_utf8_lossy(&output.stderr).contains("TOOLRACK_HOME"));
    }
}
