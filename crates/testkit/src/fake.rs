//! A scripted MCP server that can lie, stall and crash.
//!
//! It is written by hand, without an MCP library, because a library would not let it misbehave. `fake-server help`
//! prints its arguments and `fake-server faults` the [table of faults](faults::FAULTS). Over stdio it speaks JSON
//! lines; over HTTP it writes its own HTTP/1.1 on a TCP socket, so that it can cut, garble and reset where a server
//! library would not.
//!
//! ```text
//! fake-server stdio --era both --fault crash-on-call=exit:3 --log effects.jsonl
//! fake-server http --era modern --fault cut-sse --fault-times 1
//! ```

use std::process::ExitCode;
use std::sync::Arc;

pub mod faults;
pub mod options;

mod asks;
mod eras;
mod http;
mod legacy_sse;
mod lies;
mod log;
mod offers;
mod process;
mod server;
mod stdio;
mod tools;
mod wire;

use faults::Fault;
use options::{Options, Transport, USAGE};

/// Runs the program with these arguments (without its own name).
///
/// Returns only if the arguments are wrong or ask for help: a server that has run ends the process itself.
#[must_use]
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    // Do this before anything else opens a file: the open descriptors were inherited from the parent process.
    let inherited = process::open_descriptors();
    let args: Vec<String> = args.collect();
    match args.first().map(String::as_str) {
        Some("help" | "--help") => return print(USAGE, ExitCode::SUCCESS),
        Some("faults") => return print(&faults::table(), ExitCode::SUCCESS),
        Some("sleeper") => process::run_sleeper(&args[1..]),
        _ => {}
    }
    match Options::parse(args.into_iter()) {
        Ok(options) => serve(options, inherited),
        Err(reason) => {
            complain(&format!("fake-server: {reason}\n{USAGE}"));
            ExitCode::from(2)
        }
    }
}

fn serve(options: Options, inherited: Vec<process::Descriptor>) -> ExitCode {
    if options.faults.has(Fault::IgnoreTerm) {
        process::block_termination();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("fake-server: no runtime: {error}\n"));
            return ExitCode::from(2);
        }
    };
    let outcome = runtime.block_on(run(options, inherited));
    if let Err(error) = &outcome {
        complain(&format!("fake-server: {error}\n"));
    }
    // Not a plain return: the runtime would wait for the thread that reads stdin.
    std::process::exit(i32::from(outcome.is_err()))
}

async fn run(options: Options, inherited: Vec<process::Descriptor>) -> std::io::Result<()> {
    tokio::time::sleep(options.start_delay).await;
    let transport = options.transport;
    let server = Arc::new(server::Server::new(options, inherited)?);
    process::misbehave_at_start(&server.options.faults)?;
    if server.options.until_eof {
        server.spawn(async {
            // An error ends the server as well as the end of stdin does.
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
            std::process::exit(0);
        });
    }
    match transport {
        Transport::Stdio => stdio::serve(server).await,
        Transport::Http => http::serve(server).await,
        Transport::Sse => legacy_sse::serve(server).await,
    }
}

/// Writes to stdout in one piece. Ignores a closed stdout, as [`complain`] ignores a closed stderr.
fn print(text: &str, code: ExitCode) -> ExitCode {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// Writes to stderr in one piece.
fn complain(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(text.as_bytes());
}
