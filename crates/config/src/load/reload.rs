//! Loads the configuration again while servers run. Rejects a configuration that another program was probably writing
//! while it was read.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{Loaded, Request, load};
use crate::{problem::Problem, trust::Ledger};

/// A configuration that cannot replace the running one. The caller must use no part of it.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The problems of the unusable files; at least one.
    pub problems: Vec<Problem>,
    /// The parts that could be read, for display.
    pub loaded: Box<Loaded>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration was not changed")?;
        match self.problems.first() {
            Some(problem) => write!(f, ": {problem:#}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Rejected {}

/// Loads the configuration again, to replace `previous`. May be called at any time, even while files are being written.
///
/// Returns a complete new configuration, or an error. A file that cannot be read or parsed, or is suddenly empty, is
/// most likely half written, and must not stop servers. A broken entry among good entries, a removed file, and a file
/// with only `{}` are changes like any other.
///
/// # Errors
/// [`Rejected`], with the problems of every file that cannot be used. The old configuration should stay.
pub fn reload(request: &Request, ledger: &dyn Ledger, previous: &Loaded) -> Result<Loaded, Rejected> {
    let loaded = load(request, ledger);
    let mut problems = emptied_files(&loaded, previous);
    if loaded.is_complete && problems.is_empty() {
        return Ok(loaded);
    }
    if !loaded.is_complete {
        // An error of a single entry does not make its file unusable.
        problems.extend(loaded.errors().filter(|problem| problem.entry.is_none()).cloned());
    }
    Err(Rejected { problems, loaded: Box::new(loaded) })
}

/// Returns a problem for each file that had servers before and now has no text at all.
fn emptied_files(loaded: &Loaded, previous: &Loaded) -> Vec<Problem> {
    let had_servers = |path: &Path| previous.entries.iter().any(|entry| entry.source.path.as_deref() == Some(path));
    // Uses the list of `loaded`: a file may have text again by now, but that text is not loaded.
    let files = loaded.blank_files.iter().map(PathBuf::as_path);
    files
        .filter(|path| had_servers(path))
        .map(|path| {
            let problem = Problem::error("the file is empty, but had servers before").in_file(path);
            problem.hint("if that is intended, write `{}` into it")
        })
        .collect()
}
