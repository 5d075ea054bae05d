//! The table of faults: the name of each, its argument, the requests that it strikes, and what it does.
//!
//! `fake-server faults` prints this table. A fault is either *standing* (it affects the whole process, or what the
//! server offers), or it strikes single requests. For the second kind, `--fault-on METHOD` moves the fault to another
//! method, and `--fault-after N` and `--fault-times N` choose which requests of that method it strikes.

use std::collections::BTreeMap;

/// The argument of a fault, after `=` in `--fault NAME=ARG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// No argument.
    No,
    /// A whole number, with this default.
    Number(u64),
    /// Any text, with this default. If the default is empty, the text is required.
    Text(&'static str),
}

/// Which requests a fault strikes unless `--fault-on` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// No single requests: the fault affects the process, the session or what the server offers.
    Standing,
    /// Requests of this method.
    Method(&'static str),
    /// Every request.
    Every,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    /// The fault itself.
    pub fault: Fault,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its argument.
    pub arg: Arg,
    /// The requests that it strikes by default.
    pub target: FaultTarget,
    /// What it does, for the printed table.
    pub description: &'static str,
}

const CALL: FaultTarget = FaultTarget::Method("tools/call");
const DISCOVER: FaultTarget = FaultTarget::Method("server/discover");
const LIST: FaultTarget = FaultTarget::Method("tools/list");
const STANDING: FaultTarget = FaultTarget::Standing;
const EVERY: FaultTarget = FaultTarget::Every;

macro_rules! faults {
    ($($variant:ident, $name:literal, $arg:expr, $target:expr, $description:literal;)*) => {
        /// Something that the fake server does wrong; the rows of [`FAULTS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $(#[doc = $description] $variant,)*
        }

        /// Every fault, in the order of a connection's life.
        pub const FAULTS: &[FaultRow] = &[
            $(FaultRow { fault: Fault::$variant, name: $name, arg: $arg, target: $target, description: $description },)*
        ];
    };
}

