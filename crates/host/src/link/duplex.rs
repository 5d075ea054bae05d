//! Runs a connection that has one input stream and one output stream: the stdio of a child process, or a server in this
//! process. One task reads and another writes. Legacy HTTP+SSE uses the parts of this module with tasks of its own.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use memchr::memmem::find;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
    task::coop::consume_budget,
    time::timeout,
};

use crate::link::{
    bounds::{Bound, Bounds, is_list},
    error::LinkError,
    framing::{
        envelope::{self, BadMessage, Envelope},
        lines::{Line, Lines},
    },
    inbound::{ConnectionEnd, Inbound, MessageSink},
    message::{self, OutgoingRequest, RawAnswer, into_answer, parse_rpc_error},
    process::{Process, child::Exit},
};

/// The most messages that wait to be written. While that many wait, a sender waits, within its own time-out.
pub(crate) const QUEUE_LENGTH: usize = 64;
/// How long a write may make no progress before the host closes the connection.
const WRITE_STALL: Duration = Duration::from_secs(10);
/// How long to read output after the process has ended.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(250);
/// How long to wait for a process to end after it closed its output, because its exit status makes a better error.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How many cancelled requests a connection remembers, so that their late answers cause no warning.
const MAX_CANCELLED: usize = 64;

/// The sending half, shared by all users of the connection.
pub(crate) struct Duplex {
    queue: mpsc::Sender<Bytes>,
    pending: Arc<PendingRequests>,
    /// Sends messages without waiting: answers to the server's requests, and cancellations.
    sink: Arc<dyn MessageSink>,
}

impl fmt::Debug for Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplex").finish_non_exhaustive()
    }
}

/// Requests that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests(Mutex<RequestTable>);

/// The state of [`PendingRequests`], by the ids of requests.
#[derive(Debug, Default)]
struct RequestTable {
    /// All requests that wait, with the channel that takes the answer.
    answer_senders: HashMap<i64, oneshot::Sender<RawAnswer>>,
    /// The waiting requests that are subscriptions; their answers come only when they end.
    subscription_ids: HashSet<i64>,
    /// The waiting requests for lists; their answers have a bound of their own.
    list_request_ids: HashSet<i64>,
    /// The latest requests that were cancelled before their answers came.
    cancelled_ids: VecDeque<i64>,
}

impl PendingRequests {
    /// Registers a request before it is sent. Returns the receiver of its answer.
    fn register(&self, request: &OutgoingRequest) -> oneshot::Receiver<RawAnswer> {
        let (sender, answer) = oneshot::channel();
        let mut requests = self.0.lock();
        requests.answer_senders.insert(request.id, sender);
        if request.method == "subscriptions/listen" {
            requests.subscription_ids.insert(request.id);
        } else if is_list(request.method) {
            requests.list_request_ids.insert(request.id);
        }
        answer
    }

    /// Removes a request. If it has no answer yet, remembers it as cancelled.
    fn remove(&self, id: i64) {
        let mut requests = self.0.lock();
        requests.subscription_ids.remove(&id);
        requests.list_request_ids.remove(&id);
        if requests.answer_senders.remove(&id).is_some() {
            if requests.cancelled_ids.len() == MAX_CANCELLED {
                requests.cancelled_ids.pop_front();
            }
            requests.cancelled_ids.push_back(id);
        }
    }

    /// Passes an answer to the task that waits for it; `false` if no task does.
    pub(crate) fn settle(&self, id: i64, answer: RawAnswer) -> bool {
        let sender = self.0.lock().answer_senders.remove(&id);
        sender.is_some_and(|sender| sender.send(answer).is_ok())
    }

    /// Returns whether an answer to the request `id` may come late, because the request was cancelled. Returns `true`
    /// only once for each request, because a request has only one answer.
    fn take_cancelled(&self, id: i64) -> bool {
        let cancelled_ids = &mut self.0.lock().cancelled_ids;
        let index = cancelled_ids.iter().position(|cancelled_id| *cancelled_id == id);
        index.is_some_and(|index| cancelled_ids.remove(index).is_some())
    }

