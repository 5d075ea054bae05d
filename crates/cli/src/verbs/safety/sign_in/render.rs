//! Shows sign-ins. No token ever reaches this module.

use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::Serialize;
use toolrack_auth::Account;
use toolrack_host::text;

use crate::render::{Cell, Layout, Sign, Tone, columns, count};

/// `login --json`.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedIn<'a> {
    pub(crate) server: &'a str,
    pub(crate) account: Option<&'a str>,
    pub(crate) issuer: &'a str,
    pub(crate) scopes: &'a [String],
    #[serde(serialize_with = "serialize_time")]
    pub(crate) expires_at: Option<u64>,
    pub(crate) renewable: bool,
    /// How many tools the server has; `None` if it could not be connected.
    pub(crate) tools: Option<usize>,
}

/// `logout --json`.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedOut<'a> {
    pub(crate) server: &'a str,
    pub(crate) was_signed_in: bool,
    /// Whether the server has revoked the tokens; `None` if there was no sign-in.
    pub(crate) revoked: Option<bool>,
}

/// `auth status --json`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusDocument {
    pub(crate) accounts: Vec<AccountRow>,
}

/// A sign-in.
#[derive(Debug, Serialize)]
pub(crate) struct AccountRow {
    url: String,
    account: Option<String>,
    /// The configured servers that use this sign-in.
    servers: Vec<String>,
    issuer: String,
    scopes: Vec<String>,
    #[serde(serialize_with = "serialize_time")]
    expires_at: Option<u64>,
    renewable: bool,
    signed_in: bool,
}

impl AccountRow {
    pub(crate) fn new(account: Account, servers: Vec<String>) -> Self {
        Self {
            url: account.key.resource,
            account: Some(account.key.account).filter(|account| !account.is_empty()),
            servers,
            issuer: account.issuer,
            scopes: account.scopes,
            expires_at: account.expires,
            renewable: account.renewable,
            signed_in: account.signed_in,
        }
    }
}

fn timestamp(seconds: u64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)
}

#[expect(clippy::ref_option, reason = "serde hands a field over by reference")]
fn serialize_time<S: serde::Serializer>(seconds: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    let formatted = seconds.and_then(timestamp).map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true));
    formatted.serialize(serializer)
}

/// Describes the result of a sign-in.
pub(crate) fn logged_in(logged_in: &LoggedIn<'_>) -> String {
    let mut words = format!("signed in to {}", text::for_line(logged_in.server));
    if let Some(account) = logged_in.account {
        words += &format!(" as {}", text::for_line(account));
    }
    words += &format!(" by {}", text::for_line(logged_in.issuer));
    if !logged_in.scopes.is_empty() {
        words += &format!(", for {}", text::for_line(&logged_in.scopes.join(" ")));
    }
    if let Some(tools) = logged_in.tools {
        words += &format!("; {}", count(tools, "tool"));
    }
    words
}

/// Describes the result of signing out.
pub(crate) fn logged_out(logged_out: &LoggedOut<'_>) -> String {
    let server = text::for_line(logged_out.server);
    match (logged_out.was_signed_in, logged_out.revoked) {
        (false, _) => format!("you were not signed in to {server}"),
        (true, Some(true)) => format!("signed out of {server}; the tokens are revoked"),
        (true, _) => format!("signed out of {server}; its tokens are deleted here, but are valid until they expire"),
    }
}

/// Returns a line for each sign-in.
pub(crate) fn page(status: &StatusDocument, layout: Layout) -> String {
    let row = |row: &AccountRow| {
        let now = Utc::now();
        let expires_at = row.expires_at.and_then(timestamp);
        let is_valid = row.signed_in && (row.renewable || expires_at.is_none_or(|expires_at| expires_at > now));
        let (sign, tone) = if is_valid { (Sign::Good, Tone::Good) } else { (Sign::Key, Tone::Waiting) };
        let state = match expires_at {
            _ if !row.signed_in => "signed out by the server".to_owned(),
            _ if row.renewable => "signed in".to_owned(),
            Some(expires_at) if expires_at <= now => "expired".to_owned(),
            Some(expires_at) => format!("until {}", expires_at.with_timezone(&Local).format("%Y-%m-%d %H:%M")),
            None => "signed in".to_owned(),
        };
        let name = if row.servers.is_empty() { row.url.clone() } else { row.servers.join(", ") };
        vec![
            Cell::new(tone, layout.sign(sign)),
            Cell::new(Tone::Strong, text::for_line(&name)),
            Cell::new(Tone::Plain, text::for_line(row.account.as_deref().unwrap_or("-"))),
            Cell::new(tone, state),
            Cell::new(Tone::Faint, text::for_line(&format!("{} {}", row.issuer, row.scopes.join(" ")))),
        ]
    };
    columns(&status.accounts.iter().map(row).collect::<Vec<_>>()).join("\n")
}
