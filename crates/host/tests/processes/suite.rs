//! Real child processes: how they start, how the host notices their end, and that nothing survives.
//!
//! This test has a `main` of its own, because it is an embedding program: it calls the supervisor hook first, and then
//! starts itself again as the supervisor of each server. It also starts itself as a host to be killed.

#![cfg_attr(
    target_os = "linux",
    expect(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test"),
    expect(clippy::disallowed_methods, reason = "looks at its processes in /proc and writes programs")
)]

#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod starts;

use std::process::ExitCode;

/// Only Linux has supervisors.
#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(code) = toolrack_host::supervisor::run_if_asked() {
        return code;
    }
    if let Some(code) = lab::be_a_host_if_asked() {
        return code;
    }
    if let Some(code) = confined::attempt_if_asked() {
        return code;
    }
    let mut arguments = libtest_mimic::Arguments::from_args();
    // Some count this process's open descriptors. (nextest runs each in a process of its own, side by side.)
    arguments.test_threads.get_or_insert(1);
    let trials = starts::trials().into_iter().chain(ends::trials()).chain(confined::trials()).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
