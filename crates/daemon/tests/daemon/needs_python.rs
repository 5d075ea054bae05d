//! Tests the API against its description: schemathesis (<https://schemathesis.readthedocs.io>) generates requests that
//! the description allows, and some that it does not.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;
use toolrack_testkit::Home;

use crate::up::{Up, fake, servers};

/// The checks that every answer must pass.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection";

#[expect(clippy::disallowed_methods, reason = "what is installed where is a matter of the machine")]
fn schemathesis() -> PathBuf {
    let by_default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/venv");
    let program = std::env::var_os("TOOLRACK_TEST_VENV").map_or(by_default, PathBuf::from).join("bin/schemathesis");
    assert!(program.exists(), "{} is not installed; `cargo xtask test` installs it", program.display());
    program
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_documented_for_any_input() {
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("fake", fake(&[])), ("gone", json!({ "command": "/nonexistent" }))]));
    // No user can answer a question.
    let up = Up::patient(home, Duration::from_millis(50)).await;
    let mut command = up.home.command(schemathesis());
    command
        .args(["run", &format!("{}/openapi.json", up.url), "--header", "Authorization: Bearer key"])
        // Generate the same requests in each run. Leave out events and calls, which may never end.
        .args(["--seed", "1", "--max-examples", "10", "--phases", "examples,coverage,fuzzing", "--no-color"])
        .args(["--exclude-path", "/api/v1/events", "--request-timeout", "20", "--checks", CHECKS]);
    let output = tokio::task::spawn_blocking(move || output(command)).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(up.get("/health").await["status"], "ok");
    up.down().await;
}

fn output(mut command: Command) -> std::process::Output {
    command.output().unwrap()
}
