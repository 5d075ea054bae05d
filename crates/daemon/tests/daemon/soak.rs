//! Servers crash at random under a running daemon, for a few seconds or for `TOOLRACK_SOAK_SECONDS`.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::join_all, stream};
use serde_json::json;
use tokio::time::sleep;
use toolrack_testkit::{EffectLog, memory::rss_kib, processes};

use crate::up::{LONG, Up, fake};

const SERVERS: usize = 3;
const CALLERS: usize = 8;

#[expect(clippy::disallowed_methods, reason = "how long a person wants to wait")]
fn duration() -> Duration {
    let seconds = std::env::var("TOOLRACK_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

/// Pseudo-random numbers, the same in each run.
fn scattered(n: usize) -> usize {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) & 0xFFFF
}

/// The outcomes.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicUsize,
    written: AtomicUsize,
    failed: AtomicUsize,
    crashes: AtomicUsize,
    answered: AtomicUsize,
    over: AtomicBool,
}

async fn caller(up: &Up, counts: &Counts, number: usize) {
    for n in 0.. {
        if counts.over.load(Relaxed) {
            return;
        }
        let server = scattered(number * 1_000_003 + n) % SERVERS;
        let is_write = n % 4 == 0;
        let body = match is_write {
            true => json!({ "tool": format!("s{server}/write"), "arguments": { "path": format!("{number}-{n}") } }),
            false => json!({ "tool": format!("s{server}/echo"), "arguments": { "text": "x" } }),
        };
        let (status, answer) = up.post("/api/v1/calls", body).await;
        match status.as_u16() {
            200 => counts.calls.fetch_add(1, Relaxed),
            // The server was not connected, or disconnected during the call.
            404 | 424 | 502 => counts.failed.fetch_add(1, Relaxed),
            _ => panic!("{status} {answer}"),
        };
        counts.written.fetch_add(usize::from(is_write && status == 200), Relaxed);
        sleep(Duration::from_millis(2)).await;
    }
}

/// Answers questions until the test ends.
async fn answerer(up: &Up, counts: &Counts) {
    loop {
        let open = up.get("/api/v1/approvals").await;
        for question in open["approvals"].as_array().unwrap() {
            let status = up.answer(question, json!({ "answer": "once" })).await.as_u16();
            assert!(status == 204 || status == 404, "{status}");
            if status == 204 {
                assert_eq!(up.answer(question, json!({ "answer": "once" })).await, 404);
                counts.answered.fetch_add(1, Relaxed);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn crasher(up: &Up, counts: &Counts) {
    for n in 0.. {
        sleep(Duration::from_millis(200 + (scattered(n) % 300) as u64)).await;
        if counts.over.load(Relaxed) {
            return;
        }
        let server = scattered(n + 7) % SERVERS;
        let (status, _) = up.call(&format!("s{server}/crash"), json!({ "signal": 9 })).await;
        assert!(!status.is_success(), "a crash gave a result");
        counts.crashes.fetch_add(1, Relaxed);
        // After a while, the host gives up a server that crashes all the time.
        let _ = up.post(&format!("/api/v1/servers/s{server}/reconnect"), json!({})).await;
    }
}

/// The size of this process in the middle and at the end.
async fn watcher(counts: &Counts) -> (u64, u64) {
    let size = || rss_kib(std::process::id()).unwrap_or_default();
    sleep(duration() / 2).await;
    let middle = size();
    sleep(duration() / 2).await;
    counts.over.store(true, Relaxed);
    (middle, size())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_crash_at_random_leave_nothing_behind_and_every_approval_is_answered_once() {
    let effects: Vec<_> = (0..SERVERS).map(|_| EffectLog::new()).collect();
    let names: Vec<_> = (0..SERVERS).map(|n| format!("s{n}")).collect();
    let entries: Vec<_> = names
        .iter()
        .zip(&effects)
        .map(|(name, effects)| (name.as_str(), fake(&["--log", effects.path_str()])))
        .collect();
    let up = Up::with(&entries).await;
    let (counts, began) = (Counts::default(), Instant::now());
    let callers = join_all((0..CALLERS).map(|number| caller(&up, &counts, number)));
    let asking = async { futures::join!(callers, crasher(&up, &counts), watcher(&counts)) };
    let (middle, end) = tokio::select! {
        () = answerer(&up, &counts) => unreachable!("it never ends"),
        (_, (), sizes) = asking => sizes,
    };
    let runs: usize =
        stream::iter(&effects).map(|effects| effects.read().runs_of("write")).fold(0, async |a, b| a + b).await;
    println!("{:?}: {counts:?}; {middle} KiB in the middle, {end} KiB at the end; {runs} writes ran", began.elapsed());
    let (written, answered) = (counts.written.into_inner(), counts.answered.into_inner());
    assert!(written <= runs && runs <= answered, "{written} results of {runs} writes after {answered} approvals");
    assert!(counts.crashes.into_inner() > 5 && counts.calls.into_inner() > 100);
    if duration() > Duration::from_secs(60) {
        assert!(end < middle + middle / 20, "memory grew: {middle} KiB, then {end} KiB");
    }
    let home = up.down().await;
    assert!(processes::wait_all_gone(&processes::descendants(std::process::id()), LONG), "a server was left");
    drop(home);
}
