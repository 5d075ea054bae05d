//! The form in which stored conversations are shown.

use serde::Serialize;
use toolrack_store::{ModelUse, Session};
use utoipa::ToSchema;

use super::rfc3339_millis;

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct Conversation {
    id: String,
    /// The shortest prefix of the id that no other conversation shares.
    prefix: String,
    title: String,
    model: Option<String>,
    agent: Option<String>,
    /// The member whose conversation it is; missing for the user of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<ConversationOwner>,
    created_at: String,
    updated_at: String,
    messages: u64,
    /// Whether a turn was interrupted and can be continued.
    open_turn: bool,
    /// Tokens and dollars: `input_tokens`, `output_tokens`, `cached_read_tokens`, `cache_write_tokens`,
    /// `reasoning_tokens`, `cost_usd`.
    #[schema(value_type = Object)]
    spent: ModelUse,
}

/// The member whose conversation it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConversationOwner {
    /// The id of the member, as in `GET /api/v1/members`.
    id: String,
    /// The name of the member when the conversation began.
    name: String,
}

impl From<&Session> for Conversation {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            prefix: session.prefix.clone(),
            title: session.title.clone(),
            model: session.model.clone(),
            agent: session.agent.clone(),
            owner: session
                .owner
                .as_ref()
                .map(|owner| ConversationOwner { id: owner.key.clone(), name: owner.name.clone() }),
            created_at: rfc3339_millis(session.created_at),
            updated_at: rfc3339_millis(session.updated_at),
            messages: session.messages,
            open_turn: session.has_open_turn,
            spent: session.spent,
        }
    }
}