faults! {
    // Starting and ending a process.
    NeverStart, "never-start", Arg::No, STANDING, "reads everything and never says a word";
    ExitAtStart, "exit-at-start", Arg::Number(1), STANDING, "writes two lines to stderr and exits with this status";
    SignalAtStart, "signal-at-start", Arg::Number(9), STANDING, "kills itself with this signal before it reads anything";
    Grandchild, "grandchild", Arg::Text("plain"), STANDING, "starts a sleeping child first: plain, setsid, ignore-term, or both as setsid+ignore-term";
    Banner, "banner", Arg::No, STANDING, "prints lines that are not JSON before and between its messages";
    Bom, "bom", Arg::No, STANDING, "puts a byte order mark before its first line";
    EmptyLines, "empty-lines", Arg::No, STANDING, "puts empty lines and NUL bytes between its messages";
    Crlf, "crlf", Arg::No, STANDING, "ends its lines with CR LF";
    SplitWrites, "split-writes", Arg::No, STANDING, "writes every message in pieces of a few bytes";
    FillStderr, "fill-stderr", Arg::Number(1_048_576), STANDING, "writes this many bytes to stderr before it reads, and as many again for each request";
    StderrLine, "stderr-line", Arg::Number(1_048_576), STANDING, "writes one line of this many bytes to stderr, without an end";
    StopReadingStdin, "stop-reading-stdin", Arg::Text("tools/call"), STANDING, "reads nothing more once it has answered a request of this method (`start`: reads nothing at all)";
    CloseStdin, "close-stdin", Arg::Text("tools/call"), STANDING, "closes its stdin once it has read a request of this method, answers it and keeps running";
    IgnoreEof, "ignore-eof", Arg::No, STANDING, "keeps running when stdin ends";
    IgnoreTerm, "ignore-term", Arg::No, STANDING, "keeps running on SIGTERM, SIGINT and SIGHUP";
    IgnoreCancel, "ignore-cancel", Arg::No, STANDING, "finishes a cancelled call and answers it all the same";

    // Choosing an era.
    ExitOnDiscover, "exit-on-discover", Arg::Number(1), DISCOVER, "exits with this status";
    IgnoreDiscover, "ignore-discover", Arg::No, DISCOVER, "never answers the probe";
    LateDiscover, "late-discover", Arg::Number(3_000), DISCOVER, "answers the probe after this many milliseconds, as its era would";
    LateThenLegacy, "late-then-legacy", Arg::Number(3_000), DISCOVER, "refuses the probe after this many milliseconds; meanwhile it answers `initialize`";
    RefuseVersion, "refuse-version", Arg::No, DISCOVER, "modern: refuses the version that it then names as supported";
    DiscoverEmpty, "discover-empty", Arg::No, DISCOVER, "answers the probe with an empty result, as some legacy servers do to any method";
    HangDiscover, "hang-discover", Arg::No, DISCOVER, "HTTP: takes the probe and never sends a byte";
    Discover202, "discover-202", Arg::No, DISCOVER, "HTTP: 202 without a body";
    DiscoverHtml, "discover-html", Arg::No, DISCOVER, "HTTP: 200 with a web page";
    Discover500, "discover-500", Arg::No, DISCOVER, "HTTP: 500 with plain text";
    NoCapabilities, "no-capabilities", Arg::No, STANDING, "declares `capabilities: null`";
    Version, "version", Arg::Text("1999-01-01"), STANDING, "speaks this protocol version whatever is asked";

    // What the server offers.
    ListFails, "list-fails", Arg::No, LIST, "answers with an internal error";
    EndlessCursor, "endless-cursor", Arg::No, STANDING, "each page of tools names a new next page, forever";
    SameCursor, "same-cursor", Arg::No, STANDING, "each page of tools names the same next page";
    OddCursor, "odd-cursor", Arg::No, STANDING, "the cursor after the tools is the number 42";
    EmptyCursor, "empty-cursor", Arg::No, STANDING, "the cursor of the second page is the empty string, which is a valid cursor";
    ListChangedStorm, "list-changed-storm", Arg::Number(50), STANDING, "says this often that its tools changed, after each list of tools";
    BadTool, "bad-tool", Arg::No, STANDING, "one tool has `inputSchema: null`, one has no name, one is a number";
    DuplicateTool, "duplicate-tool", Arg::No, STANDING, "offers `echo` twice";
    EscapeText, "escape-text", Arg::No, STANDING, "descriptions, results and errors carry terminal escapes, bidi and tag characters";
    LongDescription, "long-description", Arg::Number(5_000), STANDING, "the description of `echo`, and the instructions of the server, have this many lines";
    WrongStructured, "wrong-structured", Arg::No, STANDING, "`structured` returns what its output schema forbids";
    ExpensiveSchema, "expensive-schema", Arg::Number(30), STANDING, "`structured` has schemas of this depth that double at each level";
    RemoteRefSchema, "remote-ref-schema", Arg::Text(""), STANDING, "`structured` has a schema that refers to this address";
    Redescribes, "redescribes", Arg::Text("echo"), STANDING, "this tool's description tells the model to do something else";
    Renames, "renames", Arg::Text("echo"), STANDING, "this tool is called `renamed` and is otherwise as it was";
    FlipsHints, "flips-hints", Arg::Text("write"), STANDING, "this tool says that it changes nothing";
    Later, "later", Arg::No, STANDING, "the three faults above wait until `tools_changed` is called";
    NegativeTtl, "negative-ttl", Arg::No, STANDING, "lists carry `ttlMs: -5`";
    BadHeaderName, "bad-header-name", Arg::No, STANDING, "five more tools have an `x-mcp-header` that breaks a rule";

    // Answers that lie.
    NoAnswer, "no-answer", Arg::No, CALL, "does the work and never answers";
    WrongId, "wrong-id", Arg::No, CALL, "answers another id only";
    ForgedFirst, "forged-first", Arg::No, CALL, "answers another id first, then the right one";
    DuplicateAnswer, "duplicate-answer", Arg::No, CALL, "answers twice";
    ErrorWithoutId, "error-without-id", Arg::No, CALL, "answers with an error whose id is null";
    UnparsableAnswer, "unparsable-answer", Arg::No, CALL, "the text of the answer has half of a UTF-16 escape";
    BadUtf8, "bad-utf8", Arg::No, CALL, "the text of the answer is not UTF-8";
    HugeNumber, "huge-number", Arg::No, CALL, "the answer holds 1e400";
    DeepJson, "deep-json", Arg::Number(100_000), CALL, "the answer is nested this deep";
    DuplicateKey, "duplicate-key", Arg::No, CALL, "the answer names its id twice, the right one last";
    Truncated, "truncated", Arg::No, CALL, "the answer stops in the middle of its JSON, then the line ends";
    Result42, "result-42", Arg::No, CALL, "the result is the number 42";
    ResultNull, "result-null", Arg::No, CALL, "the result is null";
    ResultAndError, "result-and-error", Arg::No, CALL, "the answer has both a result and an error";
    NeitherResultNorError, "neither", Arg::No, CALL, "the answer has neither a result nor an error";
    Batch, "batch", Arg::No, CALL, "the answer comes inside a batch of one";
    UnknownResultType, "unknown-result-type", Arg::Text("banana"), CALL, "the result has this `resultType`";
    BadContent, "bad-content", Arg::No, CALL, "one content block of an unknown type and one that is a number, among good ones";
    OddIsError, "odd-is-error", Arg::No, CALL, "`isError` of the result is the text \"true\"";
    StrayProgress, "stray-progress", Arg::No, CALL, "reports progress for a token that was not given, and for this request after its answer";
    OddMessages, "odd-messages", Arg::No, CALL, "sends unknown and malformed messages of each kind before the answer";
    EndlessInput, "endless-input", Arg::No, CALL, "modern: asks for more input, forever";
    HugeLine, "huge-line", Arg::Number(9_437_184), CALL, "the answer is one line of this many bytes";
    PingFlood, "ping-flood", Arg::Number(10_000), CALL, "sends this many pings before the answer";
    NotifyFlood, "notify-flood", Arg::Number(10_000), CALL, "sends this many log notifications before the answer";
    RequestFlood, "request-flood", Arg::Number(1_000), CALL, "sends this many sampling requests before the answer";

    // Dying in the middle of a call.
    Freeze, "freeze", Arg::No, CALL, "stops itself (SIGSTOP) after the effect; answers if it is ever continued";
    CrashOnCall, "crash-on-call", Arg::Text("signal:11"), CALL, "dies after the effect: `exit:N` or `signal:N`";
    CrashHoldingPipe, "crash-holding-pipe", Arg::No, CALL, "exits with status 7 while a grandchild holds its stdout and stderr";
    HalfLineThenCrash, "half-line-then-crash", Arg::No, CALL, "writes half of the answer and exits with status 7";
    CloseStdout, "close-stdout", Arg::No, CALL, "closes its stdout and keeps running";

    // HTTP: other answers than MCP's.
    Html, "html", Arg::No, EVERY, "HTTP: 200 with a web page";
    Http500, "http-500", Arg::No, EVERY, "HTTP: 500 with plain text";
    Http401, "http-401", Arg::Text("none"), EVERY, "HTTP: 401, with this challenge in WWW-Authenticate unless it is `none`";
    Http400, "http-400", Arg::No, EVERY, "HTTP: 400 with plain text";
    Http403, "http-403", Arg::No, EVERY, "HTTP: 403 with plain text";
    Http404, "http-404", Arg::No, EVERY, "HTTP: 404 with plain text";
    Http429, "http-429", Arg::Text("1"), CALL, "HTTP: 429 with this Retry-After";
    Http503, "http-503", Arg::Text("1"), CALL, "HTTP: 503 with this Retry-After";
    Http202, "http-202", Arg::No, CALL, "HTTP: 202 without a body, to a request";
    NoContentType, "no-content-type", Arg::No, CALL, "HTTP: the right body without a Content-Type";
    RedirectSame, "redirect-same", Arg::Number(307), CALL, "HTTP: this status to another path of the same origin, which works";
    RedirectCross, "redirect-cross", Arg::Text(""), CALL, "HTTP: 307 to this address";
    RedirectLoop, "redirect-loop", Arg::No, CALL, "HTTP: 307 to itself, forever";
    HeadersGiant, "headers-giant", Arg::Number(4_194_304), CALL, "HTTP: a header of this many bytes";
    Hang, "hang", Arg::No, CALL, "HTTP: takes the request, does nothing and never sends a byte";
    CloseAtOnce, "close-at-once", Arg::No, CALL, "HTTP: closes the connection without a byte, before the effect";
    ResetAfterEffect, "reset-after-effect", Arg::No, CALL, "HTTP: resets the connection after the effect";

    // HTTP: sessions.
    SessionRequired, "session-required", Arg::No, STANDING, "HTTP: 400 to every request without a session, but `initialize`";
    RefuseStream, "refuse-stream", Arg::Number(405), STANDING, "legacy HTTP: this status to the GET that would open the standing stream";
    NoSession, "no-session", Arg::No, STANDING, "HTTP: gives no session id";
    Http404After, "http-404-after", Arg::Number(2), STANDING, "HTTP: the first session is lost (404) after this many requests; the next one stays";
    Http400Session, "http-400-session", Arg::Number(2), STANDING, "HTTP: as http-404-after, but the status is 400 and the error has no id";

    // HTTP: bodies.
    SlowBody, "slow-body", Arg::Number(200), CALL, "HTTP: one byte of the JSON body every so many milliseconds";
    CutBody, "cut-body", Arg::No, CALL, "HTTP: the connection ends in the middle of the JSON body";
    ResetBody, "reset-body", Arg::No, CALL, "HTTP: a reset in the middle of the JSON body";
    BodyHuge, "body-huge", Arg::Number(9_437_184), CALL, "HTTP: a JSON body of this many bytes, with its length";
    BodyEndless, "body-endless", Arg::No, CALL, "HTTP: a JSON body in chunks that never ends";
    GzipBomb, "gzip-bomb", Arg::Number(268_435_456), CALL, "HTTP: a small gzip body that unpacks to this many bytes";
    BadChunks, "bad-chunks", Arg::No, CALL, "HTTP: the chunked encoding is broken";

    // HTTP: event streams.
    CutSse, "cut-sse", Arg::No, CALL, "SSE: ends before the answer";
    SseResume, "sse-resume", Arg::Number(300), CALL, "SSE: ends before the answer with an event id and this `retry:`; the answer follows on GET";
    SseResetLoop, "sse-reset-loop", Arg::Number(0), CALL, "SSE: as sse-resume, but each GET opens and is then reset";
    SseEmptyLoop, "sse-empty-loop", Arg::Number(0), CALL, "SSE: as sse-resume, but each GET ends at once";
    SseRefusesResume, "sse-refuses-resume", Arg::Number(405), CALL, "SSE: as sse-resume, but each GET gets this status";
    SseUnknownField, "sse-unknown-field", Arg::No, CALL, "SSE: fields that the standard ignores, comments, a bare CR, before the answer";
    SseNoise, "sse-noise", Arg::No, CALL, "SSE: events that are not messages, one of them not UTF-8, before the answer";
    SseEndlessLine, "sse-endless-line", Arg::No, CALL, "SSE: a line that is not data and does not end, instead of the answer";
    SseBadJson, "sse-bad-json", Arg::No, CALL, "SSE: an event whose data is not JSON, instead of the answer";
    SseHugeEvent, "sse-huge-event", Arg::Number(9_437_184), CALL, "SSE: an event of this many bytes";
    SseEndless, "sse-endless", Arg::No, CALL, "SSE: data lines without an end of the event, forever";
    SseWrongId, "sse-wrong-id", Arg::No, CALL, "SSE: an answer for another id first, then the right one";
    SseSplit, "sse-split", Arg::No, CALL, "SSE: the answer on many data lines, written byte by byte";
    ListenEnds, "listen-ends", Arg::Number(100), STANDING, "modern: each subscription ends with its answer after this many milliseconds";
    ListenCancelled, "listen-cancelled", Arg::Number(100), STANDING, "modern stdio: each subscription is ended by `notifications/cancelled` after this many milliseconds";
    ListenDrops, "listen-drops", Arg::Number(100), STANDING, "modern HTTP: each subscription's stream is cut after this many milliseconds";

    // HTTP+SSE of 2024-11-05.
    NoEndpoint, "no-endpoint", Arg::No, STANDING, "sse: never says where to post";
    SlowNotices, "slow-notices", Arg::Number(300), STANDING, "sse: takes each notification only after this many milliseconds";
    EndpointCross, "endpoint-cross", Arg::Text(""), STANDING, "sse: says to post to this address";
}

