//! Stores the lines that servers write to stderr and to their log, for `toolrack logs`.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, watch};
use tokio_util::task::TaskTracker;
use toolrack_config::Interpolate;
use toolrack_host::{Desired, Event, Host, ServerName};
use toolrack_store::{LogLine, Store};

use crate::error::with_causes;

/// The most lines that are written at once.
const MAX_BATCH_LINES: usize = 256;

/// How long the end of a command may wait for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes lines of servers into the store while a command runs.
#[derive(Debug)]
pub(crate) struct LogKeeper {
    sources: Sources,
    writer_task: TaskTracker,
    /// Tells the writer to write the lines so far, and to end.
    end_sender: watch::Sender<bool>,
}

/// The files in which servers are configured, by the names of the servers; empty for a server without a file. All
/// clones share one map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources(Arc<ArcSwap<BTreeMap<ServerName, String>>>);

impl Sources {
    /// Adds the servers of `desired` with their files: lines are stored by server name and file.
    pub(crate) fn add(&self, desired: &Desired) {
        let new_sources = desired.iter().map(|(name, spec)| {
            let path = spec.source.path.as_ref();
            (name.clone(), path.map(|path| path.display().to_string()).unwrap_or_default())
        });
        self.0.rcu(|sources| {
            let mut sources = BTreeMap::clone(sources);
            sources.extend(new_sources.clone());
            sources
        });
    }

    fn file_of(&self, server: &ServerName) -> String {
        self.0.load().get(server).cloned().unwrap_or_default()
    }
}

/// The task that writes.
struct Writer {
    store: Store,
    secrets: Arc<Interpolate>,
    sources: Sources,
    events: broadcast::Receiver<Event>,
    /// Changes when the writer has to end.
    end_receiver: watch::Receiver<bool>,
}

impl LogKeeper {
    /// Starts to store what the servers of `host` write.
    pub(crate) fn start(host: &Host, store: Store, secrets: Arc<Interpolate>) -> Self {
        let sources = Sources::default();
        let (end_sender, end_receiver) = watch::channel(false);
        let writer = Writer { store, secrets, sources: sources.clone(), events: host.events(), end_receiver };
        let writer_task = TaskTracker::new();
        writer_task.spawn(writer.run());
        writer_task.close();
        Self { sources, writer_task, end_sender }
    }

    /// The files in which servers are configured.
    pub(crate) fn sources(&self) -> Sources {
        self.sources.clone()
    }

    /// Writes the lines so far, and ends. Waits at most a second.
    pub(crate) async fn close(&self) {
        // Fails if the writer has ended already.
        let _ = self.end_sender.send(true);
        if tokio::time::timeout(FLUSH_TIMEOUT, self.writer_task.wait()).await.is_err() {
            tracing::warn!("the last lines of the servers' logs were not written in time");
        }
    }
}

impl Writer {
    async fn run(mut self) {
        loop {
            let (first_event, is_last) = tokio::select! {
                event = self.events.recv() => (Some(event), false),
                // Resolves at `LogKeeper::close`, and when the `LogKeeper` was dropped.
                _ = self.end_receiver.changed() => (None, true),
            };
            if let Some(Err(broadcast::error::RecvError::Closed)) = first_event {
                return;
            }
            let mut lines: Vec<_> = first_event.into_iter().filter_map(|event| self.line(event.ok()?)).collect();
            loop {
                match self.events.try_recv() {
                    Ok(event) => lines.extend(self.line(event)),
                    // Lines that came faster than they were written are lost.
                    Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                    Err(_) => break,
                }
                if lines.len() >= MAX_BATCH_LINES {
                    self.write(&mem::take(&mut lines)).await;
                }
            }
            self.write(&lines).await;
            if is_last {
                return;
            }
        }
    }

    async fn write(&self, lines: &[LogLine]) {
        if let Err(error) = self.store.keep_log(lines).await {
            tracing::warn!("{}", with_causes(&error));
        }
    }

    /// Returns the line of the log for `event`; `None` for an event that the log leaves out.
    fn line(&self, event: Event) -> Option<LogLine> {
        let (server, kind, text) = match event {
            Event::McpServerStderr { server, line } => (server, "stderr".to_owned(), line),
            Event::McpServerLog { server, level, message } => (server, level, message),
            Event::McpServerWarning { server, warning } => (server, "noticed".to_owned(), warning),
            Event::McpToolQuarantined { server, quarantined } => {
                let text = format!("the tool {} differs from its pin: {}", quarantined.tool, quarantined.cause);
                (server, "noticed".to_owned(), toolrack_host::text::for_line(&text).into_owned())
            }
            Event::McpServerError { server, error, call: None } => (server, "failed".to_owned(), error.to_string()),
            Event::McpServerError { server, error, call: Some(_) } => (server, "noticed".to_owned(), error.to_string()),
            _ => return None,
        };
        let source = self.sources.file_of(&server);
        Some(LogLine {
            // The store gives the line its number.
            id: 0,
            server: server.to_string(),
            source,
            at: chrono::Utc::now().timestamp_millis(),
            kind,
            text: self.secrets.conceal(&text).into_owned(),
        })
    }
}
