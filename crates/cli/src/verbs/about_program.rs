//! Runs `toolrack completions` and `toolrack man`.

pub(crate) mod args;
mod manual;
pub(crate) mod script;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    error::{Exit, Failure, in_words},
    screen::Screen,
};
use args::{AboutProgram, CompletionsArgs, ManArgs, Shell};
use manual::Page;

/// `completions --json`.
#[derive(Debug, Serialize)]
struct CompletionsDocument<'a> {
    shell: Shell,
    script: &'a str,
}

/// `man DIR --json`.
#[derive(Debug, Serialize)]
struct ManDocument {
    files: Vec<PathBuf>,
}

pub(crate) async fn run(verb: AboutProgram, words: &[OsString], screen: &Screen) -> Result<Exit, Failure> {
    match verb {
        AboutProgram::Completions(args) => completions(&args, words, screen).await,
        AboutProgram::Man(ManArgs { folder: None }) => show_manual(screen).await,
        AboutProgram::Man(ManArgs { folder: Some(folder) }) => write_manual(folder, screen).await,
    }
}

async fn completions(args: &CompletionsArgs, words: &[OsString], screen: &Screen) -> Result<Exit, Failure> {
    let program = words.first().map_or(OsStr::new("toolrack"), OsString::as_os_str);
    let folder = std::env::current_dir().ok();
    let script = script::script(args.shell, program, folder.as_deref());
    if screen.prints_json() {
        screen.document(&CompletionsDocument { shell: args.shell, script: &script }).await?;
    } else {
        screen.verbatim(script).await?;
    }
    Ok(Exit::Ok)
}

async fn show_manual(screen: &Screen) -> Result<Exit, Failure> {
    let page = manual::first_page().map_err(|error| manual_failure(&error))?;
    if screen.prints_json() {
        screen.document(&page).await?;
    } else {
        screen.verbatim(page.roff).await?;
    }
    Ok(Exit::Ok)
}

async fn write_manual(folder: PathBuf, screen: &Screen) -> Result<Exit, Failure> {
    let pages = manual::pages().map_err(|error| manual_failure(&error))?;
    let write_result = tokio::task::spawn_blocking(move || write_pages(&folder, &pages)).await;
    let files = write_result.map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the manual was not written"))??;
    if screen.prints_json() {
        screen.document(&ManDocument { files }).await?;
    } else {
        let lines: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        screen.verbatim(lines.join("\n")).await?;
    }
    Ok(Exit::Ok)
}

fn write_pages(folder: &Path, pages: &[Page]) -> Result<Vec<PathBuf>, Failure> {
    let write_failure = |path: &Path, error: &io::Error| {
        let message = format!("cannot write {}: {}", path.display(), in_words(error));
        Failure::new(Exit::Other, "NOT_WRITTEN", message).hint("name a folder that you may write to")
    };
    std::fs::create_dir_all(folder).map_err(|error| write_failure(folder, &error))?;
    pages
        .iter()
        .map(|page| {
            let file = folder.join(&page.file);
            std::fs::write(&file, &page.roff).map_err(|error| write_failure(&file, &error))?;
            Ok(file)
        })
        .collect()
}

fn manual_failure(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, "INTERNAL", format!("there is no manual: {}", in_words(error)))
}