impl Fault {
    /// The row of this fault.
    #[must_use]
    pub fn row(self) -> &'static FaultRow {
        // The macro writes the variants and the rows in the same order.
        &FAULTS[self as usize]
    }
}

/// The faults of one server, with their arguments and targets.
#[derive(Clone, Debug)]
pub struct Faults {
    chosen: Vec<(Fault, Option<String>)>,
    /// `--fault-on`: the method whose requests the faults strike instead of their default ones; `*` is every method.
    pub target_method: Option<String>,
    /// `--fault-after`: the number of requests of that method that succeed first.
    pub skip: u64,
    /// `--fault-times`: the number of later requests that the fault strikes.
    pub times: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { chosen: Vec::new(), target_method: None, skip: 0, times: u64::MAX }
    }
}

impl Faults {
    /// Adds one `NAME` or `NAME=ARG`.
    ///
    /// # Errors
    /// A sentence for the author of the test: an unknown name, or an argument of the wrong kind.
    pub fn add(&mut self, written: &str) -> Result<(), String> {
        let (name, arg) = match written.split_once('=') {
            Some((name, arg)) => (name, Some(arg.to_owned())),
            None => (written, None),
        };
        let row = FAULTS
            .iter()
            .find(|row| row.name == name)
            .ok_or_else(|| format!("unknown fault `{name}`; `fake-server faults` lists them"))?;
        match (row.arg, &arg) {
            (Arg::No, Some(_)) => return Err(format!("fault `{name}` takes no argument")),
            (Arg::Number(_), Some(text)) if text.parse::<u64>().is_err() => {
                return Err(format!("fault `{name}` takes a number, not `{text}`"));
            }
            (Arg::Text(""), None) => return Err(format!("fault `{name}` needs an argument: {name}=…")),
            _ => {}
        }
        self.chosen.push((row.fault, arg));
        Ok(())
    }

