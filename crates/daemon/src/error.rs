//! The errors of the control API, for programs and for users.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use toolrack_config::{
    Problem,
    edit::{EditError, NoEditTarget},
};
use toolrack_host::{CallError, CallErrorKind, OverQuota, text};
use toolrack_store::StoreError;
use utoipa::ToSchema;

use crate::world::{EditFailed, NotBegun, NotReloaded};

/// How long a client should wait before it repeats a request that failed because of the database.
const DATABASE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The maximum length of an unknown server's name in an error.
const MAX_SHOWN_NAME_BYTES: usize = 200;

/// An error: its status, and `{"error": {…}}`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    /// How long the caller should wait before it tries again.
    #[serde(skip)]
    retry_after: Option<Duration>,
    error: Box<ErrorBody>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ErrorBody {
    /// A stable word.
    #[schema(example = "UNKNOWN_SERVER")]
    code: String,
    /// A message for users.
    message: String,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The page on which a user signs in: present if the daemon serves a team and the request does not prove who sends
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "/sign-in")]
    sign_in: Option<&'static str>,
    /// The quota that is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Box<QuotaUsedUp>>,
}

/// A quota that is used up.
#[derive(Debug, Serialize, ToSchema)]
struct QuotaUsedUp {
    /// The setting of the team file, or of `toolrack.toml` for a profile.
    #[schema(example = "limits.each_member.tokens_per_day")]
    setting: String,
    /// `calls`, `result_bytes`, `tokens` or `dollars`.
    quantity: &'static str,
    /// `at_once`, `minute`, `hour`, `day` or `month`.
    window: &'static str,
    #[schema(value_type = f64)]
    used: Value,
    #[schema(value_type = f64)]
    limit: Value,
    /// The same number as in `Retry-After`.
    retry_after_seconds: u64,
}

impl QuotaUsedUp {
    fn of(over_quota: &OverQuota) -> Self {
        let quota = over_quota.quota;
        Self {
            setting: over_quota.setting.clone(),
            quantity: quota.quantity().word(),
            window: quota.window().word(),
            used: quota.quantity().number(over_quota.used),
            limit: quota.quantity().number(quota.limit()),
            retry_after_seconds: over_quota.retry_after_seconds(),
        }
    }
}

impl ApiError {
    /// An error with the stable word `code` and a message for users, without anything else.
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self {
            status,
            retry_after: None,
            error: Box::new(ErrorBody {
                code,
                message,
                hint: None,
                server: None,
                tool: None,
                sign_in: None,
                quota: None,
            }),
        }
    }

    /// The refusal of a message of an MCP client that is longer than `max` bytes, or whose end did not arrive.
    pub(crate) fn too_large(max: usize) -> Self {
        let message = format!("the message was cut off, or is larger than {max} bytes (body_bytes)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message)
    }

    /// The message for users.
    pub(crate) fn message(&self) -> &str {
        &self.error.message
    }

    /// Says what the user can do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// Says in `Retry-After` how long the caller should wait before it tries again.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Says which quota is used up, and when it is free again.
    fn with_quota(mut self, over_quota: &OverQuota) -> Self {
        self.retry_after = Some(over_quota.retry_after);
        self.error.quota = Some(Box::new(QuotaUsedUp::of(over_quota)));
        self
    }

    /// Names the page on which a user signs in.
    pub(crate) fn sign_in(mut self, page: Option<&'static str>) -> Self {
        self.error.sign_in = page;
        self
    }

    /// Adds the hint of a problem, if it has one.
    fn with_hint_of(mut self, problem: Option<&Problem>) -> Self {
        self.error.hint = problem.and_then(|problem| problem.hint.clone());
        self
    }

    /// Names the server that the error is about.
    pub(crate) fn server(mut self, server: impl Into<String>) -> Self {
        self.error.server = Some(server.into());
        self
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The error for a server that is not configured.
    pub(crate) fn no_server(name: &str) -> Self {
        let shown_name = text::for_line(&text::clip(name, MAX_SHOWN_NAME_BYTES)).into_owned();
        Self::new(StatusCode::NOT_FOUND, "UNKNOWN_SERVER", format!("there is no server `{shown_name}`"))
            .hint("GET /api/v1/servers lists all of them")
            .server(shown_name)
    }

    /// The error for a thing that does not exist, with this message for users.
    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// The error for values or servers of a member that cannot be stored or read.
    pub(crate) fn member_data_unavailable(why: String) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "NOT_KEPT", why)
    }

    /// The error for an address without a route.
    pub(crate) fn no_route() -> Self {
        Self::not_found("there is nothing at this address")
    }

    /// The error for a daemon without a database.
    pub(crate) fn no_store() -> Self {
        Self::new(StatusCode::CONFLICT, "NO_DATABASE", "the database cannot be used")
            .hint("when the daemon started, it printed what is wrong with it")
    }

    /// The error for a request that reaches the API without a principal: no layer in front has proved who sends it.
    pub(crate) fn no_principal() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "the request does not prove who sends it")
            .hint("send the daemon's token, or sign in")
    }

    /// Creates the error for a broken invariant.
    pub(crate) fn internal(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }
}

