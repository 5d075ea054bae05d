//! Stores a conversation of an agent, step by step. A turn is one message of a user and all that the model does until
//! it has answered. Each message of the model or a tool is stored before the turn continues.

use std::fmt;

use serde_json::json;
use toolrack_agent::{Message, Reply, Role, Turn, Usage, turn};
use toolrack_host::{Conceal, Principal, run_in_own_task};

use crate::{Claim, ModelUse, NewMessage, NewSession, Owner, Session, Step, Store, StoreError, StoredMessage, Uuid};

/// How many messages one query reads when a conversation continues.
const PAGE_SIZE: usize = 1_000;

/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// Stores one conversation. Hides the secrets that are known when it stores a message: a user may have typed one, and a
/// model may repeat one.
pub struct Journal {
    /// `None` if the journal stores nothing.
    store: Option<Store>,
    conceal: Conceal,
    /// `None` until the first message is stored.
    session: Option<Session>,
    /// The id that the session has, or will have once it is stored.
    id: Uuid,
    /// The model that answers.
    model: String,
    /// The owner of the conversation; `None` for the user of the machine.
    owner: Option<Owner>,
    /// How many messages are stored.
    stored_messages: usize,
    /// The tokens and the cost of the newest answer, until that answer is stored.
    unstored_use: Option<ModelUse>,
    /// How many messages are stored if the last write succeeded; `None` if its outcome is known.
    messages_if_written: Option<usize>,
}

/// A conversation to continue.
#[derive(Debug, Default)]
pub struct OpenedSession {
    /// The messages so far.
    pub messages: Vec<Message>,
    /// The state of an interrupted turn, if there is one.
    pub interrupted_turn: Option<turn::State>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("id", &self.id)
            .field("stored_messages", &self.stored_messages)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Returns the journal of a new conversation, which `model` answers. Without a store, the journal stores nothing.
    /// `conceal` hides secrets in the messages.
    #[must_use]
    pub fn new(store: Option<Store>, model: &str, conceal: Conceal) -> Self {
        let id = Uuid::now_v7();
        let (model, owner) = (model.to_owned(), None);
        Self {
            store,
            conceal,
            session: None,
            id,
            model,
            owner,
            stored_messages: 0,
            unstored_use: None,
            messages_if_written: None,
        }
    }

    /// Returns this journal with `principal` as the owner of the conversation.
    #[must_use]
    pub fn owned_by(self, principal: &Principal) -> Self {
        Self { owner: Owner::of(principal), ..self }
    }

    /// Reads a stored conversation. Returns a journal that continues it, and its messages so far.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read.
    pub async fn open(
        store: &Store,
        session: Session,
        model: &str,
        conceal: Conceal,
    ) -> Result<(Self, OpenedSession), StoreError> {
        let mut messages = Vec::new();
        loop {
            let page = store.messages(session.id, messages.len() as u64, PAGE_SIZE).await?;
            let is_last = page.len() < PAGE_SIZE;
            messages.extend(page.iter().map(restore_message));
            if is_last {
                break;
            }
        }
        // If this version cannot read the state of a turn, the conversation continues without that turn.
        let interrupted_turn = store.open_turn(session.id).await?.and_then(|state| serde_json::from_str(&state).ok());
        let stored_messages = messages.len();
        let (id, model, owner) = (session.id, model.to_owned(), session.owner.clone());
        let (store, session) = (Some(store.clone()), Some(session));
        let journal = Self {
            store,
            conceal,
            session,
            id,
            model,
            owner,
            stored_messages,
            unstored_use: None,
            messages_if_written: None,
        };
        Ok((journal, OpenedSession { messages, interrupted_turn }))
    }

