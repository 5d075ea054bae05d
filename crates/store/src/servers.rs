//! Which era of MCP worked with a server.

use std::time::Duration;

use futures::future::BoxFuture;
use toolrack_host::{Memory, spec::Era};

use crate::{Store, StoreError, now};

/// A memory that is not quick is none.
const QUICK: Duration = Duration::from_millis(500);

/// How many servers are remembered; the ones unseen for longest are forgotten first.
const MAX_SERVERS: i64 = 10_000;

/// While nothing changed, a server is written down at most once a day.
const DAY: i64 = 24 * 60 * 60;

impl Store {
    async fn read_era(&self, fingerprint: &str) -> Result<Option<(Era, i64)>, StoreError> {
        let row: Option<(String, i64)> = sqlx::query_as("SELECT era, seen_at FROM servers WHERE fingerprint = ?")
            .bind(fingerprint)
            .fetch_optional(&self.pool)
            .await
            .map_err(self.error("reading a server"))?;
        Ok(row.and_then(|(era, seen_at)| Some((parse(&era)?, seen_at))))
    }

    async fn write_era(&self, fingerprint: &str, era: Era) -> Result<(), StoreError> {
        let now = now();
        if let Some((known, seen_at)) = self.read_era(fingerprint).await?
            && known == era
            && now - seen_at < DAY
        {
            return Ok(());
        }
        let doing = "remembering a server";
        let error = || self.error(doing);
        let mut transaction = self.begin(doing).await?;
        sqlx::query(
            "INSERT INTO servers (fingerprint, era, seen_at) VALUES (?, ?, ?) \
             ON CONFLICT (fingerprint) DO UPDATE SET era = excluded.era, seen_at = excluded.seen_at",
        )
        .bind(fingerprint)
        .bind(era.to_string())
        .bind(now)
        .execute(&mut *transaction)
        .await
        .map_err(error())?;
        sqlx::query(
            "DELETE FROM servers WHERE fingerprint IN \
             (SELECT fingerprint FROM servers ORDER BY seen_at DESC LIMIT -1 OFFSET ?)",
        )
        .bind(MAX_SERVERS)
        .execute(&mut *transaction)
        .await
        .map_err(error())?;
        transaction.commit().await.map_err(error())
    }
}

fn parse(era: &str) -> Option<Era> {
    [Era::Legacy, Era::Modern].into_iter().find(|known| known.to_string() == era)
}

/// Waits a moment for an answer; what goes wrong is logged, and the answer is then the default.
async fn quickly<T: Default>(doing: &'static str, answer: impl Future<Output = Result<T, StoreError>>) -> T {
    match tokio::time::timeout(QUICK, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::warn!(%error, "{doing}");
            T::default()
        }
        Err(_) => {
            tracing::warn!("{doing}: no answer within 500 ms");
            T::default()
        }
    }
}

impl Memory for Store {
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>> {
        Box::pin(async move {
            let known = quickly("cannot recall the era of a server", self.read_era(fingerprint)).await;
            known.map(|(era, _)| era)
        })
    }

    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()> {
        Box::pin(quickly("cannot remember the era of a server", self.write_era(fingerprint, era)))
    }
}
