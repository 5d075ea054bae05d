//! Stores conversations with models (sessions), and finds them again.
//!
//! A conversation is a row of the table `sessions`, with rows of the table `messages`. It grows by steps. A step is one
//! transaction, and names the position in the conversation from which it continues. `claim` allows one turn of a
//! conversation at a time, `retention` deletes old conversations, and `import` imports those of other programs.

mod claim;
mod import;
mod messages;
mod retention;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use toolrack_host::{Caller, text};
use uuid::Uuid;

use crate::{
    Owner, OwnerFilter, Store, StoreError,
    audit::Entry,
    database::{QueryBuilder, Transaction, query},
    rows::from_row,
};

pub use claim::Claim;
pub(crate) use claim::Claims;
pub use import::ImportReport;
pub use messages::{NewMessage, Role, Step, StoredMessage};
pub use retention::Retention;

/// The maximum size of a title, in bytes. A longer title is cut.
const MAX_TITLE_BYTES: usize = 500;

/// The length of the shortest prefix of an id that Toolrack shows.
const MIN_SHOWN_PREFIX: usize = 8;

/// The length of the shortest prefix of an id that Toolrack accepts.
const MIN_TYPED_PREFIX: usize = 4;

/// The maximum size of a typed id that an error message repeats, in bytes.
const MAX_QUOTED_ID_BYTES: usize = 200;

/// The maximum number of sessions that an error message names when a prefix fits more than one.
const MAX_CANDIDATES: usize = 5;

/// The tokens and the cost of requests to models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelUse {
    /// Input tokens, including those from the provider's cache.
    pub input: u64,
    /// Output tokens, including thinking.
    pub output: u64,
    /// The input tokens that the provider read from its cache.
    pub cached_read: u64,
    /// The input tokens that the provider wrote into its cache.
    pub cache_write: u64,
    /// The output tokens spent on thinking.
    pub reasoning: u64,
    /// The cost in billionths of a US dollar; `None` when no price is known.
    pub cost: Option<u64>,
}

/// Writes the JSON of `--json` and the control API.
impl Serialize for ModelUse {
    #[expect(clippy::cast_precision_loss, reason = "users see only a few digits of a cost")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ModelUse", 6)?;
        fields.serialize_field("input_tokens", &self.input)?;
        fields.serialize_field("output_tokens", &self.output)?;
        fields.serialize_field("cached_read_tokens", &self.cached_read)?;
        fields.serialize_field("cache_write_tokens", &self.cache_write)?;
        fields.serialize_field("reasoning_tokens", &self.reasoning)?;
        fields.serialize_field("cost_usd", &self.cost.map(|billionths| billionths as f64 / 1e9))?;
        fields.end()
    }
}

impl ModelUse {
    /// Returns the sum of both. If only one cost is known, the sum has that cost.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let cost = match (self.cost, other.cost) {
            (Some(cost), Some(other_cost)) => Some(cost.saturating_add(other_cost)),
            (cost, other_cost) => cost.or(other_cost),
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached_read: self.cached_read.saturating_add(other.cached_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cost,
        }
    }
}

/// The columns of a [`ModelUse`], which the tables of sessions and of messages have.
#[derive(Clone, Copy, Debug, Default)]
struct ModelUseRow {
    input: i64,
    output: i64,
    cached_read: i64,
    cache_write: i64,
    reasoning: i64,
    cost: Option<i64>,
}

from_row!(ModelUseRow { input, output, cached_read, cache_write, reasoning, cost });

impl From<ModelUseRow> for ModelUse {
    fn from(row: ModelUseRow) -> Self {
        let ModelUseRow { input, output, cached_read, cache_write, reasoning, cost } = row;
        let to_unsigned = |number: i64| u64::try_from(number).unwrap_or_default();
        Self {
            input: to_unsigned(input),
            output: to_unsigned(output),
            cached_read: to_unsigned(cached_read),
            cache_write: to_unsigned(cache_write),
            reasoning: to_unsigned(reasoning),
            cost: cost.map(to_unsigned),
        }
    }
}