    /// Returns the conversation's short name: its prefix, or before it is stored, its whole future id.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.session.as_ref().map_or_else(|| self.id.to_string(), |session| session.prefix.clone())
    }

    /// Remembers the usage and cost of `reply`, the newest answer. The next [`store_turn`](Self::store_turn) stores
    /// them with that answer.
    pub fn record_cost(&mut self, reply: &Reply) {
        self.unstored_use = Some(model_use(reply.usage, reply.cost));
    }

    /// Excludes other turns of this process from the conversation, even before it is stored, until the claim is
    /// dropped. Hold the claim for as long as a turn is under way. Without a store, returns `None` and excludes no
    /// turn.
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when another turn holds the claim already.
    pub fn claim(&self) -> Result<Option<Claim>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        let busy_error = || StoreError::SessionBusy { prefix: self.prefix() };
        store.claim_id(self.id).map(Some).ok_or_else(busy_error)
    }

    /// Stores the new messages of `turn`. If the future is dropped, or fails before the outcome of the write is known,
    /// the next call finds out which messages were stored, and continues with the next one.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be written. It has then stored none of the new messages.
    pub async fn store_turn(&mut self, turn: &Turn) -> Result<(), StoreError> {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let messages = turn.messages();
        if self.session.is_none() {
            let (title, owner) = (make_title(messages, &*self.conceal), self.owner.clone());
            let new_session = NewSession { title, model: Some(self.model.clone()), agent: None, owner };
            self.session = Some(store.create_session_as(self.id, &new_session).await?);
        }
        let mut result = self.append_new(&store, turn).await;
        if let Err(StoreError::SessionMoved { found: found_messages, .. }) = &result
            && self.accept_earlier_write(&store, *found_messages, messages).await?
        {
            result = self.append_new(&store, turn).await;
        }
        result
    }

    /// Adds the messages that are not stored yet.
    async fn append_new(&mut self, store: &Store, turn: &Turn) -> Result<(), StoreError> {
        let messages = turn.messages();
        let mut rows: Vec<_> = messages
            .get(self.stored_messages..)
            .unwrap_or_default()
            .iter()
            .map(|message| message_row(message, &*self.conceal))
            .collect();
        if let Some(answer) = rows.iter_mut().rfind(|row| row.role == crate::Role::Assistant) {
            answer.spent = self.unstored_use;
        }
        let is_done = matches!(turn.next(), turn::Next::Done(_));
        let step = Step {
            position: self.stored_messages as u64,
            messages: rows,
            open_turn: if is_done { None } else { serde_json::to_string(&turn.state().concealed(&*self.conceal)).ok() },
            model: Some(self.model.clone()),
        };
        self.messages_if_written = Some(messages.len());
        let (store, id) = (store.clone(), self.id);
        run_in_own_task(async move { store.append(id, &step).await }).await?;
        (self.stored_messages, self.unstored_use, self.messages_if_written) = (messages.len(), None, None);
        Ok(())
    }

    /// Returns whether the conversation has `found` messages because an earlier [`append_new`](Self::append_new), whose
    /// outcome was unknown, stored them. If so, counts them as stored.
    async fn accept_earlier_write(
        &mut self,
        store: &Store,
        found_messages: u64,
        messages: &[Message],
    ) -> Result<bool, StoreError> {
        let found_messages = usize::try_from(found_messages).unwrap_or(usize::MAX);
        if self.messages_if_written.is_none_or(|messages_if_written| found_messages > messages_if_written)
            || found_messages <= self.stored_messages
        {
            return Ok(false);
        }
        let expected_messages = messages.get(self.stored_messages..found_messages).unwrap_or_default();
        let stored_rows = store.messages(self.id, self.stored_messages as u64, expected_messages.len()).await?;
        let has_same_body = |(stored_row, message): (&StoredMessage, &Message)| {
            stored_row.body == message_row(message, &*self.conceal).body
        };
        if stored_rows.len() != expected_messages.len() || !stored_rows.iter().zip(expected_messages).all(has_same_body)
        {
            return Ok(false);
        }
        (self.stored_messages, self.unstored_use) = (found_messages, None);
        Ok(true)
    }

    /// Stops storing. The conversation can be continued from its stored messages.
    pub fn stop_storing(&mut self) {
        self.store = None;
    }

    /// Sets the model that answers from now on.
    pub fn set_model(&mut self, model: &str) {
        model.clone_into(&mut self.model);
    }

    /// Returns the conversation, or `None` until its first message is stored.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns the id of the conversation, or `None` until its first message is stored.
    #[must_use]
    pub fn id(&self) -> Option<Uuid> {
        self.session.as_ref().map(|session| session.id)
    }
}

/// Returns the use of a model as the store counts it, in tokens and billionths of a dollar. `cost` is in US dollars.
#[must_use]
pub fn model_use(usage: Usage, cost: Option<f64>) -> ModelUse {
    ModelUse {
        input: usage.input,
        output: usage.output,
        cached_read: usage.cached_read,
        cache_write: usage.cache_write,
        reasoning: usage.reasoning,
        // An `f64` of dollars is precise to a billionth for any cost that a conversation can have.
        cost: cost.map(billionths),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no conversation costs 18 billion dollars, or less than none"
)]
fn billionths(dollars: f64) -> u64 {
    (dollars * 1e9).round().max(0.0) as u64
}

/// Makes a title from the first line of the user's first message.
fn make_title(messages: &[Message], conceal: &dyn Fn(&str) -> String) -> String {
    let first_message = messages.iter().find(|message| message.role == Role::User);
    let line = first_message.and_then(|message| message.content.trim().lines().next()).unwrap_or_default();
    // Conceal before cutting: `conceal` does not find a part of a secret.
    conceal(line).chars().take(MAX_TITLE_CHARS).collect()
}

/// Returns the row that stores `message`, with the secrets in it hidden.
fn message_row(message: &Message, conceal: &dyn Fn(&str) -> String) -> NewMessage {
    let body = message.concealed(conceal);
    // `body` keeps the blocks in the format of the model's provider, because it is sent to that provider again. Other
    // programs read the columns. These leave the blocks out, so that every secret in them can be hidden.
    let mut without_blocks = message.clone();
    without_blocks.blocks = None;
    let message = without_blocks.concealed(conceal);
    let role = match message.role {
        Role::System => crate::Role::System,
        Role::User => crate::Role::User,
        Role::Assistant => crate::Role::Assistant,
        Role::Tool => crate::Role::Tool,
    };
    let tool_calls = message.tool_calls.as_ref();
    NewMessage {
        tool_calls: tool_calls.and_then(|tool_calls| serde_json::to_string(tool_calls).ok()),
        tool_results: message.tool_call_id.as_ref().map(|id| json!({ "tool_call_id": id }).to_string()),
        body: serde_json::to_string(&body).ok(),
        ..NewMessage::new(role, message.content.as_str())
    }
}

/// Restores a message from its body, or from the columns if another program stored it.
fn restore_message(row: &StoredMessage) -> Message {
    if let Some(message) = row.body.as_deref().and_then(|body| serde_json::from_str(body).ok()) {
        return message;
    }
    let role = match row.role {
        crate::Role::System => Role::System,
        crate::Role::User => Role::User,
        crate::Role::Assistant => Role::Assistant,
        crate::Role::Tool => Role::Tool,
    };
    let mut message = Message::new(role, row.content.as_str());
    let parse = |json: &Option<String>| serde_json::from_str::<serde_json::Value>(json.as_deref()?).ok();
    message.tool_calls = row.tool_calls.as_deref().and_then(|calls| serde_json::from_str(calls).ok());
    message.tool_call_id =
        parse(&row.tool_results).and_then(|results| Some(results.get("tool_call_id")?.as_str()?.to_owned()));
    message
}

#[cfg(test)]
mod tests;
