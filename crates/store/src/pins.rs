//! Stores pins and the quarantine. A pin is the trusted definition of a tool. A tool whose definition differs from its
//! pin is in quarantine until a user approves the new definition.

use std::{collections::BTreeMap, time::Duration};

use chrono::Utc;
use futures::future::BoxFuture;
use toolrack_host::{
    Caller, DefinitionHash, ServerName, Way,
    pins::{Cause, Definition, Pin, PinComparison, PinMismatch, PinnedServer, Pins, PinsUnreadable, StoredPins},
    run_in_own_task,
};

use crate::{
    Store, StoreError,
    audit::{Entry, append},
    database::{QueryBuilder, Transaction, query, query_scalar, values},
    now,
};

/// The time-out of reading pins. A server's tools cannot be used until its pins are read.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of pins that one statement writes.
const PINS_PER_INSERT: usize = 100;

/// The maximum number of tools of one list that get a row in the audit log. A server that changes thousands of tools
/// again and again must not flood the log.
const MAX_AUDIT_ROWS: usize = 100;

/// A tool that differs from its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedTool {
    /// The server that offers it.
    pub pinned_server: PinnedServer,
    /// The tool's current definition, and why it is in quarantine.
    pub mismatch: PinMismatch,
    /// When the tool was put into quarantine, in seconds since 1970.
    pub since: i64,
    /// The tool's pin; `None` if it has none.
    pub pinned: Option<StoredPin>,
}

/// The pin of a tool, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPin {
    /// The trusted definition.
    pub definition: Definition,
    /// When this definition became trusted, in seconds since 1970.
    pub at: i64,
    /// The way in which a user approved it: `cli` or `daemon`; `None` if the host pinned it when it first saw the tool.
    pub approved_by: Option<String>,
}

/// The columns of a row of `quarantine` (`source` to `since`), and those of the tool's row of `pins` (from its `hash`).
type QuarantineRow = (
    String,
    String,
    String,
    Vec<u8>,
    String,
    String,
    Option<String>,
    i64,
    Option<Vec<u8>>,
    Option<String>,
    Option<i64>,
    Option<String>,
);

/// Converts a stored hash; `None` if it has another length.
fn parse_hash(bytes: Vec<u8>) -> Option<DefinitionHash> {
    bytes.try_into().ok().map(DefinitionHash::from_bytes)
}

/// Converts a row; `None` if this version cannot understand it.
fn parse_quarantined_tool(row: QuarantineRow) -> Option<QuarantinedTool> {
    let (
        source,
        server,
        tool,
        new_hash,
        text,
        cause,
        renamed_from,
        since,
        pinned_hash,
        pinned_text,
        pinned_at,
        approved_by,
    ) = row;
    let cause = match (cause.as_str(), renamed_from) {
        ("renamed", Some(renamed_from)) => Cause::Renamed { was: renamed_from },
        ("too_many", _) => Cause::TooMany,
        // `changed`, or a cause that a newer version has written.
        _ => Cause::Changed,
    };
    let pinned = pinned_hash.and_then(parse_hash).zip(pinned_text).zip(pinned_at);
    let pinned = pinned.map(|((hash, text), at)| StoredPin { definition: Definition { hash, text }, at, approved_by });
    let mismatch = PinMismatch { tool, definition: Definition { hash: parse_hash(new_hash)?, text }, cause };
    Some(QuarantinedTool {
        pinned_server: PinnedServer { server: ServerName::new(server).ok()?, source },
        mismatch,
        since,
        pinned,
    })
}

