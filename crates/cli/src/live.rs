//! Shows a turn (a message of the user and all that the model does until it has answered) as it happens: the answer on
//! stdout, piece by piece, and the calls on stderr. Also stores the turn in the conversation, through a `Journal`. The
//! agent that runs the turn reports its events to [`LiveTurn`], which implements [`Front`].

mod brake;
mod printer;
mod running;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use toolrack_agent::{
    Agent, Delta, End, Front, NotStored, SecretBuffer, TextKind, ToolCallData, Turn, TurnEvent, turn::Next,
};
use toolrack_host::{CallError, Catalog, ScriptCall, text};
use toolrack_store::{
    ModelUse, StoreError,
    journal::{self, Journal},
};

pub(crate) use brake::Brake;
use printer::TurnPrinter;
use running::{RunningCalls, StatusLine};

use crate::{
    error::{Failure, with_causes},
    render::{Layout, Sign, Tone, paint},
    screen::Screen,
};

/// The most characters of a call's arguments that a line shows.
const MAX_ARGUMENT_CHARACTERS: usize = 60;

/// The most bytes of the reason why a call failed that a line shows.
const MAX_REASON_BYTES: usize = 200;

/// The display of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnFormat {
    /// For users, while the turn happens.
    Text,
    /// One JSON document, at the end.
    JsonDocument,
    /// JSON documents while the turn happens, one on each line.
    JsonRecords,
}

/// Shows a turn, and stores it in the conversation.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    screen: Arc<Screen>,
    catalog: Arc<Catalog>,
    /// Stores the conversation.
    journal: Journal,
    format: TurnFormat,
    /// Text of the model that may end inside a secret, and so cannot be shown yet.
    secret_buffer: SecretBuffer,
    /// What the model has written so far, while its answer is not complete.
    partial_answer: String,
    /// Ends the turn or its calls early.
    brake: Arc<Brake>,
    calls: Vec<CallRecord>,
    /// The calls that are under way.
    running_calls: RunningCalls,
    /// The tools that needed an approval when no user could be asked.
    unapproved_tools: Vec<String>,
    /// Sends output to the printing task, so that a blocked pipe does not delay the handling of signals.
    output: OutputSender,
    printer_task: JoinSet<Result<(), Failure>>,
}

/// A call as `--json` shows it.
#[derive(Clone, Debug, Serialize)]
struct CallRecord {
    id: String,
    /// The tool as `server/tool`, or the name that the model gave it.
    tool: String,
    arguments: Value,
    is_error: bool,
    duration_ms: u64,
    /// The calls that a script made, if the tool runs one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ScriptCall>,
}

/// A message to the printing task.
#[derive(Debug)]
enum Output {
    /// A piece of the answer.
    Piece(String),
    /// A line about the turn, on stderr.
    Line(String),
    /// A line about something other than the turn, such as a server that is disconnected. It waits until it interrupts
    /// neither the answer nor a question.
    News(String),
    /// The progress line.
    Status(SentStatus),
    /// A JSON document on a line of its own.
    Record(Value),
    /// Reports that everything before it is printed.
    Flush(oneshot::Sender<()>),
}

/// A progress line that was sent to the printing task; `None` once the task has taken it.
type SentStatus = Arc<Mutex<Option<StatusLine>>>;

/// Sends output to the printing task.
#[derive(Debug)]
struct OutputSender {
    channel: mpsc::UnboundedSender<Output>,
    /// The progress line that was sent last, unless something else was sent after it. A newer progress line replaces it
    /// while it waits, because a server can report progress faster than a terminal shows it.
    last_status: Mutex<Option<SentStatus>>,
}

impl OutputSender {
    fn new(channel: mpsc::UnboundedSender<Output>) -> Self {
        Self { channel, last_status: Mutex::default() }
    }

    fn send(&self, output: Output) {
        *self.last_status.lock() = None;
        // The printing task has ended only if stdout cannot be written, which is reported at the end.
        let _ = self.channel.send(output);
    }

