//! Exports all audit logs of a team, in rounds. For each log, a round writes objects (files) with the new rows, and
//! then a head: a signed file that lists these objects.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use toolrack_store::{Store, audit::AuditExport};

use super::{
    exporter::{ExportError, LogExport, LogExporter, Retries, rows_behind},
    head::LogName,
    key::SigningKey,
    object_store::{ObjectStore, ObjectStoreError},
    reading::ObjectBounds,
};
use crate::file::AuditExportTable;

// The defaults of the settings of the same names in `[audit_export]`: see `AuditExportTable`.
const ROWS_PER_OBJECT: usize = 10_000;
const BYTES_PER_OBJECT: usize = 16 * 1024 * 1024;
const IDLE_EVERY: Duration = Duration::from_hours(24);
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_mins(1);
const HOLD: Duration = Duration::from_hours(7 * 24);

/// The shortest pause between two rounds.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// An audit log, opened for one round.
#[derive(Debug)]
pub struct OpenedLog {
    /// The database with the rows of the log.
    pub store: Store,
    /// Whether the exporter closes the store after the round. Otherwise the store belongs to the caller and stays open.
    pub close_after_round: bool,
}

/// Opens a log. `None` if the log does not exist yet. The error says why the log cannot be opened.
pub type OpenLog = Box<dyn Fn(LogName) -> BoxFuture<'static, Result<Option<OpenedLog>, String>> + Send + Sync>;

/// Reads the key with which heads are signed. Each round reads it again, because it may have changed. The error says
/// why that fails, and contains no secret.
pub type ReadSigningKey = Box<dyn Fn() -> BoxFuture<'static, Result<SigningKey, String>> + Send + Sync>;

/// The state of the export, for programs that monitor the daemon.
#[derive(Debug)]
pub struct AuditExportStatus {
    rows_behind: AtomicU64,
    failures: AtomicU64,
    /// When the last round ended in which every log was exported.
    last_complete_round: watch::Sender<Instant>,
}

impl AuditExportStatus {
    fn new() -> Self {
        Self { rows_behind: 0.into(), failures: 0.into(), last_complete_round: watch::Sender::new(Instant::now()) }
    }

    /// Returns how many rows were not exported yet at the end of the last round. While the object store cannot be
    /// reached, this number may be too high.
    #[must_use]
    pub fn rows_behind(&self) -> u64 {
        self.rows_behind.load(Ordering::Relaxed)
    }

    /// Returns how many times a log could not be exported.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns how long ago the last complete round ended, in which every log was exported. Before the first such
    /// round, returns how long ago the exporter was made.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.last_complete_round.borrow().elapsed()
    }
}

/// Exports all audit logs of a team, in rounds.
pub struct AuditExporter {
    logs: Vec<LogName>,
    open_log: OpenLog,
    /// Exports a single log.
    exporter: LogExporter,
    /// `None` if the key never changes.
    read_key: Option<ReadSigningKey>,
    retry_after: Duration,
    status: Arc<AuditExportStatus>,
    /// The logs whose last export failed; `None` stands for all logs together. Only the first of several failures is
    /// logged.
    failing_logs: BTreeSet<Option<LogName>>,
}

impl fmt::Debug for AuditExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditExporter").field("to", &self.exporter.name).finish_non_exhaustive()
    }
}

impl AuditExporter {
    /// Creates an exporter of `logs` to `object_store`, with the settings in `table`. `open_log` opens a log for
    /// each round.
    #[must_use]
    pub fn new(
        table: &AuditExportTable,
        key: SigningKey,
        object_store: Arc<dyn ObjectStore>,
        logs: Vec<LogName>,
        open_log: OpenLog,
    ) -> Self {
        let size = |setting: Option<std::num::NonZeroU32>, default: usize| {
            setting.map_or(default, |value| usize::try_from(value.get()).unwrap_or(usize::MAX))
        };
        let exporter = LogExporter {
            name: table.place_name(),
            object_store,
            written_key: watch::Sender::default(),
            own_keys: vec![key.public()],
            key,
            object_bounds: ObjectBounds {
                rows: size(table.rows_per_object, ROWS_PER_OBJECT),
                bytes: size(table.bytes_per_object, BYTES_PER_OBJECT),
            },
            every: table.every,
            idle_every: table.idle_every.unwrap_or(IDLE_EVERY),
            timeout: table.timeout.unwrap_or(TIMEOUT),
            retries: table.retries.unwrap_or(RETRIES),
            hold: table.hold.unwrap_or(HOLD),
        };
        Self {
            logs,
            open_log,
            retry_after: table.retry_after.unwrap_or(RETRY_AFTER).min(exporter.every),
            exporter,
            read_key: None,
            status: Arc::new(AuditExportStatus::new()),
            failing_logs: BTreeSet::new(),
        }
    }

