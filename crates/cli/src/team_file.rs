//! Reads the team file. With it, an operator configures a team: users who share one daemon.

use std::{fs, path::Path};

use toolrack_team::TeamFile;

use crate::error::{Failure, in_words, with_causes};

/// The most bytes of a team file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Reads the team file.
///
/// # Errors
/// When it cannot be read or understood.
pub(crate) fn read(path: &Path) -> Result<TeamFile, Failure> {
    let team_file_error = |why: String| {
        let message = format!("the team file {} cannot be used: {why}", path.display());
        Failure::config(message).hint("docs/guide/teams.md has an example")
    };
    let length = fs::metadata(path).map_err(|error| team_file_error(in_words(&error)))?.len();
    if length > MAX_BYTES {
        return Err(team_file_error(format!("it has {length} bytes, and at most {MAX_BYTES} are read")));
    }
    let text = fs::read_to_string(path).map_err(|error| team_file_error(in_words(&error)))?;
    let real_path = path.canonicalize().map_err(|error| team_file_error(in_words(&error)))?;
    let folder = real_path.parent().unwrap_or(Path::new("/"));
    TeamFile::parse(&text, folder).map_err(|error| team_file_error(with_causes(&error)))
}
