//! The forms in which the control API, questions and events show data of other crates. Findings and problems are in
//! this file. The submodules have the data that `toolrack --json` prints in the same form.

pub mod answers;
pub mod audit;
mod caller;
pub mod quotas;
pub mod sessions;
pub mod team;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use toolrack_config::Severity;
use toolrack_host::findings::{self, FindingKind};
use utoipa::ToSchema;

pub(crate) use self::caller::CallerView;

/// A time in RFC 3339, to the millisecond.
pub(crate) fn rfc3339_millis(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, /* use_z */ true)
}

/// A time in RFC 3339, to the second.
#[must_use]
pub fn rfc3339_seconds(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, /* use_z */ true)
}

/// A finding at which a user should look. A warning, not a defence.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// `instructions`, `hidden`, `look_alike` or `other_server`.
    #[schema(value_type = String)]
    pub(crate) kind: FindingKind,
    /// Its place in the definition.
    place: String,
    /// The finding, in words.
    what: String,
}

impl From<findings::Finding> for Finding {
    fn from(finding: findings::Finding) -> Self {
        Self { kind: finding.kind, place: finding.place, what: finding.what }
    }
}

/// A problem of the configuration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConfigProblem)]
pub(crate) struct Problem {
    /// `error` or `warning`.
    severity: &'static str,
    path: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    entry: Option<String>,
    message: String,
    hint: Option<String>,
}

impl From<&toolrack_config::Problem> for Problem {
    fn from(problem: &toolrack_config::Problem) -> Self {
        Self {
            severity: match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            path: problem.path.as_ref().map(|path| path.display().to_string()),
            line: problem.line,
            column: problem.column,
            entry: problem.entry.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}
