//! Shows the servers of other programs.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use toolrack_config::import::Offer;
use toolrack_host::text;

use crate::render::{Cell, Layout, Sign, Tone, columns, paint};

/// `import --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) offers: &'a [ListedOffer<'a>],
    pub(crate) added: &'a [AddedServer],
    pub(crate) dry_run: bool,
}

/// How an offer relates to the configured servers and to the other offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfferState {
    /// No server here has its name yet.
    New,
    /// The same server is configured here already, or an earlier offer is the same server.
    Same,
    /// A different server here has its name.
    Taken,
    /// An earlier offer is a different server with the same name.
    Rival,
}

/// An offer (a server in a file of another program), as the list and the JSON show it.
#[derive(Debug, Serialize)]
pub(crate) struct ListedOffer<'a> {
    client: &'static str,
    name: &'a str,
    /// The file of the other program.
    source: String,
    line: Option<usize>,
    /// Whether it comes from a file of the project, and so is not the user's own.
    from_project: bool,
    /// The only folder in which the server is used; `None` if it is used everywhere.
    private_to: Option<String>,
    pub(crate) state: OfferState,
    /// The entry that would be written, without secrets.
    entry: &'a Value,
    notes: &'a [String],
    #[serde(skip)]
    pub(crate) offer: &'a Offer,
}

impl<'a> ListedOffer<'a> {
    pub(crate) fn new(offer: &'a Offer, state: OfferState) -> Self {
        Self {
            client: offer.client.id(),
            name: &offer.name,
            source: offer.path.display().to_string(),
            line: offer.line,
            from_project: offer.from_project,
            private_to: offer.private_to.as_ref().map(|folder| folder.display().to_string()),
            state,
            entry: &offer.view,
            notes: &offer.notes,
            offer,
        }
    }
}

/// A server that was added, or that a dry run would add.
#[derive(Debug, Serialize)]
pub(crate) struct AddedServer {
    pub(crate) name: String,
    pub(crate) client: &'static str,
    pub(crate) scope: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) diff: String,
    /// The remaining steps for the user, such as a variable to set.
    #[serde(skip)]
    pub(crate) notes: Vec<String>,
}

/// Shows the offers of each file below the name of the program.
pub(crate) fn page(offers: &[ListedOffer<'_>], layout: Layout) -> String {
    let mut lines = Vec::new();
    for offers_of_file in offers.chunk_by(|a, b| a.offer.path == b.offer.path && a.client == b.client) {
        let Some(first) = offers_of_file.first() else { continue };
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let origin = if first.from_project { ", this project's" } else { "" };
        let source = format!("({}{origin})", text::for_line(&first.source));
        lines.push(format!("{} {}", paint(Tone::Strong, first.offer.client.title()), paint(Tone::Faint, &source)));
        let rows: Vec<_> = offers_of_file.iter().map(|offer| row(offer, layout)).collect();
        for (offer, line) in offers_of_file.iter().zip(columns(&rows)) {
            lines.push(format!("  {line}"));
            let private_note =
                offer.private_to.as_ref().map(|folder| format!("      for {} alone", text::for_line(folder)));
            lines.extend(private_note.map(|private_note| paint(Tone::Faint, &private_note)));
            let notes = offer.notes.iter().map(|note| paint(Tone::Faint, &format!("      {}", text::for_line(note))));
            lines.extend(notes);
        }
    }
    lines.join("\n")
}

fn row(offer: &ListedOffer<'_>, layout: Layout) -> Vec<Cell> {
    let (sign, tone, state) = match offer.state {
        OfferState::New => (Sign::Good, Tone::Good, "new"),
        OfferState::Same => (Sign::Off, Tone::Faint, "already here"),
        OfferState::Taken => (Sign::Doubtful, Tone::Waiting, "another one here has this name"),
        OfferState::Rival => (Sign::Doubtful, Tone::Waiting, "another program means something else by this name"),
    };
    vec![
        Cell::new(tone, layout.sign(sign)),
        Cell::new(Tone::Strong, text::for_line(offer.name)),
        Cell::new(tone, state),
        Cell::new(Tone::Plain, text::for_line(&summary(offer.entry))),
    ]
}

/// Returns the line of an offer in a list to choose from.
pub(crate) fn line(listed_offer: &ListedOffer<'_>) -> String {
    let origin = if listed_offer.from_project { ", project" } else { "" };
    let line = format!(
        "{} ({}{origin})  {}",
        listed_offer.name,
        listed_offer.offer.client.title(),
        summary(listed_offer.entry)
    );
    text::for_line(&line).into_owned()
}

/// Returns the command that runs, or the URL.
fn summary(entry: &Value) -> String {
    if let Some(url) = entry.get("url").and_then(Value::as_str) {
        return url.to_owned();
    }
    let command = entry.get("command").and_then(Value::as_str);
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    shell_words::join(command.into_iter().chain(args))
}

/// Returns the line for an added server, and the remaining steps.
pub(crate) fn outcome(added: &AddedServer) -> String {
    let path = added.path.display().to_string();
    let mut lines = vec![format!("added {} to {}", text::for_line(&added.name), text::for_line(&path))];
    lines.extend(added.notes.iter().map(|note| format!("  {}", text::for_line(note))));
    lines.join("\n")
}
