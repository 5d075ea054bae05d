//! Calls and reconnects for a long time, with servers of every transport, some of which die now and then. Memory must
//! not grow.

use std::{
    fmt::Write,
    fs,
    time::{Duration, Instant},
};

use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use toolrack_bench::{
    AnyError,
    connected::{desired_servers, echo, host, wait_until_connected},
    fakes::{Life, native},
    fast_server::Offer,
    heap::settled_bytes,
    programs::{Server, sibling_program},
};
use toolrack_host::{Event, Host, ServerSpec};

/// The number of messages after which a server dies, different for each so that they do not die together.
const MESSAGES_UNTIL_DEATH: [usize; 3] = [200, 350, 611];
/// The number of calls of each server between two reconnections.
const CALLS_PER_ROUND: usize = 20;
/// The number of samples.
const SAMPLES: u32 = 30;
/// The number of samples at the start that do not count, because memory still grows then.
const WARM_UP: usize = 3;
/// The fraction by which live bytes and resident pages may grow between the first and the second half of the other
/// samples.
const MAX_GROWTH: f64 = 0.02;
/// The amount by which resident pages may grow in addition: in a small process, the pages that the allocator keeps
/// differ by that much.
const MAX_PAGES_GROWTH_KB: f64 = 1_024.0;

/// One sample of the process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    calls: u64,
    failed: u64,
    connected: u64,
    live: f64,
    resident_kb: f64,
    files: usize,
}

/// The numbers of events so far.
#[derive(Debug, Default)]
struct Totals {
    calls: u64,
    failed: u64,
    connected: u64,
}

/// Runs for `time`, and prints each sample. Returns `false` if memory has grown.
pub(crate) async fn run(time: Duration) -> Result<bool, AnyError> {
    let server = Server::start(&[])?;
    let host = host()?;
    let mut events = host.events();
    host.apply(desired_servers(specs(&server)?)?).await;
    wait_until_connected(&host).await?;
    let selectors: Vec<_> = host.status().iter().map(|server| server.name.as_str().to_owned()).collect();
    let (began, mut totals, mut samples) = (Instant::now(), Totals::default(), Vec::new());
    println!("| s | calls | failed | connections | live KB | VmRSS KB | files |\n|---|---|---|---|---|---|---|");
    for number in 1..=SAMPLES {
        let until = time * number / SAMPLES;
        while began.elapsed() < until {
            round(&host, &selectors, &mut events, &mut totals).await?;
        }
        let sample = Sample {
            seconds: began.elapsed().as_secs_f64(),
            calls: totals.calls,
            failed: totals.failed,
            connected: totals.connected,
            live: live_at_rest(&host).await?,
            resident_kb: resident_kb()?,
            files: fs::read_dir("/proc/self/fd")?.count(),
        };
        println!("{}", table_row(sample));
        samples.push(sample);
    }
    host.shutdown().await;
    let (report, is_flat) = verdict_on(&samples);
    println!("\n{report}");
    Ok(is_flat)
}

/// Returns servers of every kind: in this process, over stdio and over HTTP, some of which die.
fn specs(server: &Server) -> Result<Vec<ServerSpec>, AnyError> {
    let offer = Offer::default();
    let program = sibling_program("bench-server")?.display().to_string();
    let mut specs = vec![
        ServerSpec::http(&server.url),
        ServerSpec::native(native(offer, Life::default())),
        ServerSpec::stdio(&program, ["stdio"]),
    ];
    specs.extend(
        MESSAGES_UNTIL_DEATH.map(|messages| ServerSpec::native(native(offer, Life { messages, ..Life::default() }))),
    );
    specs.extend(
        MESSAGES_UNTIL_DEATH
            .map(|messages| ServerSpec::stdio(&program, ["stdio", "--messages", &messages.to_string()])),
    );
    for spec in &mut specs {
        spec.retry.attempts = u32::MAX;
        spec.retry.first = Duration::from_millis(10);
        spec.retry.longest = Duration::from_millis(50);
    }
    Ok(specs)
}

