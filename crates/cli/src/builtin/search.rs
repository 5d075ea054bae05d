//! Finds files by name.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Serialize;
use toolrack_host::text;

use super::{
    fence::Fence,
    files::{FileError, Kind},
};

/// The maximum number of matches that are returned.
const MAX_FOUND: usize = 1_000;
/// The maximum depth below the searched folder.
const MAX_DEPTH: usize = 32;
/// The maximum number of files and folders that are looked at.
const MAX_VISITED: usize = 200_000;

/// The result of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    /// Paths relative to the working folder, in the order of the folders.
    matches: Vec<String>,
    /// Whether the search ended at one of its limits: there may be more.
    truncated: bool,
    /// The number of folders that could not be read.
    // For a `usize`, schemars names the format `uint`, which no other program knows.
    #[schemars(with = "i64", range(min = 0))]
    unreadable: usize,
}

impl Found {
    /// Returns the paths, one per line, and a note if the search is incomplete.
    pub(super) fn lines(&self) -> String {
        let mut lines: Vec<String> = self.matches.iter().map(|path| text::for_line(path).into_owned()).collect();
        if lines.is_empty() {
            lines.push("(nothing found)".to_owned());
        }
        if self.truncated {
            lines.push("(the search was cut short; narrow the pattern or the path)".to_owned());
        }
        if self.unreadable > 0 {
            lines.push(format!("({} folders could not be read)", self.unreadable));
        }
        lines.join("\n")
    }
}

/// How the names of files and folders are matched.
enum NamePattern {
    /// Any name that contains this text, whatever the case.
    Part(String),
    /// A glob for the name.
    Name(GlobMatcher),
    /// A glob for the path, relative to the folder searched.
    Path(GlobMatcher),
}

impl NamePattern {
    fn parse(pattern: &str) -> Result<Self, FileError> {
        if !pattern.contains(['*', '?', '[', '{']) && !pattern.contains('/') {
            return Ok(Self::Part(pattern.to_lowercase()));
        }
        let glob = GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .build()
            .map_err(|error| FileError::BadPattern { pattern: pattern.to_owned(), why: error.kind().to_string() })?
            .compile_matcher();
        Ok(if pattern.contains('/') { Self::Path(glob) } else { Self::Name(glob) })
    }

    fn matches(&self, name: &str, path: &Path) -> bool {
        match self {
            Self::Part(part) => name.to_lowercase().contains(part),
            Self::Name(glob) => glob.is_match(name),
            Self::Path(glob) => glob.is_match(path),
        }
    }
}

