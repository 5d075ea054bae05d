//! Reads `[serve]`: the limits of a daemon's connections.

use std::time::Duration;

use crate::{
    document::Document,
    node::{Node, Value},
    problem::Problem,
    rows::SECONDS_RANGE,
};

/// Bounds of a daemon's HTTP connections. A field is `None` if the file does not set it; the daemon's default then
/// applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeSettings {
    /// The maximum number of connections at once (`connections`), 2 or more.
    pub connections: Option<usize>,
    /// The maximum number of connections with valid tokens of the same member of a team (`member_connections`), 1 or
    /// more.
    pub member_connections: Option<usize>,
    /// The maximum number of connections that have not sent a valid token (`unauthenticated_connections`), 1 or more.
    pub unauthenticated_connections: Option<usize>,
    /// How long a connection without a valid token may take to send the head of a request (`head_timeout`, in seconds).
    pub head_timeout: Option<Duration>,
    /// How long a connection with a valid token may take to send the head of a request (`idle_timeout`, in seconds).
    pub idle_timeout: Option<Duration>,
    /// The maximum number of sessions of one user that have servers of their own (`session_worlds`), 1 or more.
    pub session_worlds: Option<usize>,
}

impl ServeSettings {
    /// Reads the settings. An invalid value leaves the default.
    pub(super) fn read(document: &Document, node: &Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut report_invalid = |field: &str, expected: &str, node: &Node| {
            let problem = Problem::error(format!("`{field}` must be {expected}")).field(field);
            problems.push(document.locate(problem.hint("until then, the default applies"), node.span.clone()));
        };
        if node.members().is_none() {
            report_invalid("serve", "a table", node);
        }
        let mut read_number = |name: &str, expected: &str, is_valid: fn(f64) -> bool| {
            let member = node.get(name)?;
            let number = match &member.node.value {
                Value::Number(number) => number.as_f64().filter(|number| is_valid(*number)),
                _ => None,
            };
            if number.is_none() {
                report_invalid(&format!("serve.{name}"), expected, &member.node);
            }
            number
        };
        let is_time: fn(f64) -> bool = |seconds| SECONDS_RANGE.contains(&seconds);
        let expected_time = "a number of seconds from 0.001 to 86400";
        let settings = Self {
            connections: read_number("connections", "a whole number, 2 or more", |number| is_count(number, 2.0))
                .and_then(to_count),
            member_connections: read_number("member_connections", "a whole number, 1 or more", |number| {
                is_count(number, 1.0)
            })
            .and_then(to_count),
            unauthenticated_connections: read_number(
                "unauthenticated_connections",
                "a whole number, 1 or more",
                |number| is_count(number, 1.0),
            )
            .and_then(to_count),
            head_timeout: read_number("head_timeout", expected_time, is_time).map(Duration::from_secs_f64),
            idle_timeout: read_number("idle_timeout", expected_time, is_time).map(Duration::from_secs_f64),
            session_worlds: read_number("session_worlds", "a whole number, 1 or more", |number| is_count(number, 1.0))
                .and_then(to_count),
        };
        (settings, problems)
    }
}

/// Returns whether `number` is a whole number of `min` or more that fits into 32 bits.
fn is_count(number: f64, min: f64) -> bool {
    number.fract() == 0.0 && number >= min && number <= f64::from(u32::MAX)
}

/// Converts a whole number via text, because the standard library has no checked conversion from `f64` to an integer.
fn to_count(number: f64) -> Option<usize> {
    format!("{number:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ReadContext, Settings};

    fn read(text: &str) -> (ServeSettings, Vec<Problem>) {
        let document = Document::new(Some("toolrack.toml".into()), text);
        let (settings, problems) = Settings::read(&document, ReadContext::default());
        (settings.serve, problems)
    }

    #[test]
    fn bounds_of_connections_are_settings() {
        assert_eq!(read(""), (ServeSettings::default(), Vec::new()));
        let text = "[serve]\nconnections = 9000\nmember_connections = 900\nunauthenticated_connections = 64\nhead_timeout = 2.5\nidle_timeout = 60\nsession_worlds = 4\n";
        let wanted = ServeSettings {
            connections: Some(9_000),
            member_connections: Some(900),
            unauthenticated_connections: Some(64),
            head_timeout: Some(Duration::from_millis(2_500)),
            idle_timeout: Some(Duration::from_mins(1)),
            session_worlds: Some(4),
        };
        assert_eq!(read(text), (wanted, Vec::new()));
    }

    #[test]
    fn a_wrong_bound_is_named_and_leaves_the_default() {
        for (text, field) in [
            ("connections = 1", "serve.connections"),
            ("connections = 2.5", "serve.connections"),
            ("connections = \"many\"", "serve.connections"),
            ("member_connections = 0", "serve.member_connections"),
            ("unauthenticated_connections = 0", "serve.unauthenticated_connections"),
            ("session_worlds = 0", "serve.session_worlds"),
            ("head_timeout = 0", "serve.head_timeout"),
            ("idle_timeout = 86401", "serve.idle_timeout"),
            ("idle_timeout = nan", "serve.idle_timeout"),
        ] {
            let (settings, problems) = read(&format!("[serve]\n{text}\n"));
            assert_eq!(settings, ServeSettings::default(), "{text}");
            assert_eq!((problems[0].field.as_deref(), problems[0].line), (Some(field), Some(2)), "{text}");
            assert!(problems[0].is_error(), "{text}");
        }
        let (_, problems) = read("[serve]\nconnection = 9");
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `serve.connections`?"));
    }
}
