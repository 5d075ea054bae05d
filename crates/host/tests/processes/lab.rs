//! Helpers of the process tests: they recognise every process of one test, whatever it does, and start hosts to kill.

use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{self, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::runtime;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use toolrack_host::child::{Child, ChildCommand, Exit, Grace, Handle, Supervisor, spawn};

/// A time limit that is long enough for a busy machine, for tests that do not measure time.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Makes a trial of each test.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        vec![$(Trial::test(stringify!($name), || {
            crate::lab::run($name);
            Ok(())
        })),*]
    };
}
pub(crate) use trials;

/// Trees of processes as servers make them. Each prints a line when it is complete, and none ends by itself.
pub(crate) const TREES: [(&str, &str); 7] = [
    ("a chain of shells", "sh -c 'sh -c \"echo ready; sleep 1000; :\"; :' & sleep 1000; :"),
    ("a child in a session of its own", "setsid sleep 1000 & echo ready; sleep 1000; :"),
    (
        "children that ignore SIGTERM",
        "(trap '' TERM HUP INT; setsid sleep 1000 & echo ready; while :; do sleep 1; done) & sleep 1000; :",
    ),
    (
        "a daemon, forked twice",
        "(setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo ready; exit' &); sleep 1000; :",
    ),
    (
        "a daemon that ignores SIGTERM",
        "(setsid sh -c 'trap \"\" TERM; sleep 1000 </dev/null >/dev/null 2>&1 & echo ready; exit' &); sleep 1000; :",
    ),
    ("stopped children", "sleep 1000 & kill -STOP $!; setsid sh -c 'echo ready; kill -STOP $$' & sleep 1000; :"),
    ("a server that ignores all", "trap '' TERM HUP INT; setsid sleep 1000 & echo ready; while :; do sleep 1; done"),
];

/// The variable by which the processes of a test are recognised: a descendant can leave its group, its session and its
/// parent, but not its environment.
const TOKEN: &str = "PROCESS_TEST_TOKEN";

/// The first argument of a host to be killed.
const HOST: &str = "__be-a-host";

/// The prefix before the program of a host that starts it in a sandbox.
const CONFINED: &str = "confined:";

/// The runtime, the tasks and the token of one test.
pub(crate) struct Lab {
    pub(crate) tasks: TaskTracker,
    token: String,
}

/// Runs one test, then checks that it left neither a task nor a process.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Lab) -> F) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let tasks = TaskTracker::new();
    let token = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let after = Lab { tasks: tasks.clone(), token: token.clone() };
    runtime.block_on(async {
        test(Lab { tasks, token }).await;
        after.nothing_survives_for(Duration::from_secs(3), "the whole test").await;
        after.idle().await;
    });
}

/// The arguments that make a shell run `script`.
pub(crate) fn sh(script: &str) -> (&str, [&str; 2]) {
    ("/bin/sh", ["-c", script])
}