impl From<ModelUse> for ModelUseRow {
    fn from(model_use: ModelUse) -> Self {
        let ModelUse { input, output, cached_read, cache_write, reasoning, cost } = model_use;
        let to_signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            input: to_signed(input),
            output: to_signed(output),
            cached_read: to_signed(cached_read),
            cache_write: to_signed(cache_write),
            reasoning: to_signed(reasoning),
            cost: cost.map(to_signed),
        }
    }
}

/// A new conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The title, on one line. It is cut at 500 bytes.
    pub title: String,
    /// The model that will answer, such as `anthropic/claude-sonnet-4-5`.
    pub model: Option<String>,
    /// The agent that leads the conversation.
    pub agent: Option<String>,
    /// The owner; `None` for the user of the machine.
    pub owner: Option<Owner>,
}

/// A conversation, without its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The id of the conversation: a UUID, of version 7 if Toolrack made it.
    pub id: Uuid,
    /// The shortest prefix of the id that no other session shares, of at least 8 characters. [`Store::find_session`]
    /// accepts it until a new session shares it.
    pub prefix: String,
    /// The title. Untrusted.
    pub title: String,
    /// The model that answered last.
    pub model: Option<String>,
    /// The agent that leads the conversation.
    pub agent: Option<String>,
    /// The owner; `None` for the user of the machine.
    pub owner: Option<Owner>,
    /// When the conversation began.
    pub created_at: DateTime<Utc>,
    /// When a step was last added to it. A new title does not change this.
    pub updated_at: DateTime<Utc>,
    /// How many messages the conversation has, which is also the position of the next message.
    pub messages: u64,
    /// Tokens and cost of all its messages.
    pub spent: ModelUse,
    /// Whether a turn has not ended: it is under way, or was interrupted. See [`Store::open_turn`].
    pub has_open_turn: bool,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery<'a> {
    /// Only sessions of these owners.
    pub whose: OwnerFilter<'a>,
    /// Only sessions whose title contains this text; the case of ASCII letters is ignored.
    pub search: Option<String>,
    /// For the next page: only sessions after this one in the list, given by its `updated_at` and `id`.
    pub after: Option<(DateTime<Utc>, Uuid)>,
    /// The maximum number of sessions. The default, 0, finds none.
    pub limit: usize,
}

/// Totals over all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTotals {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of their messages.
    pub messages: u64,
    /// The tokens and the cost of all sessions.
    pub spent: ModelUse,
}

/// The columns of a session, and the ids directly before and after its id in the order of ids. Those two tell how long
/// the prefix of its id must be.
#[derive(Debug)]
struct SessionRow {
    id: String,
    title: String,
    model: Option<String>,
    agent: Option<String>,
    owner: String,
    owner_name: Option<String>,
    created_at: i64,
    updated_at: i64,
    spent: ModelUseRow,
    has_open_turn: bool,
    messages: i64,
    id_before: Option<String>,
    id_after: Option<String>,
}

from_row!(SessionRow {
    id, title, model, agent, owner, owner_name, created_at, updated_at, has_open_turn, messages, id_before, id_after
} flatten spent);

/// The start of every query for sessions. Each of the three inner queries costs one look-up in an index.
const SELECT_SESSIONS: &str = "SELECT id, title, model, agent, owner, owner_name, created_at, updated_at, \
    input, output, cached_read, cache_write, reasoning, cost, open_turn IS NOT NULL AS has_open_turn, \
    (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session_id = s.id) AS messages, \
    (SELECT max(id) FROM sessions WHERE id < s.id) AS id_before, \
    (SELECT min(id) FROM sessions WHERE id > s.id) AS id_after \
    FROM sessions s";