/// The value of a `Retry-After`: `wait` in whole seconds, rounded up, and at least one.
pub(crate) fn retry_after_value(wait: Duration) -> HeaderValue {
    HeaderValue::from(wait.as_secs_f64().ceil().max(1.0) as u64)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let retry_after = self.retry_after;
        let mut response = (self.status, Json(self)).into_response();
        if let Some(wait) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        }
        response
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let status = match error.kind() {
            CallErrorKind::UnknownTool => StatusCode::NOT_FOUND,
            CallErrorKind::Denied | CallErrorKind::NotTrusted => StatusCode::FORBIDDEN,
            CallErrorKind::NeedsAuth | CallErrorKind::Unreachable => StatusCode::FAILED_DEPENDENCY,
            CallErrorKind::OverQuota => StatusCode::TOO_MANY_REQUESTS,
            CallErrorKind::Config => StatusCode::CONFLICT,
            CallErrorKind::Refused | CallErrorKind::BadArguments => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut api_error = Self::new(status, error.code(), text::for_terminal(&error.to_string()).into_owned());
        api_error.error.hint = error.hint();
        if let CallError::OverQuota { over, .. } = &error {
            api_error = api_error.with_quota(over);
        }
        let (server, tool) = match &error {
            CallError::Denied { server, tool, .. }
            | CallError::OverQuota { server, tool, .. }
            | CallError::ArgumentMismatch { server, tool, .. }
            | CallError::Quarantined { server, tool, .. } => (Some(server.to_string()), Some(tool.clone())),
            CallError::NotReady { server, .. } => (Some(server.to_string()), None),
            CallError::Remote { server, what, .. } | CallError::Link { server, what, .. } => {
                (Some(server.to_string()), Some(what.clone()))
            }
            _ => (None, None),
        };
        (api_error.error.server, api_error.error.tool) = (server, tool);
        api_error
    }
}

impl From<OverQuota> for ApiError {
    fn from(over: OverQuota) -> Self {
        let message = text::for_terminal(&over.to_string()).into_owned();
        Self::new(StatusCode::TOO_MANY_REQUESTS, "OVER_QUOTA", message).with_quota(&over)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownSession { .. } | StoreError::NoSessions { .. } => {
                Self::new(StatusCode::NOT_FOUND, "UNKNOWN_SESSION", error.to_string())
            }
            StoreError::AmbiguousSession { .. } => {
                Self::new(StatusCode::CONFLICT, "AMBIGUOUS_SESSION", error.to_string()).hint("give more of the id")
            }
            StoreError::Full { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "DISK_FULL", error.to_string()),
            StoreError::Locked { .. } => Self::new(StatusCode::CONFLICT, "DATABASE_BUSY", error.to_string()),
            // Only the log says what is wrong with the database, because callers cannot mend it.
            error if error.is_temporary() => {
                tracing::warn!("{error}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "DATABASE_AWAY", "the database cannot be used now")
                    .hint("try again in a few seconds")
                    .retry_after(DATABASE_RETRY_AFTER)
            }
            error => Self::internal(&error.to_string()),
        }
    }
}

