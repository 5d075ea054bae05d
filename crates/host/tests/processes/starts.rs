//! What a program inherits when it is started, and why it may fail to start.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime;
use tokio::time::timeout;
use toolrack_host::child::{ChildCommand, Exit, SpawnError, Supervisor, spawn};

use crate::lab::{self, Host, Lab, SOON, sh, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_streams_are_the_servers_own,
        output_written_before_the_exit_can_still_be_read,
        a_stream_that_the_server_closes_is_at_its_end,
        a_flood_of_stderr_is_drained_and_bounded,
        the_environment_and_the_folder_are_as_given,
        the_server_sees_three_descriptors_although_the_host_leaks_one,
        the_server_has_a_clean_slate_of_signals,
        a_program_that_cannot_start_is_named_with_the_reason,
        no_program_is_looked_for_in_the_working_folder,
        impossible_arguments_and_variables_are_refused,
        a_supervisor_without_the_hook_is_refused,
        a_supervisor_that_says_nothing_is_given_up,
        dropping_the_spawn_leaves_nothing,
    ]
}

async fn the_streams_are_the_servers_own(lab: Lab) {
    let mut child = lab.spawn(sh("read line; echo \"out $line\"; echo \"err $line\" >&2")).await;
    child.stdin.write_all(b"hello\n").await.unwrap();
    let mut out = String::new();
    timeout(SOON, child.stdout.read_to_string(&mut out)).await.expect("stdout ends with the server").unwrap();
    assert_eq!(out, "out hello\n");
    timeout(SOON, child.stderr.drained()).await.expect("stderr ends with the server");
    assert_eq!(child.stderr.tail(9), ["err hello"]);
}

async fn output_written_before_the_exit_can_still_be_read(lab: Lab) {
    let mut child = lab.spawn(sh("head -c 60000 /dev/zero")).await;
    assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Code(0)));
    let mut out = Vec::new();
    timeout(SOON, child.stdout.read_to_end(&mut out)).await.unwrap().unwrap();
    assert_eq!(out.len(), 60_000);
}

async fn a_stream_that_the_server_closes_is_at_its_end(lab: Lab) {
    let mut child = lab.spawn(sh("exec >&- 2>&-; read line; exit 2")).await;
    let mut out = Vec::new();
    timeout(SOON, child.stdout.read_to_end(&mut out)).await.expect("no other process holds stdout").unwrap();
    timeout(SOON, child.stderr.drained()).await.expect("no other process holds stderr");
    assert_eq!(child.handle.exit(), None);
    drop(child.stdin);
    assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(Exit::Code(2)));
}

async fn a_flood_of_stderr_is_drained_and_bounded(lab: Lab) {
    let longest = Arc::new(Mutex::new((0_usize, 0_usize)));
    let seen = Arc::clone(&longest);
    let hook = Arc::new(move |line: &str| {
        let mut seen = seen.lock().unwrap();
        *seen = (seen.0 + 1, seen.1.max(line.len()));
    });
    let before = lab::memory();
    // 10 MiB: half of it in short lines, half in one line.
    let script =
        "yes 0123456789abcde | head -c 5242880 >&2; head -c 5242880 /dev/zero | tr '\\0' x >&2; echo >&2; echo end >&2";
    let child = spawn(lab.command(sh(script)), Some(hook), &lab.tasks).await.unwrap();
    assert_eq!(timeout(SOON * 3, child.handle.exited()).await, Ok(Exit::Code(0)));
    lab.finish(child.handle).await;
    timeout(SOON, child.stderr.drained()).await.expect("stderr ends with the server");
    assert_eq!(child.stderr.total(), 10 * 1024 * 1024 + 5);
    assert_eq!(child.stderr.tail(1), ["end"]);
    assert_eq!(*longest.lock().unwrap(), (5_242_880 / 16 + 2, 4096));
    let grown = lab::memory().saturating_sub(before);
    assert!(grown < 4 << 20, "grew by {grown} bytes");
}

