//! Runs every row with every client in turns, and prints the table: `toolrack-bench [--rounds N] [--pin] [ROW |
//! CLIENT]…`.
//!
//! A row is one kind of work, and a client is one column. The speed of a machine varies, so every round runs all
//! clients: a slow minute then affects all of them. Only medians and ratios within one run count. This program only
//! reports: no figure makes it fail.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

mod clients;
mod gateways;
mod rows;
mod table;
mod timed;

use std::{collections::BTreeMap, env, process::ExitCode};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use toolrack_bench::{AnyError, Figures, programs::Server};

use clients::{Client, Servers};
use rows::Plan;

/// The figures of each round, by the indices of the row and the client.
type Measured = BTreeMap<(usize, usize), Vec<Figures>>;

#[derive(Debug)]
struct Options {
    rounds: usize,
    pin: bool,
    only: Vec<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let outcome = match words.split_first() {
        Some((first, command)) if first == "timed" => timed::run_timed(command),
        _ => options(&words).and_then(|options| run(&options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(words: &[String]) -> Result<Options, AnyError> {
    let mut options = Options { rounds: 5, pin: false, only: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => {
                options.rounds = words
                    .next()
                    .and_then(|count| count.parse().ok())
                    .ok_or("--rounds needs a number, such as `--rounds 5`")?
            }
            "--pin" => options.pin = true,
            word if word.starts_with('-') => {
                return Err(format!("unknown option `{word}`; there are --rounds N and --pin").into());
            }
            word => options.only.push(word.to_owned()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), AnyError> {
    if options.pin {
        // All processes that are started from here inherit this.
        let mut last = CpuSet::new();
        last.set(std::thread::available_parallelism()?.get() - 1)?;
        sched_setaffinity(Pid::from_raw(0), &last)?;
    }
    let servers = Servers { legacy: Server::start(&[])?, modern: Server::start(&["--era", "modern"])? };
    let clients = clients::installed()?;
    let plans = rows::plans();
    let unknown = options.only.iter().find(|word| {
        !plans.iter().any(|plan| plan.name == word.as_str())
            && !clients.iter().any(|client| client.name == word.as_str())
    });
    if let Some(word) = unknown {
        return Err(format!("there is no row and no client {word}").into());
    }
    let rows_named = plans.iter().any(|plan| options.only.iter().any(|word| word == plan.name));
    let clients_named = clients.iter().any(|client| options.only.iter().any(|word| word == client.name));
    let is_selected = |name: &str, some_named: bool| !some_named || options.only.iter().any(|word| word == name);
    let mut measured = Measured::new();
    for round in 1..=options.rounds {
        for (row, plan) in plans.iter().enumerate().filter(|(_, plan)| is_selected(plan.name, rows_named)) {
            for (column, client) in
                clients.iter().enumerate().filter(|(_, client)| is_selected(client.name, clients_named))
            {
                measure(plan, client, &servers, round).into_iter().for_each(|figures| {
                    measured.entry((row, column)).or_default().push(figures);
                });
            }
        }
        eprintln!("round {round} of {}", options.rounds);
    }
    table::write(&plans, &clients, &measured, options.pin)
}

/// Runs one client once. An error is printed, and the other clients go on.
fn measure(plan: &Plan, client: &Client, servers: &Servers, round: usize) -> Option<Figures> {
    let command = client.command(plan, servers)?;
    match timed::run_client(command) {
        Ok(figures) => Some(figures),
        Err(error) => {
            eprintln!("round {round}: {} of {}: {error}", plan.name, client.name);
            None
        }
    }
}
