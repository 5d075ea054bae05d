//! Stores and reads the messages of a conversation.

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{ModelUse, ModelUseRow, time_from_millis};
use crate::{
    Store, StoreError,
    database::{Transaction, query},
    rows::from_row,
};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The program that set the conversation up.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, with the result of one call.
    Tool,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// Returns the word in the database: `system`, `user`, `assistant` or `tool`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Returns the role for a stored word; `None` for an unknown word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A message to store. The store never parses the JSON in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The author.
    pub role: Role,
    /// The text; empty if a model only makes calls.
    pub content: String,
    /// The tool calls that a model asks for, as JSON: `[{"id", "name", "input"}]`.
    pub tool_calls: Option<String>,
    /// In a tool's message: the call that it answers, as JSON: `{"tool_call_id"}`.
    pub tool_results: Option<String>,
    /// The whole message as JSON, as the agent writes it.
    pub body: Option<String>,
    /// The tokens and the cost, if they are known.
    pub spent: Option<ModelUse>,
}

impl NewMessage {
    /// Creates a message of text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: None, tool_results: None, body: None, spent: None }
    }
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredMessage {
    /// The id of the message: a UUID, of version 7 if Toolrack made it.
    pub id: Uuid,
    /// The conversation.
    pub session_id: Uuid,
    /// The author.
    pub role: Role,
    /// The text. Untrusted.
    pub content: String,
    /// The tool calls that a model asks for, as JSON: `[{"id", "name", "input"}]`. Untrusted.
    pub tool_calls: Option<String>,
    /// In a tool's message: the call that it answers, as JSON: `{"tool_call_id"}`. Untrusted.
    pub tool_results: Option<String>,
    /// When the message was added.
    pub timestamp: DateTime<Utc>,
    /// The position of the message in the conversation, from 0, without gaps.
    pub position: u64,
    /// The whole message as JSON, as the agent wrote it; `None` for a message of another program. Untrusted.
    pub body: Option<String>,
    /// The tokens and the cost, if they are known.
    pub spent: Option<ModelUse>,
}

/// The additions of one transaction to a conversation: all of them or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The number of messages that the conversation must have, so that the step continues from there.
    pub position: u64,
    /// The messages to add. If there are none, the step changes only the other fields.
    pub messages: Vec<NewMessage>,
    /// The turn that has not ended, as JSON of the agent; `None` if no turn is under way.
    pub open_turn: Option<String>,
    /// The model that answers from now on; `None` keeps the present one.
    pub model: Option<String>,
}

/// The columns of a message.
#[derive(Debug)]
struct MessageRow {
    id: String,
    role: String,
    content: String,
    tool_calls: Option<String>,
    tool_results: Option<String>,
    timestamp: i64,
    position: i64,
    body: Option<String>,
    input: Option<i64>,
    output: Option<i64>,
    cached_read: Option<i64>,
    cache_write: Option<i64>,
    reasoning: Option<i64>,
    cost: Option<i64>,
}

from_row!(MessageRow {
    id,
    role,
    content,
    tool_calls,
    tool_results,
    timestamp,
    position,
    body,
    input,
    output,
    cached_read,
    cache_write,
    reasoning,
    cost
});

impl MessageRow {
    /// Converts the row; `None` when the id is no UUID, or the role is unknown.
    fn into_message(self, session_id: Uuid) -> Option<StoredMessage> {
        // A row has either all numbers of tokens or none. The cost may be missing even if the row has the tokens.
        let spent = self.input.map(|input| {
            let (output, cached_read) = (self.output.unwrap_or(0), self.cached_read.unwrap_or(0));
            let (cache_write, reasoning) = (self.cache_write.unwrap_or(0), self.reasoning.unwrap_or(0));
            ModelUseRow { input, output, cached_read, cache_write, reasoning, cost: self.cost }.into()
        });
        Some(StoredMessage {
            id: Uuid::try_parse(&self.id).ok()?,
            session_id,
            role: Role::from_word(&self.role)?,
            content: self.content,
            tool_calls: self.tool_calls,
            tool_results: self.tool_results,
            timestamp: time_from_millis(self.timestamp),
            position: u64::try_from(self.position).ok()?,
            body: self.body,
            spent,
        })
    }
}

/// A message with its position and its time.
#[derive(Debug)]
pub(super) struct PositionedMessage<'a> {
    pub(super) id: Uuid,
    /// In milliseconds since 1970.
    pub(super) timestamp: i64,
    pub(super) position: u64,
    pub(super) message: &'a NewMessage,
}

