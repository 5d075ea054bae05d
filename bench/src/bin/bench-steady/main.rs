//! Measures figures that stay the same from run to run, and compares them with the accepted ones:
//! `bench-steady ACCEPTED.toml [--accept WHY]`.
//!
//! Times vary on every shared machine, so a test cannot check them. The figures here do not vary: allocations,
//! connections, bytes that stay allocated, instructions. `cargo xtask steady` builds this program in the profile
//! `steady`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

mod accepted;
mod callgrind;
mod counted;

use std::{alloc::System, env, path::Path, process::ExitCode};

use accepted::{Accepted, Verdict};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use toolrack_bench::AnyError;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// All figures: their names in the file, and their units.
const FIGURES: &[(&str, &str)] = &[
    ("stdio-allocations", "allocations a call"),
    ("stdio-allocated", "bytes a call"),
    ("http-allocations", "allocations a call"),
    ("http-allocated", "bytes a call"),
    ("http-connects", "connections for 1,000 calls, one after another"),
    ("http-connects-64", "connections for 1,000 calls, 64 in flight"),
    ("block-allocations", "allocations for giving 100 tools to a model again"),
    ("kept-tool", "bytes a tool, while its server is connected"),
    ("kept-stdio-server", "bytes a server without tools"),
    ("kept-http-server", "bytes a server without tools"),
    ("stdio-instructions", "instructions a call"),
    ("http-instructions", "instructions a call"),
    ("cold-tools-instructions", "instructions of `toolrack tools builtin`"),
    ("cold-call-instructions", "instructions of `toolrack call builtin/…`"),
];

/// The measured values, by the names of the figures.
type Measured = Vec<(&'static str, f64)>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and prints the verdicts. Returns `false` if a figure is worse than accepted, or has no accepted value.
fn run() -> Result<bool, AnyError> {
    let words: Vec<String> = env::args().skip(1).collect();
    let (path, why) = match words.as_slice() {
        [path] => (Path::new(path), None),
        [path, accept, why] if accept == "--accept" && !why.trim().is_empty() => (Path::new(path), Some(why.trim())),
        _ => return Err("usage: bench-steady ACCEPTED.toml [--accept WHY]".into()),
    };
    let mut accepted = Accepted::read(&std::fs::read_to_string(path)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut measured = runtime.block_on(counted::measure())?;
    let skip_reason = callgrind::reason_to_skip();
    if skip_reason.is_none() {
        measured.extend(callgrind::measure()?);
    }
    let verdicts = print_verdicts(&accepted, &measured, skip_reason.unwrap_or("it was not measured"));
    let unknown: Vec<_> = accepted.names().filter(|name| !FIGURES.iter().any(|(known, _)| known == name)).collect();
    if !unknown.is_empty() {
        return Err(format!("{} has figures that are not measured: {}", path.display(), unknown.join(", ")).into());
    }
    let Some(why) = why else {
        return Ok(verdicts.iter().all(|(_, verdict)| verdict.is_fine()));
    };
    for ((name, now), (_, verdict)) in measured.iter().zip(&verdicts) {
        if *verdict != Verdict::AsAccepted {
            accepted.accept(name, *now, why);
            println!("accepted {name} as {}: {why}", rounded(*now));
        }
    }
    std::fs::write(path, accepted.text())?;
    Ok(true)
}

/// Prints every figure and its verdict, and returns the verdicts.
fn print_verdicts(accepted: &Accepted, measured: &Measured, skip_reason: &str) -> Vec<(&'static str, Verdict)> {
    for (name, unit) in FIGURES {
        let was = accepted.figure(name);
        let was = was.map_or_else(|| "nothing".to_owned(), |was| format!("{} ± {} %", rounded(was.value), was.percent));
        match measured.iter().find(|(known, _)| known == name) {
            Some((_, now)) => println!("{name:24} {:>12}  accepted {was:18}  {unit}", rounded(*now)),
            None => println!("{name:24} {:>12}  accepted {was:18}  {skip_reason}", "SKIPPED"),
        }
    }
    let verdicts: Vec<_> = measured.iter().map(|(name, now)| (*name, accepted.judge(name, *now))).collect();
    for ((name, now), (_, verdict)) in measured.iter().zip(&verdicts) {
        if let Some(words) = verdict.advice() {
            println!("\n{name}, now {}: {words}", rounded(*now));
        }
    }
    verdicts
}

/// Returns a figure as the user and the file get it: a whole number, unless it is small.
fn rounded(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{}", (value * 100.0).round() / 100.0) }
}