impl Lab {
    /// A supervised command with this test's token.
    pub(crate) fn command<'a>(&self, words: (&'a str, impl AsRef<[&'a str]>)) -> ChildCommand {
        ChildCommand {
            program: words.0.into(),
            args: words.1.as_ref().iter().map(Into::into).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), (TOKEN.into(), self.token.clone().into())],
            cwd: None,
            supervisor: Some(Supervisor::this_program()),
            confinement: None,
            container: None,
        }
    }

    pub(crate) async fn spawn<'a>(&self, words: (&'a str, impl AsRef<[&'a str]>)) -> Child {
        spawn(self.command(words), None, &self.tasks).await.expect("the program starts")
    }

    /// Starts one of [`TREES`] and waits until all its processes run.
    pub(crate) async fn spawn_ready(&self, script: &str) -> Child {
        let mut child = self.spawn(sh(script)).await;
        timeout(Duration::from_secs(10), child.stdout.read_u8()).await.expect("ready in time").expect("ready");
        child
    }

    /// Shuts a server down that is about to end by itself, and returns how it ended.
    pub(crate) async fn finish(&self, handle: Handle) -> Exit {
        let exit = timeout(Duration::from_secs(10), handle.shutdown(Grace::default())).await.expect("in time");
        self.idle().await;
        exit
    }

    /// Waits until every task of the link has ended.
    pub(crate) async fn idle(&self) {
        self.tasks.close();
        timeout(Duration::from_secs(2), self.tasks.wait()).await.expect("all tasks end with the processes");
        self.tasks.reopen();
    }

    /// The living processes of this test, supervisors included.
    pub(crate) fn survivors(&self) -> Vec<i32> {
        let needle = format!("{TOKEN}={}\0", self.token);
        processes().filter(|pid| contains(&read(&format!("/proc/{pid}/environ")), needle.as_bytes())).collect()
    }

    /// Waits until nothing survives; returns how long it took.
    pub(crate) async fn nothing_survives_for(&self, limit: Duration, what: &str) -> Duration {
        let start = Instant::now();
        loop {
            let survivors = self.survivors();
            if survivors.is_empty() {
                return start.elapsed();
            }
            let names: Vec<_> = survivors.iter().map(|pid| command_line(*pid)).collect();
            assert!(start.elapsed() < limit, "{what}: alive after {limit:?}: {survivors:?} {names:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(10), "{what}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The only supervisor of this test.
    pub(crate) fn supervisor(&self) -> Pid {
        let found: Vec<i32> =
            self.survivors().into_iter().filter(|pid| command_line(*pid).starts_with("toolrack-supervisor")).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        Pid::from_raw(found[0])
    }
}

/// A host in a process of its own, with one server.
pub(crate) struct Host {
    process: process::Child,
    lines: BufReader<ChildStdout>,
}

impl Host {
    /// Starts a host that starts `script`.
    pub(crate) fn start(lab: &Lab, script: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args([HOST, &lab.token, "/bin/sh", "-c", script]);
        Self::spawn(command)
    }

    /// Starts a host that starts `script` in a sandbox.
    pub(crate) fn start_confined(lab: &Lab, script: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args([HOST, &lab.token, &format!("{CONFINED}/bin/sh"), "-c", script]);
        Self::spawn(command)
    }

    /// Starts a host with signals blocked and ignored, as a careless parent leaves them; the host starts `words`.
    pub(crate) fn start_carelessly(lab: &Lab, words: &[&str]) -> Self {
        let mut command = Command::new("env");
        command.args(["--ignore-signal=CHLD,HUP,USR1", "--block-signal=TERM,USR2"]);
        command.arg(std::env::current_exe().unwrap()).args([HOST, &lab.token]).args(words);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The next line that the host prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits until the host's server has started all its processes.
    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.line(), "ready");
    }

    pub(crate) fn kill(&mut self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Becomes a host if this process was started as one: starts one server, repeats its first line, and reports how it
/// ended.
pub(crate) fn be_a_host_if_asked() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, word, token, program, words @ ..] = arguments.as_slice() else {
        return None;
    };
    if word != HOST {
        return None;
    }
    let lab = Lab { tasks: TaskTracker::new(), token: token.clone() };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(async {
        let is_confined = program.starts_with(CONFINED);
        let command = lab.command((program.trim_start_matches(CONFINED), words));
        let confinement = is_confined.then(Box::default);
        let child = spawn(ChildCommand { confinement, ..command }, None, &lab.tasks).await.unwrap();
        let first = tokio::io::BufReader::new(child.stdout).lines().next_line().await.unwrap();
        say(&first.unwrap_or_default());
        say(&child.handle.exited().await.to_string());
        lab.finish(child.handle).await;
    });
    Some(ExitCode::SUCCESS)
}

fn say(line: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).unwrap();
}

/// A descriptor that every child inherits unless the host closes it.
pub(crate) fn leak_a_descriptor() -> File {
    let file = File::open("/dev/null").unwrap();
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    file
}

/// Writes a small file with these permissions.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) {
    File::options().write(true).create_new(true).mode(mode).open(path).unwrap().write_all(content).unwrap();
}

/// How many descriptors this process has open.
pub(crate) fn descriptors() -> usize {
    Path::new("/proc/self/fd").read_dir().unwrap().count()
}

/// How many children this process has, ended ones included.
pub(crate) fn children() -> usize {
    let me = process::id().to_string();
    processes()
        .filter(|pid| {
            let stat = read(&format!("/proc/{pid}/stat"));
            let text = String::from_utf8_lossy(&stat);
            text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&me)
        })
        .count()
}

/// The number of bytes of resident memory of this process.
pub(crate) fn memory() -> usize {
    let statm = read("/proc/self/statm");
    let pages: usize = String::from_utf8_lossy(&statm).split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn processes() -> impl Iterator<Item = i32> {
    Path::new("/proc").read_dir().unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn command_line(pid: i32) -> String {
    String::from_utf8_lossy(&read(&format!("/proc/{pid}/cmdline"))).replace('\0', " ")
}

/// The content of a file in `/proc`; nothing if the process has ended.
fn read(path: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let _ = file.read_to_end(&mut content);
    }
    content
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
