//! The form in which standing answers are shown: answers of users that allow more than one call.

use chrono::DateTime;
use serde::Serialize;
use toolrack_host::SessionAnswer;
use toolrack_store::StandingAnswer;
use utoipa::ToSchema;

/// A tool whose calls run without a question, as long as its definition does not change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StandingAnswer)]
pub struct ShownAnswer {
    server: String,
    /// The tool's own name; untrusted.
    tool: String,
    /// The hash of the definition that it is for.
    definition: String,
    /// `tool`, or `server` when the user gave it for all tools that the server had.
    given_for: String,
    /// The way of the call that the user was asked about: `cli`, `daemon`, `gateway`, `agent`, `program`.
    way: String,
    /// `always`, or `session`: until the daemon ends.
    lasting: &'static str,
    /// In RFC 3339.
    at: Option<String>,
    /// The name of the member, if it covers only the calls of one member; untrusted.
    member: Option<String>,
}

impl From<StandingAnswer> for ShownAnswer {
    fn from(answer: StandingAnswer) -> Self {
        let at = DateTime::from_timestamp(answer.answered_at, 0);
        Self {
            server: answer.server,
            tool: answer.tool,
            definition: answer.definition.to_string(),
            given_for: if answer.of_server { "server" } else { "tool" }.to_owned(),
            way: answer.way,
            lasting: "always",
            at: at.map(super::rfc3339_seconds),
            member: answer.owner.map(|owner| owner.name),
        }
    }
}

impl From<SessionAnswer> for ShownAnswer {
    fn from(answer: SessionAnswer) -> Self {
        let member = answer.principal.filter(|principal| !principal.is_local());
        Self {
            server: answer.server.to_string(),
            tool: answer.tool,
            definition: answer.definition.to_string(),
            // An answer until the daemon ends is always for one tool.
            given_for: "tool".to_owned(),
            way: answer.way.word().to_owned(),
            lasting: "session",
            at: Some(super::rfc3339_seconds(answer.given_at.into())),
            member: member.map(|member| member.name().to_owned()),
        }
    }
}

/// The outcome of taking answers back.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForgottenAnswers {
    /// How many answers were taken back.
    pub forgotten: usize,
}