impl Store {
    /// Returns all tools in quarantine, in the order of servers and names.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn quarantine(&self) -> Result<Vec<QuarantinedTool>, StoreError> {
        let rows: Vec<QuarantineRow> = query(
            "SELECT q.source, q.server, q.tool, q.hash, q.definition, q.cause, q.was, q.since, \
             p.hash, p.definition, p.pinned_at, p.approved_by \
             FROM quarantine q LEFT JOIN pins p \
             ON p.source = q.source AND p.server = q.server AND p.tool = coalesce(q.was, q.tool) \
             ORDER BY q.server, q.tool, q.source",
        )
        .fetch_all(&mut self.begin_read("reading the quarantine").await?)
        .await?;
        Ok(rows.into_iter().filter_map(parse_quarantined_tool).collect())
    }

    /// Trusts the definition with the hash `approved_hash` of the tool `tool` of `pinned_server`. In one transaction,
    /// replaces the tool's pin, and records in the [audit log](crate::audit) that `caller` did this. Returns `false`,
    /// and does nothing, if this definition is not in quarantine: the tool has another definition by now, or a user has
    /// approved this one already.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn release(
        &self,
        pinned_server: &PinnedServer,
        tool: &str,
        approved_hash: DefinitionHash,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        let operation = "approving a tool";
        let mut transaction = self.begin(operation).await?;
        let row: Option<(String, Option<String>)> = query(
            "DELETE FROM quarantine WHERE source = $1 AND server = $2 AND tool = $3 AND hash = $4 RETURNING definition, was",
        )
        .bind(&pinned_server.source)
        .bind(pinned_server.server.as_str())
        .bind(tool)
        .bind(&approved_hash.as_bytes()[..])
        .fetch_optional(&mut transaction)
        .await?;
        let Some((text, renamed_from)) = row else {
            return Ok(false);
        };
        if let Some(renamed_from) = renamed_from {
            query("UPDATE pins SET renamed_to = $1 WHERE source = $2 AND server = $3 AND tool = $4")
                .bind(tool)
                .bind(&pinned_server.source)
                .bind(pinned_server.server.as_str())
                .bind(renamed_from)
                .execute(&mut transaction)
                .await?;
        }
        let definition = Definition { hash: approved_hash, text };
        pin(&mut transaction, pinned_server, &[(tool.to_owned(), definition)], Some(caller.way())).await?;
        forget_checked_list(&mut transaction, pinned_server).await?;
        let audit_entry = Entry::of_release(caller, pinned_server, tool, approved_hash);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), audit_entry)]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Reads the pins of a server. `list_hash` is the hash of the server's current list of tools. If an earlier
    /// comparison found that this list matches the pins, returns [`StoredPins::Unchanged`] instead of the pins.
    async fn read_pins(&self, pinned_server: &PinnedServer, list_hash: &[u8; 32]) -> Result<StoredPins, StoreError> {
        let operation = "reading pins";
        let row: Option<(i64, Option<Vec<u8>>)> =
            query("SELECT generation, list FROM pinned_servers WHERE source = $1 AND server = $2")
                .bind(&pinned_server.source)
                .bind(pinned_server.server.as_str())
                .fetch_optional(&mut self.begin_read(operation).await?)
                .await?;
        let Some((generation, checked_list_hash)) = row else {
            return Ok(StoredPins::Pins { generation: 0, pins: BTreeMap::new() });
        };
        if checked_list_hash.as_deref() == Some(&list_hash[..]) {
            return Ok(StoredPins::Unchanged);
        }
        // If another process adds a pin between the two queries, the host gets the older generation, and checks again.
        let rows: Vec<(String, Vec<u8>, String, Option<String>)> =
            query("SELECT tool, hash, definition, renamed_to FROM pins WHERE source = $1 AND server = $2")
                .bind(&pinned_server.source)
                .bind(pinned_server.server.as_str())
                .fetch_all(&mut self.begin_read(operation).await?)
                .await?;
        let pins = rows.into_iter().filter_map(|(tool, bytes, text, renamed_to)| {
            Some((tool, Pin { definition: Definition { hash: parse_hash(bytes)?, text }, renamed_to }))
        });
        Ok(StoredPins::Pins { generation: generation.unsigned_abs(), pins: pins.collect() })
    }

    /// Pins the new tools of a comparison, and puts the tools that differ from their pins into quarantine.
    async fn store_comparison(
        &self,
        pinned_server: &PinnedServer,
        comparison: &PinComparison,
    ) -> Result<(), StoreError> {
        let operation = "writing pins";
        let mut transaction = self.begin(operation).await?;
        query("INSERT INTO pinned_servers (source, server, generation) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING")
            .bind(&pinned_server.source)
            .bind(pinned_server.server.as_str())
            .execute(&mut transaction)
            .await?;
        for tools in comparison.new.chunks(PINS_PER_INSERT) {
            let approved_by = None;
            pin(&mut transaction, pinned_server, tools, approved_by).await?;
        }
        replace_quarantine(&mut transaction, pinned_server, &comparison.mismatches).await?;
        let generation = i64::try_from(comparison.generation).unwrap_or(i64::MAX);
        // The stored hash of a list that matches all its pins saves the next comparison. It is stored only if no other
        // process has changed the pins since the comparison.
        let matching_list_hash = comparison.mismatches.is_empty().then_some(&comparison.list[..]);
        query(
            "UPDATE pinned_servers SET generation = generation + $1, list = CASE WHEN generation = $2 THEN $3 END \
             WHERE source = $4 AND server = $5",
        )
        .bind(i64::from(!comparison.new.is_empty()))
        .bind(generation)
        .bind(matching_list_hash)
        .bind(&pinned_server.source)
        .bind(pinned_server.server.as_str())
        .execute(&mut transaction)
        .await?;
        transaction.commit().await
    }

    /// Returns the generation of a server's pins: a number that grows with each change of the pins, from 0.
    async fn read_generation(&self, pinned_server: &PinnedServer) -> Result<u64, StoreError> {
        let generation: Option<i64> =
            query_scalar("SELECT generation FROM pinned_servers WHERE source = $1 AND server = $2")
                .bind(&pinned_server.source)
                .bind(pinned_server.server.as_str())
                .fetch_optional(&mut self.begin_read("reading pins").await?)
                .await?;
        Ok(generation.unwrap_or_default().unsigned_abs())
    }
}

