//! Shows rows of the audit log.

use chrono::{DateTime, Local};
use toolrack_host::text;
use toolrack_store::audit::{AuditRow, Entry};

use crate::render::{Cell, Tone, columns, count};

/// Returns a line for each row: time, caller, event, outcome, reason.
pub(crate) fn page(rows: &[AuditRow]) -> String {
    let rows: Vec<_> = rows.iter().map(cells).collect();
    columns(&rows).join("\n")
}

/// The parts of the line of a row.
pub(crate) fn cells(row: &AuditRow) -> Vec<Cell> {
    let entry = &row.entry;
    let at = DateTime::from_timestamp_millis(row.at).unwrap_or_default().with_timezone(&Local);
    let (tone, outcome) = outcome(entry);
    let escaped = |text: &str| text::for_line(text).into_owned();
    let agent_text = entry.agent.as_deref().map(|agent| format!("for {agent}"));
    let caller = [&entry.who, &entry.client, &agent_text].into_iter().flatten();
    let caller = caller.map(|text| escaped(text)).collect::<Vec<_>>().join(" ");
    let target =
        [&entry.server, &entry.tool].into_iter().flatten().map(|text| escaped(text)).collect::<Vec<_>>().join("/");
    vec![
        Cell::new(Tone::Faint, row.seq.to_string()),
        Cell::new(Tone::Faint, at.format("%Y-%m-%d %H:%M:%S").to_string()),
        Cell::new(Tone::Plain, caller),
        Cell::new(Tone::Strong, target),
        Cell::new(tone, escaped(&outcome)),
        Cell::new(Tone::Faint, escaped(&details(entry))),
    ]
}

/// The outcome of a call, or what happened in another row.
fn outcome(entry: &Entry) -> (Tone, String) {
    let outcome = entry.outcome.as_deref().or(entry.decision.as_deref());
    let word = match entry.kind.as_str() {
        "call" => outcome.unwrap_or("call").to_owned(),
        "answer" => format!("answer: {}", outcome.unwrap_or_default()),
        kind => kind.replace('_', " "),
    };
    let tone = match entry.kind.as_str() {
        "call" if outcome == Some("ok") => Tone::Good,
        "call" | "failed" | "lost" | "over_quota" | "sign_in_failed" | "turned_away" => Tone::Bad,
        "trusted" | "untrusted" | "answer" => Tone::Waiting,
        _ => Tone::Faint,
    };
    (tone, word)
}

/// The other details of a row.
fn details(entry: &Entry) -> String {
    let mut facts = Vec::new();
    if let Some(duration_us) = entry.duration_us {
        facts.push(format!("{} ms", duration_us / 1_000));
    }
    if let Some(number) = entry.count.and_then(|number| usize::try_from(number).ok()) {
        facts.push(match entry.kind.as_str() {
            "lost" => count(number, "row"),
            "turned_away" => format!("and {number} before it"),
            _ => count(number, "tool"),
        });
    }
    if let Some(last_row) = entry.through {
        facts.push(format!("rows up to {last_row}"));
    }
    let words = [&entry.code, &entry.why, &entry.project];
    facts.extend(words.into_iter().flatten().cloned());
    facts.join(" · ")
}