/// Walks the folders below `path`, without following links and without entering `.git`.
///
/// Asks `is_cancelled` before each folder; if it returns `true`, returns the results so far.
pub(super) fn search(
    fence: &Fence,
    path: &str,
    pattern: &str,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Found, FileError> {
    let pattern = NamePattern::parse(pattern)?;
    let top = fence.resolve(path)?;
    if !top.is_dir() {
        return Err(FileError::NotAFolder { path: path.to_owned() });
    }
    let mut found = Found { matches: Vec::new(), truncated: false, unreadable: 0 };
    let mut visited = 0;
    let mut folders = vec![(top.clone(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if is_cancelled() {
            found.truncated = true;
            break;
        }
        let Some(entries) = sorted_entries(&folder, MAX_VISITED - visited) else {
            found.unreadable += 1;
            continue;
        };
        visited += entries.len();
        let mut subfolders = Vec::new();
        for (name, real_path, kind) in entries {
            if pattern.matches(&name, real_path.strip_prefix(&top).unwrap_or(&real_path)) {
                found.matches.push(fence.display_path(&real_path));
            }
            if kind == Kind::Directory && name != ".git" {
                subfolders.push((real_path, depth + 1));
            }
        }
        let is_too_deep = depth == MAX_DEPTH && !subfolders.is_empty();
        found.truncated |= is_too_deep;
        if !is_too_deep {
            // `pop` takes from the end, so the first subfolder must be the last.
            folders.extend(subfolders.into_iter().rev());
        }
        if found.matches.len() > MAX_FOUND || visited >= MAX_VISITED {
            found.matches.truncate(MAX_FOUND);
            found.truncated = true;
            break;
        }
    }
    Ok(found)
}

/// Returns at most `limit` entries of `folder`, sorted by name; `None` when it cannot be read.
fn sorted_entries(folder: &Path, limit: usize) -> Option<Vec<(String, PathBuf, Kind)>> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .take(limit)
        .filter_map(|entry| {
            let kind = Kind::from_file_type(entry.file_type().ok()?);
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, entry.path(), kind))
        })
        .collect();
    entries.sort_by(|(name, ..), (other, ..)| name.cmp(other));
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Fence) {
        let home = tempfile::tempdir().unwrap();
        for file in ["README.md", "src/main.rs", "src/deep/lib.rs", "src/deep/notes.md", ".git/config.rs"] {
            let file = home.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let fence = Fence::new(home.path().to_owned());
        (home, fence)
    }

    fn found(fence: &Fence, path: &str, pattern: &str) -> Vec<String> {
        let found = search(fence, path, pattern, &|| false).unwrap();
        assert!(!found.truncated);
        found.matches
    }

    #[test]
    fn a_glob_without_a_slash_finds_names_at_any_depth() {
        let (_home, fence) = tree();
        assert_eq!(found(&fence, ".", "*.rs"), ["src/main.rs", "src/deep/lib.rs"]);
        assert_eq!(found(&fence, "src/deep", "*.rs"), ["src/deep/lib.rs"]);
    }

    #[test]
    fn a_glob_with_a_slash_is_a_path_below_the_folder_searched() {
        let (_home, fence) = tree();
        assert_eq!(found(&fence, ".", "src/*.rs"), ["src/main.rs"]);
        assert_eq!(found(&fence, ".", "./src/**/*.md"), ["src/deep/notes.md"]);
        assert_eq!(found(&fence, "src", "deep/*.md"), ["src/deep/notes.md"]);
    }

    #[test]
    fn plain_words_find_every_name_that_contains_them() {
        let (_home, fence) = tree();
        assert_eq!(found(&fence, ".", "readme"), ["README.md"]);
        assert_eq!(found(&fence, ".", "deep"), ["src/deep"]);
        assert!(found(&fence, ".", "nothing").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_found_and_never_entered() {
        let (home, fence) = tree();
        std::os::unix::fs::symlink("..", home.path().join("src/up")).unwrap();
        assert_eq!(found(&fence, ".", "up"), ["src/up"]);
        assert_eq!(found(&fence, ".", "main.rs"), ["src/main.rs"]);
    }

    #[test]
    fn a_search_that_is_cancelled_says_that_it_was_cut_short() {
        let (_home, fence) = tree();
        let found = search(&fence, ".", "*", &|| true).unwrap();
        assert!(found.truncated && found.matches.is_empty());
    }

    #[test]
    fn a_search_stops_at_the_most_matches() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..=MAX_FOUND {
            std::fs::write(home.path().join(format!("{number}.txt")), "").unwrap();
        }
        let found = search(&Fence::new(home.path().to_owned()), ".", "*", &|| false).unwrap();
        assert!(found.truncated);
        assert_eq!(found.matches.len(), MAX_FOUND);
    }

    #[test]
    fn a_bad_glob_and_a_path_outside_are_refused() {
        let (_home, fence) = tree();
        let error = search(&fence, ".", "a{b", &|| false).unwrap_err();
        assert!(error.to_string().starts_with("`a{b` is not a glob: "), "{error}");
        let error = search(&fence, "..", "*", &|| false).unwrap_err();
        assert_eq!(error.to_string(), "`..` is outside the working folder");
    }
}