/// Pins tools. `approved_by` is the way in which a user approved them; if it is `None`, tools that have a pin keep it.
async fn pin(
    transaction: &mut Transaction,
    pinned_server: &PinnedServer,
    tools: &[(String, Definition)],
    approved_by: Option<Way>,
) -> Result<(), StoreError> {
    let now = now();
    let mut builder =
        QueryBuilder::new("INSERT INTO pins (source, server, tool, hash, definition, pinned_at, approved_by) ");
    builder.push_values(tools.iter().map(|(tool, definition)| {
        let (source, server, approved_by) =
            (&pinned_server.source, pinned_server.server.as_str(), approved_by.map(Way::word));
        let Definition { hash, text } = definition;
        values![source, server, tool, &hash.as_bytes()[..], text, now, approved_by]
    }));
    builder.push(
        " ON CONFLICT (source, server, tool) DO UPDATE SET hash = excluded.hash, definition = excluded.definition, \
         pinned_at = excluded.pinned_at, approved_by = excluded.approved_by, renamed_to = NULL \
         WHERE excluded.approved_by IS NOT NULL",
    );
    builder.build().execute(transaction).await.map(drop)
}

/// Records that the pins of a server have changed: raises their generation, and deletes the hash of the list that
/// matched them. The host then compares its list of tools again.
async fn forget_checked_list(transaction: &mut Transaction, pinned_server: &PinnedServer) -> Result<(), StoreError> {
    query("UPDATE pinned_servers SET generation = generation + 1, list = NULL WHERE source = $1 AND server = $2")
        .bind(&pinned_server.source)
        .bind(pinned_server.server.as_str())
        .execute(transaction)
        .await
        .map(drop)
}

