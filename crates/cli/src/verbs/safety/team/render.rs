//! Members and their tokens.

use chrono::SecondsFormat;
use serde::Serialize;
use toolrack_host::{Principal, text};
use toolrack_store::TeamToken;

use crate::render::{Cell, Tone, columns};

/// `team token --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Made<'a> {
    /// The token itself: it is shown nowhere else, and never again.
    pub(crate) token: &'a str,
    pub(crate) id: String,
    pub(crate) member: Member,
    /// The profile whose MCP endpoint it opens, and nothing else.
    pub(crate) profile: Option<&'a str>,
    pub(crate) ends_at: String,
}

/// `team members --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Members {
    pub(crate) members: Vec<Member>,
}

/// A member.
#[derive(Debug, Serialize)]
pub(crate) struct Member {
    tenant: String,
    name: String,
    kind: &'static str,
    role: &'static str,
    groups: Vec<String>,
    issuer: String,
    subject: String,
}

/// `team tokens --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
}

/// A token, without what it opens with.
#[derive(Debug, Serialize)]
pub(crate) struct Token {
    id: String,
    member: Member,
    purpose: &'static str,
    label: String,
    client: Option<String>,
    profile: Option<String>,
    made_at: String,
    ends_at: Option<String>,
}

impl Member {
    pub(crate) fn of(member: &Principal) -> Self {
        Self {
            tenant: member.tenant().to_owned(),
            name: member.name().to_owned(),
            kind: member.kind().word(),
            role: member.role().word(),
            groups: member.groups().map(str::to_owned).collect(),
            issuer: member.issuer().to_owned(),
            subject: member.subject().to_owned(),
        }
    }
}

impl Token {
    pub(crate) fn of(token: &TeamToken) -> Self {
        let time = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        Self {
            id: token.id.clone(),
            member: Member::of(&token.member),
            purpose: token.purpose.word(),
            label: token.label.clone(),
            client: token.client.clone(),
            profile: token.profile.clone(),
            made_at: time(token.made_at),
            ends_at: token.ends_at.map(time),
        }
    }
}

/// A line per member.
pub(crate) fn members(list: &Members) -> String {
    let row = |member: &Member| {
        vec![
            Cell::new(Tone::Strong, text::for_line(&member.name)),
            Cell::new(Tone::Plain, text::for_line(&member.tenant)),
            Cell::new(Tone::Plain, member.role),
            Cell::new(Tone::Faint, text::for_line(&member.groups.join(", "))),
            Cell::new(Tone::Faint, text::for_line(&format!("{} of {}", member.subject, member.issuer))),
        ]
    };
    columns(&list.members.iter().map(row).collect::<Vec<_>>()).join("\n")
}

/// A line per token.
pub(crate) fn tokens(list: &Tokens) -> String {
    let row = |token: &Token| {
        let ends = token.ends_at.as_deref().map_or_else(|| "has no end".to_owned(), |at| format!("until {at}"));
        vec![
            Cell::new(Tone::Strong, token.id.clone()),
            Cell::new(Tone::Plain, text::for_line(&format!("{} of {}", token.member.name, token.member.tenant))),
            Cell::new(Tone::Plain, token.purpose),
            Cell::new(Tone::Faint, ends),
            Cell::new(Tone::Faint, text::for_line(&token.label)),
        ]
    };
    columns(&list.tokens.iter().map(row).collect::<Vec<_>>()).join("\n")
}
