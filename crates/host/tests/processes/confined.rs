//! Servers in a sandbox: what they may not do, and that they cannot escape.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use toolrack_host::{
    Confinement,
    child::{ChildCommand, Exit, SpawnError, spawn},
};

use crate::ends;
use crate::lab::{self, Host, Lab, SOON, TREES, sh};

/// The first argument that makes this program act as a confined server, which tries what its other arguments say.
const ATTEMPT: &str = "__attempt";

pub(crate) fn trials() -> Vec<Trial> {
    // The name of the module says what these tests need.
    macro_rules! needing_landlock {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(concat!("needs_landlock::", stringify!($name)), || {
                lab::run($name);
                Ok(())
            })),*]
        };
    }
    macro_rules! needing_landlock_and_python {
        ($name:ident) => {
            vec![Trial::test(concat!("needs_landlock::needs_python::", stringify!($name)), || {
                lab::run($name);
                Ok(())
            })]
        };
    }
    needing_landlock![
        a_confined_server_reads_and_changes_only_what_is_named,
        a_confined_server_connects_and_listens_only_where_it_may,
        a_confined_server_reaches_no_process_outside,
        processes_that_a_confined_server_starts_are_confined_as_well,
        a_server_over_a_limit_gets_an_error_or_is_killed,
        a_server_that_multiplies_is_killed_whole,
        a_server_that_runs_in_the_home_may_neither_read_nor_change_it,
        a_confinement_that_the_system_lacks_starts_nothing_and_says_why,
        a_link_that_a_server_made_leads_nowhere_at_its_next_start,
        no_link_that_a_server_could_have_made_leads_to_its_working_folder,
        links_beside_a_program_lead_to_installations_only,
        named_paths_are_relative_to_the_working_folder_and_links_of_the_system_are_followed,
        loader_variables_of_a_server_do_not_affect_our_programs,
        the_exit_of_a_confined_server_is_reported_unchanged,
        processes_that_a_confined_server_leaves_behind_end_with_it_in_order,
        no_process_of_a_confined_server_survives_its_host_and_supervisor,
        a_server_that_may_use_udp_may_and_one_that_has_no_port_has_no_network,
    ]
    .into_iter()
    .chain(needing_landlock_and_python![no_attack_of_a_confined_server_gets_anything])
    .collect()
}

/// If the arguments ask for it, tries what they say and prints the outcome of each attempt.
pub(crate) fn attempt_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != ATTEMPT {
        return None;
    }
    for attempt in arguments {
        let (what, with) = attempt.split_once('=').unwrap();
        match perform(what, with) {
            Ok(()) => println!("{what}: ok"),
            Err(error) if is_denied(&error) => println!("{what}: {NO}"),
            Err(error) => println!("{what}: {}", error.kind()),
        }
    }
    Some(ExitCode::SUCCESS)
}

