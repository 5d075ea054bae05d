//! The official conformance suite: every client scenario of both revisions whose name begins with `auth/`.
//!
//! The suite plays the MCP server and the authorization server, and starts this test again as the client: a host that signs
//! in with this crate, and a browser that nobody looks at.

#![expect(clippy::unwrap_used, reason = "a test")]

mod client;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use libtest_mimic::{Arguments, Failed, Trial};

/// Scored for both revisions.
const BOTH: &[&str] = &[
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
    // Not scored.
    "client-credentials-basic",
];

/// Scored for 2026-07-28.
const MODERN: &[&str] = &[
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
];

fn main() -> ExitCode {
    if let Some(code) = client::run_if_asked() {
        return code;
    }
    let trial = |scenario: &'static str, version: &'static str| {
        let era = if version == "2025-11-25" { "legacy" } else { "modern" };
        let name = format!("needs_node::{era}::{}", scenario.replace('-', "_"));
        Trial::test(name, move || passes(scenario, version))
    };
    let legacy = BOTH.iter().map(|scenario| trial(scenario, "2025-11-25"));
    let modern = BOTH.iter().chain(MODERN).map(|scenario| trial(scenario, "2026-07-28"));
    libtest_mimic::run(&Arguments::from_args(), legacy.chain(modern).collect()).exit_code()
}

fn passes(scenario: &str, version: &str) -> Result<(), Failed> {
    let results = tempfile::tempdir().unwrap();
    let scenario = format!("auth/{scenario}");
    let output = Command::new(installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node"))
        .arg(npm("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", &scenario, "--spec-version", version, "--command"])
        .arg(std::env::current_exe().unwrap())
        .current_dir(results.path())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Err(format!("{scenario} at {version}: {}\n{said}", output.status).into())
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
