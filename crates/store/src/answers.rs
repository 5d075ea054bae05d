//! Stores the standing answers of users: which tools may always run without a question.
//!
//! Before a call, the host asks a user unless a rule decides. When the user answers `always`, the store remembers
//! the tool with its definition, and the server with its fingerprint (a hash of its command or URL). If one of them
//! changes, the host asks again.

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use toolrack_host::{AnswerQuery, Answers, Caller, DefinitionHash, NewAnswer, Principal, run_in_own_task};

use crate::{
    Owner, OwnerFilter, Store, StoreError,
    audit::{Entry, append},
    database::query,
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
    /// Whether the user allowed all tools that the server had then.
    pub of_server: bool,
    /// The way of the call about which the host asked the user: `cli`, `daemon`, `gateway`, `agent`, `program`.
    pub way: String,
    /// When the user answered, in seconds since 1970.
    pub answered_at: i64,
    /// The principal whose calls the answer covers; `None` if it covers the calls of all principals.
    pub owner: Option<Owner>,
}

/// The columns `server`, `tool`, `definition`, `of_server`, `way`, `answered_at`, `owner` and `owner_name`.
type Row = (String, String, Vec<u8>, bool, String, i64, String, Option<String>);

/// Returns the key of `principal` in the column `owner`; empty for the user of the machine.
fn owner_key(principal: &Principal) -> String {
    Owner::of(principal).map_or_else(String::new, |owner| owner.key)
}

impl Store {
    /// Returns all standing answers, or those that cover calls of one principal, ordered by server and tool.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn answers(&self, owner_filter: OwnerFilter<'_>) -> Result<Vec<StandingAnswer>, StoreError> {
        let rows: Vec<Row> = query(
            "SELECT server, tool, definition, of_server, way, answered_at, owner, owner_name FROM answers \
             WHERE ($1 IS NULL OR owner IN ('', $1)) ORDER BY server, tool, answered_at, owner",
        )
        .bind(owner_filter.key())
        .fetch_all(&mut self.begin_read("reading answers").await?)
        .await?;
        let answers =
            rows.into_iter().filter_map(|(server, tool, definition, of_server, way, answered_at, owner, name)| {
                // Leaves out a damaged row, whose hash has another length.
                let definition = DefinitionHash::from_bytes(definition.try_into().ok()?);
                let owner = Owner::from_columns(owner, name);
                Some(StandingAnswer { server, tool, definition, of_server, way, answered_at, owner })
            });
        Ok(answers.collect())
    }

    /// Deletes all answers, or only the answers about `server`, or about its tool `tool`. Records in the [audit
    /// log](crate::audit) that `caller` did this, in the same transaction. With [`OwnerFilter::Of`], keeps answers that
    /// also cover calls of other principals. Returns how many answers it deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_answers(
        &self,
        server: Option<&str>,
        tool: Option<&str>,
        owner_filter: OwnerFilter<'_>,
        caller: &Caller,
    ) -> Result<usize, StoreError> {
        let operation = "taking answers back";
        let mut transaction = self.begin(operation).await?;
        let deleted_answers: Vec<(String, String)> = query(
            "DELETE FROM answers WHERE ($1 IS NULL OR server = $1) AND ($2 IS NULL OR tool = $2) \
             AND ($3 IS NULL OR owner = $3) RETURNING server, tool",
        )
        .bind(server)
        .bind(tool)
        .bind(owner_filter.key())
        .fetch_all(&mut transaction)
        .await?;
        let now = Utc::now().timestamp_millis();
        let rows: Vec<_> = deleted_answers
            .iter()
            .map(|(server, tool)| (now, Entry::of_withdrawn_answer(caller, server, tool)))
            .collect();
        append(&mut transaction, &rows).await?;
        transaction.commit().await?;
        Ok(deleted_answers.len())
    }

    /// Deletes the answers that cover only the calls of a removed member. `key` is the [key](Principal::key) of that
    /// member.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forget_answers_of(&self, key: &str) -> Result<(), StoreError> {
        let operation = "taking answers back";
        let mut transaction = self.begin(operation).await?;
        let delete_answers = query("DELETE FROM answers WHERE owner = $1 AND owner <> ''").bind(key);
        delete_answers.execute(&mut transaction).await?;
        transaction.commit().await
    }

    /// Returns a description of the answer that covers the call. Prefers an answer for the calls of all principals: its
    /// owner is empty, so it is first in the order of owners.
    async fn find_answer(&self, answer_query: AnswerQuery<'_>) -> Result<Option<String>, StoreError> {
        let row: Option<(bool, i64)> = query(
            "SELECT of_server, answered_at FROM answers WHERE server = $1 AND fingerprint = $2 AND tool = $3 AND definition = $4 \
             AND owner IN ('', $5) ORDER BY owner LIMIT 1",
        )
        .bind(answer_query.server.as_str())
        .bind(answer_query.fingerprint)
        .bind(answer_query.tool)
        .bind(&answer_query.definition.as_bytes()[..])
        .bind(owner_key(answer_query.principal))
        .fetch_optional(&mut self.begin_read("reading an answer").await?)
        .await?;
        Ok(row.map(|(of_server, answered_at)| {
            // Only a damaged row has a time that is no date.
            let date = DateTime::from_timestamp(answered_at, 0)
                .map(|answered_at| answered_at.format("%Y-%m-%d").to_string())
                .unwrap_or_default();
            let scope = if of_server { "all tools of this server" } else { "this tool" };
            format!("a user said `always` on {date}, for {scope}")
        }))
    }

    /// Stores an answer: one row for each tool that it covers.
    async fn insert_answer(&self, answer: NewAnswer<'_>) -> Result<(), StoreError> {
        let operation = "remembering an answer";
        let now = Utc::now().timestamp();
        let owner = answer.principal.and_then(Owner::of);
        let (key, name) = owner.map_or_else(Default::default, |owner| (owner.key, Some(owner.name)));
        let mut transaction = self.begin(operation).await?;
        for (tool, definition) in answer.tools {
            query(
                "INSERT INTO answers (server, fingerprint, tool, definition, of_server, way, answered_at, owner, owner_name) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (server, fingerprint, tool, owner) DO UPDATE SET \
                 definition = excluded.definition, of_server = excluded.of_server, way = excluded.way, \
                 answered_at = excluded.answered_at, owner_name = excluded.owner_name",
            )
            .bind(answer.server.as_str())
            .bind(answer.fingerprint)
            .bind(tool)
            .bind(&definition.as_bytes()[..])
            .bind(answer.of_server)
            .bind(answer.by.word())
            .bind(now)
            .bind(&key)
            .bind(&name)
            .execute(&mut transaction)
            .await?;
        }
        transaction.commit().await
    }
}

