//! Writes the audit log. A host reports facts, such as a call or a lost connection, to the queue of an [`AuditLog`].
//! One task, the [`AuditWriter`], takes the facts from the queue and stores them, so that no call waits for the disk.

use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use chrono::Utc;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep},
};
use toolrack_host::{Fact, Witness};

use super::{AuditRetention, Entry, MAX_ARGUMENT_BYTES, chain};
use crate::{Store, StoreError, database::Transaction};

/// The maximum number of facts in the queue. Beyond that, the log drops facts, and records their number.
const MAX_WAITING_FACTS: usize = 8 * 1024;

/// The maximum size of the arguments of all facts in the queue, in bytes. Beyond that, the row of a call has only the
/// hash and the size of its arguments. So the queue does not fill the memory while the database is away.
const MAX_WAITING_ARGUMENT_BYTES: usize = 32 * 1024 * 1024;

/// The maximum number of rows of one transaction.
const MAX_BATCH_ROWS: usize = 512;

/// How long the writer collects facts before it writes them, so that a short command writes only once, at its end.
const COLLECT_TIME: Duration = Duration::from_millis(250);

/// The name of the operation in error messages.
const WRITING: &str = "writing the audit log";

/// The pause before the writer tries again to reach a database that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often the writer looks for old rows while it has nothing to write.
const RETENTION_INTERVAL: Duration = Duration::from_hours(1);

/// A function that returns a text without the secrets in it.
pub type Hide = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A fact in the queue: the time of the event in milliseconds since 1970, the actor, and the event.
type QueuedFact = (i64, Actor, Fact);

/// Counts the bytes of the arguments that wait in the queue.
#[derive(Default)]
struct WaitingArguments(AtomicUsize);

impl WaitingArguments {
    /// Returns whether arguments of this size may wait. If so, counts them, until [`Self::release`].
    fn admit(&self, bytes: usize) -> bool {
        let bytes_before = self.0.fetch_add(bytes, Ordering::Relaxed);
        // Arguments beyond `MAX_ARGUMENT_BYTES` would not be stored either.
        let may_wait = bytes <= MAX_ARGUMENT_BYTES && bytes_before.saturating_add(bytes) <= MAX_WAITING_ARGUMENT_BYTES;
        if !may_wait {
            self.release(bytes);
        }
        may_wait
    }

