//! Shows members and their tokens.

use serde::Serialize;
use toolrack_daemon::shown::team::{Member, Token};
use toolrack_host::text;
use toolrack_store::TeamToken;

use crate::render::{Cell, Tone, columns};

/// `team token --json`.
#[derive(Debug, Serialize)]
pub(crate) struct NewTokenDocument<'a> {
    /// The token itself, which is shown only here.
    pub(crate) token: &'a str,
    pub(crate) id: String,
    pub(crate) member: Member,
    /// The profile, if the token is valid only for the MCP endpoint of that profile.
    pub(crate) profile: Option<&'a str>,
    pub(crate) ends_at: String,
}

/// `team members --json`.
#[derive(Debug, Serialize)]
pub(crate) struct MembersDocument {
    pub(crate) members: Vec<Member>,
}

/// `team tokens --json`.
#[derive(Debug, Serialize)]
pub(crate) struct TokensDocument {
    pub(crate) tokens: Vec<MemberToken>,
}

/// A token and its member.
#[derive(Debug, Serialize)]
pub(crate) struct MemberToken {
    member: Member,
    #[serde(flatten)]
    token: Token,
}

impl From<&TeamToken> for MemberToken {
    fn from(token: &TeamToken) -> Self {
        Self { member: (&token.member).into(), token: token.into() }
    }
}

/// Returns a line for each member.
pub(crate) fn members_page(list: &MembersDocument) -> String {
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

/// Returns a line for each token.
pub(crate) fn tokens_page(list: &TokensDocument) -> String {
    let row = |MemberToken { member, token }: &MemberToken| {
        let expiry = token.ends_at.as_deref().map_or_else(|| "has no end".to_owned(), |at| format!("until {at}"));
        vec![
            Cell::new(Tone::Strong, token.id.clone()),
            Cell::new(Tone::Plain, text::for_line(&format!("{} of {}", member.name, member.tenant))),
            Cell::new(Tone::Plain, token.purpose),
            Cell::new(Tone::Faint, expiry),
            Cell::new(Tone::Faint, text::for_line(&token.label)),
        ]
    };
    columns(&list.tokens.iter().map(row).collect::<Vec<_>>()).join("\n")
}