impl Answers for Store {
    fn recall<'a>(&'a self, answer_query: AnswerQuery<'a>) -> BoxFuture<'a, Option<String>> {
        let store = self.clone();
        let AnswerQuery { server, fingerprint, tool, definition, principal } = answer_query;
        let (server, fingerprint, tool) = (server.clone(), fingerprint.to_owned(), tool.to_owned());
        let principal = principal.clone();
        Box::pin(run_in_own_task(async move {
            let (server, fingerprint, tool, principal) = (&server, &*fingerprint, &*tool, &principal);
            let answer_query = AnswerQuery { server, fingerprint, tool, definition, principal };
            store.find_answer(answer_query).await.unwrap_or_else(|error| {
                tracing::warn!("{error}; the user is asked");
                None
            })
        }))
    }

    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool> {
        let store = self.clone();
        let NewAnswer { server, fingerprint, tools, of_server, principal, by } = answer;
        let (server, fingerprint, tools) = (server.clone(), fingerprint.to_owned(), tools.to_vec());
        let principal = principal.cloned();
        Box::pin(run_in_own_task(async move {
            let (server, fingerprint, tools, principal) = (&server, &*fingerprint, &*tools, principal.as_ref());
            let answer = NewAnswer { server, fingerprint, tools, of_server, principal, by };
            let result = store.insert_answer(answer).await;
            if let Err(error) = &result {
                tracing::warn!("{error}; the answer is valid only until the program ends");
            }
            result.is_ok()
        }))
    }
}
