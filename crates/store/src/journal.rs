//! Keeps a conversation of an agent, step by step.

use serde_json::json;
use toolrack_agent::{Message, Reply, Role, Turn, Usage, turn};
use toolrack_host::owned;

use crate::{Claim, NewMessage, NewSession, Session, Spent, Step, Store, StoreError, StoredMessage, Uuid};

/// Messages that are read at once when a conversation is gone on with.
const PAGE: usize = 1_000;

/// Characters of a title.
const TITLE: usize = 80;

/// Writes one conversation down.
#[derive(Debug)]
pub struct Journal {
    store: Option<Store>,
    session: Option<Session>,
    /// The id that it has, or will have.
    id: Uuid,
    /// Who answers.
    model: String,
    /// How many messages are kept.
    kept: usize,
    /// What the newest answer has cost, until it is written.
    spent: Option<Spent>,
    /// How many messages are kept if the last step was written of which nobody has heard; fewer if one before it was.
    unsure: Option<usize>,
}

/// A conversation to go on with.
#[derive(Debug, Default)]
pub struct Opened {
    /// What was said so far.
    pub messages: Vec<Message>,
    /// Where a turn stands that was interrupted.
    pub open: Option<turn::State>,
}

impl Journal {
    /// Of a conversation that begins; without a store, nothing is kept.
    #[must_use]
    pub fn new(store: Option<Store>, model: &str) -> Self {
        let id = Uuid::now_v7();
        Self { store, session: None, id, model: model.to_owned(), kept: 0, spent: None, unsure: None }
    }

    /// Of one that is gone on with.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open(store: &Store, session: Session, model: &str) -> Result<(Self, Opened), StoreError> {
        let mut messages = Vec::new();
        loop {
            let page = store.messages(session.id, messages.len() as u64, PAGE).await?;
            let is_last = page.len() < PAGE;
            messages.extend(page.iter().map(message));
            if is_last {
                break;
            }
        }
        let open = store.open_turn(session.id).await?.and_then(|state| serde_json::from_str(&state).ok());
        let kept = messages.len();
        let (store, id, session) = (Some(store.clone()), session.id, Some(session));
        let journal = Self { store, session, id, model: model.to_owned(), kept, spent: None, unsure: None };
        Ok((journal, Opened { messages, open }))
    }

    /// The conversation's short name: what it is called already, or the end of the id that it will have.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.session.as_ref().map_or_else(|| self.id.to_string(), |session| session.prefix.clone())
    }

    /// What the newest answer has cost.
    pub fn cost_of(&mut self, reply: &Reply) {
        self.spent = Some(spent(reply.usage, reply.cost));
    }

    /// Keeps everybody else in this process from going on with the conversation, also with one that nobody can have heard of
    /// yet; nothing without a store. To be taken for as long as a turn of it is under way.
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when somebody has it already.
    pub fn claim(&self) -> Result<Option<Claim>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        let busy = || StoreError::SessionBusy {
            prefix: self.session.as_ref().map_or_else(|| self.id.to_string(), |session| session.prefix.clone()),
        };
        store.claim_id(self.id).map(Some).ok_or_else(busy)
    }

    /// Writes down what is new in `turn`. Where it is dropped or fails before it is known whether something was written, the
    /// next one goes on from what was.
    ///
    /// # Errors
    /// When it cannot be written; nothing of it is then.
    pub async fn keep(&mut self, turn: &Turn) -> Result<(), StoreError> {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let messages = turn.messages();
        if self.session.is_none() {
            let new = NewSession { title: title(messages), model: Some(self.model.clone()), agent: None };
            self.session = Some(store.create_session_as(self.id, &new).await?);
        }
        let mut added = self.add(&store, turn).await;
        if let Err(StoreError::SessionMoved { found, .. }) = &added
            && self.has_added(&store, *found, messages).await?
        {
            added = self.add(&store, turn).await;
        }
        added
    }

    /// Adds what is not kept yet.
    async fn add(&mut self, store: &Store, turn: &Turn) -> Result<(), StoreError> {
        let messages = turn.messages();
        let mut rows: Vec<_> = messages.get(self.kept..).unwrap_or_default().iter().map(row).collect();
        if let Some(answer) = rows.iter_mut().rfind(|row| row.role == crate::Role::Assistant) {
            answer.spent = self.spent;
        }
        let is_done = matches!(turn.next(), turn::Next::Done(_));
        let step = Step {
            position: self.kept as u64,
            messages: rows,
            open_turn: if is_done { None } else { serde_json::to_string(turn.state()).ok() },
            model: Some(self.model.clone()),
        };
        self.unsure = Some(messages.len());
        let (store, id) = (store.clone(), self.id);
        owned(async move { store.append(id, &step).await }).await?;
        (self.kept, self.spent, self.unsure) = (messages.len(), None, None);
        Ok(())
    }

    /// Whether the conversation is longer than it was known to be, by `found` messages in all, because of a step of ours.
    async fn has_added(&mut self, store: &Store, found: u64, messages: &[Message]) -> Result<bool, StoreError> {
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        if self.unsure.is_none_or(|unsure| found > unsure) || found <= self.kept {
            return Ok(false);
        }
        let ours = messages.get(self.kept..found).unwrap_or_default();
        let there = store.messages(self.id, self.kept as u64, ours.len()).await?;
        let is_ours = |(there, ours): (&StoredMessage, &Message)| there.body == row(ours).body;
        if there.len() != ours.len() || !there.iter().zip(ours).all(is_ours) {
            return Ok(false);
        }
        (self.kept, self.spent) = (found, None);
        Ok(true)
    }

    /// Keeps nothing from now on. What is kept stays a conversation that can be gone on with.
    pub fn give_up(&mut self) {
        self.store = None;
    }

    /// From now on, another model answers.
    pub fn answered_by(&mut self, model: &str) {
        model.clone_into(&mut self.model);
    }

    /// The conversation, once something of it is kept.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Option<Uuid> {
        self.session.as_ref().map(|session| session.id)
    }
}