async fn the_environment_and_the_folder_are_as_given(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let command = ChildCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "/bin/cat /proc/$$/environ; echo; /bin/pwd".into()],
        env: vec![("ONE".into(), "1".into()), ("EMPTY".into(), "".into()), ("TWO".into(), "a=b c".into())],
        cwd: Some(folder.path().to_path_buf()),
        supervisor: Some(Supervisor::this_program()),
        confinement: None,
        container: None,
    };
    let mut child = spawn(command, None, &lab.tasks).await.unwrap();
    let mut out = String::new();
    timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
    let (environment, folder_seen) = out.trim_end().split_once('\n').unwrap();
    let mut variables: Vec<&str> = environment.trim_end_matches('\0').split('\0').collect();
    variables.sort_unstable();
    assert_eq!(variables, ["EMPTY=", "ONE=1", "TWO=a=b c"]);
    assert_eq!(folder_seen, folder.path().canonicalize().unwrap().to_str().unwrap());
}

async fn the_server_sees_three_descriptors_although_the_host_leaks_one(lab: Lab) {
    let leak = lab::leak_a_descriptor();
    let mut child = lab.spawn(sh("exec ls -l /proc/self/fd")).await;
    let mut out = String::new();
    timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
    drop(leak);
    // The last one is the folder that `ls` reads.
    let open: Vec<&str> = out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(8)).collect();
    assert_eq!(open, ["0", "1", "2", "3"], "{out}");
    assert!(out.lines().last().unwrap().contains("/proc/"), "{out}");
}

async fn the_server_has_a_clean_slate_of_signals(lab: Lab) {
    // The supervisor blocks all signals, this host blocks and ignores some: the server must inherit none of this.
    // (Signals 32 and 33 are the C library's own, hence the 8.)
    let clean = "^SigBlk:.*0{16}$|^SigIgn:.*[08]0{7}$";
    let mut host = Host::start_carelessly(&lab, &["/bin/grep", "-cE", clean, "/proc/self/status"]);
    assert_eq!(host.line(), "2");
}

async fn a_program_that_cannot_start_is_named_with_the_reason(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    lab::write(&here.join("plain"), b"echo hello", 0o644);
    lab::write(&here.join("lost"), b"#!/no/such/interpreter\n", 0o755);
    lab::write(&here.join("junk"), b"\x01\x02\x03", 0o755);
    let path = here.to_str().unwrap();

    let cases = [
        ("", "the command is empty; name a program to run"),
        (
            "no-such-program",
            "command not found: no-such-program (the one folder of PATH does not have it); install it or give its full path",
        ),
        ("./nothing", "no such file: HERE/./nothing; check the path of the command"),
        ("plain", "not an executable file: HERE/plain; check the command and the file's permissions"),
        ("./", "not an executable file: HERE/./; check the command and the file's permissions"),
        (
            "lost",
            "cannot run HERE/lost: the interpreter named in its first line, or its program loader, is not installed",
        ),
        (
            "junk",
            "cannot run HERE/junk: neither a program for this machine nor a script whose first line names its \
             interpreter",
        ),
        ("a\0b", "the command contains a NUL byte"),
    ];
    for supervisor in [Some(Supervisor::this_program()), None] {
        for (program, expected) in cases {
            let command = ChildCommand {
                program: program.into(),
                args: Vec::new(),
                env: vec![("PATH".into(), path.into())],
                cwd: Some(here.to_path_buf()),
                supervisor: supervisor.clone(),
                confinement: None,
                container: None,
            };
            let error = spawn(command, None, &lab.tasks).await.expect_err(program);
            assert_eq!(error.to_string(), expected.replace("HERE", path), "{supervisor:?}");
        }
    }
}