    fn send_status(&self, line: StatusLine) {
        let mut last_status = self.last_status.lock();
        if let Some(status) = &*last_status
            && let Some(waiting_line) = &mut *status.lock()
        {
            *waiting_line = line;
            return;
        }
        let status = Arc::new(Mutex::new(Some(line)));
        *last_status = Some(Arc::clone(&status));
        // Fails only as in `send`.
        let _ = self.channel.send(Output::Status(status));
    }
}

/// Shows news during a turn: lines about something else, such as a server that is disconnected.
#[derive(Clone, Debug)]
pub(crate) struct NewsSender(mpsc::UnboundedSender<Output>);

impl NewsSender {
    /// Shows a line that is safe to print, as soon as it interrupts neither the answer nor a question.
    pub(crate) fn show(&self, line: String) {
        // Fails only as in `OutputSender::send`.
        let _ = self.0.send(Output::News(line));
    }
}

/// The outcome of a turn.
#[derive(Debug)]
pub(crate) struct TurnReport {
    /// The stored conversation.
    pub(crate) journal: Journal,
    /// The tools that needed an approval when no user could be asked.
    pub(crate) unapproved_tools: Vec<String>,
}

/// The document of `ask --json`.
#[derive(Serialize)]
struct Answer<'a> {
    session: Option<String>,
    model: &'a str,
    text: &'a str,
    end: Option<&'static str>,
    /// Why the provider broke off the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    rounds: u32,
    tool_calls: &'a [CallRecord],
    spent: ModelUse,
}

impl LiveTurn {
    pub(crate) fn new(screen: Arc<Screen>, catalog: Arc<Catalog>, journal: Journal, format: TurnFormat) -> Self {
        let (output, receiver) = mpsc::unbounded_channel();
        let mut printer_task = JoinSet::new();
        printer_task.spawn(TurnPrinter::new(Arc::clone(&screen)).print(receiver));
        let (calls, running_calls, unapproved_tools) = (Vec::new(), RunningCalls::default(), Vec::new());
        let (secret_buffer, partial_answer, brake) = (SecretBuffer::default(), String::new(), Arc::default());
        Self {
            screen,
            catalog,
            journal,
            format,
            secret_buffer,
            partial_answer,
            brake,
            calls,
            running_calls,
            unapproved_tools,
            output: OutputSender::new(output),
            printer_task,
        }
    }

    /// The [`Brake`] that ends this turn, or its calls, early.
    pub(crate) fn brake(&self) -> Arc<Brake> {
        Arc::clone(&self.brake)
    }

    /// Returns a handle that shows lines about something else during the turn. Drop it before [`Self::finish`], which
    /// waits until all of these handles are dropped.
    pub(crate) fn news_sender(&self) -> NewsSender {
        NewsSender(self.output.channel.clone())
    }

    /// Ends `turn` now, and stores what the model has said so far.
    ///
    /// # Errors
    /// When another process has continued the conversation.
    pub(crate) async fn cancel(&mut self, turn: &mut Turn) -> Result<(), NotStored> {
        turn.cancel(&self.partial_answer);
        let result = self.journal.store_turn(turn).await;
        self.stop_storing_on_error(result)
    }

    /// If storing failed, continues without storing the conversation.
    ///
    /// # Errors
    /// When another process has continued the conversation, so that the rest of this turn no longer fits it.
    fn stop_storing_on_error(&mut self, result: Result<(), StoreError>) -> Result<(), NotStored> {
        match result {
            Ok(()) => {}
            Err(error @ StoreError::SessionMoved { .. }) => return Err(NotStored { why: with_causes(&error) }),
            Err(error) => {
                let why = with_causes(&error);
                self.screen.warning(&format!("this conversation is not stored from here on: {why}"));
                self.journal.stop_storing();
            }
        }
        Ok(())
    }

    /// Sends `output` to the printing task.
    fn send(&self, output: Output) {
        self.output.send(output);
    }

