//! How the host notices the end of a program, and that nothing survives it.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use toolrack_host::child::{ChildCommand, Exit, Grace, spawn};

use crate::lab::{self, Host, Lab, SOON, TREES, sh, trials};

/// Grace periods for servers that do not use them.
const SHORT: Grace = Grace { stdin: Duration::from_millis(100), term: Duration::from_millis(100) };

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        exit_codes_and_signals_are_mirrored,
        a_server_that_ends_with_its_stdin_is_not_signalled,
        a_server_that_ignores_the_end_of_its_stdin_is_terminated,
        a_server_that_ignores_everything_is_killed_in_time,
        no_tree_survives_a_shutdown,
        no_tree_survives_a_dropped_handle,
        no_tree_survives_the_exit_of_its_server,
        no_tree_survives_a_killed_host,
        no_tree_survives_a_terminated_host,
        no_tree_survives_a_terminated_supervisor,
        no_tree_survives_a_killed_supervisor,
        processes_left_by_a_killed_host_and_supervisor_end_at_the_next_start,
        a_storm_of_forks_ends,
        a_killed_supervisor_is_reported_and_its_session_killed,
        an_exit_is_seen_although_a_grandchild_holds_the_streams,
        leftovers_get_time_to_end_in_order,
        a_stopped_process_can_end_in_order,
        a_server_that_signals_its_group_spares_its_supervisor,
        a_stopped_supervisor_cannot_hold_a_shutdown,
        a_stopped_supervisor_cannot_hold_a_dropped_handle,
        a_hundred_cycles_leave_nothing_open,
        a_host_that_ignores_sigchld_still_sees_exits,
        without_a_supervisor_the_group_is_ended,
        without_a_supervisor_a_dropped_handle_kills,
    ]
}

async fn exit_codes_and_signals_are_mirrored(lab: Lab) {
    for (script, expected) in [
        ("exit 0", Exit::Code(0)),
        ("exit 3", Exit::Code(3)),
        ("exit 255", Exit::Code(255)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("ulimit -c 0; kill -SEGV $$", Exit::Signal(11)),
        // A signal without a name: the system binding cannot express it.
        ("kill -40 $$", Exit::Unknown),
    ] {
        let child = lab.spawn(sh(script)).await;
        let (one, other) = (child.handle.exited(), child.handle.exited());
        assert_eq!(timeout(SOON, one).await, Ok(expected), "{script}");
        assert_eq!(timeout(SOON, other).await, Ok(expected), "a second listener, {script}");
        assert_eq!(child.handle.shutdown(Grace::default()).await, expected, "{script}");
    }
}

async fn a_server_that_ends_with_its_stdin_is_not_signalled(lab: Lab) {
    let child = lab.spawn(sh("trap 'exit 9' TERM; while read line; do :; done; sleep 0.2; exit 4")).await;
    drop(child.stdin);
    assert_eq!(timeout(SOON, child.handle.shutdown(Grace::default())).await, Ok(Exit::Code(4)));
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn a_server_that_ignores_the_end_of_its_stdin_is_terminated(lab: Lab) {
    let child = lab.spawn(sh("trap 'kill $!; exit 9' TERM; echo ready; sleep 1000 & wait")).await;
    let mut stdout = child.stdout;
    stdout.read_u8().await.unwrap();
    drop(child.stdin);
    let grace = Grace { stdin: Duration::from_millis(100), term: SOON };
    assert_eq!(timeout(SOON, child.handle.shutdown(grace)).await, Ok(Exit::Code(9)));
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn a_server_that_ignores_everything_is_killed_in_time(lab: Lab) {
    let mut child = lab.spawn(sh("trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done")).await;
    child.stdout.read_u8().await.unwrap();
    drop(child.stdin);
    let start = Instant::now();
    assert_eq!(child.handle.shutdown(Grace::default()).await, Exit::Signal(9));
    assert!(start.elapsed() < Duration::from_secs(6), "took {:?}", start.elapsed());
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn no_tree_survives_a_shutdown(lab: Lab) {
    for (name, script) in TREES {
        let child = lab.spawn_ready(script).await;
        drop(child.stdin);
        child.handle.shutdown(SHORT).await;
        assert_eq!(lab.survivors(), [0; 0], "{name}: gone when shutdown returns");
    }
}

async fn no_tree_survives_a_dropped_handle(lab: Lab) {
    for (name, script) in TREES {
        let child = lab.spawn_ready(script).await;
        drop(child);
        // Killed, and not asked first: as long as a kill may take.
        lab.nothing_survives_for(Duration::from_secs(3), name).await;
    }
}

async fn no_tree_survives_the_exit_of_its_server(lab: Lab) {
    for (name, script) in TREES {
        let child = lab.spawn_ready(script).await;
        kill(pid(child.handle.pid()), Signal::SIGKILL).unwrap();
        assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Signal(9)), "{name}");
        lab.nothing_survives_for(Duration::from_secs(2), name).await;
    }
}

async fn no_tree_survives_a_killed_host(lab: Lab) {
    for round in 0..rounds() {
        let (name, script) = TREES[round % TREES.len()];
        let mut host = Host::start(&lab, script);
        host.wait_until_ready();
        host.kill(Signal::SIGKILL);
        let took = lab.nothing_survives_for(Duration::from_secs(2), name).await;
        println!("round {round}, {name}: {took:?}");
    }
}

async fn no_tree_survives_a_terminated_host(lab: Lab) {
    for (name, script) in TREES {
        let mut host = Host::start(&lab, script);
        host.wait_until_ready();
        host.kill(Signal::SIGTERM);
        lab.nothing_survives_for(Duration::from_secs(2), name).await;
    }
}

async fn no_tree_survives_a_terminated_supervisor(lab: Lab) {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let (name, script) = TREES[1];
        let child = lab.spawn_ready(script).await;
        kill(lab.supervisor(), signal).unwrap();
        assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Signal(15)), "{name}");
        lab.nothing_survives_for(Duration::from_secs(2), name).await;
    }
}

