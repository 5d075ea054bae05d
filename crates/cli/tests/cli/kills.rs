//! `kill -9` at each step of a turn, 201 times in all: the conversation can be continued, every provider accepts it,
//! and no call is silently made a second time.
//!
//! Each run continues the session that the run before was killed in, and is killed itself. Each call is the only one
//! with its arguments, so that the log of the server shows one that was made twice.

use std::{
    collections::HashMap,
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Child, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;
use toolrack_testkit::{EffectLog, model::Answer};

use crate::{
    provider::{Provider, Said, Speech, assert_valid},
    rack::{Rack, fake},
};

/// For each wire.
const KILLS: usize = 67;

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The event after which a run is killed, plus a few milliseconds.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Start,
    /// This many requests to the model.
    Asked(usize),
    /// This many calls at the server.
    Called(usize),
}

const MOMENTS: [Moment; 8] = [
    Moment::Asked(1),
    Moment::Called(1),
    Moment::Called(3),
    Moment::Asked(2),
    Moment::Called(2),
    Moment::Called(4),
    Moment::Start,
    Moment::Asked(3),
];

/// A session that is continued again and again.
struct Chain {
    wire: Speech,
    rack: Rack,
    effects: EffectLog,
}

/// The state of the calls in a conversation.
#[derive(Debug, Default)]
struct Calls {
    /// Calls with a result of the server, by their path.
    answered: Vec<String>,
    /// Calls about which the model reads that they may have run.
    interrupted: Vec<String>,
}

impl Chain {
    fn new(wire: Speech) -> Self {
        let effects = EffectLog::new();
        let rack = Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]);
        Self { wire, rack, effects }
    }

    /// Three calls at once, one more, and the answer.
    fn turn(&self, run: usize) -> [Answer; 3] {
        let id = |at: usize| format!("call_{run}_{at}");
        let path = |at: usize| format!("{run}/{at}");
        let write = |at: usize| json!({ "path": path(at) });
        let ids = [id(0), id(1), id(2), id(3)];
        let sleep = json!({ "ms": 10, "path": path(1) });
        let first = [
            (&*ids[0], "mcp__fake__write", write(0)),
            (&ids[1], "mcp__fake__sleep", sleep),
            (&ids[2], "mcp__fake__write", write(2)),
        ];
        let second = [(&*ids[3], "mcp__fake__write", write(3))];
        [self.wire.calls(&first), self.wire.calls(&second), self.wire.says(&["All ", "is ", "written."])]
    }

    fn ask(&self, provider: &Provider, args: &[&str]) -> Child {
        let url = provider.url();
        let model = ["ask", "--model", "m", "--base-url", &url, "--wire", self.wire.name(), "--allow", "*"];
        let mut command = self.rack.command(&[&model, args].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Kills a run at `moment`, unless it ends before.
    fn kill(&self, mut child: Child, provider: &Provider, moment: Moment, later: Duration) -> ExitStatus {
        let (before, started) = (self.called(), Instant::now());
        let has_come = || match moment {
            Moment::Start => true,
            Moment::Asked(times) => provider.requests().len() >= times,
            Moment::Called(times) => self.called() >= before + times,
        };
        while !has_come() && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < LIMIT, "{moment:?} never comes");
            sleep(Duration::from_millis(1));
        }
        sleep(later);
        child.kill().unwrap();
        child.wait().unwrap()
    }

    /// How many calls the server has seen.
    fn called(&self) -> usize {
        let log = fs::read(self.effects.path()).unwrap_or_default();
        log.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Fails unless the provider accepts the conversation, and each result in it is true.
    fn check(&self, provider: &Provider) -> Calls {
        let mut calls = Calls::default();
        for asked in provider.requests() {
            let conversation = self.wire.conversation(&asked.json());
            assert_valid(&conversation);
            calls = Calls::of(&conversation);
        }
        let mut times: HashMap<String, usize> = HashMap::new();
        for run in self.effects.read().runs() {
            *times.entry(run.args["path"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert!(times.values().all(|times| *times == 1), "calls were repeated: {times:#?}");
        for path in &calls.answered {
            assert!(times.contains_key(path), "{path} has a result and was never made");
        }
        calls
    }
}

impl Calls {
    fn of(conversation: &[Said]) -> Self {
        let mut paths = HashMap::new();
        let mut calls = Self::default();
        for part in conversation {
            match part {
                Said::Call { id, arguments } => {
                    paths.insert(id, arguments["path"].as_str().unwrap());
                }
                Said::Result { id, text } => match paths[id].to_owned() {
                    path if text.starts_with("[data from fake]") => calls.answered.push(path),
                    path if text.contains("interrupted before the result was known") => calls.interrupted.push(path),
                    path => panic!("{path}: {text}"),
                },
                Said::User(_) | Said::Model(_) => {}
            }
        }
        calls
    }
}

fn is_killed_at_each_step(wire: Speech) {
    let chain = Chain::new(wire);
    let begin = Provider::start([wire.says(&["Well."])]);
    assert!(chain.ask(&begin, &["hello"]).wait().unwrap().success());
    let (mut kills, mut run) = (0, 0);
    while kills < KILLS {
        run += 1;
        assert!(run < 4 * KILLS, "{run} runs, and only {kills} could be killed");
        let provider = Provider::start(chain.turn(run));
        // Sometimes the run continues the turn itself. If the turn was finished, that run ends by itself.
        let text = if run % 5 == 0 { "" } else { "go on" };
        let child = chain.ask(&provider, &["--session", "last", text]);
        // Spread over 16 ms, to hit every step between two events. A start takes longer.
        let spread = Duration::from_millis((run * 7 % 17) as u64);
        let moment = MOMENTS[run % MOMENTS.len()];
        let later = if matches!(moment, Moment::Start) { spread * 5 } else { spread };
        let status = chain.kill(child, &provider, moment, later);
        kills += usize::from(status.signal() == Some(9));
        chain.check(&provider);
    }
    let end = Provider::start([wire.says(&["Done."])]);
    assert!(chain.ask(&end, &["--session", "last", "go on"]).wait().unwrap().success());
    let calls = chain.check(&end);
    let made = chain.effects.read().runs();
    for run in &made {
        let path = run.args["path"].as_str().unwrap().to_owned();
        assert!(calls.answered.contains(&path) || calls.interrupted.contains(&path), "no result mentions {path}");
    }
    let (answered, interrupted) = (calls.answered.len(), calls.interrupted.len());
    println!("{run} runs, {kills} killed: {} calls made, {answered} answered, {interrupted} interrupted", made.len());
    assert!(answered > KILLS / 4 && interrupted > KILLS / 4, "{answered} answered, {interrupted} interrupted");
}

#[test]
fn nothing_is_lost_or_repeated_over_anthropic() {
    is_killed_at_each_step(Speech::Anthropic);
}

#[test]
fn nothing_is_lost_or_repeated_over_openai_chat() {
    is_killed_at_each_step(Speech::Chat);
}

#[test]
fn nothing_is_lost_or_repeated_over_openai_responses() {
    is_killed_at_each_step(Speech::Responses);
}