impl SessionRow {
    /// Converts the row; `None` when the id is not a UUID.
    fn into_session(self) -> Option<Session> {
        let neighbours = [self.id_before.as_deref(), self.id_after.as_deref()];
        Some(Session {
            id: Uuid::try_parse(&self.id).ok()?,
            prefix: shortest_prefix(&self.id, neighbours),
            title: self.title,
            model: self.model,
            agent: self.agent,
            owner: Owner::from_columns(self.owner, self.owner_name),
            created_at: time_from_millis(self.created_at),
            updated_at: time_from_millis(self.updated_at),
            messages: u64::try_from(self.messages).unwrap_or_default(),
            spent: self.spent.into(),
            has_open_turn: self.has_open_turn,
        })
    }
}

/// Returns the shortest prefix of `id`, of at least [`MIN_SHOWN_PREFIX`] characters, that its neighbours, the ids
/// before and after it, do not share.
fn shortest_prefix(id: &str, neighbours: [Option<&str>; 2]) -> String {
    let common_length = |other: &str| id.bytes().zip(other.bytes()).take_while(|(byte, other)| byte == other).count();
    let longest_common = neighbours.into_iter().flatten().map(common_length).max().unwrap_or(0);
    let mut length = (longest_common + 1).max(MIN_SHOWN_PREFIX);
    // A prefix that ends in a hyphen looks cut off.
    if id.as_bytes().get(length - 1) == Some(&b'-') {
        length += 1;
    }
    id.get(..length).unwrap_or(id).to_owned()
}

/// Converts a stored time.
fn time_from_millis(milliseconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(milliseconds).unwrap_or_default()
}

/// Makes a typed id safe and short enough to print. The id is untrusted, because it may come from the URL of a request.
fn printable(typed_id: &str) -> String {
    text::for_log(&text::clip(typed_id, MAX_QUOTED_ID_BYTES)).into_owned()
}

/// Cuts a title to the length that is stored.
fn cut_title(title: &str) -> &str {
    &title[..title.floor_char_boundary(MAX_TITLE_BYTES)]
}

/// Restricts a query to the sessions of `owners`.
fn restrict_to(owners: OwnerFilter<'_>, builder: &mut QueryBuilder) {
    if let Some(key) = owners.key() {
        builder.push(" AND owner = ").push_bind(key);
    }
}

