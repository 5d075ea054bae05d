//! Shows rows of the audit log, each as a line. In a team, a row can be about a member: a person or a service.

use chrono::{DateTime, Local};
use toolrack_host::text;
use toolrack_store::audit::{AuditRow, Entry};

use crate::render::{Cell, Tone, columns, count};

/// Returns a line for each row: number, time, who acted, what the row is about, outcome, details.
pub(crate) fn page(rows: &[AuditRow]) -> String {
    let rows: Vec<_> = rows.iter().map(cells).collect();
    columns(&rows).join("\n")
}

/// Returns the cells of the line for a row.
pub(crate) fn cells(row: &AuditRow) -> Vec<Cell> {
    let entry = &row.entry;
    let local_time = DateTime::from_timestamp_millis(row.at).unwrap_or_default().with_timezone(&Local);
    let (tone, outcome) = outcome(entry);
    let escape = |text: &str| text::for_line(text).into_owned();
    vec![
        Cell::new(Tone::Faint, row.seq.to_string()),
        Cell::new(Tone::Faint, local_time.format("%Y-%m-%d %H:%M:%S").to_string()),
        Cell::new(Tone::Plain, escape(&caller(entry))),
        Cell::new(Tone::Strong, escape(&target(entry))),
        Cell::new(tone, escape(&outcome)),
        Cell::new(Tone::Faint, escape(&details(entry))),
    ]
}

/// Returns who acted: the member of a team, the way into Toolrack, the client, and the agent in whose name it happened.
fn caller(entry: &Entry) -> String {
    let member = entry.name.as_ref().or(entry.subject.as_ref());
    let agent = entry.agent.as_deref().map(|agent| format!("for {agent}"));
    let parts = [member, entry.who.as_ref(), entry.client.as_ref(), agent.as_ref()];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns what the row is about, in the words of the page *Audit* of the dashboard (`audit-row.js`). Never empty.
fn target(entry: &Entry) -> String {
    match entry.kind.as_str() {
        "forgot" | "lost" => return "the log itself".to_owned(),
        kind if kind.starts_with("conversation_") => return "a conversation".to_owned(),
        _ => {}
    }
    let server_and_tool = [&entry.server, &entry.tool].into_iter().flatten().map(String::as_str).collect::<Vec<_>>();
    match server_and_tool.is_empty() {
        false => server_and_tool.join("/"),
        true => entry.member.clone().or_else(|| entry.credential.clone()).unwrap_or_else(|| "the daemon".to_owned()),
    }
}

/// Returns the outcome of a call. For another kind of row, returns what happened.
fn outcome(entry: &Entry) -> (Tone, String) {
    let outcome = entry.outcome.as_deref().or(entry.decision.as_deref());
    let word = match entry.kind.as_str() {
        "call" => outcome.unwrap_or("call").to_owned(),
        "answer" => format!("answer: {}", outcome.unwrap_or_default()),
        kind => kind.replace('_', " "),
    };
    let tone = match entry.kind.as_str() {
        "call" if outcome == Some("ok") => Tone::Good,
        "call" | "failed" | "lost" | "over_quota" | "sign_in_failed" | "turned_away" | "refused_at_the_door" => {
            Tone::Bad
        }
        "trusted" | "untrusted" | "answer" => Tone::Waiting,
        _ => Tone::Faint,
    };
    (tone, word)
}

/// Returns the other details of a row.
fn details(entry: &Entry) -> String {
    let mut facts = Vec::new();
    if let Some(duration_us) = entry.duration_us {
        facts.push(format!("{} ms", duration_us / 1_000));
    }
    if let Some(number) = entry.count.and_then(|number| usize::try_from(number).ok()) {
        facts.push(match entry.kind.as_str() {
            "lost" => count(number, "row"),
            "turned_away" | "refused_at_the_door" => format!("and {number} before it"),
            _ => count(number, "tool"),
        });
    }
    if let Some(last_row) = entry.through {
        facts.push(format!("rows up to {last_row}"));
    }
    if let Some(token) = &entry.token {
        facts.push(format!("token {token}"));
    }
    let words = [&entry.code, &entry.why, &entry.project];
    facts.extend(words.into_iter().flatten().cloned());
    facts.join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The fields of the line of a row with these members, without its number and its time.
    fn shown(members: Value) -> String {
        let entry: Entry = serde_json::from_value(members).unwrap();
        [caller(&entry), target(&entry), outcome(&entry).1, details(&entry)].join(" | ")
    }

    #[test]
    fn each_row_says_what_it_is_about_and_which_member_acted() {
        let bob = "Bob (u-2 of https://login.example, user)";
        for (members, expected) in [
            (
                json!({ "kind": "connected", "who": "cli", "server": "github", "count": 3 }),
                "cli | github | connected | 3 tools",
            ),
            (
                json!({ "kind": "member_changed", "who": "daemon", "name": "Ann", "subject": "u-1", "member": bob }),
                "Ann daemon | Bob (u-2 of https://login.example, user) | member changed | ",
            ),
            (
                json!({ "kind": "token_made", "who": "cli", "member": bob, "token": "t-1", "why": "laptop" }),
                "cli | Bob (u-2 of https://login.example, user) | token made | token t-1 · laptop",
            ),
            (
                json!({ "kind": "credential_given", "who": "daemon", "subject": "u-1", "credential": "GITHUB_TOKEN" }),
                "u-1 daemon | GITHUB_TOKEN | credential given | ",
            ),
            (
                json!({ "kind": "conversation_read", "who": "daemon", "name": "Ann", "why": "the conversation c-1 of u-2" }),
                "Ann daemon | a conversation | conversation read | the conversation c-1 of u-2",
            ),
            (
                json!({ "kind": "refused_at_the_door", "who": "token", "code": "invalid_request", "count": 2 }),
                "token | the daemon | refused at the door | and 2 before it · invalid_request",
            ),
            (json!({ "kind": "forgot", "through": 9 }), " | the log itself | forgot | rows up to 9"),
        ] {
            assert_eq!(shown(members), expected);
        }
    }
}
