//! Starts child processes that never outlive this program, even when it is killed with SIGKILL: the program is its own
//! supervisor. Kill it while it waits, then look for the `sleep`: it is gone.
//!
//! `cargo run -p toolrack-host --example supervised`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own, for people to read"
)]

use std::{env, error::Error, process::ExitCode, time::Duration};

use toolrack_host::{Desired, Host, ServerName, ServerSpec, spec::Transport, supervisor};

fn main() -> ExitCode {
    // Do this first, before any thread is started: this process may be the supervisor of a child process.
    if let Some(code) = supervisor::run_if_asked() {
        return code;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> Result<(), Box<dyn Error>> {
    // A child that is not an MCP server: it never answers, ignores the end of its input, and starts a child of its own.
    let mut spec = ServerSpec::stdio("sh", ["-c", "trap '' TERM; setsid sleep 1000 & sleep 1000"]);
    spec.timeouts.startup = Duration::from_secs(5);
    if let Transport::Stdio(stdio) = &mut spec.transport {
        stdio.env.insert("PATH".into(), env::var("PATH")?);
    }
    let host = Host::builder().supervisor(supervisor::Supervisor::this_program()).build();
    host.apply(Desired::from([(ServerName::new("stubborn")?, spec)])).await;
    println!("process {}: kill me, or wait", std::process::id());
    host.settled().await;
    for server in host.status() {
        println!("{}: {:?}", server.name, server.state);
    }
    host.shutdown().await;
    Ok(())
}
