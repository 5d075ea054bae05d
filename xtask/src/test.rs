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
    let left_out: Vec<_> = missing.iter().map(|(module, _)| format!("test(/(^|::){module}::/)")).collect();
    let mut run = nextest()?;
    run.args(["run", "--workspace", "--locked", "--profile", "ci"]).envs(peers.variables());
    let (wanted, other_arguments) = split_filters(arguments);
    if let Some(filter) = joined_filter(&wanted, &left_out) {
        run.args(["-E", &filter]);
    }
    run.args(other_arguments);
    for ((module, why), filter) in missing.iter().zip(&left_out) {
        let mut list = nextest()?;
        list.args(["list", "--workspace", "--locked", "--profile", "ci", "-T", "oneline", "-E", filter]);
        let names = output(&mut list).unwrap_or_default();
        println!("   skipped, {} tests in modules {module}: {why}", names.lines().count());
        names.lines().for_each(|name| println!("      SKIP {name}"));
    }
    execute(&mut run)
}

/// Splits the arguments of the test runner into its filters (`-E FILTER`) and the others. Those after `--` are for the
/// tests.
fn split_filters<'a>(arguments: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut filters, mut others) = (Vec::new(), Vec::new());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let joined =
            ["--filterset=", "--filter-expr=", "-E=", "-E"].into_iter().find_map(|name| word.strip_prefix(name));
        match (word, joined) {
            ("--", _) => {
                others.push(word);
                others.extend(words.by_ref());
            }
            ("-E" | "--filterset" | "--filter-expr", _) => filters.extend(words.next()),
            (_, Some(filter)) => filters.push(filter),
            (_, None) => others.push(word),
        }
    }
    (filters, others)
}

/// Returns one filter for the tests that any of `wanted` selects and none of `left_out`. The test runner takes several
/// filters as alternatives, so the wanted ones cannot stay arguments of their own.
fn joined_filter(wanted: &[&str], left_out: &[String]) -> Option<String> {
    let wanted = (!wanted.is_empty()).then(|| format!("(({}))", wanted.join(") | (")));
    let without = (!left_out.is_empty()).then(|| format!("not ({})", left_out.join(" | ")));
    match (wanted, without) {
        (Some(wanted), Some(without)) => Some(format!("{wanted} & {without}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_the_caller_and_the_missing_requirements_both_count() {
        let typed = ["-E", "package(a)", "name", "--filterset=test(b)", "--", "-E", "x"];
        let (wanted, others) = split_filters(&typed);
        assert_eq!((&wanted[..], &others[..]), (&["package(a)", "test(b)"][..], &["name", "--", "-E", "x"][..]));
        let left_out = ["test(/c/)".to_owned(), "test(/d/)".to_owned()];
        let joined = |wanted: &[&str], left_out: &[String]| joined_filter(wanted, left_out).unwrap_or_default();
        assert_eq!(joined(&wanted, &left_out), "((package(a)) | (test(b))) & not (test(/c/) | test(/d/))");
        assert_eq!(joined(&wanted[..1], &[]), "((package(a)))");
        assert_eq!(joined(&[], &left_out[..1]), "not (test(/c/))");
        assert_eq!(joined(&[], &[]), "");
    }
}
