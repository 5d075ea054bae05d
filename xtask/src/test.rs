//! All tests, in one command.

use crate::peers::{self, Peers};
use crate::report::{Report, Step};
use crate::run::{cargo, execute, output};
use crate::tools::NEXTEST;
use crate::{
    book, check, deploy, embedder, engines, fuzz, ipv6, keychain, landlock, postgres, proxies, published, shells,
    steady, systemd,
};

/// Installs, checks, fuzzes, compares the steady figures, and tests. The tests come last, so that their summary ends
/// the output.
pub(crate) fn all(report: &mut Report, arguments: &[String]) {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|argument| *argument != "--quick").collect();
    let peers = if quick { Peers::found() } else { peers::install(report) };
    if !quick {
        shells::install(report);
        proxies::install(report);
        postgres::install(report);
        keychain::install(report);
        engines::install(report);
        check::all(report);
        check::deny_if_installed(report);
        published::run(report);
        report.step("the guide as a book", book::build);
        report.step("files for deployments", deploy::check);
        fuzz::run(report, &fuzz::Plan::default());
        steady::run(report, &[]);
        report.step("tests in the documentation", || execute(&mut cargo(["test", "--workspace", "--doc", "--locked"])));
    }
    // A caller who names some tests wants only those.
    if arguments.is_empty() {
        report.step("tests of the programs in embedder/", embedder::tests);
    }
    report.last_step("tests", || run(&peers, &arguments));
}

/// Runs all tests except those whose requirements are missing here, and prints the names of these.
///
/// A test with a requirement is in a module that is named after it, such as `needs_node`. A filter leaves the tests of
/// such a module out, and the test runner counts them as skipped. Run by hand, without the variables, they fail and
/// report what is missing.
fn run(peers: &Peers, arguments: &[&str]) -> Step {
    let nextest = || NEXTEST.installed();
    let missing: Vec<_> = peers
        .missing()
        .chain(shells::missing())
        .chain(proxies::missing())
        .chain(postgres::missing())
        .chain(keychain::missing())
        .chain(engines::missing())
        .chain(landlock::missing())
        .chain(ipv6::missing())
        .chain(systemd::missing())
        .collect();
    let filters: Vec<_> = missing.iter().map(|(module, _)| format!("test(/(^|::){module}::/)")).collect();
    let mut run = nextest()?;
    run.args(["run", "--workspace", "--locked", "--profile", "ci"]).args(arguments).envs(peers.variables());
    if !filters.is_empty() {
        run.args(["-E", &format!("not ({})", filters.join(" | "))]);
    }
    for ((module, why), filter) in missing.iter().zip(&filters) {
        let mut list = nextest()?;
        list.args(["list", "--workspace", "--locked", "--profile", "ci", "-T", "oneline", "-E", filter]);
        let names = output(&mut list).unwrap_or_default();
        println!("   skipped, {} tests in modules {module}: {why}", names.lines().count());
        names.lines().for_each(|name| println!("      SKIP {name}"));
    }
    execute(&mut run)
}