impl Store {
    /// Begins a conversation, without messages.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn create_session(&self, new_session: &NewSession) -> Result<Session, StoreError> {
        self.create_session_as(Uuid::now_v7(), new_session).await
    }

    /// Begins a conversation with the id `id`. A conversation that exists already stays as it is, so that a caller can
    /// safely try again.
    pub(crate) async fn create_session_as(&self, id: Uuid, new_session: &NewSession) -> Result<Session, StoreError> {
        let operation = "beginning a session";
        let now = Utc::now().timestamp_millis();
        let mut transaction = self.begin_durably(operation).await?;
        query(
            "INSERT INTO sessions (id, title, model, agent, owner, owner_name, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (id) DO NOTHING",
        )
        .bind(id.to_string())
        .bind(cut_title(&new_session.title))
        .bind(&new_session.model)
        .bind(&new_session.agent)
        .bind(new_session.owner.as_ref().map_or("", |owner| &owner.key))
        .bind(new_session.owner.as_ref().map(|owner| &owner.name))
        .bind(now)
        .execute(&mut transaction)
        .await?;
        let session = self.read_session(id, &mut transaction).await?;
        transaction.commit().await?;
        Ok(session)
    }

    /// Returns the session `id`.
    ///
    /// # Errors
    /// [`StoreError::UnknownSession`] when there is none; other errors when the database fails.
    pub async fn session(&self, id: Uuid) -> Result<Session, StoreError> {
        let mut connection = self.begin_read("reading a session").await?;
        self.read_session(id, &mut connection).await
    }

    /// Reads the session `id` on this connection.
    async fn read_session(&self, id: Uuid, connection: &mut Transaction) -> Result<Session, StoreError> {
        let mut builder = QueryBuilder::new(SELECT_SESSIONS);
        builder.push(" WHERE id = ").push_bind(id.to_string());
        let row: Option<SessionRow> = builder.build().fetch_optional(connection).await?;
        let session = row.and_then(SessionRow::into_session);
        session.ok_or_else(|| self.unknown_session(&id.to_string()))
    }

    /// Returns the sessions that match `query`, the most recently changed first.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn sessions(&self, query: &SessionQuery<'_>) -> Result<Vec<Session>, StoreError> {
        let mut builder = QueryBuilder::new(SELECT_SESSIONS);
        builder.push(" WHERE TRUE");
        restrict_to(query.whose, &mut builder);
        if let Some(search) = query.search.as_ref().filter(|search| !search.is_empty()) {
            // `replace` and not `LIKE`, whose wildcards would need escaping.
            builder.push(" AND replace(lower(title), ").push_bind(search.to_ascii_lowercase());
            builder.push(", '') <> lower(title)");
        }
        if let Some((updated_at, id)) = query.after {
            builder.push(" AND (updated_at, id) < (").push_bind(updated_at.timestamp_millis());
            builder.push(", ").push_bind(id.to_string()).push(")");
        }
        builder.push(" ORDER BY updated_at DESC, id DESC LIMIT ");
        builder.push_bind(i64::try_from(query.limit).unwrap_or(i64::MAX));
        let rows: Vec<SessionRow> = builder.build().fetch_all(&mut self.begin_read("listing sessions").await?).await?;
        Ok(rows.into_iter().filter_map(SessionRow::into_session).collect())
    }

    /// Returns the session of `owners` that a user means by `typed_id`. This can be an id, a prefix of an id (4
    /// characters or more, with or without hyphens), or `last` for the most recently changed session.
    ///
    /// # Errors
    /// [`StoreError::UnknownSession`] and [`StoreError::AmbiguousSession`]; other errors when the database fails.
    pub async fn find_session(&self, typed_id: &str, owners: OwnerFilter<'_>) -> Result<Session, StoreError> {
        if typed_id == "last" {
            let newest_sessions =
                self.sessions(&SessionQuery { whose: owners, limit: 1, ..SessionQuery::default() }).await?;
            return newest_sessions.into_iter().next().ok_or_else(|| self.unknown_session(typed_id));
        }
        let Some(id_prefix) = normalize_prefix(typed_id) else {
            return Err(self.unknown_session(typed_id));
        };
        let mut builder = QueryBuilder::new(SELECT_SESSIONS);
        // A range lets the query use the index of ids. `g` comes after every hexadecimal digit, so the end of the range
        // sorts after every id with this prefix.
        builder.push(" WHERE id >= ").push_bind(&id_prefix).push(" AND id < ").push_bind(format!("{id_prefix}g"));
        restrict_to(owners, &mut builder);
        builder.push(" ORDER BY updated_at DESC, id DESC LIMIT ").push_bind(MAX_CANDIDATES as i64 + 1);
        let rows: Vec<SessionRow> =
            builder.build().fetch_all(&mut self.begin_read("looking for a session").await?).await?;
        let mut matches: Vec<Session> = rows.into_iter().filter_map(SessionRow::into_session).collect();
        if matches.len() > 1 {
            let prefixes = matches.into_iter().take(MAX_CANDIDATES).map(|session| session.prefix).collect();
            return Err(StoreError::AmbiguousSession { typed: printable(typed_id), prefixes });
        }
        matches.pop().ok_or_else(|| self.unknown_session(typed_id))
    }

    /// Gives the session `id` another title, cut at 500 bytes.
    ///
    /// # Errors
    /// [`StoreError::UnknownSession`] when there is none; other errors when the database fails.
    pub async fn rename_session(&self, id: Uuid, title: &str) -> Result<(), StoreError> {
        let rename = query("UPDATE sessions SET title = $1 WHERE id = $2").bind(cut_title(title)).bind(id.to_string());
        let changed_rows = self.write(rename, "renaming a session").await?;
        if changed_rows == 0 { Err(self.unknown_session(&id.to_string())) } else { Ok(()) }
    }

    /// Deletes the session `id` with all its messages. When all processes have closed the database, no bytes of them
    /// are left in its files.
    ///
    /// # Errors
    /// [`StoreError::UnknownSession`] when there is none; other errors when the database fails.
    pub async fn delete_session(&self, id: Uuid) -> Result<(), StoreError> {
        let operation = "deleting a session";
        let mut transaction = self.begin_erasing(operation).await?;
        let deleted_rows =
            query("DELETE FROM sessions WHERE id = $1").bind(id.to_string()).execute(&mut transaction).await?;
        transaction.commit().await?;
        if deleted_rows == 0 { Err(self.unknown_session(&id.to_string())) } else { Ok(()) }
    }

    /// Returns how many sessions of `owners` there are, how many messages they have, and their tokens and cost.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn session_totals(&self, owners: OwnerFilter<'_>) -> Result<SessionTotals, StoreError> {
        let (operation, key) = ("counting sessions", owners.key());
        let mut connection = self.begin_read(operation).await?;
        let (sessions, messages): (i64, i64) = query(
            "SELECT (SELECT count(*) FROM sessions WHERE $1 IS NULL OR owner = $1), (SELECT count(*) FROM messages \
             WHERE $1 IS NULL OR session_id IN (SELECT id FROM sessions WHERE owner = $1))",
        )
        .bind(&key)
        .fetch_one(&mut connection)
        .await?;
        // Not added up in SQL, where a sum that is too large is an error. Here, it becomes the largest number.
        let uses: Vec<ModelUseRow> = query(
            "SELECT input, output, cached_read, cache_write, reasoning, cost FROM sessions \
             WHERE $1 IS NULL OR owner = $1",
        )
        .bind(&key)
        .fetch_all(&mut connection)
        .await?;
        Ok(SessionTotals {
            sessions: u64::try_from(sessions).unwrap_or_default(),
            messages: u64::try_from(messages).unwrap_or_default(),
            spent: uses.into_iter().map(ModelUse::from).fold(ModelUse::default(), ModelUse::plus),
        })
    }

    /// Records in the audit log that `caller` read a conversation of another member.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_reading(&self, session: &Session, caller: &Caller) -> Result<(), StoreError> {
        self.record(audit_entry("conversation_read", session, caller)).await
    }

    /// Records in the audit log that `caller` deleted a conversation of another member.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_deletion(&self, session: &Session, caller: &Caller) -> Result<(), StoreError> {
        self.record(audit_entry("conversation_deleted", session, caller)).await
    }

    fn unknown_session(&self, typed_id: &str) -> StoreError {
        StoreError::UnknownSession { typed: printable(typed_id) }
    }
}

/// Returns the row of the audit log about what `caller` did with the conversation of another member.
fn audit_entry(kind: &str, session: &Session, caller: &Caller) -> Entry {
    let owner = session.owner.as_ref().map_or("", |owner| &owner.name);
    Entry::of_conversation(kind, caller, owner, &session.id.to_string())
}

/// Writes a typed prefix as stored ids are written: in lower case, with hyphens. `None` if no id can begin with it, or
/// if it is too short.
fn normalize_prefix(typed_id: &str) -> Option<String> {
    /// Before these digits, a UUID has a hyphen.
    const HYPHENS: [usize; 4] = [8, 12, 16, 20];
    let digits: String = typed_id.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    if !(MIN_TYPED_PREFIX..=32).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut prefix = String::with_capacity(36);
    for (index, digit) in digits.chars().enumerate() {
        if HYPHENS.contains(&index) {
            prefix.push('-');
        }
        prefix.push(digit);
    }
    Some(prefix)
}

#[cfg(test)]
mod tests;