    /// Returns whether the command line has this fault.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.chosen.iter().any(|(chosen, _)| *chosen == fault)
    }

    /// Returns the argument of a chosen fault as a number, or the fault's default. `None` if the fault is not chosen or
    /// takes no number.
    #[must_use]
    pub fn number(&self, fault: Fault) -> Option<u64> {
        let (_, arg) = self.chosen.iter().find(|(chosen, _)| *chosen == fault)?;
        match (arg, fault.row().arg) {
            (Some(text), _) => text.parse().ok(),
            (None, Arg::Number(default)) => Some(default),
            (None, _) => None,
        }
    }

    /// Returns the argument of a chosen fault as text, or the fault's default. `None` if the fault is not chosen or
    /// takes no text.
    #[must_use]
    pub fn text(&self, fault: Fault) -> Option<&str> {
        let (_, arg) = self.chosen.iter().find(|(chosen, _)| *chosen == fault)?;
        match (arg, fault.row().arg) {
            (Some(text), _) => Some(text),
            (None, Arg::Text(default)) => Some(default),
            (None, _) => None,
        }
    }

    /// Returns the faults that strike a request of this method, before which the server has received
    /// `earlier_requests` of the same method.
    #[must_use]
    pub fn for_request(&self, method: &str, earlier_requests: u64) -> RequestFaults {
        let is_in_range = earlier_requests >= self.skip && earlier_requests - self.skip < self.times;
        let is_aimed = |fault: Fault| match (&self.target_method, fault.row().target) {
            (_, FaultTarget::Standing) => false,
            (Some(target), _) => target == "*" || target == method,
            (None, FaultTarget::Method(default)) => default == method,
            (None, FaultTarget::Every) => true,
        };
        let faults = if is_in_range {
            self.chosen.iter().map(|(fault, _)| *fault).filter(|fault| is_aimed(*fault)).collect()
        } else {
            Vec::new()
        };
        RequestFaults(faults)
    }
}