async fn no_tree_survives_a_killed_supervisor(lab: Lab) {
    for round in 0..rounds() {
        let (name, script) = TREES[round % TREES.len()];
        let child = lab.spawn_ready(script).await;
        kill(lab.supervisor(), Signal::SIGKILL).unwrap();
        assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::SupervisorLost), "{name}");
        lab.nothing_survives_for(Duration::from_secs(2), name).await;
    }
}

/// How many of each are killed.
#[expect(clippy::disallowed_methods, reason = "a test can be told to take longer")]
pub(crate) fn rounds() -> usize {
    std::env::var("TOOLRACK_TEST_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(20)
}

async fn processes_left_by_a_killed_host_and_supervisor_end_at_the_next_start(lab: Lab) {
    let mut left = 0;
    for round in 0..rounds() {
        let (name, script) = TREES[round % TREES.len()];
        let mut host = Host::start(&lab, script);
        host.wait_until_ready();
        // Stop both first, so that neither notices the end of the other.
        let (supervisor, all) = (lab.supervisor(), lab.survivors().len());
        kill(supervisor, Signal::SIGSTOP).unwrap();
        host.kill(Signal::SIGKILL);
        kill(supervisor, Signal::SIGKILL).unwrap();
        assert!(all > 1, "{name}");
        left += lab.survivors().iter().filter(|pid| **pid != supervisor.as_raw()).count();
        let mut next = Host::start(&lab, "echo next; exit 3");
        assert_eq!(next.line(), "next");
        assert_eq!(next.line(), "exit status 3", "{name}");
        let took = lab.nothing_survives_for(Duration::from_secs(2), name).await;
        println!("round {round}, {name}: {took:?}");
    }
    assert!(left > 0, "nothing was left behind that could have been found");
}

/// Each process starts two in sessions of their own and ends: a snapshot of the tree is stale at once. The storm dies
/// down by itself after some thousand processes, so that a failing test does not take the machine with it.
async fn a_storm_of_forks_ends(lab: Lab) {
    let storm = "echo ready; storm() { [ $1 -gt 0 ] || exec sleep 1000; \
                 (setsid sleep 1000 & storm $(($1-1))) & (storm $(($1-1))) & exit 0; }; storm 7; ";
    let child = lab.spawn_ready(storm).await;
    drop(child.stdin);
    timeout(SOON, child.handle.shutdown(SHORT)).await.expect("in time");
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn a_killed_supervisor_is_reported_and_its_session_killed(lab: Lab) {
    for (name, script) in &TREES[..3] {
        let child = lab.spawn_ready(script).await;
        kill(lab.supervisor(), Signal::SIGKILL).unwrap();
        assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::SupervisorLost), "{name}");
        assert_eq!(lab.survivors(), [0; 0], "{name}");
        assert_eq!(child.handle.shutdown(SHORT).await, Exit::SupervisorLost, "{name}");
    }
}

async fn an_exit_is_seen_although_a_grandchild_holds_the_streams(lab: Lab) {
    let child = lab.spawn(sh("trap '' TERM; sleep 1000 & echo ready; read line; exit 7")).await;
    let mut stdout = child.stdout;
    stdout.read_u8().await.unwrap();
    let start = Instant::now();
    drop(child.stdin);
    assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Code(7)));
    let took = start.elapsed();
    assert!(took < Duration::from_millis(200), "took {took:?}");
    println!("seen after {took:?}");
    assert_eq!(child.handle.shutdown(SHORT).await, Exit::Code(7));
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn leftovers_get_time_to_end_in_order(lab: Lab) {
    // The one that is left behind needs a helper to clean up, which must not be signalled in turn.
    let script =
        "(trap 'sleep 0.1 && echo saved >&2; exit' TERM; echo up >&2; while :; do :; done) & echo ready; read line";
    let child = lab.spawn_ready(script).await;
    lab.until("the leftover runs", || !child.stderr.tail(1).is_empty()).await;
    drop(child.stdin);
    lab.finish(child.handle).await;
    timeout(SOON, child.stderr.drained()).await.expect("stderr ends with the server");
    assert_eq!(child.stderr.tail(9), ["up", "saved"]);
}

