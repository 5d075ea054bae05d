//! The program that `toolrack` starts for each stdio server: see `toolrack_host::supervisor`. It links nothing else, so
//! that starting it is quick.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Without an order there is no process to report to, and nothing to do.
    toolrack_supervisor::run_if_asked().unwrap_or(ExitCode::FAILURE)
}
