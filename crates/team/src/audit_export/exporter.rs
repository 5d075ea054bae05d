//! Exports the new rows of one log. Writes them as objects (files), and then a head: a signed file that names the
//! objects.
//!
//! A round first plans a head, and stores the head in the database. So after a crash, the next process writes the same
//! head and the same objects.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::Utc;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use toolrack_store::{
    Store, StoreError,
    audit::{AuditExport, Break},
};

use super::{
    head::{Head, LogName, head_name, sha256},
    key::{PublicKey, SigningKey},
    object_store::{ObjectStore, ObjectStoreError},
    reading::{ObjectBounds, RowReader},
};

/// The maximum number of objects of one head. Further objects get another head in the same round.
const MAX_OBJECTS: usize = 100;

/// The first and the longest pause before an object is tried again. Each pause is twice as long as the one before.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// The maximum number of its signing keys that a process remembers.
const MAX_OWN_KEYS: usize = 16;

/// Why a log was not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log in the database was changed or damaged. No head is signed for it.
    #[error("it is damaged: {0}")]
    Broken(#[from] Break),
    /// The object store did not take an object.
    #[error(transparent)]
    ObjectStore(#[from] ObjectStoreError),
    /// A row or a head cannot be written as JSON, or a head cannot be signed.
    #[error("its rows cannot be written")]
    Unwritable,
    /// The log could not be opened, for this reason.
    #[error("{0}")]
    NotOpened(String),
}

/// The means to export logs: the object store, the key, and the settings of `[audit_export]`.
pub(super) struct LogExporter {
    /// The name of the object store. Under this name, the database stores how far each log is exported there.
    pub(super) name: String,
    pub(super) object_store: Arc<dyn ObjectStore>,
    pub(super) key: SigningKey,
    /// The public key that this process has last written to the object store.
    pub(super) written_key: watch::Sender<Option<PublicKey>>,
    /// The public halves of the keys with which this process has signed, the present one last.
    pub(super) own_keys: Vec<PublicKey>,
    /// How large an object may be.
    pub(super) object_bounds: ObjectBounds,
    /// The time between two rounds.
    pub(super) every: Duration,
    /// How often a log without new rows gets a head.
    pub(super) idle_every: Duration,
    /// How long writing one object may take.
    pub(super) timeout: Duration,
    /// How many times a round may try again to write an object.
    pub(super) retries: u32,
    /// How long the database keeps rows that are not exported yet, although they are old enough to be deleted.
    pub(super) hold: Duration,
}

/// The number of times that this round may still try again to write an object.
pub(super) struct Retries(pub(super) u32);

impl LogExporter {
    /// Signs with `key` from now on. Returns whether that is another key than before.
    pub(super) fn set_key(&mut self, key: SigningKey) -> bool {
        let public = key.public();
        let has_changed = public != self.key.public();
        if has_changed {
            self.own_keys.retain(|key| *key != public);
            self.own_keys.push(public);
            let excess_count = self.own_keys.len().saturating_sub(MAX_OWN_KEYS);
            self.own_keys.drain(..excess_count);
        }
        self.key = key;
        has_changed
    }
}

/// The export of one log in one round.
pub(super) struct LogExport<'a> {
    pub(super) exporter: &'a LogExporter,
    pub(super) log: &'a LogName,
    pub(super) store: &'a Store,
    /// How far the log is exported. This is up to date also after an error.
    pub(super) progress: &'a mut AuditExport,
    /// Shared by all logs of the round.
    pub(super) retries: &'a mut Retries,
}

