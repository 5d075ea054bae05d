//! Verifies exported audit logs, without the database. A log consists of objects (files with rows) and of heads (signed
//! files, each of which lists objects).

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use toolrack_host::{principal::check_tenant, text};
use toolrack_store::audit::ChainEnd;

use super::{
    head::{Head, LogName, NamedObject, head_name, sha256},
    key::PublicKey,
};

/// A copy of the exported files. They have the same names as in the object store, such as
/// `tenants/acme/heads/0000000001.jws`.
pub trait ExportedFiles {
    /// Returns the names of the files and folders directly in `folder`, sorted. The list is empty if there is no such
    /// folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn names(&self, folder: &str) -> Result<Vec<String>, String>;

    /// Returns the content of the file `name`; `None` if there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String>;
}

/// A difference between the exported files and the signed heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the object, of the head or of the log.
    pub name: String,
    /// The problem, as a text that continues the name: "is missing".
    pub why: String,
}

/// The result of verifying one log.
#[derive(Clone, Debug)]
pub struct LogReport {
    /// The log.
    pub log: LogName,
    /// How many heads have a valid signature, and the right name.
    pub heads: u64,
    /// How many rows are proved: they are in an object whose hash a head names.
    pub rows: u64,
    /// The number of the first of these rows.
    pub first: Option<u64>,
    /// The end of the chain that the last head states, and when that head was signed.
    pub end: Option<(ChainEnd, DateTime<Utc>)>,
    /// The names of objects that no head names, so that nothing proves them. The newest ones may belong to a head that
    /// is not written yet.
    pub unnamed: Vec<String>,
    /// The problems of the log.
    pub problems: Vec<Problem>,
}

/// Verifies each log among `files`:
///
/// - One of `keys` has signed each head, and no head is missing.
/// - Each object has the hash in its head.
/// - Each row follows from the one before it.
///
/// The reports list the problems of the logs.
///
/// # Errors
/// When a file cannot be read, or `files` have no log.
pub fn verify(files: &dyn ExportedFiles, keys: &[PublicKey]) -> Result<Vec<LogReport>, String> {
    let mut logs = Vec::new();
    if !files.names("team")?.is_empty() {
        logs.push(LogName::Team);
    }
    let tenants = files.names("tenants")?.into_iter().filter(|id| check_tenant(id).is_ok());
    logs.extend(tenants.map(LogName::Tenant));
    if logs.is_empty() {
        return Err("it has no exported audit logs: neither `team` nor `tenants` is in it".to_owned());
    }
    logs.into_iter().map(|log| Verification::new(files, keys, log).run()).collect()
}

/// The state of verifying one log, head after head.
struct Verification<'a> {
    files: &'a dyn ExportedFiles,
    keys: &'a [PublicKey],
    report: LogReport,
    /// The objects that the heads name.
    named_objects: BTreeSet<String>,
    /// The number of the last head that was read, and its SHA-256.
    previous: Option<(u64, String)>,
    /// Where the chain ends according to that head.
    chain_end: Option<ChainEnd>,
}

impl<'a> Verification<'a> {
    fn new(files: &'a dyn ExportedFiles, keys: &'a [PublicKey], log: LogName) -> Self {
        let report =
            LogReport { log, heads: 0, rows: 0, first: None, end: None, unnamed: Vec::new(), problems: Vec::new() };
        Self { files, keys, report, named_objects: BTreeSet::new(), previous: None, chain_end: None }
    }

    /// Checks all heads of the log in their order, and finds the objects that no head names.
    fn run(mut self) -> Result<LogReport, String> {
        let folder = format!("{}/heads", self.report.log);
        for file in self.files.names(&folder)? {
            self.check_head(&format!("{folder}/{file}"))?;
        }
        if self.report.heads == 0 {
            self.add_problem(&folder, "has no head with a right signature, so that nothing is proved");
        }
        let folder = format!("{}/rows", self.report.log);
        for file in self.files.names(&folder)? {
            let name = format!("{folder}/{file}");
            if !self.named_objects.contains(&name) {
                self.report.unnamed.push(text::for_line(&name).into_owned());
            }
        }
        Ok(self.report)
    }

    /// Adds a problem to the report.
    fn add_problem(&mut self, name: &str, why: impl Into<String>) {
        self.report.problems.push(Problem { name: text::for_line(name).into_owned(), why: why.into() });
    }

