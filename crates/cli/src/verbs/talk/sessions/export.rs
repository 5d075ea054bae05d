//! Runs `toolrack sessions export`.

use std::path::PathBuf;

use serde::Serialize;
use toolrack_store::transcript::markdown;

use super::{
    args::{ExportSessionArgs, Format},
    find_session,
    render::SessionDocument,
    transcript,
};
use crate::{
    context::Context,
    error::{Exit, Failure},
    output::{self, OWNER_ONLY_MODE},
};

/// `sessions export --json`.
#[derive(Debug, Serialize)]
struct ExportDocument {
    id: String,
    format: &'static str,
    /// The file with the conversation, if it was written to one; `content` is then null.
    file: Option<PathBuf>,
    content: Option<String>,
}

pub(super) async fn run(args: ExportSessionArgs, context: &Context) -> Result<Exit, Failure> {
    let session = find_session(&args.session, context).await?;
    let start = 0;
    let (shown_session, messages) = transcript(&session, start, context).await?;
    let document = SessionDocument { session: &shown_session, messages: &messages };
    let (format, content) = match args.format {
        Format::Md => ("md", markdown::document(&shown_session.session, &messages)),
        Format::Json => ("json", to_json(&document)?),
    };
    let id = shown_session.session.id.to_string();
    let file = args.output.filter(|file| !output::is_stdout(file));
    if let Some(file) = &file {
        // Only its owner may read a conversation.
        output::write(file.clone(), content.clone().into_bytes(), OWNER_ONLY_MODE).await?;
    }
    let screen = &context.screen;
    match (file, args.format) {
        (file, _) if screen.prints_json() => {
            let content = file.is_none().then_some(content);
            screen.document(&ExportDocument { id, format, file, content }).await?;
        }
        (Some(file), _) => screen.note(&format!("wrote {}", file.display())),
        (None, Format::Md) => screen.verbatim(content).await?,
        (None, Format::Json) => screen.document(&document).await?,
    }
    Ok(Exit::Ok)
}

fn to_json(document: &SessionDocument<'_>) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document).map(|json| json + "\n");
    text.map_err(|error| Failure::new(Exit::Other, "INTERNAL", format!("the session is not JSON: {error}")))
}