    fn is_waiting(&self, id: i64) -> bool {
        self.0.lock().answer_senders.contains_key(&id)
    }

    /// Returns whether the request `id` is for a list.
    fn is_list_request(&self, id: i64) -> bool {
        self.0.lock().list_request_ids.contains(&id)
    }

    /// Returns the bound of the next message: the bound of lists only while a request for a list waits.
    pub(crate) fn current_size_bound(&self, bounds: Bounds) -> Bound {
        if self.0.lock().list_request_ids.is_empty() { bounds.message() } else { bounds.list() }
    }

    /// Returns whether any request other than a subscription waits.
    pub(crate) fn has_waiting_requests(&self) -> bool {
        let requests = self.0.lock();
        requests.answer_senders.keys().any(|id| !requests.subscription_ids.contains(id))
    }

    /// Returns the waiting request, if there is exactly one apart from subscriptions.
    fn sole_waiting_request(&self) -> Option<i64> {
        let requests = self.0.lock();
        let mut waiting_ids = requests.answer_senders.keys().filter(|id| !requests.subscription_ids.contains(id));
        match (waiting_ids.next(), waiting_ids.next()) {
            (Some(id), None) => Some(*id),
            _ => None,
        }
    }
}

/// Puts answers to a server's requests, and cancellations, into the queue of the writer.
struct QueueSink(mpsc::Sender<Bytes>);

impl MessageSink for QueueSink {
    fn post(&self, message: Bytes) {
        // Drop the message if the queue is full: the server does not read.
        let _ = self.0.try_send(message);
    }
}

/// The streams of a duplex connection.
pub(crate) struct Streams<R, W> {
    pub(crate) reader: R,
    pub(crate) writer: W,
    /// The process at the other end, if there is one.
    pub(crate) process: Option<Process>,
    /// The most bytes of a message. Each message is one line.
    pub(crate) bounds: Bounds,
}

impl Duplex {
    /// Starts the reader and the writer on the connection's tracker. Both end with `inbound.stop` or when the other
    /// side has closed; `connection_end` then has the reason.
    pub(crate) fn start<R, W>(
        streams: Streams<R, W>,
        inbound: &Arc<Inbound>,
        connection_end: &Arc<ConnectionEnd>,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (queue, outgoing) = mpsc::channel(QUEUE_LENGTH);
        let duplex = Self::with_queue(queue, Arc::default());
        let (stop, closed_by_writer, process) = (inbound.stop.clone(), connection_end.clone(), streams.process.clone());
        let writer_inbound = inbound.clone();
        inbound.tracker.spawn(async move {
            let writer = async {
                let end = write_queued_messages(outgoing, streams.writer, &writer_inbound).await;
                handle_write_end(end, process, &closed_by_writer).await;
            };
            stop.run_until_cancelled(writer).await;
        });
        let reader = Reader {
            lines: Lines::new(streams.reader, streams.bounds.message().bytes).with_larger_limit({
                let (bounds, pending) = (streams.bounds, duplex.pending.clone());
                // While no list request waits, this is the ordinary limit, which changes nothing.
                Box::new(move || Some(pending.current_size_bound(bounds).bytes))
            }),
            dispatcher: Dispatcher {
                bounds: streams.bounds,
                process: streams.process,
                pending: duplex.pending.clone(),
                sink: duplex.sink.clone(),
                inbound: inbound.clone(),
            },
        };
        let (stop, connection_end) = (inbound.stop.clone(), connection_end.clone());
        inbound.tracker.spawn(async move {
            // When this task ends, fail all waiting requests.
            let _close_guard = connection_end.close_on_drop();
            let reason = stop.run_until_cancelled(reader.run()).await;
            connection_end.close(reason.unwrap_or(LinkError::Stopped));
        });
        duplex
    }

    /// Creates a connection without tasks of its own: another task takes the messages from the other end of `queue`
    /// and settles the answers in `pending`.
    pub(crate) fn with_queue(queue: mpsc::Sender<Bytes>, pending: Arc<PendingRequests>) -> Self {
        Self { sink: Arc::new(QueueSink(queue.clone())), queue, pending }
    }