/// Replaces the quarantine of `pinned_server` with `mismatches`. A tool that was in quarantine with the same definition
/// keeps its time. Any other tool gets a row in the audit log, up to [`MAX_AUDIT_ROWS`] rows.
async fn replace_quarantine(
    transaction: &mut Transaction,
    pinned_server: &PinnedServer,
    mismatches: &[PinMismatch],
) -> Result<(), StoreError> {
    let previous_rows: Vec<(String, Vec<u8>, i64)> =
        query("SELECT tool, hash, since FROM quarantine WHERE source = $1 AND server = $2")
            .bind(&pinned_server.source)
            .bind(pinned_server.server.as_str())
            .fetch_all(transaction)
            .await?;
    if previous_rows.is_empty() && mismatches.is_empty() {
        return Ok(());
    }
    query("DELETE FROM quarantine WHERE source = $1 AND server = $2")
        .bind(&pinned_server.source)
        .bind(pinned_server.server.as_str())
        .execute(transaction)
        .await?;
    let since_by_definition: BTreeMap<_, _> =
        previous_rows.iter().map(|(tool, hash, since)| ((tool.as_str(), &hash[..]), *since)).collect();
    let mut audit_rows = Vec::new();
    for mismatch in mismatches {
        let PinMismatch { tool, definition, cause } = mismatch;
        let previous_since = since_by_definition.get(&(tool.as_str(), &definition.hash.as_bytes()[..])).copied();
        if previous_since.is_none() && audit_rows.len() < MAX_AUDIT_ROWS {
            audit_rows.push((Utc::now().timestamp_millis(), Entry::of_quarantine(pinned_server, mismatch)));
        }
        let (cause_word, renamed_from) = match cause {
            Cause::Renamed { was: renamed_from } => ("renamed", Some(renamed_from)),
            Cause::TooMany => ("too_many", None),
            // `Changed`, or a cause that this crate does not know yet.
            _ => ("changed", None),
        };
        query(
            "INSERT INTO quarantine (source, server, tool, hash, definition, cause, was, since) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&pinned_server.source)
        .bind(pinned_server.server.as_str())
        .bind(tool)
        .bind(&definition.hash.as_bytes()[..])
        .bind(&definition.text)
        .bind(cause_word)
        .bind(renamed_from)
        .bind(previous_since.unwrap_or_else(now))
        .execute(transaction)
        .await?;
    }
    if audit_rows.is_empty() {
        return Ok(());
    }
    append(transaction, &audit_rows).await
}

impl Pins for Store {
    fn recall<'a>(
        &'a self,
        server: &'a PinnedServer,
        list_hash: &'a [u8; 32],
    ) -> BoxFuture<'a, Result<StoredPins, PinsUnreadable>> {
        let (store, server, list_hash) = (self.clone(), server.clone(), *list_hash);
        Box::pin(run_in_own_task(async move {
            match tokio::time::timeout(READ_TIMEOUT, store.read_pins(&server, &list_hash)).await {
                Ok(result) => result.map_err(|error| PinsUnreadable { why: error.to_string() }),
                Err(_) => Err(PinsUnreadable { why: "the database gave no answer within 2 s".to_owned() }),
            }
        }))
    }

    fn generation<'a>(&'a self, server: &'a PinnedServer) -> BoxFuture<'a, Option<u64>> {
        let (store, server) = (self.clone(), server.clone());
        Box::pin(run_in_own_task(async move { store.read_generation(&server).await.ok() }))
    }

    fn record_comparison<'a>(&'a self, server: &'a PinnedServer, comparison: PinComparison) -> BoxFuture<'a, ()> {
        let (store, server) = (self.clone(), server.clone());
        Box::pin(run_in_own_task(async move {
            if let Err(error) = store.store_comparison(&server, &comparison).await {
                tracing::warn!(%error, "the tools of {} are not pinned", server.server);
            }
        }))
    }
}

#[cfg(test)]
mod tests;
