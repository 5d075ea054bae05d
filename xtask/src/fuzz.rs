//! Short runs of the fuzz targets in `fuzz/`, on the stable toolchain and without cargo-fuzz.
//!
//! The targets use LLVM's instrumentation, which every rustc has. Only the address sanitizer needs nightly, and code
//! that forbids `unsafe` does not need that sanitizer. For long runs with it: `cargo +nightly fuzz run TARGET`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{fs, iter, thread};

use crate::report::{Report, Step, Stop};
use crate::run::{cargo, content, execute, failed, output, program, root};

/// The flags of `cargo fuzz`, without the sanitizer.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0";

/// The number of inputs for each target if no time is given. Such a run uses the same random seed and so the same
/// inputs on every machine, so that CI gives the same result for the same tree. A run with a time limit tries new
/// inputs.
const RUNS: u32 = 100_000;

/// The seconds after which a run without a time limit ends, even if it has not tried all inputs.
const MAX_SECONDS: u32 = 30;

/// The options of `cargo xtask fuzz`.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    target: Option<String>,
    input: Option<PathBuf>,
    seconds: Option<u32>,
}

impl Plan {
    /// Reads `[TARGET [INPUT]] [--seconds N]`.
    ///
    /// # Errors
    /// Names the invalid argument.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--seconds" {
                let seconds = arguments.next().and_then(|seconds| seconds.parse().ok());
                plan.seconds = Some(seconds.ok_or("--seconds needs a number, such as `--seconds 60`")?);
            } else if plan.target.is_none() {
                plan.target = Some(argument.clone());
            } else if plan.input.is_none() {
                plan.input = Some(argument.into());
            } else {
                return Err(format!("unexpected argument `{argument}`: write [TARGET [INPUT]] [--seconds N]"));
            }
        }
        match plan.target.as_ref().filter(|target| !targets().contains(target)) {
            Some(unknown) => Err(format!("there is no target `{unknown}`; choose one of {}", targets().join(", "))),
            None => Ok(plan),
        }
    }
}

/// Returns the names of the targets, each of which is one file.
fn targets() -> Vec<String> {
    let files = fs::read_dir(root().join("fuzz/fuzz_targets")).into_iter().flatten().flatten();
    let name = |file: fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
    let mut targets: Vec<_> = files.filter_map(name).collect();
    targets.sort();
    targets
}

/// Builds the targets and runs them, as many at once as there are processors.
pub(crate) fn run(report: &mut Report, plan: &Plan) {
    let mut built = None;
    report.step("fuzz targets", || {
        built = Some(build()?);
        Ok(())
    });
    let Some(folder) = built else { return };
    let mut chosen = targets();
    chosen.retain(|target| plan.target.as_ref().is_none_or(|only| only == target));
    report.step("fuzz", || match &plan.input {
        Some(input) => chosen.iter().try_for_each(|target| execute(program(folder.join(target)).arg(input))),
        None => search_all(&folder, &chosen, plan.seconds),
    });
}

/// Looks for inputs that make the targets panic, on as many threads as there are processors.
fn search_all(folder: &Path, targets: &[String], seconds: Option<u32>) -> Step {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let (queue, faults) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for target in iter::from_fn(next) {
                    if let Err(Stop::Failed(fault) | Stop::Skipped(fault)) = search(folder, target, seconds) {
                        faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
                    }
                }
            });
        }
    });
    match faults.into_inner().unwrap_or_else(PoisonError::into_inner) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Stop::Failed(faults.join("; "))),
    }
}

/// Builds the targets; returns their folder.
fn build() -> Result<PathBuf, Stop> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if output(program(&compiler).arg("--version")).is_none() {
        return Err(Stop::Skipped("libFuzzer needs a C++ compiler: install one, or name it in `CXX`".into()));
    }
    let version = output(program("rustc").arg("-vV")).unwrap_or_default();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    lock()?;
    // With an explicit target, even that of this machine, cargo builds build scripts and macros without the flags.
    let mut cargo = cargo(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    cargo.args(["--target", host, "--target-dir", "target/fuzz"]);
    execute(cargo.env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    Ok(root().join("target/fuzz").join(host).join("release"))
}

/// Locks the targets to the versions of the workspace; cargo adds the fuzzer's dependencies, whose versions its
/// manifest fixes.
///
/// Runs only when the workspace's lock file has changed, because cargo asks the registry each time that it adds a
/// package.
fn lock() -> Step {
    let (workspace_lock, fuzz_lock, folder) =
        (root().join("Cargo.lock"), root().join("fuzz/Cargo.lock"), root().join("target/fuzz"));
    fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
    let last_copy = folder.join("workspace.lock");
    if fuzz_lock.is_file() && content(&last_copy) == content(&workspace_lock) {
        return Ok(());
    }
    for copy in [&fuzz_lock, &last_copy] {
        fs::copy(&workspace_lock, copy).map_err(failed("copy", &workspace_lock))?;
    }
    Ok(())
}

/// Looks for an input that makes the target panic.
fn search(folder: &Path, target: &str, seconds: Option<u32>) -> Step {
    let fuzz = root().join("fuzz");
    // The folders that `cargo fuzz` uses too. `corpus`: inputs that reached new code, with which later runs begin.
    // `artifacts`: inputs that made the target fail.
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
    }
    let log = root().join("target/fuzz").join(format!("{target}.log"));
    let output = fs::File::create(&log).map_err(failed("write", &log))?;
    let mut command = program(folder.join(target));
    // The fuzzer writes inputs that reach new code into the first folder on its command line.
    match seconds {
        Some(seconds) => command.arg(corpus).arg(format!("-max_total_time={seconds}")),
        None => command.arg(empty_folder(target)?).args([
            "-seed=1",
            &format!("-runs={RUNS}"),
            &format!("-max_total_time={MAX_SECONDS}"),
        ]),
    };
    command.arg(fuzz.join("seeds").join(target)).arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1"]);
    let dictionary = fuzz.join("dictionaries").join(format!("{target}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    run_fuzzer(command.stdout(Stdio::null()).stderr(output), &log, target)
}

/// Returns an empty folder for the inputs that reach new code in this run. No later run uses them.
fn empty_folder(target: &str) -> Result<PathBuf, Stop> {
    let folder = root().join("target/fuzz/learned").join(target);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed("empty", &folder))?;
    }
    fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
    Ok(folder)
}

/// Runs the fuzzer, and prints the number of inputs, or the end of the log if an input makes the target panic.
fn run_fuzzer(command: &mut Command, log: &Path, target: &str) -> Step {
    let status = command.status().map_err(failed("run", Path::new(target)))?;
    let log = content(log);
    if status.success() {
        let runs = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("   {target}: {} inputs, no panic", runs.unwrap_or("?").trim());
        return Ok(());
    }
    let tail = log.lines().skip(log.lines().count().saturating_sub(30));
    println!("   {target}:\n   {}", tail.collect::<Vec<_>>().join("\n   "));
    Err(Stop::Failed(format!(
        "an input in fuzz/artifacts/{target} makes {target} panic (to repeat it: `cargo xtask fuzz {target} INPUT`)"
    )))
}