    /// Checks the head in the file `name`, and its objects.
    fn check_head(&mut self, name: &str) -> Result<(), String> {
        // A file that was removed meanwhile is no signed head.
        let content = self.files.read(name)?.unwrap_or_default();
        let text = std::str::from_utf8(&content).map_err(|_| "is no signed head".to_owned());
        let head = match text.and_then(|text| Head::read(text, self.keys)) {
            Ok((head, _)) => head,
            Err(why) => {
                self.add_problem(name, why);
                return Ok(());
            }
        };
        let (Some(after), Some(end)) = (head.after(), head.end()) else {
            self.add_problem(name, "names no end of a chain");
            return Ok(());
        };
        if head.log != self.report.log.to_string() || head_name(&self.report.log, head.number) != name {
            let log = text::for_line(&head.log).into_owned();
            self.add_problem(name, format!("is head {} of `{log}`, and not in its place", head.number));
            return Ok(());
        }
        self.report.heads += 1;
        self.compare_with_previous(name, &head, after);
        self.check_objects(&head, after, end)?;
        self.previous = Some((head.number, sha256(&content)));
        self.chain_end = Some(end);
        self.report.end = Some((end, head.at));
        Ok(())
    }

    /// Finds heads and rows that are missing between a head and the one before it.
    fn compare_with_previous(&mut self, name: &str, head: &Head, chain_start: ChainEnd) {
        let previous_number = self.previous.as_ref().map_or(0, |(number, _)| *number);
        if head.number != previous_number + 1 {
            let (log, last_missing) = (self.report.log.to_string(), head.number.saturating_sub(1));
            let missing_heads = match previous_number + 1 == last_missing {
                true => format!("has no right head {last_missing}"),
                false => format!("has no right heads {} to {last_missing}", previous_number + 1),
            };
            self.add_problem(&log, missing_heads);
            return;
        }
        let previous_hash = self.previous.as_ref().map(|(_, hash)| hash.clone());
        if head.previous != previous_hash {
            self.add_problem(name, "was signed after another head than the one before it");
        }
        match self.chain_end {
            Some(end) if chain_start.seq > end.seq => {
                let (first_row, last_row) = (end.seq + 1, chain_start.seq);
                self.add_problem(
                    name,
                    format!("rows {first_row} to {last_row} were deleted before they were exported"),
                );
            }
            Some(end) if chain_start != end => self.add_problem(name, "does not go on where the head before it ended"),
            _ => {}
        }
    }

    /// Checks the objects of a head, whose rows lead from `chain_start` to `end`.
    fn check_objects(&mut self, head: &Head, chain_start: ChainEnd, end: ChainEnd) -> Result<(), String> {
        // The end of the chain after the objects so far; `None` after an invalid object.
        let (mut chain_end, mut are_all_valid) = (Some(chain_start), true);
        for object in &head.objects {
            if !object.name.starts_with(&format!("{}/rows/", self.report.log)) || object.name.contains("..") {
                self.add_problem(&object.name, "is not a name of this log");
                (chain_end, are_all_valid) = (None, false);
                continue;
            }
            self.named_objects.insert(object.name.clone());
            match self.check_object(object, chain_end)? {
                Ok(next) => {
                    self.report.first = self.report.first.or(Some(object.first));
                    self.report.rows += object.last.saturating_sub(object.first) + 1;
                    chain_end = Some(next);
                }
                Err(why) => {
                    self.add_problem(&object.name, why);
                    (chain_end, are_all_valid) = (None, false);
                }
            }
        }
        if are_all_valid && chain_end != Some(end) {
            let name = head_name(&self.report.log, head.number);
            self.add_problem(&name, "its objects do not end where it says");
        }
        Ok(())
    }

    /// Returns the end of the chain after the rows of an object, or the problem of the object. Fails if the object
    /// cannot be read. Without `chain_start`, does not check the hash of the first row, because the row before it is
    /// unknown.
    fn check_object(
        &self,
        object: &NamedObject,
        chain_start: Option<ChainEnd>,
    ) -> Result<Result<ChainEnd, String>, String> {
        let Some(content) = self.files.read(&object.name)? else {
            return Ok(Err("is missing".to_owned()));
        };
        if sha256(&content) != object.sha256 {
            return Ok(Err("is not what was signed".to_owned()));
        }
        Ok(follow_rows(&content, chain_start, object))
    }
}

/// Follows the chain through the rows of an object with the right hash. Returns the end of the chain.
fn follow_rows(content: &[u8], chain_start: Option<ChainEnd>, object: &NamedObject) -> Result<ChainEnd, String> {
    let mut end = chain_start;
    for line in content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // A line that is not UTF-8 becomes empty, so the check below rejects it.
        let line = std::str::from_utf8(line).unwrap_or_default();
        let next_end = end.map_or_else(|| ChainEnd::after_unchecked_line(line), |end| end.after_line(line));
        let row = end.map_or(object.first, |end| end.seq + 1);
        end = Some(next_end.ok_or_else(|| format!("row {row} does not follow from the one before it"))?);
    }
    end.filter(|end| end.seq == object.last).ok_or_else(|| format!("does not end with row {}", object.last))
}
