//! `toolrack audit verify-export`: what a daemon exported, checked without its database.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use chrono::SecondsFormat;
use serde::Serialize;
use toolrack_team::audit_export::{ExportedFiles, LogReport, PublicKey, verify};

use super::args::VerifyExportArgs;
use crate::{
    error::{Exit, Failure, in_words},
    render::count,
    wire::World,
};

/// `audit verify-export --json`.
#[derive(Debug, Default, Serialize)]
struct Verified {
    ok: bool,
    /// Why nothing could be verified.
    why: Option<String>,
    /// The ids of the keys.
    keys: Vec<String>,
    logs: Vec<Log>,
}

#[derive(Debug, Serialize)]
struct Log {
    log: String,
    heads: u64,
    rows: u64,
    first: Option<u64>,
    end: Option<String>,
    /// When the last head was signed.
    at: Option<String>,
    unnamed: Vec<String>,
    problems: Vec<Bad>,
}

#[derive(Debug, Serialize)]
struct Bad {
    name: String,
    why: String,
}

impl From<LogReport> for Log {
    fn from(report: LogReport) -> Self {
        let problems = report.problems.into_iter().map(|problem| Bad { name: problem.name, why: problem.why });
        Self {
            log: report.log.to_string(),
            heads: report.heads,
            rows: report.rows,
            first: report.first,
            end: report.end.map(|(end, _)| end.to_string()),
            at: report.end.map(|(_, at)| at.to_rfc3339_opts(SecondsFormat::Secs, true)),
            unnamed: report.unnamed,
            problems: problems.collect(),
        }
    }
}

pub(super) async fn run(args: VerifyExportArgs, world: &World) -> Result<Exit, Failure> {
    let is_given = !args.key.is_empty();
    let found = tokio::task::spawn_blocking(move || verified(&args)).await;
    let (keys, logs) = found.map_err(|error| Failure::new(Exit::Other, "STOPPED", error.to_string()))?;
    let keys: Vec<_> = keys?.iter().map(PublicKey::id).collect();
    let (logs, why) = match logs {
        Ok(reports) => (reports.into_iter().map(Log::from).collect(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let ok = why.is_none() && logs.iter().all(|log: &Log| log.problems.is_empty());
    if world.screen.json() {
        world.screen.document(&Verified { ok, why, keys, logs }).await?;
        return Ok(if ok { Exit::Ok } else { Exit::Other });
    }
    if let Some(why) = why {
        return Err(Failure::new(Exit::Other, "NOT_VERIFIED", format!("the folder cannot be verified: {why}")));
    }
    world.screen.page(logs.iter().map(page).collect::<Vec<_>>().join("\n")).await?;
    if !is_given {
        let keys = keys.join(", ");
        world.screen.note(&format!(
            "the keys are those in the folder itself ({keys}): compare them with what the operator of the daemon says, or \
             name the right one with --key"
        ));
    }
    match logs.iter().flat_map(|log| &log.problems).next() {
        None => Ok(Exit::Ok),
        Some(Bad { name, why }) => {
            let message = format!("the exported audit logs are not as they were signed: {name} {why}");
            Err(Failure::new(Exit::Other, "AUDIT_BROKEN", message))
        }
    }
}

/// What a log consists of, and each problem, a line each.
fn page(log: &Log) -> String {
    let number = |number: u64, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let (rows, heads) = (number(log.rows, "row"), number(log.heads, "head"));
    let mut lines = vec![format!("{}: {rows} in {heads}", log.log)];
    if let Some((end, at)) = log.end.as_ref().zip(log.at.as_ref()) {
        lines.push(format!("  end {end}, signed at {at}"));
    }
    if !log.unnamed.is_empty() {
        let objects = count(log.unnamed.len(), "object");
        lines.push(format!("  {objects} that no head names, so that nothing proves them: {}", log.unnamed.join(", ")));
    }
    lines.extend(log.problems.iter().map(|bad| format!("  bad: {} {}", bad.name, bad.why)));
    lines.join("\n")
}

type Found = (Result<Vec<PublicKey>, Failure>, Result<Vec<LogReport>, String>);

fn verified(args: &VerifyExportArgs) -> Found {
    let folder = Folder(&args.folder);
    let keys = match args.key.is_empty() {
        true => Ok(folder.keys()),
        false => args.key.iter().map(|path| key(path)).collect(),
    };
    let logs = match &keys {
        Ok(keys) => verify(&folder, keys),
        Err(_) => Ok(Vec::new()),
    };
    (keys, logs)
}

fn key(path: &Path) -> Result<PublicKey, Failure> {
    let refused = |why: String| Failure::usage(format!("--key: {} {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(format!("cannot be read: {}", in_words(&error))))?;
    PublicKey::read(&text).map_err(|error| refused(error.to_string()))
}

/// A folder of this machine.
struct Folder<'a>(&'a Path);

impl Folder<'_> {
    /// The keys beside the objects.
    fn keys(&self) -> Vec<PublicKey> {
        let names = self.names("keys").unwrap_or_default();
        let read = |name: &String| fs::read_to_string(self.0.join("keys").join(name)).ok();
        names.iter().filter_map(|name| PublicKey::read(&read(name)?).ok()).collect()
    }
}

/// What is there, without what is not.
fn if_there<T>(found: io::Result<T>, name: &str) -> Result<Option<T>, String> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(format!("{name} cannot be read: {}", in_words(&error))),
    }
}

impl ExportedFiles for Folder<'_> {
    fn names(&self, folder: &str) -> Result<Vec<String>, String> {
        let Some(entries) = if_there(fs::read_dir(self.0.join(folder)), folder)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| format!("{folder} cannot be read: {}", in_words(&error)))?;
            // Toolrack writes no other names.
            names.extend(entry.file_name().into_string().ok().filter(|name| !name.ends_with(".part")));
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        if_there(fs::read(self.0.join(name)), name)
    }
}
