//! Makes errors for clients: JSON-RPC codes, messages, and the corresponding HTTP status. Some differ with the era of
//! the client: 2026-07-28 (modern), or 2025-11-25 and older (legacy).

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use toolrack_host::{
    CallError, Era, OverQuota,
    mcp::codes::{
        HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
        PARSE_ERROR, RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION,
    },
};

use super::protocol_names::{MODERN_VERSION, VERSIONS};
use crate::fair_limit::LimitReached;

/// The maximum length of untrusted text in an error message.
const MAX_QUOTED_BYTES: usize = 200;

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Box<Value>>,
    status: StatusCode,
    /// When the client may try again.
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal with a JSON-RPC code, and the HTTP status that fits it.
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        let status = match code {
            PARSE_ERROR | INVALID_REQUEST | HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => {
                StatusCode::BAD_REQUEST
            }
            METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            // The HTTP exchange itself succeeds: the body has the JSON-RPC error.
            _ => StatusCode::OK,
        };
        Self { code, message: message.into(), data: None, status, retry_after: None }
    }

    /// Replaces the HTTP status.
    pub(super) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// `_meta` lacks what every request of 2026-07-28 carries.
    pub(super) fn malformed_meta(message: impl Into<String>) -> Self {
        Self::invalid_params(message).status(StatusCode::BAD_REQUEST)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("there is no method {}", quoted(method)))
    }

    pub(super) fn header_mismatch(problem: impl AsRef<str>) -> Self {
        Self::new(HEADER_MISMATCH, format!("Header mismatch: {}", problem.as_ref()))
    }

    pub(super) fn unsupported_version(requested: &str) -> Self {
        let data = json!({"supported": VERSIONS, "requested": requested});
        Self {
            data: Some(Box::new(data)),
            ..Self::new(UNSUPPORTED_VERSION, format!("Unsupported protocol version; try {MODERN_VERSION}"))
        }
    }

    pub(super) fn not_found(era: Era, uri: &str, why: &str) -> Self {
        let code = if era == Era::Modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
        Self { data: Some(Box::new(json!({ "uri": uri }))), ..Self::new(code, format!("Resource not found: {why}")) }
    }

    /// Returns the error for too many requests at once: the client may try again.
    pub(super) fn busy(problem: &str, setting: &str) -> Self {
        Self::new(INTERNAL_ERROR, format!("{problem} at once; try again in a moment ({setting})"))
            .status(StatusCode::TOO_MANY_REQUESTS)
    }

    /// Returns the error for a limit that is used up, as in "too many streams of this member at once; try again in a
    /// moment (streams, places_for_one)". `things` names what it limits, in the plural, and `setting` is the setting of
    /// the limit.
    pub(super) fn limit_reached(things: &str, reached: LimitReached, setting: &str) -> Self {
        let setting = match reached {
            LimitReached::MemberShare => format!("{setting}, places_for_one"),
            LimitReached::AllPermits => setting.to_owned(),
        };
        Self::busy(&format!("too many {things} {}", reached.of_whom()), &setting)
    }

    /// Returns the error for a call that a quota refused.
    pub(super) fn over_quota(message: String, over: &OverQuota) -> Self {
        let mut data = over.data();
        data.insert("code".to_owned(), json!("OVER_QUOTA"));
        let refusal = Self::new(INTERNAL_ERROR, message).status(StatusCode::TOO_MANY_REQUESTS);
        Self { data: Some(Box::new(Value::Object(data))), retry_after: Some(over.retry_after), ..refusal }
    }

    /// Returns the error for a gateway that is shutting down: it begins no requests, and ends the running ones.
    pub(super) fn stopping() -> Self {
        Self::new(INTERNAL_ERROR, "the gateway is shutting down").status(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// Returns the JSON-RPC error that a client gets for an error of the host.
    pub(super) fn from_host(error: CallError, era: Era) -> Self {
        match error {
            CallError::Remote { error, .. } => {
                // 2026-07-28 has replaced `RESOURCE_NOT_FOUND`. The codes of the second arm are about the gateway's own
                // request to the server, which the client knows nothing of.
                let code = match error.code {
                    RESOURCE_NOT_FOUND if era == Era::Modern => INVALID_PARAMS,
                    HEADER_MISMATCH | UNSUPPORTED_VERSION => INTERNAL_ERROR,
                    code => code,
                };
                // The statuses of `Self::new` are for errors of the gateway itself. Here, the exchange with the gateway
                // succeeded, and only the error for a capability that the client lacks has a status of its own.
                let status = if code == MISSING_CAPABILITY { StatusCode::BAD_REQUEST } else { StatusCode::OK };
                Self { code, message: error.message, data: error.data, status, retry_after: None }
            }
            CallError::OverQuota { ref over, .. } => Self::over_quota(error.to_string(), over),
            error => Self {
                data: Some(Box::new(json!({"code": error.code()}))),
                ..Self::new(INTERNAL_ERROR, error.to_string())
            },
        }
    }

    /// The HTTP status for a client of this era. For a client of the legacy era (2025-11-25 and older), only the body
    /// has the error for an unknown method.
    pub(super) fn status_for(&self, era: Era) -> StatusCode {
        match era {
            Era::Legacy if self.code == METHOD_NOT_FOUND => StatusCode::OK,
            _ => self.status,
        }
    }
}

/// Returns untrusted text for an error message: in backticks, short, and safe to print.
pub(super) fn quoted(untrusted: &str) -> String {
    let clipped = toolrack_host::text::clip(untrusted, MAX_QUOTED_BYTES);
    format!("`{}`", toolrack_host::text::for_line(&clipped))
}

#[cfg(test)]
mod tests {
    use toolrack_host::{RpcError, ServerName};

    use toolrack_host::Quota;

    use super::*;

    fn remote(code: i64) -> CallError {
        let error = RpcError { code, message: "it failed".to_owned(), data: None };
        CallError::Remote { server: ServerName::new("github").unwrap(), what: "echo".to_owned(), error }
    }

    #[test]
    fn a_code_of_a_server_that_means_the_gateway_itself_is_not_passed_on() {
        for (code, legacy, modern) in [
            (INVALID_PARAMS, INVALID_PARAMS, INVALID_PARAMS),
            (RESOURCE_NOT_FOUND, RESOURCE_NOT_FOUND, INVALID_PARAMS),
            (HEADER_MISMATCH, INTERNAL_ERROR, INTERNAL_ERROR),
            (UNSUPPORTED_VERSION, INTERNAL_ERROR, INTERNAL_ERROR),
            (MISSING_CAPABILITY, MISSING_CAPABILITY, MISSING_CAPABILITY),
            (42, 42, 42),
        ] {
            assert_eq!(Refusal::from_host(remote(code), Era::Legacy).code, legacy, "{code}");
            assert_eq!(Refusal::from_host(remote(code), Era::Modern).code, modern, "{code}");
        }
        let refusal = Refusal::from_host(remote(MISSING_CAPABILITY), Era::Modern);
        assert_eq!(refusal.status_for(Era::Modern), StatusCode::BAD_REQUEST);
        assert_eq!(Refusal::from_host(remote(METHOD_NOT_FOUND), Era::Modern).status_for(Era::Modern), StatusCode::OK);
    }

    #[test]
    fn only_clients_of_the_newer_era_get_a_status_for_an_unknown_method() {
        let refusal = Refusal::unknown_method("tools/fly");
        assert_eq!(refusal.status_for(Era::Modern), StatusCode::NOT_FOUND);
        assert_eq!(refusal.status_for(Era::Legacy), StatusCode::OK);
        for refusal in [Refusal::invalid_request("x"), Refusal::header_mismatch("x"), Refusal::malformed_meta("x")] {
            assert_eq!(refusal.status_for(Era::Legacy), StatusCode::BAD_REQUEST, "{}", refusal.code);
        }
        assert_eq!(Refusal::busy("too many calls", "`calls`").status_for(Era::Legacy), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(Refusal::stopping().status_for(Era::Modern), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(Refusal::invalid_params("x").status_for(Era::Modern), StatusCode::OK);
    }

    #[test]
    fn a_missing_resource_has_the_code_of_the_clients_era() {
        let modern = Refusal::not_found(Era::Modern, "file:///x", "no server has it");
        let legacy = Refusal::not_found(Era::Legacy, "file:///x", "no server has it");
        assert_eq!((modern.code, legacy.code), (INVALID_PARAMS, RESOURCE_NOT_FOUND));
        assert_eq!(modern.data.unwrap()["uri"], "file:///x");
    }

    #[test]
    fn retry_after_of_a_quota_is_in_whole_seconds() {
        let quota = Quota::read("calls_per_minute", 60.0).unwrap();
        let (setting, wait) = ("limits.calls_per_minute".to_owned(), Duration::from_millis(1_200));
        let over = OverQuota::new("a member", setting, "the team file", (quota, 60), wait);
        let refusal = Refusal::over_quota("used up".to_owned(), &over);
        let data = refusal.data.unwrap();
        assert_eq!((&data["code"], &data["retryAfterSeconds"]), (&json!("OVER_QUOTA"), &json!(2)));
        assert_eq!((&data["quota"], &data["used"]), (&json!("limits.calls_per_minute"), &json!(60)));
        assert_eq!(refusal.retry_after, Some(Duration::from_millis(1_200)));
    }

    #[test]
    fn foreign_text_in_an_error_is_short_and_on_one_line() {
        assert_eq!(quoted("tools/call"), "`tools/call`");
        let long = quoted(&"x\n".repeat(1_000));
        assert!(!long.contains('\n') && long.len() < 700, "{long}");
        assert!(!Refusal::unknown_method("\u{1b}[2J\u{202e}").message.contains(['\u{1b}', '\u{202e}']));
    }
}
