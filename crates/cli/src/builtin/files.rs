//! Lists, reads and describes files. A `Fence` resolves each path, and refuses those that lead out of the folder.

use std::{
    fs::{File, Metadata},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    time::SystemTime,
};

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use toolrack_host::text;

use super::fence::Fence;
use crate::{error::in_words, render::size};

/// The most entries of one folder that a listing has.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes of one file that are shown.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;
/// How many bytes at the start of a file are searched for a zero byte. Such a byte means that the file is not text.
const SNIFFED_BYTES: usize = 8 * 1024;

/// Why a file tool gave no answer; goes to the caller as the tool's error text.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("`{path}` is outside the working folder")]
    Outside { path: String },
    #[error("cannot {doing} `{path}`: {why}")]
    Io { doing: &'static str, path: String, why: String },
    #[error("`{path}` is not a folder")]
    NotAFolder { path: String },
    #[error("`{path}` is not a regular file")]
    NotAFile { path: String },
    #[error("`{path}` is not text ({size}); file_info describes it")]
    NotText { path: String, size: String },
    #[error("give `head` or `tail`, not both")]
    HeadAndTail,
    #[error("`{pattern}` is not a glob: {why}")]
    BadPattern { pattern: String, why: String },
}

impl FileError {
    /// Converts an error of the system.
    pub(super) fn io(doing: &'static str, path: &str, error: &io::Error) -> Self {
        // Only the kind of the error: the system's text may name paths that the caller did not name.
        Self::Io { doing, path: path.to_owned(), why: in_words(error) }
    }
}

/// The kind of a folder's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Directory,
    File,
    Link,
    Other,
}

impl Kind {
    pub(super) fn from_file_type(kind: std::fs::FileType) -> Self {
        if kind.is_symlink() {
            Self::Link
        } else if kind.is_dir() {
            Self::Directory
        } else if kind.is_file() {
            Self::File
        } else {
            Self::Other
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Directory => "[DIR]",
            Self::File => "[FILE]",
            Self::Link => "[LINK]",
            Self::Other => "[OTHER]",
        }
    }
}

/// A folder's entries.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listing {
    /// The folder, relative to the working folder.
    path: String,
    /// Sorted by name.
    entries: Vec<Entry>,
    /// There are more entries than are listed.
    truncated: bool,
}

/// An entry of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Entry {
    name: String,
    kind: Kind,
    /// In bytes; files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    // For a `u64`, schemars names the format `uint64`, which no other program knows.
    #[schemars(with = "Option<i64>", range(min = 0))]
    size: Option<u64>,
}

impl Listing {
    /// One line per entry: `[DIR] name`, `[FILE] name  size`.
    pub(super) fn lines(&self) -> String {
        let mut lines: Vec<String> = self
            .entries
            .iter()
            .map(|entry| {
                let name = text::for_line(&entry.name);
                let label = entry.kind.label();
                match entry.size {
                    Some(bytes) => format!("{label} {name}  {}", size(bytes)),
                    None => format!("{label} {name}"),
                }
            })
            .collect();
        if self.truncated {
            lines.push(format!("(only {MAX_ENTRIES} entries are listed; there are more)"));
        }
        if lines.is_empty() {
            lines.push("(empty)".to_owned());
        }
        lines.join("\n")
    }
}

/// Lists the folder `path`, sorted by name.
///
/// # Errors
/// When `path` leads out of the fence's folder, is no folder, or cannot be read.
pub(super) fn list(fence: &Fence, path: &str) -> Result<Listing, FileError> {
    let folder = fence.resolve(path)?;
    if !folder.is_dir() {
        return Err(FileError::NotAFolder { path: path.to_owned() });
    }
    let dir_entries = std::fs::read_dir(&folder).map_err(|error| FileError::io("list", path, &error))?;
    let mut entries = Vec::new();
    let mut truncated = false;
    for entry in dir_entries {
        let entry = entry.map_err(|error| FileError::io("list", path, &error))?;
        if entries.len() == MAX_ENTRIES {
            truncated = true;
            break;
        }
        // Skip an entry that was deleted in the meantime.
        let Ok(kind) = entry.file_type().map(Kind::from_file_type) else {
            continue;
        };
        let size = (kind == Kind::File).then(|| entry.metadata().map(|metadata| metadata.len()).ok()).flatten();
        entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind, size });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listing { path: fence.display_path(&folder), entries, truncated })
}

/// The part of a file to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Whole,
    /// This many lines from the start.
    Head(u32),
    /// This many lines from the end.
    Tail(u32),
}

/// The text that was read.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// A note about the part that is left out, if there is one.
    pub(super) note: Option<String>,
}

