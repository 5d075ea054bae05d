//! A program that embeds Toolrack, and calls the supervisor's hook first, as such programs must.
//!
//! Tests use it in two ways: as the supervisor of their own host, and, with the arguments `host [--polite] NAME=VALUE
//! COMMAND ARGS…`, as a host that they can kill. This host connects one server, `victim`: the command as a child
//! process with this variable. It prints the server's state, such as `connected`, then calls a tool for each line `TOOL
//! ARGUMENTS` on its stdin and prints the outcome. It ends when its stdin ends. With `--polite`, it shuts the host down
//! on `SIGTERM`, as a well-behaved program does; otherwise the signal kills it.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    signal::unix::{SignalKind, signal},
};
use toolrack_host::{
    Call, Desired, Host, ServerName, ServerSpec,
    spec::{Stdio, Timeouts, Transport},
    supervisor::{Supervisor, run_if_asked},
};

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
        let outcome = runtime.block_on(run_host(&args));
        // Do not wait for the thread that reads stdin.
        runtime.shutdown_background();
        outcome
    });
    if let Err(error) = &outcome {
        // A closed stderr does not change the outcome.
        let _ = io::stderr().write_all(format!("supervised: {error}\n").as_bytes());
    }
    ExitCode::from(u8::from(outcome.is_err()))
}

async fn run_host(args: &[String]) -> io::Result<()> {
    let (polite, spec) = parse(args).ok_or_else(|| io::Error::other("host [--polite] NAME=VALUE COMMAND ARGS…"))?;
    // Register before anything is started, so that a signal during the connection counts as well.
    let mut terminated = if polite { Some(signal(SignalKind::terminate())?) } else { None };
    let asked_to_end = async {
        match &mut terminated {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    };
    let host = Host::builder().supervisor(Supervisor::this_program()).build();
    let served = tokio::select! {
        served = serve(&host, spec) => served,
        _ = asked_to_end => Ok(()),
    };
    host.shutdown().await;
    served
}

fn parse(args: &[String]) -> Option<(bool, ServerSpec)> {
    let (polite, rest) = match args {
        [host, polite, rest @ ..] if host == "host" && polite == "--polite" => (true, rest),
        [host, rest @ ..] if host == "host" => (false, rest),
        _ => return None,
    };
    let [variable, command, args @ ..] = rest else { return None };
    let (name, value) = variable.split_once('=')?;
    let stdio = Stdio {
        command: command.clone(),
        args: args.to_vec(),
        env: [(name.to_owned(), value.to_owned())].into(),
        ..Stdio::default()
    };
    let mut spec = ServerSpec::new(Transport::Stdio(stdio));
    spec.timeouts = Timeouts { shutdown: Duration::from_millis(300), ..Timeouts::default() };
    Some((polite, spec))
}

async fn serve(host: &Host, spec: ServerSpec) -> io::Result<()> {
    let name = ServerName::new("victim").map_err(io::Error::other)?;
    host.apply(Desired::from([(name, spec)])).await;
    host.settled().await;
    for server in host.status() {
        print_line(server.state.word())?;
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let (tool, arguments) = line.split_once(' ').unwrap_or((&line, "{}"));
        let arguments = serde_json::from_str(arguments).map_err(io::Error::other)?;
        match host.call(Call::from_map(format!("victim/{tool}"), arguments)).await {
            Ok(outcome) => print_line(&outcome.text)?,
            Err(error) => print_line(error.code())?,
        }
    }
    Ok(())
}

/// Prints one line on stdout and flushes it.
fn print_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