impl From<NotReloaded> for ApiError {
    fn from(error: NotReloaded) -> Self {
        match error {
            NotReloaded::Ending => Self::new(StatusCode::SERVICE_UNAVAILABLE, "ENDING", "the daemon is ending"),
            NotReloaded::Rejected(problems) => {
                let first_problem = problems.first().map_or_else(String::new, |problem| format!("{problem:#}"));
                Self::new(
                    StatusCode::CONFLICT,
                    "CONFIG_REJECTED",
                    format!("the configuration was not changed: {first_problem}"),
                )
                .hint("correct the file; until then, the daemon runs the configuration that it had before")
            }
        }
    }
}

impl From<EditFailed> for ApiError {
    fn from(error: EditFailed) -> Self {
        match error {
            EditFailed::Unknown => Self::new(StatusCode::NOT_FOUND, "UNKNOWN_SERVER", "there is no such server"),
            EditFailed::NoEditTarget(no_target) => edit_target_error(&no_target),
            EditFailed::Edit(error) => edit_error(&error),
            EditFailed::Secrets(why) => {
                let message = format!("a secret of the new entry cannot be stored: {why}");
                Self::new(StatusCode::CONFLICT, "SECRETS", message)
                    .hint("`\"plain\": true` writes its value into the file instead")
            }
            EditFailed::Store(error) => {
                Self::from(error).hint("the file was changed, and what is new in it waits until you agree to run it")
            }
            EditFailed::Unfinished => {
                Self::internal("the edit of the file did not finish: look at the file before you repeat it")
            }
        }
    }
}

impl From<NotBegun> for ApiError {
    fn from(error: NotBegun) -> Self {
        match error {
            NotBegun::NameInUse => {
                Self::new(StatusCode::CONFLICT, "ID_IN_USE", "a call or turn with this id is under way")
                    .hint("choose another id")
            }
            NotBegun::TooMany(limit) => {
                let message = format!("{limit} calls and turns with an id are under way");
                Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY", message)
                    .hint("wait until some have ended, or give no id")
            }
        }
    }
}

/// The error for an entry whose file cannot be chosen.
fn edit_target_error(no_target: &NoEditTarget) -> ApiError {
    let (message, hint) = match no_target {
        NoEditTarget::CommandLine => {
            ("the server comes from a file that was named with --mcp-config", "edit that file by hand")
        }
        NoEditTarget::BuiltIn => ("the server is a part of toolrack", "it can be disabled"),
        NoEditTarget::Several(_) => {
            ("the server is configured in several files", "remove it by hand, or with `toolrack remove --scope`")
        }
    };
    ApiError::new(StatusCode::CONFLICT, "NOT_EDITABLE", message).hint(hint)
}

/// The error for a file that was not edited.
fn edit_error(error: &EditError) -> ApiError {
    let (status, code) = match error {
        EditError::Invalid { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "INVALID_ENTRY"),
        EditError::Exists { .. } => (StatusCode::CONFLICT, "EXISTS"),
        EditError::Changed { .. } => (StatusCode::PRECONDITION_FAILED, "CHANGED"),
        EditError::Missing { .. } => (StatusCode::NOT_FOUND, "UNKNOWN_SERVER"),
        EditError::Busy { .. } => (StatusCode::CONFLICT, "BUSY"),
        EditError::Io { .. } => (StatusCode::INSUFFICIENT_STORAGE, "NOT_WRITTEN"),
        _ => (StatusCode::CONFLICT, "NOT_EDITABLE"),
    };
    match error {
        EditError::Invalid { problems, .. } => {
            let first_error = problems.iter().find(|problem| problem.is_error());
            ApiError::new(status, code, error.to_string()).with_hint_of(first_error)
        }
        // `{:#}` leaves out the quoted line of the file.
        EditError::Unreadable(problem) => {
            ApiError::new(status, code, format!("{problem:#}")).with_hint_of(Some(problem))
        }
        _ => ApiError::new(status, code, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