/// Reads a part of the file `path`, of at most [`MAX_TEXT_BYTES`] bytes.
///
/// # Errors
/// When `path` leads out of the fence's folder, is not a regular file of text, or cannot be read.
pub(super) fn read(fence: &Fence, path: &str, part: Part) -> Result<Text, FileError> {
    let real_path = fence.resolve(path)?;
    // Check this before opening the file: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(&real_path).map_err(|error| FileError::io("read", path, &error))?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile { path: path.to_owned() });
    }
    let read_error = |error: io::Error| FileError::io("read", path, &error);
    let mut file = File::open(&real_path).map_err(read_error)?;
    let mut beginning = Vec::new();
    (&mut file).take(SNIFFED_BYTES as u64).read_to_end(&mut beginning).map_err(read_error)?;
    if beginning.contains(&0) {
        return Err(FileError::NotText { path: path.to_owned(), size: size(metadata.len()) });
    }
    match part {
        Part::Whole => read_head(file, None, &metadata),
        Part::Head(lines) => read_head(file, Some(lines), &metadata),
        Part::Tail(lines) => read_tail(file, lines),
    }
    .map_err(read_error)
}

/// Reads the first `lines` lines of `file`, or all with `None`; at most [`MAX_TEXT_BYTES`] bytes.
fn read_head(mut file: File, lines: Option<u32>, metadata: &Metadata) -> io::Result<Text> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file.take(MAX_TEXT_BYTES));
    let mut bytes = Vec::new();
    match lines {
        None => {
            reader.read_to_end(&mut bytes)?;
        }
        Some(lines) => {
            for _ in 0..lines {
                if reader.read_until(b'\n', &mut bytes)? == 0 {
                    break;
                }
            }
        }
    }
    let is_cut = bytes.len() as u64 == MAX_TEXT_BYTES && metadata.len() > MAX_TEXT_BYTES;
    if is_cut {
        bytes.truncate(whole_characters_len(&bytes));
    }
    Ok(Text {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        note: is_cut.then(|| {
            format!(
                "(only the first {} of {} are shown; use `head` or `tail`)",
                size(MAX_TEXT_BYTES),
                size(metadata.len())
            )
        }),
    })
}

/// Reads the last `lines` lines of `file`; at most [`MAX_TEXT_BYTES`] bytes.
fn read_tail(mut file: File, lines: u32) -> io::Result<Text> {
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(MAX_TEXT_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes)?;
    let first_byte = tail_start(&bytes, lines);
    // At 0, the first of the lines begins at the first byte that was read, or before it.
    let is_cut = start > 0 && first_byte == 0 && lines > 0;
    // The cut may be inside a character, whose remaining bytes are not text: begin after them.
    let first_byte = if is_cut { bytes.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0) } else { first_byte };
    Ok(Text {
        text: String::from_utf8_lossy(&bytes[first_byte..]).into_owned(),
        note: is_cut.then(|| format!("(only the last {} of {} are shown)", size(MAX_TEXT_BYTES), size(length))),
    })
}

/// Returns the offset at which the last `lines` lines begin. A newline at the very end ends the last line, and begins
/// no further one.
fn tail_start(bytes: &[u8], lines: u32) -> usize {
    if lines == 0 {
        return bytes.len();
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    body.iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(lines as usize - 1)
        .map_or(0, |(index, _)| index + 1)
}

/// Returns the length of `bytes` without a character that is cut in two at the end.
fn whole_characters_len(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// The description of a file or folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Info {
    /// Relative to the working folder, with links resolved.
    path: String,
    kind: Kind,
    /// In bytes.
    // For a `u64`, schemars names the format `uint64`, which no other program knows.
    #[schemars(with = "i64", range(min = 0))]
    size: u64,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// Octal mode bits, such as `644`.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<String>,
}

impl Info {
    /// One `name: value` line per fact.
    pub(super) fn lines(&self) -> String {
        let kind = match self.kind {
            Kind::Directory => "folder",
            Kind::File => "file",
            Kind::Link => "link",
            Kind::Other => "neither file nor folder",
        };
        let mut lines = vec![
            format!("path: {}", text::for_line(&self.path)),
            format!("kind: {kind}"),
            format!("size: {} ({} bytes)", size(self.size), self.size),
        ];
        let optional = [("modified", &self.modified), ("created", &self.created), ("permissions", &self.permissions)];
        lines.extend(optional.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?))));
        lines.join("\n")
    }
}

/// Describes the file or folder `path`.
///
/// # Errors
/// When `path` leads out of the fence's folder, or cannot be read.
pub(super) fn info(fence: &Fence, path: &str) -> Result<Info, FileError> {
    let real_path = fence.resolve(path)?;
    let metadata = std::fs::metadata(&real_path).map_err(|error| FileError::io("read", path, &error))?;
    Ok(Info {
        path: fence.display_path(&real_path),
        kind: Kind::from_file_type(metadata.file_type()),
        size: metadata.len(),
        modified: metadata.modified().ok().map(rfc3339),
        created: metadata.created().ok().map(rfc3339),
        permissions: permissions(&metadata),
    })
}

fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(unix)]
fn permissions(metadata: &Metadata) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    Some(format!("{:03o}", metadata.permissions().mode() & 0o7777))
}

#[cfg(not(unix))]
fn permissions(_: &Metadata) -> Option<String> {
    None
}

#[cfg(test)]
mod tests;