async fn a_stopped_process_can_end_in_order(lab: Lab) {
    let script = "trap 'echo saved >&2; exit 6' TERM; echo ready; kill -STOP $$; while :; do :; done";
    let child = lab.spawn_ready(script).await;
    drop(child.stdin);
    let grace = Grace { stdin: Duration::from_millis(100), term: SOON };
    assert_eq!(timeout(SOON, child.handle.shutdown(grace)).await, Ok(Exit::Code(6)));
    timeout(SOON, child.stderr.drained()).await.expect("stderr ends with the server");
    assert_eq!(child.stderr.tail(1), ["saved"]);
}

async fn a_server_that_signals_its_group_spares_its_supervisor(lab: Lab) {
    let child = lab.spawn(sh("setsid sleep 1000 & kill -KILL 0; sleep 1000")).await;
    assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Signal(9)));
    lab.nothing_survives_for(Duration::from_secs(1), "the setsid child").await;
}

async fn a_stopped_supervisor_cannot_hold_a_shutdown(lab: Lab) {
    let child = lab.spawn_ready(TREES[1].1).await;
    kill(lab.supervisor(), Signal::SIGSTOP).unwrap();
    drop(child.stdin);
    let start = Instant::now();
    assert_eq!(child.handle.shutdown(SHORT).await, Exit::SupervisorLost);
    assert!(start.elapsed() < Duration::from_secs(8), "took {:?}", start.elapsed());
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn a_stopped_supervisor_cannot_hold_a_dropped_handle(lab: Lab) {
    let child = lab.spawn_ready(TREES[1].1).await;
    kill(lab.supervisor(), Signal::SIGSTOP).unwrap();
    drop(child);
    lab.nothing_survives_for(Duration::from_secs(8), "a stopped supervisor").await;
}

async fn a_hundred_cycles_leave_nothing_open(lab: Lab) {
    let cycle = async || {
        let child = lab.spawn(sh("cat")).await;
        drop(child.stdin);
        assert_eq!(child.handle.shutdown(Grace::default()).await, Exit::Code(0));
    };
    // In the first run, the runtime allocates everything that it keeps.
    cycle().await;
    lab.idle().await;
    let (descriptors, children) = (lab::descriptors(), lab::children());
    for _ in 0..100 {
        cycle().await;
    }
    lab.idle().await;
    assert_eq!(lab::descriptors(), descriptors);
    assert_eq!(lab::children(), children, "zombies");
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn a_host_that_ignores_sigchld_still_sees_exits(lab: Lab) {
    let mut host = Host::start_carelessly(&lab, &["/bin/sh", "-c", "echo ready; exit 3"]);
    assert_eq!(host.line(), "ready");
    assert_eq!(host.line(), "exit status 3");
}

async fn without_a_supervisor_the_group_is_ended(lab: Lab) {
    let script = "trap '' TERM; sleep 1000 & echo ready; read line; exit 5";
    let command = ChildCommand { supervisor: None, ..lab.command(sh(script)) };
    let mut child = spawn(command.clone(), None, &lab.tasks).await.unwrap();
    child.stdout.read_u8().await.unwrap();
    drop(child.stdin);
    assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Code(5)));
    assert_eq!(timeout(SOON, child.handle.shutdown(Grace::default())).await, Ok(Exit::Code(5)));
    assert_eq!(lab.survivors(), [0; 0], "the leftover ignored TERM");

    let stubborn = "trap '' TERM; sleep 1000 & echo ready; while :; do sleep 1000; done";
    let command = ChildCommand { supervisor: None, ..lab.command(sh(stubborn)) };
    let mut child = spawn(command, None, &lab.tasks).await.unwrap();
    child.stdout.read_u8().await.unwrap();
    drop(child.stdin);
    assert_eq!(timeout(SOON, child.handle.shutdown(SHORT)).await, Ok(Exit::Signal(9)));
    assert_eq!(lab.survivors(), [0; 0]);
}

async fn without_a_supervisor_a_dropped_handle_kills(lab: Lab) {
    let script = "trap '' TERM; sleep 1000 & echo ready; while :; do sleep 1000; done";
    let command = ChildCommand { supervisor: None, ..lab.command(sh(script)) };
    let mut child = spawn(command, None, &lab.tasks).await.unwrap();
    child.stdout.read_u8().await.unwrap();
    drop(child);
    lab.nothing_survives_for(Duration::from_secs(1), "the group").await;
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}
