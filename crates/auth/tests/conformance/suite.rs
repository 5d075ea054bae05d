//! The official conformance suite: every client scenario of both revisions, through one client.
//!
//! The suite plays the MCP server and, where there is one, the authorization server, and starts this program again as
//! the client: a host that signs in with this crate, and a browser without a user.
//!
//! `cargo test -p toolrack-auth --test conformance` runs all scenarios, and at the end prints how many scored scenarios
//! of each revision pass. The suite itself lists the scored ones.

#![expect(clippy::unwrap_used, reason = "a test")]

mod client;
mod scenarios;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use libtest_mimic::{Arguments, Failed, Trial};

use scenarios::{BOTH, LEGACY, MODERN};

/// The revisions of MCP: the version as the suite writes it, the module of its tests, and the scenarios that only this
/// revision has.
const REVISIONS: [(&str, &str, &[&str]); 2] = [("2025-11-25", "legacy", LEGACY), ("2026-07-28", "modern", MODERN)];

fn main() -> ExitCode {
    if let Some(code) = client::run_if_suite_started_us() {
        return code;
    }
    let mut trials = vec![Trial::test("needs_node::no_scored_scenario_is_missing", check_none_is_missing)];
    let mut scores = Vec::new();
    for (version, module, own) in REVISIONS {
        let passed = Arc::new(AtomicUsize::new(0));
        for scenario in BOTH.iter().chain(own).copied() {
            let passed = Arc::clone(&passed);
            // This scenario measures how soon the client opens a broken stream again. Tests in a module `alone` run
            // without others at the same time.
            let alone = if scenario == "sse-retry" { "alone::" } else { "" };
            let name = scenario.replace(['-', '/'], "_");
            trials.push(Trial::test(format!("needs_node::{module}::{alone}{name}"), move || {
                run_scenario(scenario, version)?;
                if scored(version).iter().any(|scored| scored == scenario) {
                    passed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        scores.push((version, passed));
    }
    let arguments = Arguments::from_args();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && conclusion.num_filtered_out == 0 {
        print_scores(&scores);
    }
    conclusion.exit_code()
}

#[expect(clippy::print_stdout, reason = "what the run comes to")]
fn print_scores(scores: &[(&str, Arc<AtomicUsize>)]) {
    for (version, passed) in scores {
        println!("{version}: {} of {} scored scenarios pass", passed.load(Ordering::Relaxed), scored(version).len());
    }
}

/// The client scenarios that count for a revision, as the suite lists them.
#[expect(clippy::disallowed_methods, reason = "the list is a file of the suite")]
fn scored(version: &str) -> Vec<String> {
    let path = npm(&format!("@modelcontextprotocol/conformance/requirements/{version}.yaml"));
    let listed = std::fs::read_to_string(path).unwrap();
    let of_clients = listed.lines().skip_while(|line| *line != "client:").skip(1);
    let items = of_clients.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    items.filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

/// Checks that each scored scenario is among the tests.
fn check_none_is_missing() -> Result<(), Failed> {
    for (version, _, own) in REVISIONS {
        let scored = scored(version);
        let missing: Vec<_> = scored.iter().filter(|name| !BOTH.iter().chain(own).any(|own| own == name)).collect();
        if scored.is_empty() || !missing.is_empty() {
            return Err(format!("of the {} that {version} scores, no test plays {missing:?}", scored.len()).into());
        }
    }
    Ok(())
}

/// Runs one scenario with the suite. An error if it does not pass.
fn run_scenario(scenario: &str, version: &str) -> Result<(), Failed> {
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node"))
        .arg(npm("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", scenario, "--spec-version", version, "--command"])
        .arg(std::env::current_exe().unwrap())
        .current_dir(results.path())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Err(format!("{scenario} at {version}: {}\n{printed}", output.status).into())
}

/// A file of an npm package.
fn npm(file: &str) -> PathBuf {
    installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules").join(file)
}

#[expect(clippy::disallowed_methods, reason = "what is installed where is a matter of the machine")]
fn installed(variable: &str, by_default: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = std::env::var_os(variable).map_or_else(|| workspace.join(by_default), PathBuf::from);
    assert!(path.exists(), "{} is not installed; `cargo xtask test` installs it", path.display());
    path
}
