//! Formats the output of `sessions`: lists, totals and single conversations.

pub(crate) mod replay;

use chrono::{DateTime, Local, Utc};
use serde::Serialize;
use toolrack_daemon::shown::sessions::Conversation;
use toolrack_host::text;
use toolrack_store::{ImportReport, ModelUse, Session, SessionTotals, transcript::TranscriptMessage};

use crate::render::{Cell, Layout, Tone, columns, count, one_line, paint};

/// `sessions list --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ListDocument {
    pub(crate) sessions: Vec<ShownSession>,
    pub(crate) totals: Totals,
}

/// The output of `sessions show --json`, and of an export as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct SessionDocument<'a> {
    pub(crate) session: &'a ShownSession,
    pub(crate) messages: &'a [TranscriptMessage],
}

/// A session whose title has no known secrets.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "Conversation")]
pub(crate) struct ShownSession {
    pub(crate) session: Session,
}

impl From<ShownSession> for Conversation {
    fn from(shown_session: ShownSession) -> Self {
        Self::from(&shown_session.session)
    }
}

impl ShownSession {
    /// `conceal` hides the secrets that are known.
    pub(crate) fn new(mut session: Session, conceal: &dyn Fn(&str) -> String) -> Self {
        session.title = conceal(&session.title);
        Self { session }
    }

    /// Returns the title, on one line.
    pub(crate) fn name(&self) -> String {
        let title = self.session.title.trim();
        if title.is_empty() { "(without a title)".to_owned() } else { text::for_line(title).into_owned() }
    }

    /// Returns tokens and cost, as far as they are known.
    pub(crate) fn cost(&self, layout: Layout) -> Option<String> {
        let facts = spent_facts(self.session.spent);
        (!facts.is_empty()).then(|| facts.join(&format!(" {} ", layout.dot())))
    }

    /// Returns the number of messages, the model, the agent, the time and the cost.
    fn facts(&self) -> Vec<String> {
        let mut facts = vec![message_words(self.session.messages)];
        facts.extend(self.session.model.as_deref().map(|model| text::for_line(model).into_owned()));
        facts.extend(self.session.agent.as_deref().map(|agent| format!("agent {}", text::for_line(agent))));
        facts.push(to_local_time(self.session.created_at).format("%Y-%m-%d %H:%M").to_string());
        facts.extend(spent_facts(self.session.spent));
        facts
    }
}

/// The totals of all sessions, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Totals {
    sessions: u64,
    messages: u64,
    spent: ModelUse,
}

impl From<SessionTotals> for Totals {
    fn from(totals: SessionTotals) -> Self {
        let SessionTotals { sessions, messages, spent, .. } = totals;
        Self { sessions, messages, spent }
    }
}

/// Returns a line for each session.
pub(crate) fn rows(sessions: &[ShownSession]) -> Vec<String> {
    let rows: Vec<_> = sessions
        .iter()
        .map(|shown_session| {
            let session = &shown_session.session;
            let open_suffix = if session.has_open_turn { ", not finished" } else { "" };
            vec![
                Cell::new(Tone::Strong, &session.prefix),
                Cell::new(Tone::Faint, to_local_time(session.updated_at).format("%Y-%m-%d %H:%M").to_string()),
                Cell::new(Tone::Faint, message_words(session.messages) + open_suffix),
                Cell::new(Tone::Plain, shown_session.name()),
            ]
        })
        .collect();
    columns(&rows).iter().map(|line| one_line(line)).collect()
}

/// Returns a line for each session, and one with the totals.
pub(crate) fn list(list: &ListDocument, layout: Layout) -> String {
    let mut lines = rows(&list.sessions);
    if lines.len() > 1 {
        let Totals { sessions, messages: message_count, spent: total } = &list.totals;
        let sessions = usize::try_from(*sessions).unwrap_or(usize::MAX);
        let facts: Vec<_> = [count(sessions, "session"), message_words(*message_count)]
            .into_iter()
            .chain(spent_facts(*total))
            .collect();
        lines.push(paint(Tone::Faint, &format!("{} in all", facts.join(&format!(" {} ", layout.dot())))));
    }
    lines.join("\n")
}

/// Describes the outcome of an import.
pub(crate) fn import_outcome(imported: ImportReport) -> String {
    let ImportReport { sessions, messages: message_count, already_present, .. } = imported;
    let sessions = usize::try_from(sessions).unwrap_or(usize::MAX);
    let already_present = match already_present {
        0 => String::new(),
        1 => "; 1 was here already".to_owned(),
        already_present => format!("; {already_present} were here already"),
    };
    format!("imported {} with {}{already_present}", count(sessions, "session"), message_words(message_count))
}

fn message_words(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "message")
}

/// Returns tokens and money, as far as they are known.
fn spent_facts(spent: ModelUse) -> Vec<String> {
    let mut facts = Vec::new();
    if spent.input > 0 || spent.output > 0 {
        facts.push(format!("{} tokens in, {} out", spent.input, spent.output));
    }
    facts.extend(spent.cost.map(money));
    facts
}

/// Formats an amount, such as `$0.0123`. A very small one is `less than $0.0001`; from $10 on, cents are enough.
fn money(billionths: u64) -> String {
    match billionths {
        0 => "$0".to_owned(),
        1..100_000 => "less than $0.0001".to_owned(),
        10_000_000_000.. => format!("${:.2}", dollars(billionths)),
        _ => format!("${:.4}", dollars(billionths)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
fn dollars(billionths: u64) -> f64 {
    billionths as f64 / 1e9
}

fn to_local_time(at: DateTime<Utc>) -> DateTime<Local> {
    at.with_timezone(&Local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_as_many_digits_as_are_useful() {
        let shown = [0, 1, 99_999, 100_000, 12_300_000, 9_999_999_999, 10_000_000_000, u64::MAX].map(money).join(" | ");
        assert_eq!(
            shown,
            "$0 | less than $0.0001 | less than $0.0001 | $0.0001 | $0.0123 | $10.0000 | $10.00 | $18446744073.71"
        );
    }
}