async fn no_program_is_looked_for_in_the_working_folder(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    lab::write(&here.join("server"), b"#!/bin/sh\necho hostile\n", 0o755);
    std::fs::create_dir(here.join("bin")).unwrap();
    lab::write(&here.join("bin/server"), b"#!/bin/sh\necho hostile\n", 0o755);
    for supervisor in [Some(Supervisor::this_program()), None] {
        for path in [".", "bin", ":/bin", "./bin:"] {
            let mut command = ChildCommand { supervisor: supervisor.clone(), ..lab.command(sh("printf %s \"$PATH\"")) };
            command.cwd = Some(here.to_path_buf());
            command.env.push(("PATH".into(), format!("{path}:/usr/bin:/bin").into()));
            let named = ChildCommand { program: "server".into(), ..command.clone() };
            let error = spawn(named, None, &lab.tasks).await.expect_err("it is in no absolute folder");
            assert!(error.to_string().starts_with("command not found: server"), "{error}");
            let mut child = spawn(command, None, &lab.tasks).await.unwrap();
            let mut text = String::new();
            child.stdout.read_to_string(&mut text).await.unwrap();
            assert!(text.split(':').all(|folder| folder.starts_with('/')), "{text}");
        }
    }
}

async fn impossible_arguments_and_variables_are_refused(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    lab::write(&file, b"", 0o644);
    for supervisor in [Some(Supervisor::this_program()), None] {
        let command = ChildCommand { supervisor, ..lab.command(sh("exit 0")) };

        let command_in_file = ChildCommand { cwd: Some(file.clone()), ..command.clone() };
        let error = spawn(command_in_file, None, &lab.tasks).await.expect_err("a file is not a folder");
        assert_eq!(error.to_string(), format!("cannot use the working folder {}", file.display()));

        let nul = ChildCommand { args: vec!["-c".into(), "a\0b".into()], ..command.clone() };
        let error = spawn(nul, None, &lab.tasks).await.expect_err("a NUL byte");
        assert_eq!(error.to_string(), "argument 2 contains a NUL byte");

        let too_long = ChildCommand { args: vec!["x".repeat(4 << 20).into()], ..command };
        let error = spawn(too_long, None, &lab.tasks).await.expect_err("4 MiB in one argument");
        assert!(matches!(error, SpawnError::TooLong), "{error:?}");
    }
}

async fn a_supervisor_without_the_hook_is_refused(lab: Lab) {
    for (program, expected) in [
        ("/bin/true", "/bin/true does not act as a supervisor; call run_if_asked() first thing in its main function"),
        ("/no/such/program", "cannot start the supervisor process /no/such/program"),
    ] {
        let supervisor = Some(Supervisor::from(std::path::PathBuf::from(program)));
        let command = ChildCommand { supervisor, ..lab.command(sh("exit 0")) };
        let error = spawn(command, None, &lab.tasks).await.expect_err("not a supervisor");
        assert_eq!(error.to_string(), expected);
    }
    let supervisor = Some(Supervisor::from(std::path::PathBuf::from("/bin/ls")));
    let command = ChildCommand { supervisor, ..lab.command(sh("exit 0")) };
    let error = spawn(command, None, &lab.tasks).await.expect_err("not a supervisor").to_string();
    assert!(
        error.starts_with("/bin/ls does not act as a supervisor (its last line was \"toolrack-supervisor: "),
        "{error}"
    );
}

async fn a_supervisor_that_says_nothing_is_given_up(lab: Lab) {
    // It prints the file of the command, which is more than a pipe holds, and waits for a reader. The test has its own
    // clock, so that it need not wait ten seconds.
    let run = move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let supervisor = Some(Supervisor::from(std::path::PathBuf::from("/bin/cat")));
            let command = ChildCommand { supervisor, ..lab.command(sh("exit 0")) };
            spawn(command, None, &lab.tasks).await.expect_err("not a supervisor")
        })
    };
    let error = tokio::task::spawn_blocking(|| std::thread::spawn(run).join()).await.unwrap().unwrap();
    assert!(matches!(error, SpawnError::SilentSupervisor { .. }), "{error:?}");
}

async fn dropping_the_spawn_leaves_nothing(lab: Lab) {
    for step in 0..40_u32 {
        let limit = Duration::from_micros(200) * step;
        let command = lab.command(sh("trap '' TERM; setsid sleep 1000 & sleep 1000"));
        let _ = timeout(limit, spawn(command, None, &lab.tasks)).await;
    }
    lab.nothing_survives_for(Duration::from_secs(3), "dropped spawns").await;
}