    /// Prints `record`, if the turn is shown as records.
    fn record(&self, record: Value) {
        if self.format == TurnFormat::JsonRecords {
            self.send(Output::Record(record));
        }
    }

    /// Returns the name that users know of the tool of `call`: `server/tool`.
    fn tool_name(&self, call: &ToolCallData) -> String {
        self.catalog.get(&call.name).map_or_else(|| call.name.clone(), toolrack_host::CatalogTool::selector)
    }

    fn show_delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) => {
                self.partial_answer.push_str(piece);
                self.show_piece(TextKind::Text, piece);
            }
            Delta::Thinking(piece) => self.show_piece(TextKind::Thinking, piece),
            Delta::Retry { after, why } => {
                self.record(json!({ "type": "retry", "after_ms": millis(*after), "why": why }));
                if self.format == TurnFormat::Text {
                    let words = format!("waiting {} s: {why}", after.as_secs().max(1));
                    self.output.send_status(StatusLine::Text(words));
                }
            }
            _ => {}
        }
    }

    /// Shows a piece of the model's text; holds back the part that may be the beginning of a secret.
    fn show_piece(&mut self, kind: TextKind, piece: &str) {
        if self.format == TurnFormat::JsonDocument || (self.format == TurnFormat::Text && kind == TextKind::Thinking) {
            return;
        }
        let screen = &self.screen;
        for (kind, words) in self.secret_buffer.push(kind, piece, |text| screen.safe_len(text)) {
            self.show(kind, words);
        }
    }

    /// Shows the text that [`Self::show_piece`] has held back, once no further text can make a secret of it.
    fn show_rest(&mut self) {
        if let Some((kind, words)) = self.secret_buffer.take() {
            self.show(kind, words);
        }
    }

    fn show(&self, kind: TextKind, words: String) {
        match (self.format, kind) {
            (TurnFormat::Text, _) => self.send(Output::Piece(words)),
            (_, TextKind::Text) => self.record(json!({ "type": "text", "text": words })),
            (_, TextKind::Thinking) => self.record(json!({ "type": "thinking", "text": words })),
        }
    }

    fn call_begins(&mut self, call: &ToolCallData) {
        let tool = self.tool_name(call);
        self.record(json!({ "type": "tool_call", "id": call.id, "tool": tool, "arguments": call.input }));
        if self.format == TurnFormat::Text {
            self.running_calls.begin(&call.id, tool, arguments(&call.input), self.screen.time_waiting_for_answers());
            self.show_running();
        }
    }

    /// Shows the progress line, if a call is under way.
    fn show_running(&self) {
        if let Some(line) = self.running_calls.line() {
            self.output.send_status(line);
        }
    }

    fn call_ends(&mut self, ended_call: &EndedCall<'_>) {
        let EndedCall { call, arguments, error, script_calls, text, is_error, took } = *ended_call;
        let tool = self.tool_name(call);
        let unasked_tool = matches!(error, Some(CallError::Denied { unasked: true, .. })).then_some(&tool);
        // A script's call records only the code of its error. This is the code of the same error.
        let unasked_by_script =
            script_calls.iter().filter(|call| call.error == Some("APPROVAL_NEEDED")).map(|call| &call.tool);
        for unasked in unasked_tool.into_iter().chain(unasked_by_script) {
            if !self.unapproved_tools.contains(unasked) {
                self.unapproved_tools.push(unasked.clone());
            }
        }
        let duration_ms = millis(took);
        let mut record = json!({
            "type": "tool_result", "id": call.id, "tool": tool, "is_error": is_error, "text": text,
            "duration_ms": duration_ms,
        });
        if !script_calls.is_empty() {
            record["calls"] = json!(script_calls);
        }
        self.record(record);
        if self.format == TurnFormat::Text {
            self.send(Output::Line(ended_call.line(self.screen.layout(), &tool)));
            self.running_calls.end(&call.id);
            self.show_running();
        }
        let (id, arguments, calls) = (call.id.clone(), arguments.clone(), script_calls.to_vec());
        self.calls.push(CallRecord { id, tool, arguments, is_error, duration_ms, calls });
    }

    /// Prints the rest of the answer, and with `--json` the document.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) async fn finish(mut self, turn: &Turn, agent: &Agent) -> Result<TurnReport, Failure> {
        self.show_rest();
        let end = match turn.next() {
            Next::Done(end) => Some(end),
            _ => None,
        };
        let text = turn.messages().last().filter(|message| message.role == toolrack_agent::Role::Assistant);
        let answer = Answer {
            session: self.journal.id().map(|id| id.to_string()),
            model: agent.model.name(),
            text: text.map_or("", |message| &*message.content),
            end: end.map(End::name),
            reason: end.and_then(End::reason),
            rounds: turn.rounds(),
            tool_calls: &self.calls,
            spent: journal::model_use(turn.usage(), turn.cost()),
        };
        match self.format {
            TurnFormat::Text => self.send(Output::Piece("\n".to_owned())),
            TurnFormat::JsonDocument => self.send(Output::Record(json!(answer))),
            TurnFormat::JsonRecords => {
                let mut done = json!(answer);
                done["type"] = json!("done");
                self.send(Output::Record(done));
            }
        }
        drop(self.output);
        if let Some(Ok(print_result)) = self.printer_task.join_next().await {
            print_result?;
        }
        if self.format == TurnFormat::Text && end == Some(&End::Cut) {
            self.screen.warning("the answer was cut: it reached the limit of tokens (--max-tokens)");
        }
        Ok(TurnReport { journal: self.journal, unapproved_tools: self.unapproved_tools })
    }
}

