//! What every test of a fault uses: a host, a server with the fault, a healthy server (the neighbour), and the promises
//! that the test checks at its end ([`Stage::finish`]).

use std::{
    process::id as own_pid,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};
use toolrack_host::{
    Call, CallError, Desired, Era, Host, HostBuilder, Limits, ServerName, ServerSpec, ServerStatus, Timeouts,
    ToolOutcome,
    spec::{Http, Retry, Stdio, Transport},
};
use toolrack_testkit::{EffectLog, Effects, FakeHttp, fake_server_path, memory, processes};

use crate::{
    programs::supervised,
    witness::{SECRET, Witness, assert_no_secret, assert_safe, assert_safe_value},
};

/// How long after its deadline an operation may end, because the machine may be busy.
pub(crate) const SLACK: Duration = Duration::from_millis(900);
/// How long an operation without a deadline may take.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);
/// How long a call of the healthy neighbour may take.
const MAX_NEIGHBOUR_TIME: Duration = Duration::from_secs(1);
/// How much the memory of this process may grow during a test, in KiB.
const GROWTH_KIB: u64 = 64 << 10;
/// How long a shutdown may take: the time before `SIGTERM`, the time before `SIGKILL`, half a second for processes that
/// are left behind, and a margin.
const SHUTDOWN: Duration = Duration::from_secs(3);
/// The variable that marks the processes of a stage.
const MARK: &str = "TOOLRACK_FAULT_STAGE";

/// How the host reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stdio,
    Http,
    Sse,
}

/// The stage of one test.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) host: Host,
    /// The entry of the faulty server. Tests may change it before they [start](Self::start) the server.
    pub(crate) spec: ServerSpec,
    pub(crate) witness: Witness,
    /// The faulty server, over HTTP.
    pub(crate) server: Option<FakeHttp>,
    over: Over,
    /// The faulty server's arguments.
    args: Vec<String>,
    /// The faulty server's log.
    effects: EffectLog,
    /// The value of [`MARK`] for the faulty server.
    mark: String,
    /// The entry of the healthy server.
    neighbour: ServerSpec,
    /// The healthy server, over HTTP.
    _neighbour: Option<FakeHttp>,
    pulse: Pulse,
    /// The memory of this process when the test began, in KiB.
    memory: u64,
    /// How many calls of the faulty server the test has made.
    calls: AtomicUsize,
    /// How often the transport itself may carry one call: more than once only with a redirect.
    pub(crate) requests_per_call: usize,
}

/// The name of the server with the fault.
pub(crate) const FAULTY: &str = "faulty";

impl Stage {
    /// Creates a stage with a fake server of one era. `script` names its faults (`no-answer crash-on-call=exit:3`) and
    /// options (`--fault-on tools/list`).
    pub(crate) async fn new(over: Over, era: Era, script: &str) -> Self {
        Self::with(Host::builder(), over, era, script).await
    }

    /// As [`new`](Self::new), with another builder of the host.
    pub(crate) async fn with(builder: HostBuilder, over: Over, era: Era, script: &str) -> Self {
        let effects = EffectLog::new();
        let args = arguments(era, script, &effects);
        let mark = effects.path_str().to_owned();
        let (spec, server) = match over {
            Over::Stdio => (stdio(&args, &mark), None),
            Over::Http | Over::Sse => http(over, &args),
        };
        let mut stage = Self::around(builder, over, spec, effects).await;
        (stage.server, stage.args) = (server, args);
        stage
    }

    /// Creates a stage for any entry.
    pub(crate) async fn of(spec: ServerSpec) -> Self {
        Self::of_built(Host::builder(), spec).await
    }

    /// Creates a stage for any entry, with another builder of the host.
    pub(crate) async fn of_built(builder: HostBuilder, spec: ServerSpec) -> Self {
        Self::around(builder, Over::Stdio, spec, EffectLog::new()).await
    }

    async fn around(builder: HostBuilder, over: Over, spec: ServerSpec, effects: EffectLog) -> Self {
        let mark = effects.path_str().to_owned();
        // The neighbour uses the same transport, so that the test notices if the fault affects what both share.
        let (neighbour, neighbour_server) = match over {
            Over::Stdio => (stdio(&["stdio".to_owned()], "neighbour"), None),
            Over::Http | Over::Sse => http(Over::Http, &["--era".to_owned(), "both".to_owned()]),
        };
        let host = builder.supervisor(supervised()).build();
        let witness = Witness::of(&host);
        host.apply(Desired::from([(name("neighbour"), neighbour.clone())])).await;
        host.settled().await;
        let pulse = Pulse::of(&host);
        Self {
            pulse,
            memory: memory::rss_kib(own_pid()).unwrap(),
            host,
            spec: with_small_bounds(spec),
            witness,
            server: None,
            over,
            args: Vec::new(),
            effects,
            mark,
            neighbour,
            _neighbour: neighbour_server,
            calls: AtomicUsize::new(0),
            requests_per_call: 1,
        }
    }

