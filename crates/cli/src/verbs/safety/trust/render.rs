//! Shows the entries that wait for the user's approval, completely.

use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::Value;
use toolrack_config::{Entry, look};
use toolrack_host::text;
use toolrack_store::Approval;

use super::changes::{self, Change};
use crate::{
    render::{Layout, Sign, Tone, paint},
    verbs::configure::get::render::{details, location},
};

/// `pending --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) pending: &'a [PendingEntry<'a>],
    /// The entries that the user refused. They wait again once they change.
    pub(crate) refused: &'a [PendingEntry<'a>],
}

/// An entry that waits for the user's agreement.
#[derive(Debug, Serialize)]
pub(crate) struct PendingEntry<'a> {
    name: &'a str,
    scope: &'static str,
    /// The file that the entry is in.
    source: Option<String>,
    line: Option<usize>,
    /// The folder that an approval is for.
    project: Option<String>,
    enabled: bool,
    /// Exactly what would run.
    entry: &'a Value,
    /// Findings at which the user should look before approving.
    points: Vec<String>,
    hash: &'a str,
    /// The word because of which an entry of the user's own waits: it means something else in each folder.
    depends_on: Option<&'a str>,
    /// When another entry of this name was approved, in RFC 3339.
    approved_at: Option<String>,
    /// The changes since that approval.
    changes: Vec<Change>,
    #[serde(skip)]
    full_entry: &'a Entry,
    #[serde(skip)]
    approval_time: Option<DateTime<Utc>>,
}

impl<'a> PendingEntry<'a> {
    /// `earlier_approval` is the approval of an earlier version of `entry`.
    pub(crate) fn new(entry: &'a Entry, earlier_approval: Option<&Approval>) -> Self {
        let approval_time = earlier_approval.and_then(|approval| DateTime::from_timestamp(approval.approved_at, 0));
        let changes = earlier_approval.map(|approval| {
            let approved_proposal = serde_json::from_str(&approval.shown).unwrap_or_default();
            changes::between(&approved_proposal, &entry.proposal)
        });
        Self {
            name: &entry.name,
            scope: entry.scope.as_str(),
            source: entry.source.path.as_ref().map(|path| path.display().to_string()),
            line: entry.line,
            project: entry.project.as_ref().map(|folder| folder.display().to_string()),
            enabled: entry.enabled,
            entry: &entry.proposal,
            points: look::points(&entry.proposal),
            hash: &entry.agreement,
            depends_on: entry.depends_on.as_deref(),
            approved_at: approval_time.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)),
            changes: changes.unwrap_or_default(),
            full_entry: entry,
            approval_time,
        }
    }

    pub(crate) fn entry(&self) -> &'a Entry {
        self.full_entry
    }
}

/// Shows everything that would be started or contacted, and how each entry differs from its approved version.
pub(crate) fn page(pending_entries: &[PendingEntry<'_>], layout: Layout) -> String {
    let blocks: Vec<_> = pending_entries.iter().map(|entry| block(entry, layout).join("\n")).collect();
    blocks.join("\n\n")
}

fn block(pending_entry: &PendingEntry<'_>, layout: Layout) -> Vec<String> {
    let sign = paint(Tone::Waiting, layout.sign(Sign::Paused));
    let name = paint(Tone::Strong, &text::for_line(pending_entry.name));
    let disabled_suffix = if pending_entry.enabled { "" } else { ", disabled" };
    let origin = paint(Tone::Faint, &format!("{}{disabled_suffix}", location(pending_entry.full_entry)));
    let mut lines = vec![format!("{sign} {name}  {origin}")];
    lines.extend(details(pending_entry.entry));
    if let (Some(word), Some(folder)) = (pending_entry.depends_on, &pending_entry.project) {
        let why = format!("  asks because `{word}` is something else in each folder: you agree for {folder} alone");
        lines.push(paint(Tone::Waiting, &text::for_line(&why)));
    }
    lines.extend(pending_entry.points.iter().map(|point| format!("  {} {point}", paint(Tone::Bad, "look at this:"))));
    let Some(approval_time) = pending_entry.approval_time else {
        return lines;
    };
    let day = approval_time.with_timezone(&Local).format("%Y-%m-%d");
    lines.push(paint(Tone::Waiting, &format!("  changed since you agreed to it on {day}:")));
    if pending_entry.changes.is_empty() {
        lines
            .push("    only in a field that has no meaning here, or in the way in which a value is written".to_owned());
    }
    lines.extend(changes::lines(&pending_entry.changes).into_iter().map(|line| format!("    {line}")));
    lines
}

/// Shows the approved entries, with their details unless the user has seen these (`was_seen`).
pub(crate) fn trusted_page(approved_entries: &[PendingEntry<'_>], was_seen: bool, layout: Layout) -> String {
    let blocks: Vec<_> = approved_entries
        .iter()
        .map(|approved_entry| {
            let sign = paint(Tone::Good, layout.sign(Sign::Good));
            let name = paint(Tone::Strong, &text::for_line(approved_entry.name));
            let mut lines = vec![format!("{sign} {name}  trusted as long as it does not change")];
            if !was_seen {
                lines.extend(details(approved_entry.entry));
            }
            lines.join("\n")
        })
        .collect();
    blocks.join("\n")
}

/// Returns a line for each refused entry.
pub(crate) fn refused_page(refused_entries: &[PendingEntry<'_>], layout: Layout) -> String {
    let line = |refused_entry: &PendingEntry<'_>| {
        let sign = paint(Tone::Faint, layout.sign(Sign::Paused));
        let name = paint(Tone::Strong, &text::for_line(refused_entry.name));
        format!("{sign} {name}  refused as long as it does not change")
    };
    refused_entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the line for a revoked approval.
pub(crate) fn revoked_line(name: &str) -> String {
    format!("{} is no longer trusted", paint(Tone::Strong, &text::for_line(name)))
}