/// What the store says of usage, and of a cost in US dollars.
#[must_use]
pub fn spent(usage: Usage, cost: Option<f64>) -> Spent {
    Spent {
        input: usage.input,
        output: usage.output,
        cached_read: usage.cached_read,
        cache_write: usage.cache_write,
        reasoning: usage.reasoning,
        // Billionths: a number that a float of dollars holds exactly enough.
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

/// The first line of what the person said first.
fn title(messages: &[Message]) -> String {
    let first = messages.iter().find(|message| message.role == Role::User);
    let line = first.and_then(|message| message.content.trim().lines().next()).unwrap_or_default();
    line.chars().take(TITLE).collect()
}

fn row(message: &Message) -> NewMessage {
    let role = match message.role {
        Role::System => crate::Role::System,
        Role::User => crate::Role::User,
        Role::Assistant => crate::Role::Assistant,
        Role::Tool => crate::Role::Tool,
    };
    let calls = message.tool_calls.as_ref();
    NewMessage {
        tool_calls: calls.and_then(|calls| serde_json::to_string(calls).ok()),
        tool_results: message.tool_call_id.as_ref().map(|id| json!({ "tool_call_id": id }).to_string()),
        body: serde_json::to_string(message).ok(),
        ..NewMessage::new(role, message.content.as_str())
    }
}

/// A message as it was, or as much as others have kept of it.
fn message(stored: &StoredMessage) -> Message {
    if let Some(message) = stored.body.as_deref().and_then(|body| serde_json::from_str(body).ok()) {
        return message;
    }
    let role = match stored.role {
        crate::Role::System => Role::System,
        crate::Role::User => Role::User,
        crate::Role::Assistant => Role::Assistant,
        crate::Role::Tool => Role::Tool,
    };
    let mut message = Message::new(role, stored.content.as_str());
    let parsed = |json: &Option<String>| serde_json::from_str::<serde_json::Value>(json.as_deref()?).ok();
    message.tool_calls = stored.tool_calls.as_deref().and_then(|calls| serde_json::from_str(calls).ok());
    message.tool_call_id =
        parsed(&stored.tool_results).and_then(|results| Some(results.get("tool_call_id")?.as_str()?.to_owned()));
    message
}

#[cfg(test)]
mod tests;