impl Front for LiveTurn {
    fn on_event(&mut self, event: TurnEvent<'_>) {
        match event {
            TurnEvent::Delta(delta) => self.show_delta(delta),
            TurnEvent::Answered(reply) => {
                self.partial_answer.clear();
                self.journal.record_cost(reply);
                self.show_rest();
            }
            TurnEvent::WithoutTools { why } => {
                self.record(json!({ "type": "without_tools", "why": why }));
                self.screen.warning(&format!("the model does not support tools, and is asked without them: {why}"));
            }
            TurnEvent::CallBegins(call) => self.call_begins(call),
            TurnEvent::CallProgress { id, progress } => {
                self.running_calls.set_progress(id, progress);
                self.show_running();
            }
            TurnEvent::CallEnds { call, outcome, text, is_error, took } => {
                let error = outcome.and_then(Result::err);
                let outcome = outcome.and_then(Result::ok);
                let script_calls = outcome.map_or(&[][..], |outcome| &outcome.calls);
                let edited = outcome.and_then(|outcome| outcome.edited.clone()).map(Value::Object);
                let arguments = edited.as_ref().unwrap_or(&call.input);
                // Without the time in which the call waited for the user's approval.
                let took = outcome.map_or(took, |outcome| outcome.duration);
                self.call_ends(&EndedCall { call, arguments, error, script_calls, text, is_error, took });
            }
            _ => {}
        }
    }

    fn store<'a>(&'a mut self, turn: &'a Turn) -> BoxFuture<'a, Result<(), NotStored>> {
        Box::pin(async move {
            let is_new = self.journal.session().is_none();
            let brake = self.brake();
            let result = brake.store_step(self.journal.store_turn(turn)).await;
            self.stop_storing_on_error(result)?;
            if is_new && let Some(id) = self.journal.id() {
                self.record(json!({ "type": "session", "id": id.to_string() }));
            }
            // Wait until the text is on the screen: the next step may ask the user a question.
            let (printed_sender, printed) = oneshot::channel();
            self.send(Output::Flush(printed_sender));
            // Fails only if the printing task has ended, as in `OutputSender::send`.
            let _ = printed.await;
            Ok(())
        })
    }

    fn calls_cancelled(&mut self) -> BoxFuture<'static, ()> {
        self.brake.calls_cancelled()
    }
}

