//! The forms in which members of a team, their tokens, and the clients that act in their names are shown.

use chrono::{DateTime, Utc};
use serde::Serialize;
use toolrack_host::{Principal, text};
use toolrack_store::{Grant, Purpose, TeamToken};
use url::Url;
use utoipa::ToSchema;

use super::rfc3339_seconds;

/// A member of a team.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "Member")]
pub struct Member {
    /// The id of the member in the control API. It gives no access.
    pub id: String,
    /// The tenant of the member.
    pub tenant: String,
    /// The name of the member, as users see it.
    pub name: String,
    /// `person` or `service`.
    pub kind: &'static str,
    /// `viewer`, `user`, `operator`, `auditor`, `admin` or `scraper`.
    pub role: &'static str,
    /// The groups of the member.
    pub groups: Vec<String>,
    /// The issuer that vouches for the member; `toolrack` for one that `toolrack team token` made.
    pub issuer: String,
    /// The issuer's id for the member.
    pub subject: String,
}

impl From<&Principal> for Member {
    fn from(member: &Principal) -> Self {
        Self {
            id: member.key(),
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

/// A member in the list that an administrator sees.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "ListedMember")]
pub(crate) struct ListedMember {
    #[serde(flatten)]
    member: Member,
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

/// How many tokens, sessions and clients a member has, and when the member last signed in or a client of theirs last
/// got a token.
#[derive(Default)]
pub(crate) struct AccessCounts {
    tokens: usize,
    sessions: usize,
    clients: usize,
    active_at: Option<DateTime<Utc>>,
}

impl AccessCounts {
    pub(crate) fn add_token(&mut self, token: &TeamToken) {
        match token.purpose {
            // Neither a sign-in nor the token of a client, so `active_at` stays.
            Purpose::Personal => return self.tokens += 1,
            Purpose::Browser => self.sessions += 1,
            // The token of a client, which `add_grant` counts.
            _ => {}
        }
        self.active_at = self.active_at.max(Some(token.made_at));
    }

    pub(crate) fn add_grant(&mut self, grant: &Grant) {
        self.clients += 1;
        self.active_at = self.active_at.max(grant.renewed_at.and_then(from_unix_seconds));
    }
}

impl ListedMember {
    pub(crate) fn of(member: &Principal, access_counts: &AccessCounts, you: bool) -> Self {
        let AccessCounts { tokens, sessions, clients, active_at } = *access_counts;
        Self { member: member.into(), you, tokens, sessions, clients, active_at: active_at.map(rfc3339_seconds) }
    }
}

/// A token or a session of a member, without the secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MemberToken)]
pub struct Token {
    /// The id of the token. It gives no access.
    pub id: String,
    /// `personal`, `browser` for the session of a browser, or `access` for the token of a client.
    pub purpose: &'static str,
    /// The label that the member gave the token; for a session, the name of the browser.
    pub label: String,
    /// The client that has the token.
    pub client: Option<String>,
    /// The profile, if the token is valid only for the MCP endpoint of that profile.
    pub profile: Option<String>,
    /// When the token was made, in RFC 3339.
    pub made_at: String,
    /// When the token expires, in RFC 3339; `null` if it does not expire.
    pub ends_at: Option<String>,
}

impl From<&TeamToken> for Token {
    fn from(token: &TeamToken) -> Self {
        Self {
            id: token.id.clone(),
            purpose: token.purpose.word(),
            label: text::for_line(&token.label).into_owned(),
            client: token.client.as_deref().map(|client| text::for_line(client).into_owned()),
            profile: token.profile.clone(),
            made_at: rfc3339_seconds(token.made_at),
            ends_at: token.ends_at.map(rfc3339_seconds),
        }
    }
}

/// A token or a session of the member who sends the request.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(title = "OwnToken")]
pub(crate) struct OwnToken {
    #[serde(flatten)]
    token: Token,
    /// Whether this request was sent with this token.
    current: bool,
}

impl OwnToken {
    /// `request_token` is the id of the token that the request was sent with.
    pub(crate) fn of(token: &TeamToken, request_token: &str) -> Self {
        Self { token: token.into(), current: token.id == request_token }
    }
}

/// A client that a member allowed to act in their name.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MemberClient)]
pub(crate) struct Client {
    /// The id of the permission. It grants no access.
    id: String,
    /// The name that the client gives itself, which is not verified.
    name: String,
    /// The id of the client: the URL of its metadata document, if it has one.
    client: String,
    /// The origin to which the browser returned when the member allowed the client.
    sent_to: Option<String>,
    /// The resource for which its tokens are valid.
    resource: String,
    scope: String,
    /// When the member allowed the client, in RFC 3339.
    allowed_at: Option<String>,
    /// When the client last got a token, in RFC 3339.
    renewed_at: Option<String>,
    /// When the permission ends unless the client renews its token, in RFC 3339.
    ends_at: Option<String>,
}

impl From<Grant> for Client {
    fn from(grant: Grant) -> Self {
        let shown_time = |at: i64| from_unix_seconds(at).map(rfc3339_seconds);
        Self {
            id: grant.family,
            name: text::for_line(&grant.client_name).into_owned(),
            client: text::for_line(&grant.client).into_owned(),
            sent_to: Url::parse(&grant.redirect_uri).ok().map(|uri| uri[..url::Position::BeforePath].to_owned()),
            resource: grant.resource,
            scope: grant.scope,
            allowed_at: shown_time(grant.made_at),
            renewed_at: grant.renewed_at.and_then(shown_time),
            ends_at: shown_time(grant.ends_at),
        }
    }
}

fn from_unix_seconds(at: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(at, 0)
}

#[cfg(test)]
mod tests {
    use toolrack_host::{Caller, Way, principal::Kind};
    use toolrack_store::{CodeUse, MemberIdentity, NewGrant, Store, TokenHash};

    use super::*;

    /// A grant of Ann, as the store has it.
    async fn grant() -> Grant {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let by = Caller::local(Way::Cli);
        let ann = ann();
        store.put_member(&ann, &by).await.unwrap();
        let code = TokenHash::of("code");
        let new = NewGrant {
            owner: MemberIdentity { issuer: ann.issuer(), subject: ann.subject() },
            client: "trc_1",
            client_name: "Cursor\u{202e}",
            redirect_uri: "https://client.example/back",
            challenge: "secret-challenge",
            resource: "https://tools.example/mcp",
            scope: "mcp",
            code,
        };
        assert!(store.begin_grant(&new, &by).await.unwrap());
        match store.take_code(code).await.unwrap() {
            CodeUse::Good(grant) => *grant,
            other => panic!("{other:?}"),
        }
    }

    fn ann() -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", "u-17").unwrap()
    }

    #[tokio::test]
    async fn a_client_is_shown_with_the_place_of_its_answers_and_without_their_parameters() {
        let mut grant = grant().await;
        for (uri, place) in [
            ("https://client.example:8443/back?code=1", Some("https://client.example:8443")),
            ("http://127.0.0.1:4000/back", Some("http://127.0.0.1:4000")),
            ("no address", None),
        ] {
            grant.redirect_uri = uri.to_owned();
            assert_eq!(Client::from(grant.clone()).sent_to.as_deref(), place, "{uri}");
        }
        (grant.made_at, grant.renewed_at, grant.ends_at) = (0, Some(86_400), i64::MAX);
        let shown = serde_json::to_string(&Client::from(grant)).unwrap();
        assert!(!shown.contains("challenge") && !shown.contains('\u{202e}'), "{shown}");
        assert!(shown.contains("1970-01-01T00:00:00Z") && shown.contains("1970-01-02T00:00:00Z"), "{shown}");
        assert!(shown.contains("\"ends_at\":null"), "a time that no calendar has: {shown}");
    }

    #[tokio::test]
    async fn a_member_was_active_when_a_client_or_a_browser_last_got_a_token() {
        let mut access_counts = AccessCounts::default();
        let active = |access_counts: &AccessCounts| ListedMember::of(&ann(), access_counts, true).active_at;
        assert_eq!(active(&access_counts), None);
        let mut grant = grant().await;
        for (renewed_at, expected) in
            [(None, None), (Some(86_400), Some("1970-01-02T00:00:00Z")), (Some(10), Some("1970-01-02T00:00:00Z"))]
        {
            grant.renewed_at = renewed_at;
            access_counts.add_grant(&grant);
            assert_eq!(active(&access_counts).as_deref(), expected, "{renewed_at:?}");
        }
        let shown = ListedMember::of(&ann(), &access_counts, false);
        assert_eq!((shown.clients, shown.tokens, shown.sessions, shown.you), (3, 0, 0, false));
    }
}