impl LogExport<'_> {
    /// Exports the new rows of the log, if an export is due.
    pub(super) async fn run(mut self) -> Result<(), ExportError> {
        // If this process dies, another one may begin after twice the timeout, and writes the same.
        *self.progress = self.store.begin_audit_export(&self.exporter.name, 2 * self.exporter.timeout).await?;
        if !self.progress.is_due {
            return Ok(());
        }
        let write_result = self.write_all().await;
        // A little less than the time between two rounds, because a round that begins a little early would otherwise
        // leave this log out.
        let pause = if write_result.is_ok() { self.exporter.every * 9 / 10 } else { Duration::ZERO };
        let release_result = self.store.release_audit_export(&self.exporter.name, pause).await;
        write_result?;
        Ok(release_result?)
    }

    /// Completes the head that an earlier round left unfinished, if there is one, and then writes heads until all rows
    /// are exported.
    async fn write_all(&mut self) -> Result<(), ExportError> {
        loop {
            let (pending, is_new) = match self.unfinished_head() {
                Some(unfinished) => (unfinished, false),
                None => match self.plan().await? {
                    Some(planned) => (planned, true),
                    None => return Ok(()),
                },
            };
            if !self.write(&pending).await? {
                // The store has deleted rows of the unfinished head. The remaining rows get a new head.
                let no_pending = None;
                self.store.plan_audit_export(&self.exporter.name, self.progress.head.as_deref(), no_pending).await?;
                self.progress.pending = None;
                continue;
            }
            let end = pending.head.end().map_or(0, |end| end.seq);
            // After an unfinished head, and after a head with the maximum number of objects, there may be more rows.
            let is_last = is_new && pending.head.objects.len() < MAX_OBJECTS;
            self.store.record_exported_head(&self.exporter.name, &pending.text, end, self.exporter.hold).await?;
            (self.progress.head, self.progress.pending, self.progress.last_exported) = (Some(pending.text), None, end);
            if is_last {
                self.progress.newest = self.progress.newest.max(end);
                return Ok(());
            }
        }
    }

    /// Returns the head that an earlier round or process began to export, if a key of this process signed it. The
    /// object store may already have that head, so it must be written as it is, even if another key is used now.
    fn unfinished_head(&self) -> Option<SignedHead> {
        let text = self.progress.pending.clone()?;
        let (head, key) = Head::read(&text, &self.exporter.own_keys).ok()?;
        (head.log == self.log.to_string() && head.previous == self.previous_hash()).then_some(SignedHead {
            head,
            key,
            text,
        })
    }

    /// The hash of the last head, which the next one names.
    fn previous_hash(&self) -> Option<String> {
        self.progress.head.as_deref().map(|head| sha256(head.as_bytes()))
    }

    /// Makes the next head, and stores it in the database. The caller then writes the head and its objects. `None` if
    /// no head is due, or if another process has stored one meanwhile.
    async fn plan(&self) -> Result<Option<SignedHead>, ExportError> {
        let last_head = self.progress.head.as_deref().and_then(Head::unverified);
        let mut reader = RowReader::starting_after(self.store, last_head.as_ref().and_then(Head::end)).await?;
        let (mut objects, mut end) = (Vec::new(), reader.after);
        while objects.len() < MAX_OBJECTS
            && let Some(prepared) = reader.next_object(self.log, self.exporter.object_bounds).await?
        {
            end = prepared.end;
            objects.push(prepared.object);
        }
        let now = Utc::now();
        // A head from the future, signed before the clock was set back, counts as new.
        let age = last_head.as_ref().map(|head| (now - head.at).to_std().unwrap_or_default());
        if objects.is_empty() && age.is_some_and(|age| age < self.exporter.idle_every) {
            return Ok(None);
        }
        let head = Head {
            log: self.log.to_string(),
            number: last_head.map_or(1, |head| head.number + 1),
            at: now,
            previous: self.previous_hash(),
            after: reader.after.to_string(),
            end: end.to_string(),
            objects,
        };
        let text = head.sign(&self.exporter.key).ok_or(ExportError::Unwritable)?;
        let is_stored =
            self.store.plan_audit_export(&self.exporter.name, self.progress.head.as_deref(), Some(&text)).await?;
        Ok(is_stored.then_some(SignedHead { head, key: self.exporter.key.public(), text }))
    }

    /// Writes the objects of a head, and then the head. Returns `false` if the store has deleted rows of the objects.
    async fn write(&mut self, SignedHead { head, key, text }: &SignedHead) -> Result<bool, ExportError> {
        let chain_start = head.after().ok_or(ExportError::Unwritable)?;
        // The public key comes first, because its file always has the same content: an object store may use the first
        // file to find out whether its service would overwrite files.
        if *self.exporter.written_key.borrow() != Some(*key) {
            self.put(&format!("keys/{}.json", key.id()), key.to_jwk().into()).await?;
            self.exporter.written_key.send_replace(Some(*key));
        }
        if !head.objects.is_empty() {
            let mut reader = RowReader::starting_after(self.store, Some(chain_start)).await?;
            for object in &head.objects {
                let row_count = object.last.saturating_sub(object.first).saturating_add(1);
                // The head says where the object ends, so only the number of rows limits it.
                let bounds = ObjectBounds { rows: usize::try_from(row_count).unwrap_or(usize::MAX), bytes: usize::MAX };
                let prepared = reader.next_object(self.log, bounds).await?;
                let Some(prepared) =
                    prepared.filter(|prepared| reader.after == chain_start && prepared.object == *object)
                else {
                    return Ok(false);
                };
                self.put(&object.name, prepared.content.into()).await?;
            }
        }
        self.put(&head_name(self.log, head.number), text.clone().into()).await?;
        Ok(true)
    }

    /// Writes an object. After a temporary failure, tries again as often as [`Retries`] allows.
    async fn put(&mut self, name: &str, content: Bytes) -> Result<(), ObjectStoreError> {
        let (mut pause, longest) = PAUSES;
        loop {
            let time_limit = self.exporter.timeout;
            let result =
                timeout(time_limit, self.exporter.object_store.put(name, content.clone())).await.unwrap_or_else(|_| {
                    let why = format!("{name} was not written within {time_limit:?} (`timeout` of `[audit_export]`)");
                    Err(ObjectStoreError::Failed { why })
                });
            match result {
                Err(ObjectStoreError::Failed { why }) if self.retries.0 == 0 => {
                    let retries_note = match self.exporter.retries {
                        0 => String::new(),
                        retries => format!(", also when tried again {retries} times (`retries` of `[audit_export]`)"),
                    };
                    return Err(ObjectStoreError::Failed { why: why + &retries_note });
                }
                Err(ObjectStoreError::Failed { .. }) => {
                    self.retries.0 -= 1;
                    sleep(pause).await;
                    pause = longest.min(2 * pause);
                }
                result => return result,
            }
        }
    }
}

/// A head with its signature.
struct SignedHead {
    head: Head,
    /// The public half of the key that signed the head.
    key: PublicKey,
    /// The signed text of the head.
    text: String,
}

/// Returns how many rows of a log are not exported yet.
pub(super) fn rows_behind(progress: &AuditExport) -> u64 {
    progress.newest.saturating_sub(progress.last_exported)
}
