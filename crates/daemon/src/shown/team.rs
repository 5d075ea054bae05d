//! Members of a team, their tokens, and the clients that act in their names.

use chrono::{DateTime, Utc};
use serde::Serialize;
use toolrack_host::{Principal, text};
use toolrack_store::{Grant, Purpose, TeamToken};
use url::Url;
use utoipa::ToSchema;

use super::seconds;

/// A member of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "Member")]
pub(crate) struct Member {
    /// The id of the member in this API. It gives no access.
    id: String,
    name: String,
    /// `person` or `service`.
    kind: &'static str,
    /// `viewer`, `user`, `operator`, `auditor`, `admin` or `scraper`.
    role: &'static str,
    groups: Vec<String>,
    /// The issuer that vouches for the member; `toolrack` for one that `toolrack team token` made.
    issuer: String,
    /// The member, as the issuer names it.
    subject: String,
    /// Whether the member sends this request.
    you: bool,
    /// How many personal tokens the member has.
    tokens: usize,
    /// How many browsers the member is signed in with.
    sessions: usize,
    /// How many clients act in the name of the member.
    clients: usize,
    /// When the member last signed in or a client of theirs last got a token, in RFC 3339; `null` if that is not known.
    active_at: Option<String>,
}

/// What a member has.
#[derive(Default)]
pub(crate) struct Holdings {
    tokens: usize,
    sessions: usize,
    clients: usize,
    active_at: Option<DateTime<Utc>>,
}

impl Holdings {
    pub(crate) fn add_token(&mut self, token: &TeamToken) {
        match token.purpose {
            Purpose::Personal => return self.tokens += 1,
            Purpose::Browser => self.sessions += 1,
            _ => {}
        }
        self.active_at = self.active_at.max(Some(token.made_at));
    }

    pub(crate) fn add_grant(&mut self, grant: &Grant) {
        self.clients += 1;
        self.active_at = self.active_at.max(grant.renewed_at.and_then(time));
    }
}

impl Member {
    pub(crate) fn of(member: &Principal, holdings: &Holdings, you: bool) -> Self {
        let Holdings { tokens, sessions, clients, active_at } = *holdings;
        Self {
            id: member.key(),
            name: member.name().to_owned(),
            kind: member.kind().word(),
            role: member.role().word(),
            groups: member.groups().map(str::to_owned).collect(),
            issuer: member.issuer().to_owned(),
            subject: member.subject().to_owned(),
            you,
            tokens,
            sessions,
            clients,
            active_at: active_at.map(seconds),
        }
    }
}

/// A token or a session of a member, without the secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "MemberToken")]
pub(crate) struct Token {
    /// Names the token. It gives no access.
    id: String,
    /// `personal`, or `browser` for the session of a browser.
    purpose: &'static str,
    /// What it is for, in the words of who made it; the name of the browser for a session.
    label: String,
    /// The profile whose MCP endpoint it opens, and nothing else.
    profile: Option<String>,
    /// In RFC 3339.
    made_at: String,
    /// In RFC 3339; `null` if it does not end by itself.
    ends_at: Option<String>,
    /// Whether this request was sent with it.
    current: bool,
}

impl Token {
    /// `used` is the id of the token that this request was sent with.
    pub(crate) fn of(token: TeamToken, used: &str) -> Self {
        Self {
            current: token.id == used,
            id: token.id,
            purpose: token.purpose.word(),
            label: text::for_line(&token.label).into_owned(),
            profile: token.profile,
            made_at: seconds(token.made_at),
            ends_at: token.ends_at.map(seconds),
        }
    }
}

/// A client that a member allowed to act in their name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "MemberClient")]
pub(crate) struct Client {
    /// Names what the member allowed. It gives no access.
    id: String,
    /// What the client calls itself. No one has checked it.
    name: String,
    /// The id of the client. With a document of its own it is the address of that.
    client: String,
    /// The place to which the browser went back when the member allowed it.
    sent_to: Option<String>,
    /// What its tokens open.
    resource: String,
    scope: String,
    /// In RFC 3339.
    allowed_at: Option<String>,
    /// When it last got a token, in RFC 3339.
    renewed_at: Option<String>,
    /// When it ends unless it is renewed, in RFC 3339.
    ends_at: Option<String>,
}

impl From<Grant> for Client {
    fn from(grant: Grant) -> Self {
        let at = |at: i64| time(at).map(seconds);
        Self {
            id: grant.family,
            name: text::for_line(&grant.client_name).into_owned(),
            client: text::for_line(&grant.client).into_owned(),
            sent_to: Url::parse(&grant.redirect_uri).ok().map(|uri| uri[..url::Position::BeforePath].to_owned()),
            resource: grant.resource,
            scope: grant.scope,
            allowed_at: at(grant.made_at),
            renewed_at: grant.renewed_at.and_then(at),
            ends_at: at(grant.ends_at),
        }
    }
}

fn time(at: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(at, 0)
}