impl PositionedMessage<'_> {
    /// Adds the message to `session`, within a transaction.
    pub(super) async fn insert(&self, session_id: &str, connection: &mut Transaction) -> Result<(), StoreError> {
        let message = self.message;
        let model_use = message.spent.map(ModelUseRow::from);
        query(
            "INSERT INTO messages (id, session_id, role, content, tool_calls, tool_results, timestamp, position, body, \
             input, output, cached_read, cache_write, reasoning, cost) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        )
        .bind(self.id.to_string())
        .bind(session_id)
        .bind(message.role.as_str())
        .bind(&message.content)
        .bind(&message.tool_calls)
        .bind(&message.tool_results)
        .bind(self.timestamp)
        .bind(i64::try_from(self.position).unwrap_or(i64::MAX))
        .bind(&message.body)
        .bind(model_use.map(|row| row.input))
        .bind(model_use.map(|row| row.output))
        .bind(model_use.map(|row| row.cached_read))
        .bind(model_use.map(|row| row.cache_write))
        .bind(model_use.map(|row| row.reasoning))
        .bind(model_use.and_then(|row| row.cost))
        .execute(connection)
        .await
        .map(drop)
    }
}

impl Store {
    /// Adds `step` to the session `id` in one transaction, and returns how many messages the session has now. When this
    /// returns, the step is on the disk: neither a crash nor a power cut undoes it.
    ///
    /// # Errors
    /// [`StoreError::SessionMoved`] when the session has more or fewer messages than `step` says, because another
    /// process has added to it; [`StoreError::UnknownSession`] when it is deleted; others when the database fails. No
    /// part of the step is stored then.
    pub async fn append(&self, id: Uuid, step: &Step) -> Result<u64, StoreError> {
        let operation = "adding to a session";
        let mut transaction = self.begin_durably(operation).await?;
        let session = self.read_session(id, &mut transaction).await?;
        if session.messages != step.position {
            return Err(StoreError::SessionMoved {
                prefix: session.prefix,
                expected: step.position,
                found: session.messages,
            });
        }
        let timestamp = Utc::now().timestamp_millis();
        let (session_id, mut position, mut total_use) = (id.to_string(), step.position, session.spent);
        for message in &step.messages {
            let positioned_message = PositionedMessage { id: Uuid::now_v7(), timestamp, position, message };
            positioned_message.insert(&session_id, &mut transaction).await?;
            total_use = message.spent.map_or(total_use, |message_use| total_use.plus(message_use));
            position += 1;
        }
        let total_use = ModelUseRow::from(total_use);
        // `updated_at` never goes back, even if the clock does.
        query(
            "UPDATE sessions SET updated_at = CASE WHEN updated_at > $1 THEN updated_at ELSE $1 END, open_turn = $2, model = coalesce($3, model), \
             input = $4, output = $5, cached_read = $6, cache_write = $7, reasoning = $8, cost = $9 WHERE id = $10",
        )
        .bind(timestamp)
        .bind(&step.open_turn)
        .bind(&step.model)
        .bind(total_use.input)
        .bind(total_use.output)
        .bind(total_use.cached_read)
        .bind(total_use.cache_write)
        .bind(total_use.reasoning)
        .bind(total_use.cost)
        .bind(&session_id)
        .execute(&mut transaction)
        .await?;
        transaction.commit().await?;
        Ok(position)
    }

    /// Returns at most `limit` messages of the session `id` from the position `from` on, in their order. A session that
    /// does not exist has none.
    ///
    /// # Errors
    /// [`StoreError::UnreadableMessage`] when one of the messages cannot be read; others when the database fails.
    pub async fn messages(&self, id: Uuid, from: u64, limit: usize) -> Result<Vec<StoredMessage>, StoreError> {
        let rows: Vec<MessageRow> = query(
            "SELECT id, role, content, tool_calls, tool_results, timestamp, position, body, \
             input, output, cached_read, cache_write, reasoning, cost FROM messages \
             WHERE session_id = $1 AND position >= $2 ORDER BY position LIMIT $3",
        )
        .bind(id.to_string())
        .bind(i64::try_from(from).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&mut self.begin_read("reading a session").await?)
        .await?;
        // An unreadable row is an error: without it, all later messages would have wrong positions.
        let unreadable_error = || StoreError::UnreadableMessage { session: id };
        rows.into_iter().map(|row| row.into_message(id).ok_or_else(unreadable_error)).collect()
    }

    /// Returns the turn of the session `id` that has not ended, as JSON that the agent wrote with [`Step::open_turn`].
    ///
    /// # Errors
    /// [`StoreError::UnknownSession`] when there is no such session; others when the database fails.
    pub async fn open_turn(&self, id: Uuid) -> Result<Option<String>, StoreError> {
        let row: Option<(Option<String>,)> = query("SELECT open_turn FROM sessions WHERE id = $1")
            .bind(id.to_string())
            .fetch_optional(&mut self.begin_read("reading a session").await?)
            .await?;
        let (open_turn,) = row.ok_or_else(|| self.unknown_session(&id.to_string()))?;
        Ok(open_turn)
    }
}
