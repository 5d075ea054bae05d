//! The tasks of this workspace, which `cargo xtask help` lists. They are written in Rust, so that they run on every
//! machine on which the workspace builds.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

use std::env;
use std::process::ExitCode;

mod bench;
mod book;
mod browser;
mod check;
mod debian;
mod deploy;
mod dist;
mod drill;
mod embedder;
mod engines;
mod fuzz;
mod growth;
mod ipv6;
mod keychain;
mod landlock;
mod packages;
mod peers;
mod postgres;
mod proxies;
mod published;
mod report;
mod run;
mod shells;
mod steady;
mod systemd;
mod teams;
mod test;
mod tools;

use report::Report;

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

  test [--quick] [NEXTEST ARGS]  everything: installs what tests need, checks, fuzzes briefly, runs all tests
                                 --quick: only the tests, with what is installed already
  check                          formatting, lints, documentation; no tests
  install                        the real MCP servers and the model that tests talk to, into .cache/; on Debian the shells,
                                 Chromium, a keychain and Podman, for root or CI
  fuzz [TARGET [INPUT]] [--seconds N]
                                 each target (or one) for 100,000 inputs or N seconds, or on one input
  bench [ARGS]                   installs other people's clients into .cache/bench/, builds in release and measures them all;
                                 ARGS go to the benchmark
  bench teams [ARGS]             what a call costs at one to three replicas, with 10 to 10,000 tenants, beside ContextForge, and
                                 beside a tenant whose program loops. ARGS are those of xtask/drill/scale.mjs, such as --only tenants
  steady [--accept WHY]          allocations, connections, bytes kept and instructions, against bench/accepted.toml;
                                 --accept writes down what has changed
  growth [--soak SECONDS]        with up to 1,000 servers and 100,000 tools: what does each server and each tool cost?
                                 --soak: calls and reconnects for this long: does memory grow?
  drill [ARGS]                   1,000 people of 100 tenants use one daemon at once: does any data of one reach another?
                                 --memory: how much memory does a person who is idle take, and how much is left afterwards?
                                 ARGS are those of xtask/drill/drill.mjs, such as --seconds 180
  drill replicas [ARGS]          200 clients use three daemons on one Postgres, and one of them is killed every ten seconds: is
                                 anything done twice, or lost? ARGS are those of xtask/drill/replicas.mjs
  book                           the guide as a book, in target/book (installs mdBook if need be)
  deploy                         checks the files in deploy/ with the tools that read them (installs these into .cache/)
  dist [--programs TRIPLE=FOLDER] [--check | --only-build]
                                 builds in release, and makes all that users install into target/dist/release;
                                 --programs (can be repeated): packs programs that are already built
                                 --check: installs each package from registries on this machine, and runs it
                                 --only-build: packs nothing, and keeps the programs in target/dist/built
  published                      packs each crate for registries and checks the packages, builds the feature sets, and counts
                                 the packages of a small client
  deny                           licences, sources and forbidden dependencies (installs cargo-deny if need be)
  help                           this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let mut report = Report::default();
    let understood = match (command, rest) {
        ("test", rest) => {
            test::all(&mut report, rest);
            Ok(())
        }
        ("check", []) => {
            check::all(&mut report);
            Ok(())
        }
        ("install", []) => {
            peers::install(&mut report);
            shells::install(&mut report);
            proxies::install(&mut report);
            postgres::install(&mut report);
            keychain::install(&mut report);
            engines::install(&mut report);
            Ok(())
        }
        ("bench", [first, rest @ ..]) if first == "teams" => {
            teams::run(&mut report, rest);
            Ok(())
        }
        ("bench", rest) => {
            bench::run(&mut report, rest);
            Ok(())
        }
        ("steady", rest) => {
            steady::run(&mut report, rest);
            Ok(())
        }
        ("growth", rest) => {
            growth::run(&mut report, rest);
            Ok(())
        }
        ("drill", rest) => {
            drill::run(&mut report, rest);
            Ok(())
        }
        ("book", []) => {
            report.step("the guide as a book", book::build);
            Ok(())
        }
        ("deploy", []) => {
            report.step("files for deployments", deploy::check);
            Ok(())
        }
        ("dist", rest) => dist::Plan::parse(rest).map(|plan| dist::run(&mut report, &plan)),
        ("published", []) => {
            published::run(&mut report);
            Ok(())
        }
        ("deny", []) => {
            check::deny(&mut report);
            Ok(())
        }
        ("fuzz", rest) => fuzz::Plan::parse(rest).map(|plan| fuzz::run(&mut report, &plan)),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("no such command: {}", arguments.join(" "))),
    };
    if let Err(problem) = understood {
        eprint!("error: {problem}\n\n{HELP}");
        return ExitCode::from(2);
    }
    report.finish()
}