    /// Returns this stage, with a server over HTTP that the test has started.
    pub(crate) fn with_http_server(self, server: FakeHttp) -> Self {
        Self { server: Some(server), ..self }
    }

    /// Starts the server, and waits until it is connected or has failed.
    pub(crate) async fn start(&self) -> ServerStatus {
        let world = [(name("neighbour"), self.neighbour.clone()), (name(FAULTY), self.spec.clone())];
        self.host.apply(Desired::from(world)).await;
        let limit = self.spec.timeouts.startup + self.spec.timeouts.list + SLACK;
        let settled = timeout(limit, self.host.settled()).await;
        assert!(settled.is_ok(), "the server has not settled within {limit:?}: {:?}", self.status());
        self.status()
    }

    /// Ends the server, which is reached over HTTP, and starts a fresh one in its place.
    pub(crate) async fn restart(&mut self) {
        let mut server = self.server.take().unwrap();
        let port = server.port().to_string();
        server.kill();
        let (over, mut args) = (self.over, self.args.clone());
        args.extend(["--port".to_owned(), port]);
        self.server = Some(spawn_blocking(move || listen(over, &args)).await.unwrap());
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let all = self.host.status();
        all.into_iter().find(|status| status.name.as_str() == FAULTY).expect("the faulty server is configured")
    }

    /// Calls a tool of the server.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Called {
        let mut arguments = arguments.as_object().cloned().unwrap();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        // The number distinguishes the calls in the log.
        arguments.insert("call".to_owned(), json!(number));
        let limit = self.spec.timeouts.call_total + SLACK;
        let started = Instant::now();
        let result = timeout(limit, self.host.call(Call::from_map(format!("{FAULTY}/{tool}"), arguments))).await;
        let took = started.elapsed();
        let result = result.unwrap_or_else(|_| panic!("the call of {tool} still hangs after {limit:?}"));
        if let Err(error) = &result {
            assert_fit(error);
        }
        Called { result, took }
    }

    /// Gets a prompt, which works even if the server has trouble with its tools.
    pub(crate) async fn prompt(&self) -> Result<String, CallError> {
        let arguments = [("name".to_owned(), "Ada".to_owned())].into();
        let limit = self.spec.timeouts.call_total + SLACK;
        let prompt = timeout(limit, self.host.get_prompt(FAULTY, "greet", &arguments)).await;
        let prompt = prompt.unwrap_or_else(|_| panic!("a prompt still hangs after {limit:?}"));
        prompt.map(|prompt| serde_json::to_string(&prompt.messages[0].content).unwrap()).inspect_err(assert_fit)
    }

    /// Returns what the server has written to its log.
    pub(crate) fn log(&self) -> Effects {
        self.effects.read()
    }

    /// Waits until `says` is true of the server's log, for 10 seconds at most. `what` names the condition in an error.
    pub(crate) async fn until(&self, what: &str, says: impl Fn(&Effects) -> bool) -> Effects {
        self.until_within(Duration::from_secs(10), what, says).await
    }

    /// As [`until`](Self::until), for `limit` at most.
    pub(crate) async fn until_within(&self, limit: Duration, what: &str, says: impl Fn(&Effects) -> bool) -> Effects {
        let end = Instant::now() + limit;
        loop {
            let log = self.log();
            if says(&log) {
                return log;
            }
            assert!(Instant::now() < end, "{what}, but not within {limit:?}: {:#?}", log.lines);
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the server is in this state.
    pub(crate) async fn becomes(&self, word: &str) -> ServerStatus {
        let end = Instant::now() + Duration::from_secs(10);
        while self.status().state.word() != word {
            assert!(Instant::now() < end, "not {word}: {:?}", self.status().state);
            sleep(Duration::from_millis(5)).await;
        }
        self.status()
    }

    /// Returns every process of the server, with its supervisor and everything below it.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes::with_env(MARK, &self.mark)
    }

    /// Shuts the host down and checks its promises. Every test calls it at its end.
    ///
    /// The healthy server has answered each call in time. The shutdown is quick, and leaves no process behind. No
    /// status, event or explanation has a secret or a control character. The server got no call twice. This process has
    /// not grown much.
    pub(crate) async fn finish(self) {
        self.pulse.assert_well().await;
        self.finish_at_once().await;
    }

    /// As [`finish`](Self::finish), without a last check of the neighbour.
    pub(crate) async fn finish_at_once(self) {
        for status in self.host.status() {
            assert_safe_value("a status", &status);
        }
        assert_safe_value("an explanation", &self.host.why(&format!("{FAULTY}/echo")));
        let started = Instant::now();
        self.host.shutdown().await;
        let took = started.elapsed();
        assert!(took < SHUTDOWN, "the shutdown took {took:?}");
        let left = self.processes();
        assert!(left.is_empty(), "processes are left: {:?}", described(&left));
        let servers: Vec<u32> = self.server.iter().chain(&self._neighbour).map(FakeHttp::pid).collect();
        let mut below = processes::descendants(own_pid());
        below.retain(|pid| !servers.contains(pid));
        assert!(below.is_empty(), "children are left: {:?}", described(&below));
        self.witness.assert_content();
        self.assert_nothing_repeated();
        let grown = memory::peak_rss_kib(own_pid()).unwrap().saturating_sub(self.memory);
        assert!(grown < GROWTH_KIB, "this process grew by {grown} KiB");
    }

    /// Checks that the server executed no call twice, and that only a redirect made it get a request twice.
    fn assert_nothing_repeated(&self) {
        let log = self.log();
        for number in 0..self.calls.load(Ordering::Relaxed) {
            let is_of_call = |arguments: &Value| arguments["call"] == number;
            let runs = log.runs().iter().filter(|run| is_of_call(&run.args)).count();
            assert!(runs <= 1, "call {number} ran {runs} times: {:#?}", log.lines);
            let requests = log.lines.iter().filter(|line| line["method"] == "tools/call");
            let requests = requests.filter(|line| is_of_call(&line["params"]["arguments"])).count();
            assert!(requests <= self.requests_per_call, "call {number} was sent {requests} times: {:#?}", log.lines);
        }
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) result: Result<ToolOutcome, CallError>,
    pub(crate) took: Duration,
}