    /// Calls `read` before each round, and signs with the key that it returns. While `read` fails, the exporter writes
    /// nothing.
    #[must_use]
    pub fn with_changing_key(mut self, read: ReadSigningKey) -> Self {
        self.read_key = Some(read);
        self
    }

    /// The status of this exporter, which it updates after each round.
    #[must_use]
    pub fn status(&self) -> Arc<AuditExportStatus> {
        Arc::clone(&self.status)
    }

    /// Exports until `shutdown` is ready, and then stops even in the middle of a round. The next process completes a
    /// head that is not finished.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = self.run_rounds() => {}
            () = shutdown => {}
        }
    }

    /// Runs rounds forever.
    async fn run_rounds(&mut self) {
        loop {
            let started_at = Instant::now();
            let interval = self.round().await;
            sleep(interval.saturating_sub(started_at.elapsed()).max(MIN_PAUSE)).await;
        }
    }

    /// Exports all logs that are due. Returns how long after the beginning of this round the next one is to begin.
    pub(super) async fn round(&mut self) -> Duration {
        if let Err(why) = self.begin_round().await {
            self.note_failure(None, "audit logs are", &why);
            return self.retry_after;
        }
        let (mut interval, mut total_behind, mut is_complete) = (self.exporter.every, 0, true);
        let mut retries = Retries(self.exporter.retries);
        for log in self.logs.clone() {
            let mut progress = AuditExport::default();
            let result = self.export(&log, &mut progress, &mut retries).await;
            total_behind += rows_behind(&progress);
            match result {
                Ok(()) => {
                    interval = interval.min(progress.due_in.unwrap_or(self.exporter.every));
                    self.note_success(Some(&log));
                }
                Err(error) => {
                    (interval, is_complete) = (interval.min(self.retry_after), false);
                    let is_of_object_store = matches!(error, ExportError::ObjectStore(_));
                    let subject = format!("the audit log `{log}` is");
                    self.note_failure((!is_of_object_store).then_some(&log), &subject, &error.to_string());
                    // An error of one log does not concern the other logs, so the round continues. If the object store
                    // cannot be reached or refuses objects, it does so for all logs, and the round ends.
                    if matches!(
                        error,
                        ExportError::ObjectStore(ObjectStoreError::Failed { .. } | ObjectStoreError::Refused { .. })
                    ) {
                        // The logs that this round has not reached are behind by at least as many rows as before.
                        total_behind = total_behind.max(self.status.rows_behind());
                        break;
                    }
                }
            }
        }
        if is_complete {
            self.note_success(None);
            self.status.last_complete_round.send_replace(Instant::now());
        }
        self.status.rows_behind.store(total_behind, Ordering::Relaxed);
        interval
    }

    /// Reads the key and the credentials again, because they may have changed since the last round.
    async fn begin_round(&mut self) -> Result<(), String> {
        if let Some(read) = &self.read_key {
            let key = read().await?;
            if self.exporter.set_key(key) {
                tracing::info!("audit logs are signed with the key {} from now on", self.exporter.key.public().id());
            }
        }
        self.exporter.object_store.begin_round().await.map_err(|error| error.to_string())
    }

    /// Exports the new rows of one log. Sets `progress` to how far the log is exported, also after an error.
    async fn export(
        &self,
        log: &LogName,
        progress: &mut AuditExport,
        retries: &mut Retries,
    ) -> Result<(), ExportError> {
        let opened_log = (self.open_log)(log.clone()).await.map_err(ExportError::NotOpened)?;
        let Some(OpenedLog { store, close_after_round }) = opened_log else { return Ok(()) };
        let result = LogExport { exporter: &self.exporter, log, store: &store, progress, retries }.run().await;
        if close_after_round {
            store.close().await;
        }
        result
    }

    /// Counts a failure of `log`, or of all logs (`None`). Logs a warning, which begins with `subject` (such as "audit
    /// logs are"), only if the export did not fail before.
    fn note_failure(&mut self, log: Option<&LogName>, subject: &str, why: &str) {
        self.status.failures.fetch_add(1, Ordering::Relaxed);
        if self.failing_logs.insert(log.cloned()) {
            let exporter_name = &self.exporter.name;
            tracing::warn!("{subject} not exported to {exporter_name}: {why}");
        }
    }

    /// Reports that the export of `log`, or of all logs (`None`), works again if it failed before.
    fn note_success(&mut self, log: Option<&LogName>) {
        if self.failing_logs.remove(&log.cloned()) {
            let subject = log.map_or_else(|| "every audit log".to_owned(), |log| format!("the audit log `{log}`"));
            tracing::info!("{subject} is exported to {} again", self.exporter.name);
        }
    }
}