/// Returns whether the system denied the access, or behaves as if the target did not exist.
fn is_denied(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::NotFound,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::CrossesDevices,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

/// Makes one attempt: `what` with the path, the port or the number `with`.
fn perform(what: &str, with: &str) -> io::Result<()> {
    let port = || with.parse::<u16>().unwrap();
    match what {
        "read" => fs::read(with).map(drop),
        "list" => fs::read_dir(with).map(drop),
        "write" => fs::write(with, "x"),
        "truncate" => fs::File::options().write(true).truncate(true).open(with).map(drop),
        "remove" => fs::remove_file(with),
        "mkdir" => fs::create_dir(with),
        "rename" => {
            let (from, to) = with.split_once(':').unwrap();
            fs::rename(from, to)
        }
        "run" => Command::new(with).status().map(drop),
        "connect" => TcpStream::connect(("127.0.0.1", port())).map(drop),
        "udp" => UdpSocket::bind(("127.0.0.1", 0)).map(drop),
        "bind" => TcpListener::bind(("127.0.0.1", port())).map(drop),
        "signal" => kill(Pid::from_raw(with.parse().unwrap()), None).map_err(io::Error::from),
        "privileges" => {
            let status = fs::read_to_string("/proc/self/status")?;
            status.contains("NoNewPrivs:\t1").then_some(()).ok_or_else(|| io::ErrorKind::Other.into())
        }
        "memory" => {
            let bytes = with.parse::<usize>().unwrap() << 20;
            let mut block = Vec::<u8>::new();
            block.try_reserve_exact(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
            Ok(())
        }
        "open" => {
            let many: io::Result<Vec<_>> = (0..with.parse().unwrap()).map(|_| fs::File::open("/dev/null")).collect();
            many.map(drop)
        }
        "again" => {
            let program = std::env::current_exe()?;
            let output = Command::new(program).arg(ATTEMPT).args(with.split(',')).output()?;
            print!("{}", String::from_utf8_lossy(&output.stdout));
            Ok(())
        }
        // Each process starts others for as long as it can. If they are not killed, they end after a while, to spare
        // the machine.
        "bomb" => {
            let until = Duration::from_millis(with.parse().unwrap());
            while SystemTime::UNIX_EPOCH.elapsed().unwrap() < until {
                let _ = Command::new(std::env::current_exe()?).args([ATTEMPT, &format!("bomb={with}")]).spawn();
            }
            Ok(())
        }
        _ => unreachable!(),
    }
}

impl Lab {
    /// Returns a command that tries `attempts` within `confinement`.
    fn confined(&self, confinement: Confinement, attempts: &[String]) -> ChildCommand {
        let program = std::env::current_exe().unwrap();
        let words: Vec<&str> = [ATTEMPT].into_iter().chain(attempts.iter().map(String::as_str)).collect();
        let command = self.command((program.to_str().unwrap(), &*words));
        ChildCommand { confinement: Some(Box::new(confinement)), ..command }
    }

    /// Returns the outcomes of `attempts`, such as `read: ok` and `write: no`.
    async fn outcomes(&self, folder: &Path, confinement: Confinement, attempts: &[String]) -> Vec<String> {
        let command = ChildCommand { cwd: Some(folder.to_owned()), ..self.confined(confinement, attempts) };
        let mut child = spawn(command, None, &self.tasks).await.unwrap();
        let mut out = String::new();
        timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
        self.finish(child.handle).await;
        out.lines().map(str::to_owned).collect()
    }
}

/// The outcome of an attempt that the system denied.
const NO: &str = "no";

async fn a_confined_server_reads_and_changes_only_what_is_named(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let at = |name: &str| all.path().join(name);
    for folder in ["home/.ssh", "home/notes", "work", "shared"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for file in ["home/.ssh/id_x", "home/notes/a", "shared/b", "home/profile"] {
        fs::write(at(file), "canary").unwrap();
    }
    let confinement = Confinement {
        read: vec![at("home/notes")],
        write: vec![at("shared")],
        home: Some(at("home")),
        own_folder: Some(at("homes/own")),
        ..Confinement::default()
    };
    let path = |name: &str| at(name).to_str().unwrap().to_owned();
    let attempts = [
        ("read", path("home/.ssh/id_x"), NO),
        ("list", path("home/.ssh"), NO),
        ("list", path("home"), NO),
        ("write", path("home/.bashrc"), NO),
        ("truncate", path("home/profile"), NO),
        ("remove", path("home/profile"), NO),
        ("read", path("home/notes/a"), "ok"),
        ("write", path("home/notes/a"), NO),
        ("remove", path("home/notes/a"), NO),
        ("write", path("shared/c"), "ok"),
        ("rename", format!("{}:{}", path("shared/b"), path("home/notes/b")), NO),
        ("write", "in-its-folder".to_owned(), "ok"),
        ("mkdir", "sub".to_owned(), "ok"),
        ("rename", "in-its-folder:sub/moved".to_owned(), "ok"),
        ("write", path("homes/own/tmp/x"), "ok"),
        ("write", path("homes/other"), NO),
        ("write", "/tmp/toolrack-confined-test".to_owned(), NO),
        ("write", "/etc/toolrack-confined-test".to_owned(), NO),
        ("read", format!("/proc/{}/cmdline", std::process::id()), NO),
        ("read", "/proc/meminfo".to_owned(), "ok"),
        ("read", "/etc/hostname".to_owned(), "ok"),
        ("write", "/dev/null".to_owned(), "ok"),
        ("list", "/root".to_owned(), NO),
        ("run", "/bin/true".to_owned(), "ok"),
        ("privileges", String::new(), "ok"),
    ];
    let words: Vec<String> = attempts.iter().map(|(what, with, _)| format!("{what}={with}")).collect();
    let seen = lab.outcomes(&at("work"), confinement, &words).await;
    let expected: Vec<String> = attempts.iter().map(|(what, _, outcome)| format!("{what}: {outcome}")).collect();
    for ((seen, expected), word) in seen.iter().zip(&expected).zip(&words) {
        assert_eq!(seen, expected, "{word}");
    }
    assert_eq!(seen.len(), expected.len());
    assert_eq!(fs::read_to_string(at("home/profile")).unwrap(), "canary");
}

async fn a_confined_server_connects_and_listens_only_where_it_may(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [allowed, other] = [&listeners[0], &listeners[1]].map(|listener| listener.local_addr().unwrap().port());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let attempts = [format!("connect={allowed}"), format!("connect={other}"), format!("bind={free}")];
    let confinement = Confinement { connect: Some(vec![allowed]), bind: Some(Vec::new()), ..Confinement::default() };
    let seen = lab.outcomes(folder.path(), confinement, &attempts).await;
    assert_eq!(seen, ["connect: ok".to_owned(), format!("connect: {NO}"), format!("bind: {NO}")]);
    let any = Confinement { connect: None, bind: Some(vec![free]), ..Confinement::default() };
    let seen = lab.outcomes(folder.path(), any, &attempts).await;
    assert_eq!(seen, ["connect: ok", "connect: ok", "bind: ok"]);
}

async fn a_confined_server_reaches_no_process_outside(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let host = std::process::id();
    let attempts =
        [format!("signal={host}"), format!("read=/proc/{host}/environ"), "read=/proc/self/environ".to_owned()];
    let seen = lab.outcomes(folder.path(), Confinement::default(), &attempts).await;
    assert_eq!(seen, [format!("signal: {NO}"), format!("read: {NO}"), "read: ok".to_owned()]);
}

async fn processes_that_a_confined_server_starts_are_confined_as_well(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    let attempts = [format!("again=read={},read=/etc/hostname,signal={}", secret.path().display(), std::process::id())];
    let seen = lab.outcomes(folder.path(), Confinement::default(), &attempts).await;
    assert_eq!(seen, [format!("read: {NO}"), "read: ok".to_owned(), format!("signal: {NO}"), "again: ok".to_owned()]);
}

async fn a_server_over_a_limit_gets_an_error_or_is_killed(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let attempts = ["memory=16", "memory=256", "open=8", "open=64"].map(str::to_owned);
    let limits = Confinement { memory: Some(64 << 20), files: Some(32), ..Confinement::default() };
    let seen = lab.outcomes(folder.path(), limits, &attempts).await;
    assert_eq!(seen[..3], ["memory: ok", "memory: out of memory", "open: ok"]);
    assert!(seen[3].starts_with("open: ") && seen[3] != "open: ok", "{seen:?}");
    let limits = Confinement { cpu: Some(1), ..Confinement::default() };
    let command = ChildCommand { confinement: Some(Box::new(limits)), ..lab.command(sh("while :; do :; done")) };
    let child = spawn(command, None, &lab.tasks).await.unwrap();
    let exit = timeout(SOON, child.handle.exited()).await.unwrap();
    assert!(matches!(exit, Exit::Signal(_)), "{exit}");
    lab.finish(child.handle).await;
}

async fn a_server_that_multiplies_is_killed_whole(lab: Lab) {
    let limits = Confinement { processes: Some(16), ..Confinement::default() };
    let until = SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(8);
    let child = spawn(lab.confined(limits, &[format!("bomb={}", until.as_millis())]), None, &lab.tasks).await.unwrap();
    let exit = timeout(SOON, child.handle.exited()).await.unwrap();
    assert_eq!(exit, Exit::TooManyProcesses(16));
    assert!(exit.to_string().contains("sandbox.limits.processes"));
    lab.nothing_survives_for(Duration::from_secs(10), "a bomb").await;
    assert!(SystemTime::UNIX_EPOCH.elapsed().unwrap() < until, "the processes ended by themselves");
    lab.finish(child.handle).await;
}

async fn a_server_that_runs_in_the_home_may_neither_read_nor_change_it(lab: Lab) {
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    fs::write(&secret, "canary").unwrap();
    let confinement = Confinement { home: Some(home.path().to_owned()), ..Confinement::default() };
    let attempts = [format!("read={}", secret.display()), "write=x".to_owned()];
    for folder in [home.path(), home.path().parent().unwrap(), Path::new("/")] {
        let seen = lab.outcomes(folder, confinement.clone(), &attempts).await;
        assert_eq!(seen, [format!("read: {NO}"), format!("write: {NO}")], "{}", folder.display());
    }
}

async fn a_confinement_that_the_system_lacks_starts_nothing_and_says_why(lab: Lab) {
    let here = tempfile::tempdir().unwrap();
    let missing = Confinement { read: vec!["/no/such/folder".into()], ..Confinement::default() };
    let error = spawn(lab.confined(missing, &[]), None, &lab.tasks).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotConfined { .. }), "{error}");
    assert!(error.to_string().contains("`sandbox.read` names /no/such/folder: "), "{error}");

    // The interpreter of the script is outside of what the server may read.
    let (script, python) = (here.path().join("bin/server"), here.path().join("hidden/interpreter"));
    fs::create_dir_all(here.path().join("bin")).unwrap();
    fs::create_dir_all(here.path().join("hidden")).unwrap();
    fs::copy("/bin/sh", &python).unwrap();
    let home = here.path().join("hidden");
    lab::write(&script, format!("#!{}\n", python.display()).as_bytes(), 0o755);
    let scripts = tempfile::tempdir().unwrap();
    let moved = scripts.path().join("server");
    lab::write(&moved, format!("#!{}\n", python.display()).as_bytes(), 0o755);
    let command = lab.command((moved.to_str().unwrap(), [] as [&str; 0]));
    let confinement = Some(Box::new(Confinement { home: Some(home), ..Confinement::default() }));
    let error =
        spawn(ChildCommand { confinement, cwd: Some("/".into()), ..command }, None, &lab.tasks).await.unwrap_err();
    assert!(error.to_string().contains("add the folder of its installation to `sandbox.read`"), "{error}");

    let unwatched = ChildCommand { supervisor: None, ..lab.confined(Confinement::default(), &[]) };
    let error = spawn(unwatched, None, &lab.tasks).await.unwrap_err();
    assert!(error.to_string().contains("only a host with a supervisor"), "{error}");
}

async fn a_link_that_a_server_made_leads_nowhere_at_its_next_start(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let all = all.path().canonicalize().unwrap();
    let at = |name: &str| all.join(name);
    for folder in ["home/keys", "home/bin", "work"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for file in ["home/keys/id", "home/notes"] {
        fs::write(at(file), "canary").unwrap();
    }
    fs::copy("/bin/sh", at("home/bin/sh")).unwrap();
    symlink(at("home/keys"), at("work/data")).unwrap();
    // A virtual environment has such a link, which leads to where Python is installed.
    symlink(at("home/keys/id"), at("work/python")).unwrap();
    symlink(at("home"), at("work/run")).unwrap();
    // A program whose folder looks like an installation of Python.
    fs::create_dir_all(at("home/code/private/bin")).unwrap();
    fs::write(at("home/code/private/env"), "canary").unwrap();
    lab::write(&at("home/code/private/bin/python-check"), b"#!/bin/sh\n", 0o755);
    symlink(at("home/code/private/bin/python-check"), at("work/python3")).unwrap();
    lab::write(&at("work/server"), b"#!/bin/sh\ncat \"$@\"; echo ran\n", 0o755);
    let confinement = Confinement { home: Some(at("home")), ..Confinement::default() };
    let start = async |program: &str, args: &[&str], confinement: Confinement| {
        let program = at(program);
        let command = lab.command((program.to_str().unwrap(), args));
        let confinement = Some(Box::new(confinement));
        let mut child = spawn(ChildCommand { confinement, cwd: Some(at("work")), ..command }, None, &lab.tasks).await?;
        let mut out = String::new();
        timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
        lab.finish(child.handle).await;
        Ok::<_, SpawnError>(out)
    };
    let [key, notes] = ["home/keys/id", "home/notes"].map(|file| at(file).to_str().unwrap().to_owned());
    for confinement in both(&confinement) {
        assert_eq!(start("work/server", &[&key], confinement.clone()).await.unwrap(), "ran\n");
        let private = at("home/code/private/env").to_str().unwrap().to_owned();
        for name in ["python", "python3"] {
            let _ = fs::remove_file(at("work/python"));
            symlink(at("home/code/private/bin/python-check"), at("work").join(name)).unwrap_or_default();
            assert_eq!(start("work/server", &[&private], confinement.clone()).await.unwrap(), "ran\n", "{name}");
        }
        // `bin` in a home is where programs are installed: the program may be there, and nothing else is opened.
        let script = format!("cat {notes}; echo ran");
        assert_eq!(start("work/run/bin/sh", &["-c", &script], confinement.clone()).await.unwrap(), "ran\n");
        let (read, write) = (vec![at("work/data")], vec![at("work/data")]);
        for named in [Confinement { read, ..confinement.clone() }, Confinement { write, ..confinement }] {
            let error = start("work/server", &[&key], named).await.unwrap_err();
            assert!(error.to_string().contains("could have made that link"), "{error}");
        }
    }
}

async fn no_link_that_a_server_could_have_made_leads_to_its_working_folder(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let all = all.path().canonicalize().unwrap();
    for folder in ["keys", "work/sub"] {
        fs::create_dir_all(all.join(folder)).unwrap();
    }
    fs::write(all.join("keys/id"), "canary").unwrap();
    let (work, sub) = (all.join("work"), all.join("work/sub"));
    for named in [Confinement { write: vec![work], ..Confinement::default() }, Confinement::default()] {
        for confinement in both(&named) {
            let start = async || {
                let command = lab.command(sh("cat id; echo ran"));
                let confinement = Some(Box::new(confinement.clone()));
                let command = ChildCommand { confinement, cwd: Some(sub.clone()), ..command };
                let mut child = spawn(command, None, &lab.tasks).await?;
                let mut out = String::new();
                timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
                lab.finish(child.handle).await;
                Ok::<_, SpawnError>(out)
            };
            assert_eq!(start().await.unwrap(), "ran\n");
            fs::rename(&sub, all.join("work/was")).unwrap();
            symlink(all.join("keys"), &sub).unwrap();
            let error = start().await.unwrap_err();
            assert!(error.to_string().contains("`cwd` names"), "{error}");
            assert!(error.to_string().contains("could have made that link"), "{error}");
            fs::remove_file(&sub).unwrap();
            fs::rename(all.join("work/was"), &sub).unwrap();
        }
    }
}

async fn links_beside_a_program_lead_to_installations_only(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let all = all.path().canonicalize().unwrap();
    let at = |name: &str| all.join(name);
    for folder in ["project/sub", "home/code/private/bin", "home/.pyenv/versions/3/bin", "project/node_modules/x"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::create_dir_all(at("project/node_modules/.bin")).unwrap();
    for (file, text) in [("home/code/private/env", "canary"), ("home/.pyenv/versions/3/lib.py", "library")] {
        fs::write(at(file), text).unwrap();
    }
    let script = b"#!/bin/sh\ncat \"$@\" 2>/dev/null; echo ran\n";
    for program in ["project/server", "home/code/private/bin/python-check", "home/.pyenv/versions/3/bin/python3"] {
        lab::write(&at(program), script, 0o755);
    }
    lab::write(&at("project/node_modules/x/cli"), script, 0o755);
    symlink("../x/cli", at("project/node_modules/.bin/x")).unwrap();
    symlink(at("home/code/private/bin/python-check"), at("project/run")).unwrap();
    symlink(at("home/code/private"), at("project/priv")).unwrap();
    let named = Confinement { home: Some(at("home")), ..Confinement::default() };
    let [canary, library] = ["home/code/private/env", "home/.pyenv/versions/3/lib.py"].map(at);
    for confinement in both(&named) {
        let start = async |program: &str| {
            let program = at(program);
            let args = [canary.to_str().unwrap(), library.to_str().unwrap()];
            let command = lab.command((program.to_str().unwrap(), args));
            let confinement = Some(Box::new(confinement.clone()));
            let command = ChildCommand { confinement, cwd: Some(at("project/sub")), ..command };
            let mut child = spawn(command, None, &lab.tasks).await?;
            let mut out = String::new();
            timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
            lab.finish(child.handle).await;
            Ok::<_, SpawnError>(out)
        };
        for (python, read) in
            [("home/code/private/bin/python-check", "ran\n"), ("home/.pyenv/versions/3/bin/python3", "libraryran\n")]
        {
            let _ = fs::remove_file(at("project/python"));
            symlink(at(python), at("project/python")).unwrap();
            assert_eq!(start("project/server").await.unwrap(), read, "{python}");
        }
        fs::remove_file(at("project/python")).unwrap();
        assert_eq!(start("project/node_modules/.bin/x").await.unwrap(), "ran\n");
        for program in ["project/run", "project/priv/bin/python-check"] {
            assert!(matches!(start(program).await, Err(SpawnError::NotConfined { .. })), "{program}");
        }
    }
}

async fn named_paths_are_relative_to_the_working_folder_and_links_of_the_system_are_followed(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let all = all.path().canonicalize().unwrap();
    for folder in ["work/sub", "beside"] {
        fs::create_dir_all(all.join(folder)).unwrap();
    }
    for file in ["key", "beside/file"] {
        fs::write(all.join(file), file).unwrap();
    }
    let system = ["/bin", "/lib", "/etc/os-release"].iter().map(std::path::PathBuf::from).filter(|path| path.exists());
    let read: Vec<_> = [".".into(), "../beside".into()].into_iter().chain(system).collect();
    let named = Confinement { read, write: vec!["sub".into()], ..Confinement::default() };
    for confinement in both(&named) {
        let command = lab.command(sh(
            "cat ../key; cat ../beside/file; echo new > sub/file && cat sub/file; ls / >/dev/null && ls /root /home",
        ));
        let command = ChildCommand { confinement: Some(Box::new(confinement)), cwd: Some(all.join("work")), ..command };
        let mut child = spawn(command, None, &lab.tasks).await.unwrap();
        let mut out = String::new();
        timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
        lab.finish(child.handle).await;
        assert_eq!(out, "beside/filenew\n");
    }
}

/// The dynamic loader obeys variables. With the two of this test, it writes a file for each process in which it does.
async fn loader_variables_of_a_server_do_not_affect_our_programs(lab: Lab) {
    let all = tempfile::tempdir().unwrap();
    let debug_output = all.path().join("told");
    let confined = both(&Confinement::default()).map(Some);
    for confinement in [None].into_iter().chain(confined) {
        let mut command = lab.command(sh("echo $LD_DEBUG_OUTPUT; echo $$"));
        command.env.push(("LD_DEBUG".into(), "libs".into()));
        command.env.push(("LD_DEBUG_OUTPUT".into(), debug_output.clone().into()));
        let is_confined = confinement.is_some();
        let command = ChildCommand { confinement: confinement.map(Box::new), ..command };
        let mut child = spawn(command, None, &lab.tasks).await.unwrap();
        let mut out = String::new();
        timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
        lab.finish(child.handle).await;
        // In a server that cannot write the file, the loader prints to its output before these two lines.
        let [pid, variable] = out.lines().rev().take(2).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(variable, debug_output.to_str().unwrap(), "the server gets its variables");
        let files = fs::read_dir(all.path()).unwrap().map(|file| file.unwrap().path());
        // A server in a sandbox cannot write the file.
        let wanted: Vec<_> = (!is_confined).then(|| debug_output.with_extension(pid)).into_iter().collect();
        assert_eq!(files.collect::<Vec<_>>(), wanted);
        wanted.iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

/// Returns the confinement with namespaces, and without, as on a system that has none.
fn both(confinement: &Confinement) -> [Confinement; 2] {
    [false, true].map(|without_namespaces| Confinement { without_namespaces, ..confinement.clone() })
}

async fn the_exit_of_a_confined_server_is_reported_unchanged(lab: Lab) {
    for confinement in both(&Confinement::default()) {
        for (script, expected) in [
            ("exit 0", Exit::Code(0)),
            ("exit 3", Exit::Code(3)),
            ("exit 255", Exit::Code(255)),
            ("kill -KILL $$", Exit::Signal(9)),
            ("kill -TERM $$", Exit::Signal(15)),
            ("kill -SEGV $$", Exit::Signal(11)),
        ] {
            let confinement = Some(Box::new(confinement.clone()));
            let child = spawn(ChildCommand { confinement, ..lab.command(sh(script)) }, None, &lab.tasks).await.unwrap();
            assert_eq!(timeout(SOON, child.handle.exited()).await, Ok(expected), "{script}");
            lab.finish(child.handle).await;
        }
    }
}

async fn processes_that_a_confined_server_leaves_behind_end_with_it_in_order(lab: Lab) {
    let script = "trap 'exit 6' TERM; (trap 'echo saved >&2; exit' TERM; echo up >&2; while :; do :; done) & \
                  setsid sleep 1000 & echo ready; read line";
    for confinement in both(&Confinement::default()) {
        let command = ChildCommand { confinement: Some(Box::new(confinement)), ..lab.command(sh(script)) };
        let mut child = spawn(command, None, &lab.tasks).await.unwrap();
        timeout(SOON, child.stdout.read_u8()).await.unwrap().unwrap();
        lab.until("the leftover runs", || !child.stderr.tail(1).is_empty()).await;
        drop(child.stdin);
        lab.finish(child.handle).await;
        timeout(SOON, child.stderr.drained()).await.expect("stderr ends with the server");
        assert_eq!(child.stderr.tail(9), ["up", "saved"]);
        assert_eq!(lab.survivors(), [0; 0]);
    }
}

/// No later start has to kill the processes: the system ends what is in the namespaces.
async fn no_process_of_a_confined_server_survives_its_host_and_supervisor(lab: Lab) {
    // The server first tries to kill its supervisor.
    let attack = "kill -KILL $PPID; kill -STOP $PPID";
    for round in 0..ends::rounds() {
        let (name, script) = TREES[round % TREES.len()];
        let mut host = Host::start_confined(&lab, &format!("{{ {attack}; }} 2>/dev/null; {script}"));
        host.wait_until_ready();
        let supervisor = lab.supervisor();
        // Stop the supervisor first, so that it does not notice the host's end.
        kill(supervisor, Signal::SIGSTOP).unwrap();
        host.kill(Signal::SIGKILL);
        kill(supervisor, Signal::SIGKILL).unwrap();
        let took = lab.nothing_survives_for(Duration::from_secs(2), name).await;
        println!("round {round}, {name}: {took:?}");
    }
}

async fn a_server_that_may_use_udp_may_and_one_that_has_no_port_has_no_network(lab: Lab) {
    let folder = tempfile::tempdir().unwrap();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let attempts = ["udp=".to_owned(), format!("connect={}", door.local_addr().unwrap().port())];
    for confinement in both(&Confinement::default()) {
        assert_eq!(lab.outcomes(folder.path(), confinement.clone(), &attempts).await, ["udp: no", "connect: ok"]);
        let udp = Confinement { udp: true, ..confinement };
        assert_eq!(lab.outcomes(folder.path(), udp, &attempts).await, ["udp: ok", "connect: ok"]);
    }
    // A server with an empty network of its own may listen, because no connection can come in there.
    let none = Confinement { connect: Some(Vec::new()), bind: Some(Vec::new()), ..Confinement::default() };
    assert_eq!(lab.outcomes(folder.path(), none, &attempts).await, ["udp: no", "connect: no"]);
}

/// `SECURITY.md` lists these attacks as those that succeed without namespaces.
const LEFT_WITHOUT_NAMESPACES: &[&str] = &[
    "time of a file",
    "mode of a file",
    "attribute of a file",
    "size of a file",
    "owner of a file",
    "room on the disk of a file",
];

async fn no_attack_of_a_confined_server_gets_anything(lab: Lab) {
    let outside = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let (secret, door) = (outside.path().join("secret"), outside.path().join("door"));
    fs::write(&secret, "canary").unwrap();
    let _door = UnixListener::bind(&door).unwrap();
    let letters = UnixDatagram::bind(outside.path().join("door.letters")).unwrap();
    letters.set_nonblocking(true).unwrap();
    let _unseen =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(door.as_os_str().as_bytes()).unwrap()).unwrap();
    let shut = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap().stdout;
    let python = String::from_utf8(python).unwrap().trim().to_owned();
    let mut words = vec!["-c".to_owned(), include_str!("attacks.py").to_owned(), std::process::id().to_string()];
    words.extend([&secret, &door].map(|path| path.to_str().unwrap().to_owned()));
    words.extend([shut.local_addr().unwrap().port(), free].map(|port| port.to_string()));
    let confinement =
        Confinement { connect: Some(vec![443]), bind: Some(Vec::new()), processes: Some(64), ..Confinement::default() };
    for confinement in both(&confinement) {
        let is_bare = confinement.without_namespaces;
        let command = ChildCommand {
            args: words.iter().map(Into::into).collect(),
            cwd: Some(work.path().to_owned()),
            confinement: Some(Box::new(confinement)),
            ..lab.command((python.as_str(), [] as [&str; 0]))
        };
        let mut child = spawn(command, None, &lab.tasks).await.unwrap();
        let mut out = String::new();
        timeout(SOON, child.stdout.read_to_string(&mut out)).await.unwrap().unwrap();
        lab.finish(child.handle).await;
        let attacks: Vec<&str> = out.lines().collect();
        println!("bare {is_bare}: {attacks:#?}");
        assert!(attacks.len() > 150, "{out} {:?}", child.stderr.tail(20));
        let got: Vec<&str> = attacks.iter().filter_map(|line| line.strip_suffix(": ok")).collect();
        // With namespaces, no attack may succeed.
        let expected = if is_bare { LEFT_WITHOUT_NAMESPACES } else { &[] };
        assert_eq!(got, expected);
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "canary");
    assert_eq!(letters.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}
