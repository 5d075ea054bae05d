//! No test here signals or collects the descendants of this process, because other tests may run in it at the same
//! time. So each tree has a container: its signals then go to the server alone.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

use super::*;

/// A tree whose server is a process that waits, and the file of its reports.
fn tree() -> (Tree, Child, tempfile::NamedTempFile) {
    let server = Command::new("sleep").arg("1000").spawn().unwrap();
    let reports = tempfile::NamedTempFile::new().unwrap();
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
    // This engine answers every question about containers with an empty list.
    let container = Some(Removal::new("true", "toolrack-x-1"));
    (Tree { container, ..Tree::new(pid, reports.reopen().unwrap(), None) }, server, reports)
}

/// A pipe of orders: the end that the supervisor reads, and the end of the host.
fn orders() -> (Option<File>, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    (Some(File::from(OwnedFd::from(reader))), writer)
}

#[test]
fn processes_that_were_asked_to_end_are_killed_at_the_earliest_requested_time() {
    let (mut tree, mut server, _reports) = tree();
    let kill_at = |tree: &Tree| match tree.phase {
        Phase::Terminating { kill_at } => kill_at,
        phase => panic!("{phase:?}"),
    };
    tree.terminate(None);
    assert_eq!((kill_at(&tree), tree.next_timeout(Instant::now())), (None, None), "only an order kills them");
    tree.terminate(Some(Duration::from_secs(600)));
    let first = kill_at(&tree).unwrap();
    for later in [Some(Duration::from_secs(6000)), None] {
        tree.terminate(later);
        assert_eq!(kill_at(&tree), Some(first), "{later:?}");
    }
    tree.terminate(Some(Duration::from_secs(60)));
    let earlier = kill_at(&tree).unwrap();
    assert!(earlier < first);
    assert_eq!(tree.next_timeout(earlier - Duration::from_secs(2)), Some(Duration::from_secs(2)));
    assert_eq!(tree.next_timeout(earlier + Duration::from_secs(2)), Some(Duration::ZERO), "not before the past");
    assert_eq!(tree.advance(earlier - Duration::from_secs(1)), None);
    assert_eq!(kill_at(&tree), Some(earlier), "nothing is killed early");
    assert_eq!(server.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn orders_are_carried_out_and_the_end_of_their_pipe_is_the_end_of_the_host() {
    let (mut tree, mut server, _reports) = tree();
    let (mut orders, mut host) = orders();
    tree.read_orders(&mut orders);
    assert_eq!(tree.phase, Phase::Watching, "no order");
    host.write_all(b"t\n?").unwrap();
    tree.read_orders(&mut orders);
    assert_eq!(tree.phase, Phase::Watching, "unknown orders");
    host.write_all(b"T").unwrap();
    tree.read_orders(&mut orders);
    assert_eq!(tree.phase, Phase::Terminating { kill_at: None });
    drop(host);
    tree.read_orders(&mut orders);
    assert!(orders.is_none());
    let latest = Instant::now() + ORPHAN_GRACE;
    assert!(
        matches!(tree.phase, Phase::Terminating { kill_at: Some(kill_at) } if kill_at <= latest),
        "{:?}",
        tree.phase
    );
    assert_eq!(server.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn the_order_to_kill_removes_the_container_and_no_later_request_takes_it_back() {
    let (mut tree, mut server, _reports) = tree();
    tree.exit = Some(Exit::Code(0));
    let (mut orders, mut host) = orders();
    host.write_all(b"TK").unwrap();
    tree.read_orders(&mut orders);
    let phase = tree.phase;
    assert!(matches!(phase, Phase::Killing { .. }), "{phase:?}");
    assert_eq!((tree.container.is_none(), tree.stuck_containers), (true, 0));
    assert_eq!(tree.next_timeout(Instant::now()), Some(RESCAN_INTERVAL));
    tree.terminate(Some(Duration::ZERO));
    tree.kill();
    assert_eq!(tree.phase, phase, "the time to give up stays the same");
    assert_eq!(server.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn a_server_is_looked_at_regularly_only_if_its_processes_are_counted() {
    let (mut tree, mut server, _reports) = tree();
    assert_eq!(tree.next_timeout(Instant::now()), None);
    tree.limit = Some(ProcessLimit { max: 8, helpers: 2 });
    assert_eq!(tree.next_timeout(Instant::now()), Some(COUNT_INTERVAL));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_end_of_the_server_is_reported_and_becomes_the_exit_code_of_the_supervisor() {
    let (mut tree, mut server, reports) = tree();
    // `ExitCode` can only be compared as text.
    let code = |tree: &Tree| format!("{:?}", tree.exit_code());
    let expected = |code: u8| format!("{:?}", ExitCode::from(code));
    assert_eq!(code(&tree), expected(1), "it has not ended");
    for (exit, exit_code) in [
        (Exit::Code(0), 0),
        (Exit::Code(255), 255),
        (Exit::Signal(9), 137),
        (Exit::Unknown, 1),
        (Exit::TooManyProcesses(8), 1),
    ] {
        tree.server_ended(exit);
        assert_eq!(code(&tree), expected(exit_code), "{exit:?}");
    }
    let lines = fs::read_to_string(reports.path()).unwrap();
    assert_eq!(lines, "exited 0\nexited 255\nsignalled 9\nended 0\noverrun 8\n");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn waiting_ends_when_an_order_comes_and_when_its_time_is_over() {
    let signals = SignalFd::new(&SigSet::empty()).unwrap();
    let (orders, mut host) = orders();
    wait(orders.as_ref(), &signals, Some(Duration::ZERO));
    wait(None, &signals, Some(Duration::from_micros(1)));
    host.write_all(b"T").unwrap();
    // Without a time-out, this returns only because of the order.
    wait(orders.as_ref(), &signals, None);
}

#[test]
fn only_an_inherited_pipe_is_opened_again() {
    let (mut reader, writer) = io::pipe().unwrap();
    let mut again = File::options().write(true).open(pipe_path(writer.as_raw_fd()).unwrap()).unwrap();
    again.write_all(b"x").unwrap();
    drop((again, writer));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
    let file = tempfile::tempfile().unwrap();
    assert_eq!(pipe_path(file.as_raw_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(pipe_path(-1).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_working_folder_that_cannot_be_entered_is_reported_with_the_reason_of_the_system() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    fs::write(root.join("file"), "").unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    symlink("folder", root.join("link")).unwrap();
    for (name, errno) in [("none", Errno::ENOENT), ("file", Errno::ENOTDIR), ("file/below", Errno::ENOTDIR)] {
        for is_confined in [false, true] {
            let failed = enter_folder(&root.join(name), is_confined);
            assert_eq!(failed, Err(Report::FolderFailed(errno as i32)), "{name} {is_confined}");
        }
    }
    assert_eq!(enter_folder(&root.join("link"), true), Err(Report::ConfineFailed), "a server could have made the link");
}

#[test]
fn a_limit_of_processes_leaves_the_helpers_out_however_high_it_is() {
    let limit = |max| ProcessLimit { max, helpers: HELPER_PROCESSES };
    assert!(limit(3).allows(5) && !limit(3).allows(6));
    assert!(limit(u32::MAX).allows(5));
}
