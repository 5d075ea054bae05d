//! Rounds over all logs.

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
    exporter::{ExportError, LogExport, LogExporter, Retries, behind},
    head::LogName,
    key::SigningKey,
    place::{Place, PlaceError},
    reading::ObjectBounds,
};
use crate::file::AuditExportTable;

const ROWS_PER_OBJECT: usize = 10_000;
const BYTES_PER_OBJECT: usize = 16 * 1024 * 1024;
const IDLE_EVERY: Duration = Duration::from_hours(24);
/// How long writing one object may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_mins(1);
const HOLD: Duration = Duration::from_hours(7 * 24);

/// The shortest pause between two rounds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// An audit log, opened for one round.
#[derive(Debug)]
pub struct OpenLog {
    /// Its rows.
    pub store: Store,
    /// Whether the store is to be closed after the round.
    pub closes: bool,
}

/// Opens a log; `None` if there is none yet.
pub type OpenLogs = Box<dyn Fn(LogName) -> BoxFuture<'static, Result<Option<OpenLog>, String>> + Send + Sync>;

/// Reads the key that signs, again for each round. The error says why that fails, without a secret.
pub type ReadSigningKey = Box<dyn Fn() -> BoxFuture<'static, Result<SigningKey, String>> + Send + Sync>;

/// What programs that monitor the daemon see of the export.
#[derive(Debug)]
pub struct AuditExportStatus {
    rows_behind: AtomicU64,
    failures: AtomicU64,
    /// When the last round ended in which every log was written.
    complete_at: watch::Sender<Instant>,
}

impl AuditExportStatus {
    fn new() -> Self {
        Self { rows_behind: 0.into(), failures: 0.into(), complete_at: watch::Sender::new(Instant::now()) }
    }

    /// How many rows were not written at the end of the last round, or more while the place is away.
    #[must_use]
    pub fn rows_behind(&self) -> u64 {
        self.rows_behind.load(Ordering::Relaxed)
    }

    /// How many times a log could not be written.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How long ago the last round ended in which every log was written; before the first one, since when the daemon runs.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.complete_at.borrow().elapsed()
    }
}

/// Writes all audit logs of a team, again and again.
pub struct AuditExporter {
    logs: Vec<LogName>,
    open: OpenLogs,
    one: LogExporter,
    read_key: Option<ReadSigningKey>,
    retry_after: Duration,
    status: Arc<AuditExportStatus>,
    failing: BTreeSet<Option<LogName>>,
}

impl fmt::Debug for AuditExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditExporter").field("to", &self.one.name).finish_non_exhaustive()
    }
}

impl AuditExporter {
    /// Writes `logs`, which `open` opens, to `place` as `table` says.
    #[must_use]
    pub fn new(
        table: &AuditExportTable,
        key: SigningKey,
        place: Arc<dyn Place>,
        logs: Vec<LogName>,
        open: OpenLogs,
    ) -> Self {
        let size = |set: Option<std::num::NonZeroU32>, default: usize| {
            set.map_or(default, |set| usize::try_from(set.get()).unwrap_or(usize::MAX))
        };
        let one = LogExporter {
            name: table.place_name(),
            place,
            written_key: watch::Sender::default(),
            own_keys: vec![key.public()],
            key,
            most: ObjectBounds {
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
            open,
            retry_after: table.retry_after.unwrap_or(RETRY_AFTER).min(one.every),
            one,
            read_key: None,
            status: Arc::new(AuditExportStatus::new()),
            failing: BTreeSet::new(),
        }
    }

    /// Has `read` read the key before each round, so that another key signs from then on. While that fails, nothing is
    /// written.
    #[must_use]
    pub fn with_changing_key(mut self, read: ReadSigningKey) -> Self {
        self.read_key = Some(read);
        self
    }

    /// What programs that monitor the daemon see.
    #[must_use]
    pub fn status(&self) -> Arc<AuditExportStatus> {
        Arc::clone(&self.status)
    }

    /// Writes until `ending`. What was begun then is gone on with by the next process.
    pub async fn run_until(mut self, ending: impl Future<Output = ()>) {
        tokio::select! {
            () = self.rounds() => {}
            () = ending => {}
        }
    }

    async fn rounds(&mut self) {
        loop {
            let began = Instant::now();
            let next = self.round().await;
            sleep(next.saturating_sub(began.elapsed()).max(SHORTEST_PAUSE)).await;
        }
    }

    /// Writes what is due. Returns when the next round begins, counted from the beginning of this one.
    pub(super) async fn round(&mut self) -> Duration {
        if let Err(why) = self.begin_round().await {
            self.fails(None, "audit logs are", &why);
            return self.retry_after;
        }
        let (mut next, mut rows_behind, mut is_complete) = (self.one.every, 0, true);
        let mut retries = Retries(self.one.retries);
        for log in self.logs.clone() {
            let mut found = AuditExport::default();
            let exported = self.export(&log, &mut found, &mut retries).await;
            rows_behind += behind(&found);
            match exported {
                Ok(()) => {
                    next = next.min(found.due_in.unwrap_or(self.one.every));
                    self.works(Some(&log));
                }
                Err(error) => {
                    (next, is_complete) = (next.min(self.retry_after), false);
                    let is_of_place = matches!(error, ExportError::Place(_));
                    let subject = format!("the audit log `{log}` is");
                    self.fails((!is_of_place).then_some(&log), &subject, &error.to_string());
                    // What is of one log harms no other one. A place that is away, or takes nothing, is so for all.
                    if matches!(error, ExportError::Place(PlaceError::Failed { .. } | PlaceError::Refused { .. })) {
                        // The others have at least as many rows as before.
                        rows_behind = rows_behind.max(self.status.rows_behind());
                        break;
                    }
                }
            }
        }
        if is_complete {
            self.works(None);
            self.status.complete_at.send_replace(Instant::now());
        }
        self.status.rows_behind.store(rows_behind, Ordering::Relaxed);
        next
    }

    /// Reads what may have changed since the last round.
    async fn begin_round(&mut self) -> Result<(), String> {
        if let Some(read) = &self.read_key {
            let key = read().await?;
            if self.one.take_key(key) {
                tracing::info!("audit logs are signed with the key {} from now on", self.one.key.public().id());
            }
        }
        self.one.place.begin_round().await.map_err(|error| error.to_string())
    }

    /// Writes one log.
    async fn export(&self, log: &LogName, found: &mut AuditExport, retries: &mut Retries) -> Result<(), ExportError> {
        let opened = (self.open)(log.clone()).await.map_err(ExportError::Closed)?;
        let Some(OpenLog { store, closes }) = opened else { return Ok(()) };
        let exported = LogExport { exporter: &self.one, log, store: &store, found, retries }.run().await;
        if closes {
            store.close().await;
        }
        exported
    }

    /// The log says it once.
    fn fails(&mut self, what: Option<&LogName>, subject: &str, why: &str) {
        self.status.failures.fetch_add(1, Ordering::Relaxed);
        if self.failing.insert(what.cloned()) {
            let to = &self.one.name;
            tracing::warn!("{subject} not exported to {to}: {why}");
        }
    }

    fn works(&mut self, what: Option<&LogName>) {
        if self.failing.remove(&what.cloned()) {
            let log = what.map_or_else(|| "every audit log".to_owned(), |log| format!("the audit log `{log}`"));
            tracing::info!("{log} is exported to {} again", self.one.name);
        }
    }
}
