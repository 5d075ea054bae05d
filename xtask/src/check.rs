//! Static checks.

use std::env;

use crate::embedder;
use crate::report::{Report, Step, Stop};
use crate::run::{cargo, execute};
use crate::tools::DENY;

/// Checks formatting, lints and documentation.
pub(crate) fn all(report: &mut Report) {
    report.step("format", || {
        execute(&mut cargo(["fmt", "--all", "--check"]))?;
        embedder::check_format()
    });
    report.step("lints", || {
        let mut clippy = cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--locked"]);
        execute(clippy.args(["--", "-D", "warnings"]))
    });
    report.step("documentation", || {
        let mut doc = cargo(["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
        execute(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Checks licences, sources and forbidden dependencies. Installs cargo-deny if it is missing.
pub(crate) fn deny(report: &mut Report) {
    report.step("dependencies", || check_licences_and_sources(DENY.installed()?));
    report.step("advisories", || check_advisories(DENY.installed()?));
}

/// Runs the checks of [`deny`] as a part of all tests. If cargo-deny is missing, only CI builds it, because that takes
/// minutes.
pub(crate) fn deny_if_installed(report: &mut Report) {
    report.step("dependencies", || match DENY.found() {
        Some(command) => check_licences_and_sources(command),
        None if env::var_os("CI").is_some() => check_licences_and_sources(DENY.installed()?),
        None => Err(Stop::Skipped("cargo-deny is not installed (`cargo xtask deny` installs it)".into())),
    });
    report.step("advisories", || match DENY.found() {
        Some(command) => check_advisories(command),
        None => Err(Stop::Skipped("cargo-deny is not installed (`cargo xtask deny` installs it)".into())),
    });
}

/// Checks our dependencies for known vulnerabilities. The step is skipped if the database of vulnerabilities cannot be
/// downloaded: no package registry offers it.
fn check_advisories(mut deny: std::process::Command) -> Step {
    let output = deny.args(["--locked", "--all-features", "check", "advisories"]).output();
    let output = output.map_err(|error| Stop::Failed(format!("cargo-deny cannot run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(());
    }
    if ["failed to fetch advisory database", "failed to load advisory database"]
        .iter()
        .any(|cause| text.contains(cause))
    {
        return Err(Stop::Skipped("the advisory database cannot be fetched here".into()));
    }
    print!("{text}");
    Err(Stop::Failed("a crate that we depend on has a known vulnerability, or was yanked".into()))
}

fn check_licences_and_sources(mut deny: std::process::Command) -> Step {
    execute(deny.args(["--locked", "--all-features", "check", "bans", "licenses", "sources"]))
}