/// Calls every server [`CALLS_PER_ROUND`] times, and has the host reconnect to one of them, in each round another one.
async fn round(
    host: &Host,
    servers: &[String],
    events: &mut Receiver<Event>,
    totals: &mut Totals,
) -> Result<(), AnyError> {
    for _ in 0..CALLS_PER_ROUND {
        for server in servers {
            totals.calls += 1;
            // A call fails if the server dies during it, or is not connected.
            totals.failed += u64::from(echo(host, &format!("{server}/echo")).await.is_err());
        }
    }
    let reconnected = &servers[usize::try_from(totals.calls)? / (CALLS_PER_ROUND * servers.len()) % servers.len()];
    host.reconnect(reconnected)?;
    loop {
        match events.try_recv() {
            Ok(Event::McpServerConnected { .. }) => totals.connected += 1,
            Ok(_) | Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
        }
    }
}

/// Waits until every server is connected and the host is at rest, and returns the number of live bytes.
async fn live_at_rest(host: &Host) -> Result<f64, AnyError> {
    // A server may have died just now, and reconnects: try for ten seconds.
    for _ in 0..200 {
        if wait_until_connected(host).await.is_ok() {
            return Ok(settled_bytes().await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wait_until_connected(host).await?;
    Ok(settled_bytes().await)
}

/// Returns the resident memory of this process (`VmRSS`), in kilobytes.
fn resident_kb() -> Result<f64, AnyError> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim_end_matches("kB").trim().parse()?)
}

fn table_row(sample: Sample) -> String {
    let Sample { seconds, calls, failed, connected, live, resident_kb, files } = sample;
    let live = live / 1_024.0;
    format!("| {seconds:.0} | {calls} | {failed} | {connected} | {live:.1} | {resident_kb:.0} | {files} |")
}

/// Returns a report on the samples, and whether memory has not grown.
fn verdict_on(samples: &[Sample]) -> (String, bool) {
    let rest = samples.get(WARM_UP..).unwrap_or_default();
    let (early, late) = rest.split_at(rest.len() / 2);
    let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
        return ("too short to tell".to_owned(), false);
    };
    // Compare the minima of the halves, so that memory that is in use for a moment does not count as growth.
    let least = |samples: &[Sample], figure: fn(&Sample) -> f64| samples.iter().map(figure).fold(f64::MAX, f64::min);
    let mut text = String::new();
    let mut is_flat = true;
    for (name, figure, slack) in [
        ("live bytes", (|sample| sample.live) as fn(&Sample) -> f64, 0.0),
        ("VmRSS", |sample| sample.resident_kb * 1_024.0, MAX_PAGES_GROWTH_KB * 1_024.0),
    ] {
        let (early, late) = (least(early, figure), least(late, figure));
        let is_fine = late <= early * (1.0 + MAX_GROWTH) + slack;
        is_flat &= is_fine;
        let verdict = if is_fine { "flat" } else { "GROWING" };
        let _ = writeln!(
            text,
            "{name}: {verdict}, {:+.0} bytes from {early:.0}, the first half to the second",
            late - early
        );
    }
    let (calls, connections) = (last.calls - first.calls, last.connected - first.connected);
    let _ = write!(text, "in between, {calls} calls and {connections} connections");
    (text, is_flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(live: impl Fn(u32) -> f64) -> Vec<Sample> {
        let sample = |number| Sample {
            seconds: 0.0,
            calls: 0,
            failed: 0,
            connected: 0,
            live: live(number),
            resident_kb: 20_000.0,
            files: 10,
        };
        (0..SAMPLES).map(sample).collect()
    }

    #[test]
    fn memory_that_only_swings_is_flat_and_memory_that_creeps_is_not() {
        assert!(verdict_on(&samples(|number| 1e6 + f64::from(number % 3) * 1e5)).1);
        assert!(verdict_on(&samples(|number| if number < 3 { 1e3 } else { 1e6 })).1, "the start does not count");
        assert!(!verdict_on(&samples(|number| 1e6 + f64::from(number) * 1e4)).1);
    }
}
