//! Runs `toolrack audit verify-export`, which checks the audit logs that a daemon exported, without the daemon's
//! database.

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
    context::Context,
    error::{Exit, Failure, in_words},
    render::count,
};

/// `audit verify-export --json`.
#[derive(Debug, Default, Serialize)]
struct VerifyExportDocument {
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
    /// The number of heads. A head is a signed file. It lists exported objects, and says where the log ended at that
    /// time.
    heads: u64,
    /// The number of rows that are as they were signed.
    rows: u64,
    /// The number of the first of these rows.
    first: Option<u64>,
    /// Where the log ends, as the last head says.
    end: Option<String>,
    /// When the last head was signed.
    at: Option<String>,
    /// Objects that no head lists.
    unnamed: Vec<String>,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    name: String,
    why: String,
}

impl From<LogReport> for Log {
    fn from(report: LogReport) -> Self {
        let problems = report.problems.into_iter().map(|problem| Problem { name: problem.name, why: problem.why });
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

pub(super) async fn run(args: VerifyExportArgs, context: &Context) -> Result<Exit, Failure> {
    let has_key_option = !args.key.is_empty();
    let task_result = tokio::task::spawn_blocking(move || verify_folder(&args)).await;
    let (keys, logs) = task_result.map_err(|error| Failure::new(Exit::Other, "STOPPED", error.to_string()))?;
    let keys: Vec<_> = keys?.iter().map(PublicKey::id).collect();
    let (logs, why) = match logs {
        Ok(reports) => (reports.into_iter().map(Log::from).collect(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    // `unnamed` objects are no problem: the newest ones may belong to a head that is not written yet.
    let ok = why.is_none() && logs.iter().all(|log: &Log| log.problems.is_empty());
    if context.screen.prints_json() {
        context.screen.document(&VerifyExportDocument { ok, why, keys, logs }).await?;
        return Ok(if ok { Exit::Ok } else { Exit::Other });
    }
    if let Some(why) = why {
        return Err(Failure::new(Exit::Other, "NOT_VERIFIED", format!("the folder cannot be verified: {why}")));
    }
    context.screen.page(logs.iter().map(page).collect::<Vec<_>>().join("\n")).await?;
    if !has_key_option {
        let keys = keys.join(", ");
        context.screen.note(&format!(
            "the keys are those in the folder itself ({keys}): compare them with what the operator of the daemon says, or \
             name the right one with --key"
        ));
    }
    match logs.iter().flat_map(|log| &log.problems).next() {
        None => Ok(Exit::Ok),
        Some(Problem { name, why }) => {
            let message =
                format!("the exported audit logs are incomplete, or do not match their signatures: {name} {why}");
            Err(Failure::new(Exit::Other, "AUDIT_BROKEN", message))
        }
    }
}

/// Returns a few lines about the content of a log, and a line for each problem.
fn page(log: &Log) -> String {
    let count_of = |number: u64, what| count(usize::try_from(number).unwrap_or(usize::MAX), what);
    let (rows, heads) = (count_of(log.rows, "row"), count_of(log.heads, "head"));
    let mut lines = vec![format!("{}: {rows} in {heads}", log.log)];
    if let Some((end, at)) = log.end.as_ref().zip(log.at.as_ref()) {
        lines.push(format!("  end {end}, signed at {at}"));
    }
    if !log.unnamed.is_empty() {
        let objects = count(log.unnamed.len(), "object");
        let names = log.unnamed.join(", ");
        lines.push(format!("  {objects} that no signed head lists, so their content is not proved: {names}"));
    }
    lines.extend(log.problems.iter().map(|problem| format!("  bad: {} {}", problem.name, problem.why)));
    lines.join("\n")
}

/// The public keys, and the result for each log; the second error says why nothing could be verified.
type KeysAndReports = (Result<Vec<PublicKey>, Failure>, Result<Vec<LogReport>, String>);

fn verify_folder(args: &VerifyExportArgs) -> KeysAndReports {
    let folder = Folder(&args.folder);
    let keys = match args.key.is_empty() {
        true => Ok(folder.keys()),
        false => args.key.iter().map(|path| read_key(path)).collect(),
    };
    let logs = match &keys {
        Ok(keys) => verify(&folder, keys),
        // The caller reports only why the keys cannot be read.
        Err(_) => Ok(Vec::new()),
    };
    (keys, logs)
}

fn read_key(path: &Path) -> Result<PublicKey, Failure> {
    let key_failure = |why: String| Failure::usage(format!("--key: {} {why}", path.display()));
    let text =
        fs::read_to_string(path).map_err(|error| key_failure(format!("cannot be read: {}", in_words(&error))))?;
    PublicKey::read(&text).map_err(|error| key_failure(error.to_string()))
}

/// A folder of this machine with exported audit logs.
struct Folder<'a>(&'a Path);

impl Folder<'_> {
    /// Returns the public keys that the folder has beside the exported objects. Skips files that are not keys. That is
    /// safe, because a signature without its key counts as wrong.
    fn keys(&self) -> Vec<PublicKey> {
        let names = self.names("keys").unwrap_or_default();
        let read_file = |name: &String| fs::read_to_string(self.0.join("keys").join(name)).ok();
        names.iter().filter_map(|name| PublicKey::read(&read_file(name)?).ok()).collect()
    }
}

/// Turns the error for a missing file into `None`, and another one into a text that names the file.
fn none_if_missing<T>(result: io::Result<T>, name: &str) -> Result<Option<T>, String> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(format!("{name} cannot be read: {}", in_words(&error))),
    }
}

impl ExportedFiles for Folder<'_> {
    fn names(&self, folder: &str) -> Result<Vec<String>, String> {
        let Some(entries) = none_if_missing(fs::read_dir(self.0.join(folder)), folder)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| format!("{folder} cannot be read: {}", in_words(&error)))?;
            // Leave out files that Toolrack did not finish (`.part`), and those whose names it cannot have written.
            names.extend(entry.file_name().into_string().ok().filter(|name| !name.ends_with(".part")));
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        none_if_missing(fs::read(self.0.join(name)), name)
    }
}
