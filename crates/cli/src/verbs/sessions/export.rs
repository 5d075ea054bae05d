//! `toolrack sessions export`

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::Serialize;
use toolrack_store::transcript::markdown;

use super::{named, said};
use crate::{
    args::{ExportSessionArgs, Format},
    error::{Exit, Failure, in_words},
    render::sessions::Document,
    wire::World,
};

/// `sessions export --json`.
#[derive(Debug, Serialize)]
struct Exported {
    id: String,
    format: &'static str,
    /// Where it was written; `content` is null then.
    file: Option<PathBuf>,
    content: Option<String>,
}

pub(super) async fn run(args: ExportSessionArgs, world: &World) -> Result<Exit, Failure> {
    let mut session = named(&args.session, world).await?;
    let (about, messages) = said(&session, 0, world).await?;
    session.title.clone_from(&about.title);
    let document = Document { session: &about, messages: &messages };
    let (format, content) = match args.format {
        Format::Md => ("md", markdown::document(&session, &messages)),
        Format::Json => ("json", json(&document)?),
    };
    let id = about.id.clone();
    let file = args.output.filter(|file| file.as_os_str() != "-");
    if let Some(file) = &file {
        write(file.clone(), content.clone()).await?;
    }
    let screen = &world.screen;
    match (file, args.format) {
        (file, _) if screen.json() => {
            let content = file.is_none().then_some(content);
            screen.document(&Exported { id, format, file, content }).await?;
        }
        (Some(file), _) => screen.note(&format!("wrote {}", file.display())),
        (None, Format::Md) => screen.verbatim(content).await?,
        (None, Format::Json) => screen.document(&document).await?,
    }
    Ok(Exit::Ok)
}

fn json(document: &Document<'_>) -> Result<String, Failure> {
    let written = serde_json::to_string_pretty(document).map(|json| json + "\n");
    written.map_err(|error| Failure::new(Exit::Other, "INTERNAL", format!("the session is no JSON: {error}")))
}

/// Writes a file that, where it is new, is for its owner only: a conversation is nobody else's business.
async fn write(file: PathBuf, content: String) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let written = tokio::task::spawn_blocking(move || write_now(&file, &content)).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())).map_err(|error| {
        let message = format!("cannot write {shown}: {}", in_words(&error));
        Failure::new(Exit::Other, "NOT_WRITTEN", message).hint("name a file that you may write to")
    })
}

fn write_now(file: &Path, content: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(content.as_bytes())
}
