//! Stores a conversation of an agent, step by step.

use std::fmt;

use serde_json::json;
use toolrack_agent::{Message, Reply, Role, Turn, Usage, turn};
use toolrack_host::{Conceal, owned};

use crate::{Claim, NewMessage, NewSession, Session, Spent, Step, Store, StoreError, StoredMessage, Uuid};

/// Messages that are read at once when a conversation is continued.
const PAGE: usize = 1_000;

/// The most characters of a title.
const TITLE: usize = 80;

/// Stores one conversation, without the secrets that are known by then: a model can have been typed one, or have made one up.
pub struct Journal {
    store: Option<Store>,
    conceal: Conceal,
    session: Option<Session>,
    /// The id of the session, now or once it is stored.
    id: Uuid,
    /// The model that answers.
    model: String,
    /// How many messages are stored.
    kept: usize,
    /// The cost of the newest answer, until it is written.
    spent: Option<Spent>,
    /// How many messages are stored if the last step of unknown outcome was written; fewer if an earlier one was.
    unsure: Option<usize>,
}

/// A conversation to continue.
#[derive(Debug, Default)]
pub struct Opened {
    /// The messages so far.
    pub messages: Vec<Message>,
    /// The state of an interrupted turn.
    pub open: Option<turn::State>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("id", &self.id).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Journal {
    /// A journal of a new conversation; without a store, nothing is stored. `conceal` hides secrets in what is.
    #[must_use]
    pub fn new(store: Option<Store>, model: &str, conceal: Conceal) -> Self {
        let id = Uuid::now_v7();
        Self { store, conceal, session: None, id, model: model.to_owned(), kept: 0, spent: None, unsure: None }
    }

    /// A journal of a conversation that continues.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open(
        store: &Store,
        session: Session,
        model: &str,
        conceal: Conceal,
    ) -> Result<(Self, Opened), StoreError> {
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
        let journal = Self { store, conceal, session, id, model: model.to_owned(), kept, spent: None, unsure: None };
        Ok((journal, Opened { messages, open }))
    }

    /// The conversation's short name: the one that it has, or the end of the id that it will have.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.session.as_ref().map_or_else(|| self.id.to_string(), |session| session.prefix.clone())
    }

    /// Notes the cost of the newest answer.
    pub fn cost_of(&mut self, reply: &Reply) {
        self.spent = Some(spent(reply.usage, reply.cost));
    }

    /// Keeps other turns of this process out of the conversation, even before it is stored; does nothing without a
    /// store. Hold it for as long as a turn is under way.
    ///
    /// # Errors
    /// [`StoreError::SessionBusy`] when another turn holds it already.
    pub fn claim(&self) -> Result<Option<Claim>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        let busy = || StoreError::SessionBusy {
            prefix: self.session.as_ref().map_or_else(|| self.id.to_string(), |session| session.prefix.clone()),
        };
        store.claim_id(self.id).map(Some).ok_or_else(busy)
    }

    /// Stores what is new in `turn`. If it is dropped or fails before it is known whether something was written, the
    /// next call continues from what was.
    ///
    /// # Errors
    /// When it cannot be written; nothing of it is stored then.
    pub async fn keep(&mut self, turn: &Turn) -> Result<(), StoreError> {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let messages = turn.messages();
        if self.session.is_none() {
            let new =
                NewSession { title: title(messages, &*self.conceal), model: Some(self.model.clone()), agent: None };
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

    /// Adds what is not stored yet.
    async fn add(&mut self, store: &Store, turn: &Turn) -> Result<(), StoreError> {
        let messages = turn.messages();
        let mut rows: Vec<_> =
            messages.get(self.kept..).unwrap_or_default().iter().map(|message| row(message, &*self.conceal)).collect();
        if let Some(answer) = rows.iter_mut().rfind(|row| row.role == crate::Role::Assistant) {
            answer.spent = self.spent;
        }
        let is_done = matches!(turn.next(), turn::Next::Done(_));
        let step = Step {
            position: self.kept as u64,
            messages: rows,
            open_turn: if is_done { None } else { serde_json::to_string(&turn.state().concealed(&*self.conceal)).ok() },
            model: Some(self.model.clone()),
        };
        self.unsure = Some(messages.len());
        let (store, id) = (store.clone(), self.id);
        owned(async move { store.append(id, &step).await }).await?;
        (self.kept, self.spent, self.unsure) = (messages.len(), None, None);
        Ok(())
    }

    /// Whether a step of ours made the conversation longer than it was known to be, by `found` messages in all.
    async fn has_added(&mut self, store: &Store, found: u64, messages: &[Message]) -> Result<bool, StoreError> {
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        if self.unsure.is_none_or(|unsure| found > unsure) || found <= self.kept {
            return Ok(false);
        }
        let ours = messages.get(self.kept..found).unwrap_or_default();
        let there = store.messages(self.id, self.kept as u64, ours.len()).await?;
        let is_ours = |(there, ours): (&StoredMessage, &Message)| there.body == row(ours, &*self.conceal).body;
        if there.len() != ours.len() || !there.iter().zip(ours).all(is_ours) {
            return Ok(false);
        }
        (self.kept, self.spent) = (found, None);
        Ok(true)
    }

    /// Stores nothing from now on. What is stored stays a conversation that can be continued.
    pub fn give_up(&mut self) {
        self.store = None;
    }

    /// From now on, another model answers.
    pub fn answered_by(&mut self, model: &str) {
        model.clone_into(&mut self.model);
    }

    /// The conversation, once a part of it is stored.
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

/// Usage and cost, in US dollars, as the store counts them.
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

/// The first line of the user's first message.
fn title(messages: &[Message], conceal: &dyn Fn(&str) -> String) -> String {
    let first = messages.iter().find(|message| message.role == Role::User);
    let line = first.and_then(|message| message.content.trim().lines().next()).unwrap_or_default();
    // Before it is cut: a part of a secret would not be found.
    conceal(line).chars().take(TITLE).collect()
}

fn row(message: &Message, conceal: &dyn Fn(&str) -> String) -> NewMessage {
    let kept = message.concealed(conceal);
    // What other programs read goes back to no provider, so nothing of it has to stay as it was.
    let mut plain = message.clone();
    plain.blocks = None;
    let message = plain.concealed(conceal);
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
        body: serde_json::to_string(&kept).ok(),
        ..NewMessage::new(role, message.content.as_str())
    }
}

/// A message as it was, or as much of it as other programs stored.
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