/// How a call ended.
struct EndedCall<'a> {
    call: &'a ToolCallData,
    /// The arguments that were sent, which the user may have changed.
    arguments: &'a Value,
    /// Why the call has no result.
    error: Option<&'a CallError>,
    /// The calls that a script made, if the tool runs one.
    script_calls: &'a [ScriptCall],
    /// The text that the model gets.
    text: &'a str,
    is_error: bool,
    took: Duration,
}

impl EndedCall<'_> {
    /// Returns `✔ fs/list_directory path=. 12 ms`, or the reason of the failure in place of the time.
    fn line(&self, layout: Layout, tool: &str) -> String {
        let (sign, tone) = if self.is_error { (Sign::Bad, Tone::Bad) } else { (Sign::Good, Tone::Good) };
        let sign = paint(tone, layout.sign(sign));
        let mut line = format!("{sign} {} {}", text::for_line(tool), arguments(self.arguments));
        if self.is_error {
            // Skip the line that tells the model that the text is a server's data.
            let why = self.text.lines().find(|line| !line.starts_with("[data from ")).unwrap_or_default();
            line.push_str(&format!(" {} {}", layout.dash(), text::for_line(&text::clip(why, MAX_REASON_BYTES))));
        } else {
            line.push_str(&paint(Tone::Faint, &format!(" {} ms", self.took.as_millis())));
        }
        if !self.script_calls.is_empty() {
            line.push_str(&format!("\n  called {}", summarize_calls(self.script_calls)));
        }
        line
    }
}

/// Returns a summary of a script's calls. Equal calls are shown once, with their number and their error, if there is
/// one.
fn summarize_calls(calls: &[ScriptCall]) -> String {
    let mut counted_calls: Vec<(&ScriptCall, usize)> = Vec::new();
    for call in calls {
        match counted_calls.iter_mut().find(|(counted_call, _)| *counted_call == call) {
            Some((_, times)) => *times += 1,
            None => counted_calls.push((call, 1)),
        }
    }
    let words = counted_calls.into_iter().map(|(call, times)| {
        let times = if times > 1 { format!(" ×{times}") } else { String::new() };
        let error = call.error.map(|error| format!(" ({error})")).unwrap_or_default();
        format!("{}{times}{error}", text::for_line(&call.tool))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the arguments of a call as a user would type them, `name=value` or `name:=json`, cut to
/// [`MAX_ARGUMENT_CHARACTERS`].
fn arguments(input: &Value) -> String {
    let empty = Map::new();
    let words = input.as_object().unwrap_or(&empty).iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        value => format!("{name}:={value}"),
    });
    let words = text::for_line(&words.collect::<Vec<_>>().join(" ")).into_owned();
    let mut clipped: String = words.chars().take(MAX_ARGUMENT_CHARACTERS).collect();
    if clipped.len() < words.len() {
        clipped.push('…');
    }
    clipped
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(words: &str) -> StatusLine {
        StatusLine::Text(words.to_owned())
    }

    #[test]
    fn a_progress_line_that_waits_is_replaced_by_a_newer_one_unless_something_came_between() {
        let (channel, mut sent) = mpsc::unbounded_channel();
        let output = OutputSender::new(channel);
        let words = |output: Output| match output {
            Output::Status(line) => {
                let line = line.lock().take();
                let Some(StatusLine::Text(words)) = line else { panic!("no text") };
                words
            }
            Output::Line(line) => line,
            other => panic!("{other:?}"),
        };
        for number in 0..1_000 {
            output.send_status(status(&number.to_string()));
        }
        output.send(Output::Line("line".to_owned()));
        output.send_status(status("after the line"));
        assert_eq!(sent.len(), 3);
        let mut next = || words(sent.try_recv().unwrap());
        assert_eq!([next(), next(), next()], ["999", "line", "after the line"]);
        // The printing task has taken the last line.
        output.send_status(status("next"));
        assert_eq!(next(), "next");
    }
}