/// The faults that strike one request.
#[derive(Clone, Debug, Default)]
pub struct RequestFaults(Vec<Fault>);

impl RequestFaults {
    /// Whether this fault strikes.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }

    /// The faults that strike, in the order of the command line.
    pub fn iter(&self) -> impl Iterator<Item = Fault> + '_ {
        self.0.iter().copied()
    }
}

/// The table as text, one fault a line, for `fake-server faults`.
#[must_use]
pub fn table() -> String {
    FAULTS.iter().map(format_row).collect()
}

fn format_row(row: &FaultRow) -> String {
    let arg = match row.arg {
        Arg::No => String::new(),
        Arg::Number(default) => format!("[={default}]"),
        Arg::Text("") => "=TEXT".to_owned(),
        Arg::Text(default) => format!("[={default}]"),
    };
    let strikes = match row.target {
        FaultTarget::Standing => "-",
        FaultTarget::Method(method) => method,
        FaultTarget::Every => "*",
    };
    format!("{:<36} {:<16} {}\n", format!("{}{arg}", row.name), strikes, row.description)
}

/// Counts the requests of each method.
#[derive(Debug, Default)]
pub struct RequestCounts(BTreeMap<String, u64>);

impl RequestCounts {
    /// Counts a request of this method, and returns the number of earlier ones.
    pub fn count(&mut self, method: &str) -> u64 {
        let count = self.0.entry(method.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_fault_and_no_name_is_used_twice() {
        let mut names = std::collections::BTreeSet::new();
        for row in FAULTS {
            assert_eq!(row.fault.row().name, row.name);
            assert!(names.insert(row.name), "{} is listed twice", row.name);
            assert!(!row.description.is_empty() && row.description.len() < 150, "{}", row.name);
        }
    }

    #[test]
    fn a_fault_strikes_its_own_method_in_its_turn_only() {
        let mut faults = Faults { skip: 1, times: 2, ..Faults::default() };
        faults.add("no-answer").unwrap();
        faults.add("bad-tool").unwrap();
        let struck: Vec<bool> =
            (0..4).map(|seen| faults.for_request("tools/call", seen).has(Fault::NoAnswer)).collect();
        assert_eq!(struck, [false, true, true, false]);
        assert!(!faults.for_request("tools/list", 1).has(Fault::NoAnswer));
        assert!(!faults.for_request("tools/call", 1).has(Fault::BadTool), "a standing fault never strikes");
    }

    #[test]
    fn fault_on_aims_a_fault_at_another_method_or_at_all() {
        let mut faults = Faults { target_method: Some("tools/list".to_owned()), ..Faults::default() };
        faults.add("no-answer").unwrap();
        assert!(faults.for_request("tools/list", 0).has(Fault::NoAnswer));
        assert!(!faults.for_request("tools/call", 0).has(Fault::NoAnswer));
        faults.target_method = Some("*".to_owned());
        assert!(faults.for_request("ping", 0).has(Fault::NoAnswer));
    }

    #[test]
    fn an_unknown_fault_or_a_wrong_argument_is_refused_with_the_reason() {
        let mut faults = Faults::default();
        assert!(faults.add("nonsense").unwrap_err().contains("unknown fault"));
        assert!(faults.add("batch=1").unwrap_err().contains("no argument"));
        assert!(faults.add("huge-line=big").unwrap_err().contains("a number"));
        assert!(faults.add("redirect-cross").unwrap_err().contains("needs an argument"));
    }

    #[test]
    fn a_fault_without_an_argument_has_the_default_of_the_table() {
        let mut faults = Faults::default();
        faults.add("huge-line=77").unwrap();
        faults.add("flood-is-not-a-fault").unwrap_err();
        faults.add("version").unwrap();
        assert_eq!(faults.number(Fault::HugeLine), Some(77));
        assert_eq!(faults.number(Fault::BodyHuge), None);
        assert_eq!(faults.text(Fault::Version), Some("1999-01-01"));
    }
}