impl Called {
    /// Returns the outcome of a call that must have succeeded.
    #[track_caller]
    pub(crate) fn outcome(&self) -> &ToolOutcome {
        self.result.as_ref().unwrap_or_else(|error| panic!("the call failed: {} {error}", error.code()))
    }

    /// Returns the text of a call that must have succeeded.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        &self.outcome().text
    }

    /// Returns the code and the message of a call that must have failed.
    #[track_caller]
    pub(crate) fn failure(&self) -> (&'static str, String) {
        match &self.result {
            Ok(outcome) => panic!("the call succeeded: {:?}", outcome.text),
            Err(error) => (error.code(), error.to_string()),
        }
    }

    /// Checks that the call took no longer than `limit`.
    #[track_caller]
    pub(crate) fn within(self, limit: Duration) -> Self {
        assert!(self.took <= limit, "the call took {:?}, more than {limit:?}: {:?}", self.took, self.result);
        self
    }
}

/// Checks that an error is fit to show, and names its server.
#[track_caller]
pub(crate) fn assert_fit(error: &CallError) {
    let text = error.to_string();
    assert!(text.contains(FAULTY), "the error does not name the server: {text}");
    assert!(text.len() < 4_096, "the error has {} bytes", text.len());
    assert_safe("an error", &text);
    assert_safe("a hint", &error.hint().unwrap_or_default());
    assert_no_secret("an error", error);
}

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// Returns the command line of the fake server. Unless the script says otherwise, a fault strikes once, so that a test
/// can see whether the server works afterwards.
fn arguments(era: Era, script: &str, effects: &EffectLog) -> Vec<String> {
    let mut args: Vec<String> = vec!["--era".into(), era.to_string(), "--log".into(), effects.path_str().into()];
    let mut words = script.split_whitespace();
    while let Some(word) = words.next() {
        if word.starts_with("--") {
            args.extend([word.to_owned(), words.next().unwrap().to_owned()]);
        } else {
            args.extend(["--fault".to_owned(), word.to_owned()]);
        }
    }
    if !script.contains("--fault-times") {
        args.extend(["--fault-times".to_owned(), "1".to_owned()]);
    }
    args.push("--log-all".to_owned());
    args
}

