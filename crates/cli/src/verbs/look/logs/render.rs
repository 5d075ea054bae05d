//! Shows lines that servers wrote.

use chrono::{DateTime, Local, SecondsFormat};
use serde::Serialize;
use toolrack_host::text;
use toolrack_store::LogLine;

use crate::render::{Cell, Tone, columns};

/// A line of a log, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// In RFC 3339, UTC.
    at: String,
    server: &'a str,
    /// `stderr`, `failed`, `noticed`, or the level of an MCP log message.
    kind: &'a str,
    text: &'a str,
}

impl<'a> From<&'a LogLine> for Line<'a> {
    fn from(line: &'a LogLine) -> Self {
        let at = DateTime::from_timestamp_millis(line.at).unwrap_or_default();
        let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        Self { at, server: &line.server, kind: &line.kind, text: &line.text }
    }
}

/// Returns a row for each line: time, server, kind, text.
pub(crate) fn page(lines: &[LogLine]) -> String {
    let rows: Vec<_> = lines
        .iter()
        .map(|line| {
            let local_time = DateTime::from_timestamp_millis(line.at).unwrap_or_default().with_timezone(&Local);
            let tone = match line.kind.as_str() {
                "failed" | "error" | "critical" | "alert" | "emergency" => Tone::Bad,
                "noticed" | "warning" => Tone::Waiting,
                _ => Tone::Faint,
            };
            vec![
                Cell::new(Tone::Faint, local_time.format("%Y-%m-%d %H:%M:%S").to_string()),
                Cell::new(Tone::Strong, text::for_line(&line.server)),
                Cell::new(tone, text::for_line(&line.kind)),
                Cell::new(Tone::Plain, text::for_line(&line.text)),
            ]
        })
        .collect();
    columns(&rows).join("\n")
}
