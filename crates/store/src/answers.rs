//! The standing answers of users: which tools may always run without a question.

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use toolrack_host::{AnswerQuery, Answers, Caller, DefinitionHash, NewAnswer, owned};

use crate::{
    Store, StoreError,
    audit::{Entry, append},
};

/// A standing answer: calls of this tool run without a question, as long as it has this definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StandingAnswer {
    /// The server's name.
    pub server: String,
    /// The tool's own name; untrusted.
    pub tool: String,
    /// The hash of the definition that the user allowed.
    pub definition: DefinitionHash,
    /// The user allowed all tools that the server had then.
    pub of_server: bool,
    /// Where the call came from that the user was asked about: `cli`, `daemon`, `gateway`, `agent`, `program`.
    pub way: String,
    /// When the user answered, in seconds since 1970.
    pub answered_at: i64,
}

type Row = (String, String, Vec<u8>, bool, String, i64);

impl Store {
    /// All standing answers, by server and tool.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn answers(&self) -> Result<Vec<StandingAnswer>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT server, tool, definition, of_server, way, answered_at FROM answers ORDER BY server, tool, answered_at",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(self.error("reading answers"))?;
        let standing = rows.into_iter().filter_map(|(server, tool, definition, of_server, way, answered_at)| {
            let definition = DefinitionHash::from_bytes(definition.try_into().ok()?);
            Some(StandingAnswer { server, tool, definition, of_server, way, answered_at })
        });
        Ok(standing.collect())
    }

    /// Takes back all answers, those about one server, or those about one of its tools, and records that in the [audit
    /// log](crate::audit) as done by `caller`, in one transaction. Returns how many answers there were.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_answers(
        &self,
        server: Option<&str>,
        tool: Option<&str>,
        caller: &Caller,
    ) -> Result<usize, StoreError> {
        let doing = "taking answers back";
        let mut transaction = self.begin(doing).await?;
        let gone: Vec<(String, String)> = sqlx::query_as(
            "DELETE FROM answers WHERE (?1 IS NULL OR server = ?1) AND (?2 IS NULL OR tool = ?2) RETURNING server, tool",
        )
        .bind(server)
        .bind(tool)
        .fetch_all(&mut *transaction)
        .await
        .map_err(self.error(doing))?;
        let now = Utc::now().timestamp_millis();
        let rows: Vec<_> = gone.iter().map(|(server, tool)| (now, Entry::of_forgotten(caller, server, tool))).collect();
        append(&mut transaction, &rows).await.map_err(self.error(doing))?;
        transaction.commit().await.map_err(self.error(doing))?;
        Ok(gone.len())
    }

    async fn recalled(&self, about: AnswerQuery<'_>) -> Result<Option<String>, StoreError> {
        let row: Option<(bool, i64)> = sqlx::query_as(
            "SELECT of_server, answered_at FROM answers WHERE server = ? AND fingerprint = ? AND tool = ? AND definition = ?",
        )
        .bind(about.server.as_str())
        .bind(about.fingerprint)
        .bind(about.tool)
        .bind(&about.definition.as_bytes()[..])
        .fetch_optional(&self.pool)
        .await
        .map_err(self.error("reading an answer"))?;
        Ok(row.map(|(of_server, at)| {
            let date = DateTime::from_timestamp(at, 0).map(|at| at.format("%Y-%m-%d").to_string()).unwrap_or_default();
            let what = if of_server { "all tools of this server" } else { "this tool" };
            format!("a person said `always` on {date}, for {what}")
        }))
    }

    async fn kept(&self, answer: NewAnswer<'_>) -> Result<(), StoreError> {
        let doing = "remembering an answer";
        let now = Utc::now().timestamp();
        let mut transaction = self.begin(doing).await?;
        for (tool, definition) in answer.tools {
            sqlx::query(
                "INSERT INTO answers (server, fingerprint, tool, definition, of_server, way, answered_at) \
                 VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (server, fingerprint, tool) DO UPDATE SET \
                 definition = excluded.definition, of_server = excluded.of_server, way = excluded.way, \
                 answered_at = excluded.answered_at",
            )
            .bind(answer.server.as_str())
            .bind(answer.fingerprint)
            .bind(tool)
            .bind(&definition.as_bytes()[..])
            .bind(answer.of_server)
            .bind(answer.by.word())
            .bind(now)
            .execute(&mut *transaction)
            .await
            .map_err(self.error(doing))?;
        }
        transaction.commit().await.map_err(self.error(doing))
    }
}

impl Answers for Store {
    fn recall<'a>(&'a self, about: AnswerQuery<'a>) -> BoxFuture<'a, Option<String>> {
        let store = self.clone();
        let AnswerQuery { server, fingerprint, tool, definition } = about;
        let (server, fingerprint, tool) = (server.clone(), fingerprint.to_owned(), tool.to_owned());
        Box::pin(owned(async move {
            let about = AnswerQuery { server: &server, fingerprint: &fingerprint, tool: &tool, definition };
            store.recalled(about).await.unwrap_or_else(|error| {
                tracing::warn!("{error}; a person is asked");
                None
            })
        }))
    }

    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool> {
        let store = self.clone();
        let NewAnswer { server, fingerprint, tools, of_server, by } = answer;
        let (server, fingerprint, tools) = (server.clone(), fingerprint.to_owned(), tools.to_vec());
        Box::pin(owned(async move {
            let answer = NewAnswer { server: &server, fingerprint: &fingerprint, tools: &tools, of_server, by };
            let kept = store.kept(answer).await;
            if let Err(error) = &kept {
                tracing::warn!("{error}; it counts until the program ends");
            }
            kept.is_ok()
        }))
    }
}