    pub(crate) fn pending(&self) -> &Arc<PendingRequests> {
        &self.pending
    }

    pub(crate) fn sink(&self) -> &Arc<dyn MessageSink> {
        &self.sink
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request at the server.
    pub(crate) async fn exchange(&self, request: OutgoingRequest) -> Result<Bytes, LinkError> {
        let answer_receiver = self.pending.register(&request);
        let mut guard =
            RequestGuard { duplex: self, id: request.id, awaits_answer: false, cancellable: request.cancellable };
        self.send(request.body).await?;
        guard.awaits_answer = true;
        let answer = answer_receiver.await;
        guard.awaits_answer = false;
        answer.unwrap_or(Err(LinkError::Stopped))
    }

    /// Sends a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: Bytes) -> Result<(), LinkError> {
        self.queue.send(message).await.map_err(|_| LinkError::Stopped)
    }
}

/// Cleans up after a request when it is dropped. If the request was sent and has no answer yet, the caller no longer
/// waits, and the request is cancelled at the server.
struct RequestGuard<'a> {
    duplex: &'a Duplex,
    id: i64,
    /// Whether the request was sent and has no answer yet.
    awaits_answer: bool,
    cancellable: bool,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.duplex.pending.remove(self.id);
        if self.awaits_answer && self.cancellable {
            self.duplex.sink.post(message::cancelled_notification(self.id));
        }
    }
}

/// The reason why the writer ended.
enum WriteEnd {
    /// All senders are dropped.
    Done,
    /// The other side has closed its input.
    InputClosed,
    /// The other side read nothing for [`WRITE_STALL`].
    Stalled,
}

/// Closes the connection if the other side still runs but no longer reads. If the other side has ended, the reader
/// closes the connection.
async fn handle_write_end(end: WriteEnd, process: Option<Process>, connection_end: &ConnectionEnd) {
    match end {
        WriteEnd::Done => {}
        WriteEnd::Stalled => connection_end.close(LinkError::stalled(WRITE_STALL)),
        // Usually the other side has ended. Wait for the reader to notice that, because it can explain the end better.
        // The reader notices nothing if the other side has closed only its input.
        WriteEnd::InputClosed => {
            if timeout(EXIT_TIMEOUT, connection_end.wait()).await.is_err() {
                let reason = LinkError::Closed {
                    why: "it closed its input".into(),
                    stderr: last_stderr(process.as_ref()).await,
                };
                connection_end.close(reason);
            }
        }
    }
}

/// Returns the end of a process's stderr, if there is a process.
async fn last_stderr(process: Option<&Process>) -> String {
    match process {
        Some(process) => process.last_stderr().await,
        None => String::new(),
    }
}

/// Writes the messages of the queue, many at a time.
async fn write_queued_messages<W: AsyncWrite + Unpin>(
    mut outgoing: mpsc::Receiver<Bytes>,
    mut writer: W,
    inbound: &Inbound,
) -> WriteEnd {
    let mut batch = Vec::with_capacity(QUEUE_LENGTH);
    let mut batch_bytes = Vec::new();
    while outgoing.recv_many(&mut batch, QUEUE_LENGTH).await > 0 {
        batch_bytes.clear();
        for message in batch.drain(..) {
            inbound.observe_sent(&message);
            batch_bytes.extend_from_slice(&message);
            batch_bytes.push(b'\n');
        }
        let mut rest = batch_bytes.as_slice();
        while !rest.is_empty() {
            match timeout(WRITE_STALL, writer.write(rest)).await {
                Ok(Ok(written)) if written > 0 => rest = &rest[written..],
                // An error, or a write that took no byte.
                Ok(_) => return WriteEnd::InputClosed,
                Err(_) => return WriteEnd::Stalled,
            }
        }
        match timeout(WRITE_STALL, writer.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return WriteEnd::InputClosed,
            Err(_) => return WriteEnd::Stalled,
        }
        // Keep at most 1 MiB between batches, so that one large message does not hold its memory for ever.
        batch_bytes.shrink_to(1 << 20);
    }
    WriteEnd::Done
}