fn stdio(args: &[String], mark: &str) -> ServerSpec {
    let mut args: Vec<String> = args.to_vec();
    if args.first().is_none_or(|word| word != "stdio") {
        args.insert(0, "stdio".to_owned());
    }
    with_small_bounds(ServerSpec::new(Transport::Stdio(Stdio {
        command: fake_server_path().to_str().unwrap().to_owned(),
        args,
        env: [(MARK.to_owned(), mark.to_owned()), ("API_KEY".to_owned(), SECRET.to_owned())].into(),
        ..Stdio::default()
    })))
}

fn http(over: Over, args: &[String]) -> (ServerSpec, Option<FakeHttp>) {
    let server = listen(over, args);
    let http = endpoint(server.url());
    let spec = ServerSpec::new(if over == Over::Sse { Transport::Sse(http) } else { Transport::Http(http) });
    (with_small_bounds(spec), Some(server))
}

fn listen(over: Over, args: &[String]) -> FakeHttp {
    if over == Over::Sse { FakeHttp::start_sse(args) } else { FakeHttp::start(args) }
}

/// Returns an entry for this URL, with secrets wherever there is room for one.
pub(crate) fn endpoint(url: &str) -> Http {
    Http {
        url: format!("{url}?key={SECRET}"),
        headers: [
            ("Authorization".to_owned(), format!("Bearer {SECRET}")),
            ("X-Api-Key".to_owned(), SECRET.to_owned()),
        ]
        .into(),
        open_timeout: Duration::from_secs(1),
        sse_max_reconnects: 2,
        ..Http::default()
    }
}

/// Returns `spec` with short times and small limits, so that tests reach each of them.
pub(crate) fn with_small_bounds(mut spec: ServerSpec) -> ServerSpec {
    spec.timeouts = Timeouts {
        startup: Duration::from_secs(5),
        list: Duration::from_millis(1_500),
        call: Duration::from_millis(1_500),
        call_total: Duration::from_secs(4),
        shutdown: Duration::from_millis(300),
    };
    spec.limits = Limits { message_bytes: 1 << 20, listing_bytes: 1 << 20, pages: 20, ..Limits::default() };
    spec.retry = Retry { attempts: 3, first: Duration::from_millis(50), longest: Duration::from_millis(200) };
    spec
}

fn described(pids: &[u32]) -> Vec<String> {
    let command = |pid: u32| {
        #[expect(clippy::disallowed_methods, reason = "looks at processes")]
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid}: {}", line.replace('\0', " "))
    };
    pids.iter().copied().map(command).collect()
}

/// Calls the healthy server again and again until it is dropped.
#[derive(Debug)]
struct Pulse {
    /// How long each call took; [`Duration::MAX`] for a call that failed.
    beats: Arc<Mutex<Vec<Duration>>>,
    /// The task that calls.
    _beating: JoinSet<()>,
}

impl Pulse {
    fn of(host: &Host) -> Self {
        let beats = Arc::<Mutex<Vec<Duration>>>::default();
        let mut beating = JoinSet::new();
        let (host, recorded) = (host.clone(), beats.clone());
        beating.spawn(async move {
            loop {
                let started = Instant::now();
                let arguments = json!({"text": "well"}).as_object().cloned().unwrap();
                let answer = host.call(Call::from_map("neighbour/echo", arguments)).await;
                let well = answer.is_ok_and(|outcome| outcome.text == "well");
                recorded.lock().unwrap().push(if well { started.elapsed() } else { Duration::MAX });
                sleep(Duration::from_millis(20)).await;
            }
        });
        Self { beats, _beating: beating }
    }

    /// Checks that every call so far, and the one that runs now, succeeded and was quick enough.
    async fn assert_well(&self) {
        let beats = || self.beats.lock().unwrap().len();
        let (so_far, began) = (beats(), Instant::now());
        while beats() < so_far + 2 {
            assert!(began.elapsed() < 2 * MAX_NEIGHBOUR_TIME, "the neighbour does not answer");
            sleep(Duration::from_millis(5)).await;
        }
        let slowest = self.beats.lock().unwrap().iter().max().copied().unwrap();
        assert!(
            slowest < MAX_NEIGHBOUR_TIME,
            "the neighbour took {slowest:?} (the longest possible time: a call failed)"
        );
    }
}
