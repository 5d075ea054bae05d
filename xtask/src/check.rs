//! Static checks.

use std::env;

use crate::embedder;
use crate::report::{Report, Step, Stop};
use crate::run::{cargo, show};
use crate::tools::DENY;

/// Checks formatting, lints and documentation.
pub(crate) fn all(report: &mut Report) {
    report.step("format", || {
        show(&mut cargo(["fmt", "--all", "--check"]))?;
        embedder::formatted()
    });
    report.step("lints", || {
        let mut clippy = cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--locked"]);
        show(clippy.args(["--", "-D", "warnings"]))
    });
    report.step("documentation", || {
        let mut doc = cargo(["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
        show(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Checks licences, sources and forbidden dependencies. Installs cargo-deny if it is missing.
pub(crate) fn deny(report: &mut Report) {
    report.step("dependencies", || judge(DENY.installed()?));
    report.step("advisories", || advisories(DENY.installed()?));
}

/// Runs [`deny`] as a part of all tests. If cargo-deny is missing, only CI builds it, because that takes minutes.
pub(crate) fn deny_where_it_is(report: &mut Report) {
    report.step("dependencies", || match DENY.found() {
        Some(command) => judge(command),
        None if env::var_os("CI").is_some() => judge(DENY.installed()?),
        None => Err(Stop::Skipped("cargo-deny is not installed (`cargo xtask deny` installs it)".into())),
    });
    report.step("advisories", || match DENY.found() {
        Some(command) => advisories(command),
        None => Err(Stop::Skipped("cargo-deny is not installed (`cargo xtask deny` installs it)".into())),
    });
}

/// Checks our dependencies for known vulnerabilities. The step is skipped without the database of vulnerabilities,
/// which no registry has.
fn advisories(mut deny: std::process::Command) -> Step {
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
    Err(Stop::Failed("a crate that we depend on has a known hole, or was yanked".into()))
}

fn judge(mut deny: std::process::Command) -> Step {
    show(deny.args(["--locked", "--all-features", "check", "bans", "licenses", "sources"]))
}