struct Reader<R> {
    lines: Lines<R>,
    dispatcher: Dispatcher,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads until the other side has closed; returns the reason.
    async fn run(mut self) -> LinkError {
        let process = self.dispatcher.process.clone();
        let exited = async {
            match &process {
                Some(process) => process.exited().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(exited);
        loop {
            tokio::select! {
                line = self.lines.next() => match line {
                    Ok(Some(line)) => {
                        if let Err(error) = self.dispatcher.dispatch_line(line) {
                            return error;
                        }
                        // Yield: a buffer holds many lines, and a flood of them would starve other tasks.
                        consume_budget().await;
                    }
                    Ok(None) => return self.dispatcher.end_error("it closed its output").await,
                    Err(error) => {
                        return self.dispatcher.end_error(&format!("its output cannot be read: {error}")).await;
                    }
                },
                exit = &mut exited => {
                    // Read what the process wrote before it ended, but not forever: a grandchild may hold the pipe
                    // open.
                    let _ = timeout(LAST_OUTPUT_TIMEOUT, self.read_rest()).await;
                    return self.dispatcher.exit_error(&exit).await;
                }
            }
        }
    }

    /// Dispatches the lines that are left, until the end of the output.
    async fn read_rest(&mut self) {
        while let Ok(Some(line)) = self.lines.next().await {
            if self.dispatcher.dispatch_line(line).is_err() {
                return;
            }
        }
    }
}

/// Passes an answer of the server to the request that waits for it, and any other message to [`Inbound`].
pub(crate) struct Dispatcher {
    pub(crate) bounds: Bounds,
    pub(crate) process: Option<Process>,
    pub(crate) pending: Arc<PendingRequests>,
    pub(crate) sink: Arc<dyn MessageSink>,
    pub(crate) inbound: Arc<Inbound>,
}

impl Dispatcher {
    /// Dispatches a line.
    ///
    /// # Errors
    /// The line has no end, so that the connection must be closed.
    fn dispatch_line(&self, line: Line) -> Result<(), LinkError> {
        match line {
            Line::Full(bytes) => self.receive(&bytes),
            Line::TooLong { bytes, salvaged } => self.reject_too_large(bytes, salvaged.answered_request()),
            Line::Endless { bytes, salvaged } => return Err(self.too_large_error(bytes, salvaged.answered_request())),
            // The stream has ended, which the reader notices itself.
            Line::Cut { .. } => {}
        }
        Ok(())
    }

    /// Returns the error for a message that is too large and probably answers the request `id`.
    fn too_large_error(&self, length: u64, id: Option<i64>) -> LinkError {
        let is_list = id.is_some_and(|id| self.pending.is_list_request(id));
        let bound = if is_list { self.bounds.list() } else { self.bounds.message() };
        bound.too_large("STDIO_LINE_TOO_LARGE", "a line of the server", length)
    }

    /// Fails the request `id`, which a message that is too large probably answers. If no such request waits, reports a
    /// warning.
    fn reject_too_large(&self, length: u64, id: Option<i64>) {
        let error = self.too_large_error(length, id);
        if !id.is_some_and(|id| self.pending.settle(id, Err(error.clone()))) {
            self.inbound.warn(error.to_string());
        }
    }

    /// Dispatches one line, or one event, of the server.
    pub(crate) fn receive(&self, bytes: &Bytes) {
        self.inbound.observe_received(bytes);
        if bytes.len() > self.bounds.message().bytes {
            return self.dispatch_large(bytes);
        }
        self.dispatch(bytes);
    }

    /// Dispatches a message over the bound of ordinary messages: only the answer to a request for a list may be so
    /// large.
    fn dispatch_large(&self, bytes: &Bytes) {
        let id = match envelope::peek(bytes) {
            Ok(Envelope::Response { id, .. }) => id.number(),
            Ok(_) => None,
            Err(bad_message) => bad_message.salvaged.answered_request(),
        };
        if id.is_some_and(|id| self.pending.is_list_request(id)) {
            self.dispatch(bytes);
        } else {
            self.reject_too_large(bytes.len() as u64, id);
        }
    }

    /// Passes an answer to its request, and everything else to `inbound`.
    fn dispatch(&self, bytes: &Bytes) {
        message::for_each_message(bytes, |message| match message {
            Ok(Envelope::Response { id, outcome }) => self.deliver_answer(id.number(), into_answer(bytes, outcome)),
            // An error without an id can only belong to the single request that waits.
            Ok(Envelope::Orphan { error }) if self.pending.sole_waiting_request().is_some() => {
                self.deliver_answer(self.pending.sole_waiting_request(), Err(LinkError::Rpc(parse_rpc_error(error))));
            }
            // Requests on these connections have no streams of their own.
            Ok(other) => self.inbound.accept(other, None, &self.sink),
            Err(bad_message) => match self.request_answered_by(&bad_message, bytes) {
                // In a list, bytes that are not UTF-8 cost only the items that contain them. An escape replaces these
                // bytes: it is valid JSON, but no string can be decoded from it. The items are decoded one by one, so
                // decoding fails only for an item with the escape.
                Some(id) if self.pending.is_list_request(id) && bad_message.is_not_utf8() => {
                    let escaped = Bytes::from(envelope::escape_invalid_utf8(bytes));
                    message::for_each_message(&escaped, |message| match message {
                        Ok(Envelope::Response { outcome, .. }) => {
                            self.deliver_answer(Some(id), into_answer(&escaped, outcome))
                        }
                        _ => self.deliver_answer(Some(id), Err(LinkError::unparsable(bad_message.to_string()))),
                    });
                }
                Some(id) => self.deliver_answer(Some(id), Err(LinkError::unparsable(bad_message.to_string()))),
                None => self.inbound.note_noise("output that is not an MCP message", bytes),
            },
        });
    }

    /// Returns the waiting request that an unparsable message probably answers.
    fn request_answered_by(&self, bad_message: &BadMessage, bytes: &[u8]) -> Option<i64> {
        let salvaged = &bad_message.salvaged;
        // Without a readable `result` or `error`, the message is an answer if its id is certain and it has no `method`.
        let certain_id =
            || salvaged.id.as_ref().filter(|_| salvaged.is_certain && find(bytes, b"\"method\"").is_none());
        let id = salvaged.answered_request().or_else(|| certain_id()?.number())?;
        self.pending.is_waiting(id).then_some(id)
    }

    /// Handles an answer that was too large to be read. The id in it is unknown, so fails the request that waits if
    /// there is exactly one. If not, reports a warning.
    pub(crate) fn reject_unread(&self, error: LinkError) {
        match self.pending.sole_waiting_request() {
            Some(id) => self.deliver_answer(Some(id), Err(error)),
            None => self.inbound.warn(error.to_string()),
        }
    }

    /// Passes an answer to its request. An answer to a cancelled request is merely late; an answer to any other request
    /// that does not wait is reported as a warning.
    fn deliver_answer(&self, id: Option<i64>, answer: RawAnswer) {
        let settled = id.is_some_and(|id| self.pending.settle(id, answer) || self.pending.take_cancelled(id));
        if !settled {
            self.inbound.warn("an answer to no waiting request was ignored");
        }
    }

    /// Returns the error for the end of the output. If the process exits within [`EXIT_TIMEOUT`], the error describes
    /// the exit; if not, it gives `why` as the reason.
    async fn end_error(&self, why: &str) -> LinkError {
        if let Some(process) = &self.process
            && let Ok(exit) = timeout(EXIT_TIMEOUT, process.exited()).await
        {
            return self.exit_error(&exit).await;
        }
        LinkError::Closed { why: why.to_owned(), stderr: self.last_stderr().await }
    }

    /// Returns the error for a process that has ended.
    async fn exit_error(&self, exit: &Exit) -> LinkError {
        let stderr = self.last_stderr().await;
        LinkError::Exited { exit: exit.to_string(), stderr, noise: self.inbound.noise_summary() }
    }

    async fn last_stderr(&self) -> String {
        last_stderr(self.process.as_ref()).await
    }
}
