//! Figures that valgrind's callgrind counts: instructions. Its output stays in `target/bench/callgrind/`, where
//! `callgrind_annotate` shows the instructions of each function.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use toolrack_bench::{
    AnyError, Row,
    programs::{Server, sibling_program},
};

use crate::Measured;

/// The number of calls in the shorter run. The longer run makes twice as many, so that the difference between the two
/// does not include the start and the end of the program.
const CALLS: usize = 1_000;

/// Returns the reason why instructions cannot be counted here; `None` if they can. Other processors have other
/// instructions, for which no figures are accepted.
pub(crate) fn reason_to_skip() -> Option<&'static str> {
    let version = Command::new("valgrind").arg("--version").stdin(Stdio::null()).output();
    if !cfg!(target_arch = "x86_64") {
        Some("the accepted numbers of instructions are for x86_64")
    } else if !version.is_ok_and(|version| version.status.success()) {
        Some("valgrind is not installed")
    } else {
        None
    }
}

/// Counts the instructions for all figures of this kind.
pub(crate) fn measure() -> Result<Measured, AnyError> {
    let stdio = ["--".to_owned(), sibling_program("bench-server")?.display().to_string(), "stdio".to_owned()];
    let server = Server::start(&[])?;
    let mut measured = vec![
        ("stdio-instructions", calls(Row::StdioOne, &stdio)?),
        ("http-instructions", calls(Row::HttpOne, std::slice::from_ref(&server.url))?),
    ];
    let [home, empty] = [folder()?.join("home"), folder()?.join("empty")];
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(&home)?;
    fs::create_dir_all(&empty)?;
    for (name, words) in
        [("cold-tools-instructions", ["tools", "builtin"].as_slice()), ("cold-call-instructions", &CALL)]
    {
        let mut command = Command::new(sibling_program("toolrack")?);
        // Measure the second run: the first one also creates the database, which is not typical for a user's calls.
        command.args(words).current_dir(&empty).env("TOOLRACK_HOME", &home).stdin(Stdio::null());
        let first = command.output()?;
        if !first.status.success() {
            return Err(format!("{}: {}", first.status, String::from_utf8_lossy(&first.stderr)).into());
        }
        measured.push((name, instructions(name, &command)? as f64));
    }
    Ok(measured)
}

/// A cheap call of the built-in server, in an empty folder.
const CALL: [&str; 3] = ["call", "builtin/list_directory", "path=."];

/// Instructions of one call in a row of the benchmark.
fn calls(row: Row, target: &[String]) -> Result<f64, AnyError> {
    let run = |calls: usize| {
        let mut command = Command::new(sibling_program("bench-toolrack")?);
        command.args([row.word(), &calls.to_string()]).args(target);
        instructions(&format!("{row}-{calls}"), &command)
    };
    let (once, twice) = (run(CALLS)?, run(2 * CALLS)?);
    Ok((twice as f64 - once as f64) / CALLS as f64)
}

/// All instructions of a command and its threads, without those of the processes that it starts.
fn instructions(name: &str, command: &Command) -> Result<u64, AnyError> {
    let out = folder()?.join(format!("{name}.out"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet", &format!("--callgrind-out-file={}", out.display())]);
    valgrind.arg(command.get_program()).args(command.get_args());
    valgrind.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        valgrind.current_dir(folder);
    }
    let output = valgrind.output()?;
    if !output.status.success() {
        return Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    total(&out)
}

/// The sum in the output of callgrind (the line `totals:` of its format).
fn total(out: &Path) -> Result<u64, AnyError> {
    let text = fs::read_to_string(out)?;
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals:"));
    Ok(total.ok_or_else(|| format!("{} has no total", out.display()))?.trim().parse()?)
}

fn folder() -> Result<PathBuf, AnyError> {
    // This program is `target/PROFILE/bench-steady`.
    let folder = env::current_exe()?.ancestors().nth(2).ok_or("no target folder")?.join("bench/callgrind");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
