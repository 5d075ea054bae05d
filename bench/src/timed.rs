//! Measures a process as a whole: another process of this program starts it as its only child, so that the system's
//! counters for children count this one alone.

use std::{
    env,
    process::{Command, Stdio},
    time::Instant,
};

use nix::sys::resource::{UsageWho, getrusage};
use toolrack_bench::{AnyError, Figures, figures::cpu_time};

use crate::gateways::Gateway;

/// The command of a client.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) words: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    /// Whether the process is measured as a whole. Otherwise it measures itself and prints its figures.
    pub(crate) is_timed: bool,
    /// A gateway that has to run while the command runs.
    pub(crate) gateway: Option<Gateway>,
}

/// Runs a client and reads its figures.
pub(crate) fn run_client(invocation: Invocation) -> Result<Figures, AnyError> {
    let Invocation { mut words, variables, is_timed, gateway } = invocation;
    if is_timed {
        let this_program = env::current_exe()?.display().to_string();
        words.splice(0..0, [this_program, "timed".to_owned()]);
    }
    let (program, args) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(args).envs(variables).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output()?;
    drop(gateway);
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, printed.trim().lines().last().unwrap_or_default()).into());
    }
    let last = output.stdout.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice(last)?)
}

/// Runs `toolrack-bench timed COMMAND…`: runs the command, drops its output, and prints its figures.
pub(crate) fn run_timed(command: &[String]) -> Result<(), AnyError> {
    let (program, args) = command.split_first().ok_or("usage: toolrack-bench timed COMMAND…")?;
    let began = Instant::now();
    let status = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    let hwm_kb = getrusage(UsageWho::RUSAGE_CHILDREN).ok().map(|usage| usage.max_rss() as f64);
    let cpu_us = Some(cpu_time(UsageWho::RUSAGE_CHILDREN).as_secs_f64() * 1e6);
    toolrack_bench::print(&Figures { ms: Some(ms), cpu_us, hwm_kb, ..Figures::default() })
}
