//! Remembers the era (generation of MCP versions) that worked with each server, and the tools that the server had. A
//! server is known by its fingerprint: a hash of its command or URL.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use toolrack_host::{Memory, run_in_own_task, spec::Era};

use crate::{
    Store, StoreError,
    database::{Transaction, query},
    now,
};

/// How long a query may take before the host continues without its answer.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum number of servers to remember. Beyond that, the servers that were not seen for the longest time are
/// deleted.
const MAX_SERVERS: i64 = 10_000;

/// The maximum number of servers whose list of tools is remembered.
const MAX_TOOL_LISTS: i64 = 500;
/// The maximum size of one list of tools, in bytes.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// How often the row of a server with the same era is written again, in seconds.
const REWRITE_INTERVAL: i64 = 24 * 60 * 60;

impl Store {
    /// Returns the era of a server, and when its row was written, in seconds since 1970.
    async fn read_era(&self, fingerprint: &str) -> Result<Option<(Era, i64)>, StoreError> {
        let row: Option<(String, i64)> = query("SELECT era, seen_at FROM servers WHERE fingerprint = $1")
            .bind(fingerprint)
            .fetch_optional(&mut self.begin_read("reading a server").await?)
            .await?;
        Ok(row.and_then(|(era, seen_at)| Some((parse_era(&era)?, seen_at))))
    }

    /// Stores the era of a server, unless its row is right and recent. Deletes the oldest rows beyond [`MAX_SERVERS`].
    async fn write_era(&self, fingerprint: &str, era: Era) -> Result<(), StoreError> {
        let now = now();
        if let Some((stored_era, seen_at)) = self.read_era(fingerprint).await?
            && stored_era == era
            && now - seen_at < REWRITE_INTERVAL
        {
            return Ok(());
        }
        let operation = "remembering a server";
        let mut transaction = self.begin(operation).await?;
        query(
            "INSERT INTO servers (fingerprint, era, seen_at) VALUES ($1, $2, $3) \
             ON CONFLICT (fingerprint) DO UPDATE SET era = excluded.era, seen_at = excluded.seen_at",
        )
        .bind(fingerprint)
        .bind(era.to_string())
        .bind(now)
        .execute(&mut transaction)
        .await?;
        // SQLite allows an OFFSET only after a LIMIT, here the highest number.
        let delete = "DELETE FROM servers WHERE fingerprint IN \
                      (SELECT fingerprint FROM servers ORDER BY seen_at DESC LIMIT 9223372036854775807 OFFSET $1)";
        self.delete_oldest(MAX_SERVERS, delete, transaction).await
    }

    /// Reads the list of tools of a server, as the host wrote it.
    async fn read_tools(&self, fingerprint: &str) -> Result<Option<Bytes>, StoreError> {
        let row: Option<(Vec<u8>,)> = query("SELECT tools FROM server_tools WHERE fingerprint = $1")
            .bind(fingerprint)
            .fetch_optional(&mut self.begin_read("reading a server's tools").await?)
            .await?;
        Ok(row.map(|(tools,)| tools.into()))
    }

    /// Stores the tools of a server, unless they are stored already or too long. Deletes the oldest lists.
    async fn write_tools(&self, fingerprint: &str, tools: &[u8]) -> Result<(), StoreError> {
        if tools.len() > MAX_LIST_BYTES
            || self.read_tools(fingerprint).await?.is_some_and(|stored_tools| *stored_tools == *tools)
        {
            return Ok(());
        }
        let operation = "remembering a server's tools";
        let mut transaction = self.begin(operation).await?;
        query(
            "INSERT INTO server_tools (fingerprint, tools, kept_at) VALUES ($1, $2, $3) \
             ON CONFLICT (fingerprint) DO UPDATE SET tools = excluded.tools, kept_at = excluded.kept_at",
        )
        .bind(fingerprint)
        .bind(tools)
        .bind(now())
        .execute(&mut transaction)
        .await?;
        let delete = "DELETE FROM server_tools WHERE fingerprint IN \
                      (SELECT fingerprint FROM server_tools ORDER BY kept_at DESC LIMIT 9223372036854775807 OFFSET $1)";
        self.delete_oldest(MAX_TOOL_LISTS, delete, transaction).await
    }

    /// Deletes the oldest rows with the statement `delete`, so that at most `max_rows` stay, and commits.
    async fn delete_oldest(
        &self,
        max_rows: i64,
        delete: &'static str,
        mut transaction: Transaction,
    ) -> Result<(), StoreError> {
        query(delete).bind(max_rows).execute(&mut transaction).await?;
        transaction.commit().await
    }
}

fn parse_era(era: &str) -> Option<Era> {
    [Era::Legacy, Era::Modern].into_iter().find(|candidate| candidate.to_string() == era)
}

/// Waits for `query`, at most for [`QUERY_TIMEOUT`]. After an error or a time-out, logs `failure_message` with the
/// reason, and returns the default.
async fn within_query_timeout<T: Default>(
    failure_message: &'static str,
    query: impl Future<Output = Result<T, StoreError>>,
) -> T {
    match tokio::time::timeout(QUERY_TIMEOUT, query).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            tracing::warn!(%error, "{failure_message}");
            T::default()
        }
        Err(_) => {
            tracing::warn!("{failure_message}: no answer within 500 ms");
            T::default()
        }
    }
}

impl Memory for Store {
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>> {
        let (store, fingerprint) = (self.clone(), fingerprint.to_owned());
        Box::pin(run_in_own_task(async move {
            let result = within_query_timeout("cannot recall the era of a server", store.read_era(&fingerprint)).await;
            result.map(|(era, _)| era)
        }))
    }

    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        let (store, fingerprint) = (self.clone(), fingerprint.to_owned());
        Box::pin(run_in_own_task(async move {
            within_query_timeout("cannot recall the tools of a server", store.read_tools(&fingerprint)).await
        }))
    }

    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        let (store, fingerprint) = (self.clone(), fingerprint.to_owned());
        Box::pin(run_in_own_task(async move {
            within_query_timeout("cannot remember the tools of a server", store.write_tools(&fingerprint, &tools)).await
        }))
    }

    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()> {
        let (store, fingerprint) = (self.clone(), fingerprint.to_owned());
        Box::pin(run_in_own_task(async move {
            within_query_timeout("cannot remember the era of a server", store.write_era(&fingerprint, era)).await
        }))
    }
}

#[cfg(test)]
mod tests;