    /// Stops counting arguments that no longer wait.
    fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the size of the arguments that `fact` has in full.
fn arguments_bytes(fact: &Fact) -> usize {
    match fact {
        Fact::Called(call) => call.arguments.full.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

/// The agent or the member that acted.
#[derive(Clone, Default)]
struct Actor {
    /// The agent that acted.
    agent: Option<Arc<str>>,
    /// Hides the secrets of the member, if the fact is from the host of a member. Replaces the function of the log.
    hide: Option<Hide>,
}

/// Queues the facts that a host reports. It is a witness: the observer of the events of a host. Never waits.
pub struct AuditLog {
    queue: mpsc::Sender<QueuedFact>,
    waiting_arguments: Arc<WaitingArguments>,
    /// The number of facts that could not be stored and that no row counts yet.
    lost_facts: Arc<AtomicU64>,
    /// Whether the arguments of calls are stored in full.
    stores_full_arguments: AtomicBool,
    /// The rows to keep; `None` until [`AuditLog::set`] is called.
    retention: watch::Sender<Option<AuditRetention>>,
    /// Tells the writer that the log is closed.
    is_closed: watch::Sender<bool>,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Creates a log, and the writer that stores its facts in `store` without the secrets that `hide` knows.
    #[must_use]
    pub fn new(store: Store, hide: Hide) -> (Self, AuditWriter) {
        let (queue, facts) = mpsc::channel(MAX_WAITING_FACTS);
        let (retention, retention_receiver) = watch::channel(None);
        let (is_closed, is_closed_receiver) = watch::channel(false);
        let (lost_facts, waiting_arguments) = (Arc::<AtomicU64>::default(), Arc::<WaitingArguments>::default());
        let log = Self {
            queue,
            waiting_arguments: Arc::clone(&waiting_arguments),
            lost_facts: Arc::clone(&lost_facts),
            stores_full_arguments: AtomicBool::new(false),
            retention,
            is_closed,
        };
        let writer = AuditWriter {
            store,
            hide,
            facts,
            waiting_arguments,
            lost_facts,
            retention: retention_receiver,
            retention_interval: RETENTION_INTERVAL,
            is_closed: is_closed_receiver,
        };
        (log, writer)
    }

    /// Sets whether arguments are stored in full, and how long rows are kept.
    pub fn set(&self, stores_full_arguments: bool, retention: AuditRetention) {
        self.stores_full_arguments.store(stores_full_arguments, Ordering::Relaxed);
        self.retention.send_replace(Some(retention));
    }

    /// Returns a witness for the host of `agent`. The rows of its facts name the agent.
    #[must_use]
    pub fn witness_for_agent(self: &Arc<Self>, agent: &str) -> Arc<dyn Witness> {
        let actor = Actor { agent: Some(agent.into()), hide: None };
        Arc::new(ActorWitness { log: Arc::clone(self), actor })
    }

    /// Returns a witness for the host of a member. This must be the log of the member's tenant. `hide` hides the
    /// member's secrets in the rows.
    #[must_use]
    pub fn witness_for_member(self: &Arc<Self>, hide: Hide) -> Arc<dyn Witness> {
        let actor = Actor { agent: None, hide: Some(hide) };
        Arc::new(ActorWitness { log: Arc::clone(self), actor })
    }

    /// Queues `fact`, or counts it as lost if the queue is full or closed.
    fn enqueue(&self, actor: Actor, mut fact: Fact) {
        let bytes = arguments_bytes(&fact);
        if let Fact::Called(call) = &mut fact
            && !self.waiting_arguments.admit(bytes)
        {
            call.arguments.full = None;
        }
        if let Err(rejected) = self.queue.try_send((Utc::now().timestamp_millis(), actor, fact)) {
            let (.., fact) = rejected.into_inner();
            self.waiting_arguments.release(arguments_bytes(&fact));
            self.lost_facts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes the writer store all queued facts now, and then end. Returns at once.
    pub fn close(&self) {
        self.is_closed.send_replace(true);
    }
}

impl Witness for AuditLog {
    fn record(&self, fact: Fact) {
        self.enqueue(Actor::default(), fact);
    }

    fn wants_arguments(&self) -> bool {
        self.stores_full_arguments.load(Ordering::Relaxed)
    }
}

/// The witness of the host of one agent or member.
struct ActorWitness {
    log: Arc<AuditLog>,
    actor: Actor,
}

impl Witness for ActorWitness {
    fn record(&self, fact: Fact) {
        self.log.enqueue(self.actor.clone(), fact);
    }

    fn wants_arguments(&self) -> bool {
        self.log.wants_arguments()
    }
}

/// Writes the facts of an [`AuditLog`].
pub struct AuditWriter {
    store: Store,
    hide: Hide,
    facts: mpsc::Receiver<QueuedFact>,
    waiting_arguments: Arc<WaitingArguments>,
    lost_facts: Arc<AtomicU64>,
    /// The rows to keep; `None` until [`AuditLog::set`] is called.
    retention: watch::Receiver<Option<AuditRetention>>,
    /// How often to look for old rows while there is nothing to write.
    retention_interval: Duration,
    is_closed: watch::Receiver<bool>,
}

impl fmt::Debug for AuditWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditWriter").finish_non_exhaustive()
    }
}

impl AuditWriter {
    /// Writes facts until the log is closed or dropped. If rows cannot be written, a later row records their number.
    pub async fn run(mut self) {
        let mut batch = Vec::new();
        let mut retention_checks = interval_at(Instant::now() + self.retention_interval, self.retention_interval);
        retention_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = self.gather(&mut batch, &mut retention_checks).await;
            let facts = mem::take(&mut batch);
            let bytes: usize = facts.iter().map(|(.., fact)| arguments_bytes(fact)).sum();
            self.write(facts).await;
            self.waiting_arguments.release(bytes);
            if is_last {
                return;
            }
        }
    }

    /// Waits for facts, and then up to [`COLLECT_TIME`] for further facts. Returns whether these are the last. If
    /// `retention_checks` ticks first, deletes old rows, and returns without facts.
    async fn gather(&mut self, batch: &mut Vec<QueuedFact>, retention_checks: &mut Interval) -> bool {
        tokio::select! {
            received_facts = self.facts.recv_many(batch, MAX_BATCH_ROWS) => if received_facts == 0 { return true },
            // Also resolves when the log is dropped.
            _ = self.is_closed.changed() => return self.drain(batch),
            _ = retention_checks.tick() => {
                // Some rows, such as those about the members of a team, do not come through this queue. So old rows
                // must be deleted even if the queue is empty.
                let is_retention_known = self.retention.borrow().is_some();
                if is_retention_known {
                    self.delete_old_rows().await;
                }
                return false;
            }
        }
        let pause = sleep(COLLECT_TIME);
        tokio::pin!(pause);
        while batch.len() < MAX_BATCH_ROWS {
            let free_places = MAX_BATCH_ROWS - batch.len();
            tokio::select! {
                received_facts = self.facts.recv_many(batch, free_places) => if received_facts == 0 { return true },
                () = &mut pause => return false,
                _ = self.is_closed.changed() => return self.drain(batch),
            }
        }
        false
    }

    /// Closes the queue and takes the remaining facts. Returns `true`, because they are the last.
    fn drain(&mut self, batch: &mut Vec<QueuedFact>) -> bool {
        self.facts.close();
        while let Ok(fact) = self.facts.try_recv() {
            batch.push(fact);
        }
        true
    }

    /// Stores `facts`, and the number of facts that were lost before. If that fails, counts all of them as lost.
    async fn write(&self, facts: Vec<QueuedFact>) {
        let lost_before = self.lost_facts.swap(0, Ordering::Relaxed);
        if facts.is_empty() && lost_before == 0 {
            return;
        }
        let to_entry = |(at, Actor { agent, hide }, fact): QueuedFact| {
            (at, Entry::from_fact(fact, agent.as_deref(), hide.as_ref().unwrap_or(&self.hide)))
        };
        let mut entries: Vec<_> = facts.into_iter().map(to_entry).collect();
        let count = entries.len() as u64;
        if lost_before > 0 {
            entries.push((Utc::now().timestamp_millis(), Entry { count: Some(lost_before), ..Entry::of_kind("lost") }));
        }
        if let Err(error) = self.append(&entries).await {
            self.lost_facts.fetch_add(lost_before + count, Ordering::Relaxed);
            tracing::warn!("{count} rows of the audit log are lost: {error}");
            return;
        }
        self.delete_old_rows().await;
    }

    /// Adds `entries` to the chain. If the database cannot be used for the moment, waits for it, unless the log is
    /// closed. New facts wait in the queue meanwhile.
    async fn append(&self, entries: &[(i64, Entry)]) -> Result<(), StoreError> {
        let mut has_warned = false;
        let transaction = loop {
            match self.begin_with(entries).await {
                Err(error) if may_succeed_later(&error) && !*self.is_closed.borrow() => {
                    if !has_warned {
                        tracing::warn!("{error}; the audit log waits for the database");
                        has_warned = true;
                    }
                    sleep(RETRY_INTERVAL).await;
                }
                result => break result?,
            }
        };
        // Does not repeat the commit: a commit that failed may have taken effect, and a second one would store the rows
        // twice.
        transaction.commit().await
    }

    /// Begins a transaction that adds `entries` to the chain.
    async fn begin_with(&self, entries: &[(i64, Entry)]) -> Result<Transaction, StoreError> {
        let mut transaction = self.store.begin(WRITING).await?;
        chain::append(&mut transaction, entries).await?;
        Ok(transaction)
    }

    /// Deletes the rows that the settings no longer keep, if it is time to look for them.
    async fn delete_old_rows(&self) {
        let now = Utc::now().timestamp_millis();
        let retention = *self.retention.borrow();
        let result = match self.store.is_audit_retention_due(now).await {
            Ok(true) => self.store.forget_old_audit(retention.unwrap_or_default(), now).await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::warn!("{error}");
        }
    }
}

/// Returns whether the same write may succeed later: the database server is away or busy, or another process has the
/// file locked.
fn may_succeed_later(error: &StoreError) -> bool {
    error.is_temporary() || matches!(error, StoreError::Locked { .. })
}

#[cfg(test)]
impl AuditWriter {
    /// Makes the writer look for old rows this often.
    pub(super) fn with_retention_interval(self, retention_interval: Duration) -> Self {
        Self { retention_interval, ..self }
    }
}

#[cfg(test)]
impl Store {
    /// Adds `entries`, each with its time, to the end of the chain.
    pub(super) async fn keep_audit(&self, entries: &[(i64, Entry)]) -> Result<(), StoreError> {
        let mut transaction = self.begin(WRITING).await?;
        chain::append(&mut transaction, entries).await?;
        transaction.commit().await
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::audit::AuditQuery;

    #[test]
    fn arguments_that_wait_for_the_database_are_bounded_one_by_one_and_together() {
        let waiting = WaitingArguments::default();
        assert!(!waiting.admit(MAX_ARGUMENT_BYTES + 1), "they would not fit into a row");
        let admitted = (0..1_000).filter(|_| waiting.admit(MAX_ARGUMENT_BYTES)).count();
        assert_eq!(admitted, MAX_WAITING_ARGUMENT_BYTES / MAX_ARGUMENT_BYTES);
        waiting.release(MAX_ARGUMENT_BYTES);
        assert!(waiting.admit(MAX_ARGUMENT_BYTES) && !waiting.admit(1) && waiting.admit(0));
    }

    #[tokio::test]
    async fn rows_wait_while_another_process_has_the_file_locked() {
        let (_folder, store) = crate::tests::new_store().await;
        let impatient = Store::open_within(store.path().to_owned(), Duration::from_millis(20)).await.unwrap();
        let (_log, writer) = AuditLog::new(impatient, Arc::new(str::to_owned));
        let lock = store.begin_durably("holding the lock").await.unwrap();
        let entries = [(1, Entry::of_kind("failed"))];
        let mut appending = Box::pin(writer.append(&entries));
        // Ten times as long as this store waits for a lock.
        assert!(timeout(Duration::from_millis(200), &mut appending).await.is_err());
        drop(lock);
        appending.await.unwrap();
        let rows = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(rows.len(), 1);
    }
}
