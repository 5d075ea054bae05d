//! Stores results that are too long for a model as files.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use toolrack_host::{Artifacts, KeepError, ServerName};

/// The media types of results, each with the extension of its files. When a user opens a file with one of these
/// extensions, a desktop does not run it.
const EXTENSIONS: &[(&str, &str)] = &[
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/msword", "doc"),
    ("application/pdf", "pdf"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/zip", "zip"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/xml", "xml"),
    ("video/mp4", "mp4"),
];

/// The maximum number of characters of a server's or tool's name in a file's name.
const MAX_NAME_CHARS: usize = 40;

/// The maximum number of files whose names have the same time, server, tool and extension.
const MAX_SAME_NAMES: usize = 1000;

/// The format of the time at the start of a file's name. Sorting by name sorts by age.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S%3fZ";

/// The length of a time in [`TIME_FORMAT`].
const TIME_LENGTH: usize = "20261121T120000000Z".len();

/// The limits of an [`ArtifactFolder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactBounds {
    /// The maximum number of files. Default 500.
    pub files: usize,
    /// The maximum size of all files together, in bytes. Default 512 MiB.
    pub bytes: u64,
}

impl Default for ArtifactBounds {
    fn default() -> Self {
        Self { files: 500, bytes: 512 * 1024 * 1024 }
    }
}

/// A piece of a stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// The offset of its beginning, in bytes.
    pub from: u64,
    /// The offset of its end, in bytes: the next piece begins there.
    pub to: u64,
    /// The length of the whole text, in bytes.
    pub total: u64,
}

/// Why a stored result cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The handle does not belong to this folder, or its file was removed to make room for newer ones.
    #[error("no result is stored under this handle, or not any more")]
    Unknown,
    /// The result is not text, but a picture, a sound or similar.
    #[error("the result is not text ({bytes} bytes)")]
    NoText {
        /// The length of the file.
        bytes: u64,
    },
    /// The system refuses to read the file.
    #[error("the result cannot be read: {why}")]
    Unreadable {
        /// The system's error.
        why: String,
    },
}

/// A folder of results. Each result is a file whose name contains its time, server, tool and type. When the results
/// exceed the bounds, storing a result removes the oldest ones. Files with other names are not from Toolrack, and stay.
#[derive(Clone, Debug)]
pub struct ArtifactFolder {
    folder: PathBuf,
    bounds: ArtifactBounds,
}

impl ArtifactFolder {
    /// Returns the folder at the path `folder`. The folder is created when the first result is stored.
    pub fn new(folder: impl Into<PathBuf>, bounds: ArtifactBounds) -> Self {
        Self { folder: folder.into(), bounds }
    }

    /// Reads a piece of a stored text: at most `max_bytes` bytes, starting at the byte `from`. Moves the start forward
    /// and the end back where they would cut a character. Dropping the future does not stop the read.
    ///
    /// # Errors
    /// [`ReadError`] when `handle` does not belong to this folder, or its file is not text or cannot be read.
    pub async fn read(&self, handle: &str, from: u64, max_bytes: usize) -> Result<Piece, ReadError> {
        let (folder, handle) = (self.clone(), PathBuf::from(handle));
        let result = tokio::task::spawn_blocking(move || folder.read_piece(&handle, from, max_bytes)).await;
        result.map_err(|_| ReadError::Unreadable { why: "the program is shutting down".to_owned() })?
    }

    /// Does the work of [`Self::read`]. Blocks.
    fn read_piece(&self, handle: &Path, from: u64, max_bytes: usize) -> Result<Piece, ReadError> {
        // Accepts only files that Toolrack created in this folder. Refuses paths that lead out of the folder, and links
        // that another program made in it.
        let is_created_here =
            handle.parent() == Some(&*self.folder) && handle.file_name().is_some_and(is_artifact_name);
        let metadata = std::fs::symlink_metadata(handle).ok().filter(|metadata| is_created_here && metadata.is_file());
        let total = metadata.ok_or(ReadError::Unknown)?.len();
        let unreadable_error = |error: io::Error| ReadError::Unreadable { why: error.kind().to_string() };
        let mut file = File::open(handle).map_err(unreadable_error)?;
        // Reads three more bytes at both ends. A character of UTF-8 has at most four bytes, so a character that is cut
        // at an end of the piece begins or ends within these bytes.
        let read_start = from.min(total).saturating_sub(3);
        file.seek(io::SeekFrom::Start(read_start)).map_err(unreadable_error)?;
        let mut bytes = Vec::new();
        file.take(max_bytes as u64 + 6).read_to_end(&mut bytes).map_err(unreadable_error)?;
        // Like `str::is_char_boundary`: a byte of UTF-8 begins a character unless it has the form `10xxxxxx`, which is
        // -128 to -65 as an `i8`.
        let is_boundary = |index: usize| bytes.get(index).is_none_or(|byte| (*byte as i8) >= -0x40);
        // At most 3, because `read_start` is at most 3 bytes before `from`.
        let mut piece_start = usize::try_from(from.min(total) - read_start).unwrap_or_default();
        while !is_boundary(piece_start) {
            piece_start += 1;
        }
        let mut piece_end = (piece_start + max_bytes).min(bytes.len());
        while piece_end > piece_start && !is_boundary(piece_end) {
            piece_end -= 1;
        }
        let text =
            std::str::from_utf8(&bytes[piece_start..piece_end]).map_err(|_| ReadError::NoText { bytes: total })?;
        let file_offset = |index: usize| read_start + index as u64;
        Ok(Piece { text: text.to_owned(), from: file_offset(piece_start), to: file_offset(piece_end), total })
    }

    /// Writes a result into a new file, and removes the oldest files if there are too many.
    fn write(&self, name: &ArtifactName, bytes: &[u8]) -> Result<PathBuf, KeepError> {
        let size = bytes.len() as u64;
        if size > self.bounds.bytes || self.bounds.files == 0 {
            let why = format!("it has {size} bytes, but at most {} can be stored", self.bounds.bytes);
            return Err(KeepError { why });
        }
        let write_error = |path: &Path, error: &io::Error| KeepError {
            why: format!("{} cannot be written: {}", path.display(), error.kind()),
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder).map_err(|error| write_error(&self.folder, &error))?;

        let (path, mut file) = self.create(name).map_err(|error| write_error(&self.folder, &error))?;
        if let Err(error) = file.write_all(bytes) {
            // Removes the incomplete file, which a reader would treat as a whole result.
            let _ = std::fs::remove_file(&path);
            return Err(write_error(&path, &error));
        }
        if let Err(error) = self.prune(&path) {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot remove old artifacts");
        }
        Ok(path)
    }

    /// Creates a new file that only its owner can read.
    fn create(&self, name: &ArtifactName) -> io::Result<(PathBuf, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        for number in 0..MAX_SAME_NAMES {
            let path = self.folder.join(name.file_name(number));
            match options.open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the oldest files until the rest is within the limits, but never `newest`.
    fn prune(&self, newest: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another process may remove files at the same time.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let path = entry.path();
            if metadata.is_file() && path != newest && is_artifact_name(&entry.file_name()) {
                files.push((path, metadata.len()));
            }
        }
        // The names begin with the time, so the oldest files come first.
        files.sort();
        let newest_bytes = std::fs::metadata(newest).map_or(0, |metadata| metadata.len());
        let mut total_bytes = newest_bytes + files.iter().map(|(_, file_bytes)| file_bytes).sum::<u64>();
        let mut file_count = 1 + files.len();
        for (path, file_bytes) in files {
            if total_bytes <= self.bounds.bytes && file_count <= self.bounds.files {
                break;
            }
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {
                    total_bytes -= file_bytes;
                    file_count -= 1;
                }
            }
        }
        Ok(())
    }
}

/// The parts of a file's name.
struct ArtifactName {
    at: DateTime<Utc>,
    server: String,
    tool: String,
    extension: &'static str,
}

impl ArtifactName {
    /// Returns the name of the file. `number` counts the files with the same parts, from 0.
    fn file_name(&self, number: usize) -> String {
        let Self { server, tool, extension, .. } = self;
        let time = self.at.format(TIME_FORMAT);
        match number {
            0 => format!("{time}-{server}-{tool}.{extension}"),
            number => format!("{time}-{server}-{tool}-{number}.{extension}"),
        }
    }
}

/// Returns whether a file's name begins with a time in [`TIME_FORMAT`], as the names of stored results do.
fn is_artifact_name(name: &std::ffi::OsStr) -> bool {
    let time = name.to_str().and_then(|name| name.get(..TIME_LENGTH));
    time.is_some_and(|time| {
        time.bytes().enumerate().all(|(index, byte)| match index {
            8 => byte == b'T',
            index if index + 1 == TIME_LENGTH => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
    })
}

/// Makes a name safe for a file's name: keeps letters, digits, `_` and `-`.
fn safe_name(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().take(MAX_NAME_CHARS).map(|c| if is_safe(c) { c } else { '_' }).collect()
}

/// Returns the extension of the file for a result of this media type.
fn extension(media_type: &str) -> &'static str {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let listed_extension = EXTENSIONS.iter().find(|(listed_type, _)| *listed_type == media_type);
    match listed_extension {
        Some((_, extension)) => extension,
        None if media_type.ends_with("+json") => "json",
        None if media_type.ends_with("+xml") => "xml",
        None if media_type.starts_with("text/") => "txt",
        None => "bin",
    }
}

impl Artifacts for ArtifactFolder {
    /// Stores `bytes` as a file; the handle is its path. Dropping the future does not stop the write.
    fn keep<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        let name = ArtifactName {
            at: Utc::now(),
            server: safe_name(server.as_str()),
            tool: safe_name(tool),
            extension: extension(media_type),
        };
        let (folder, bytes) = (self.clone(), bytes.to_vec());
        Box::pin(async move {
            let result = tokio::task::spawn_blocking(move || folder.write(&name, &bytes)).await;
            let path = result.map_err(|_| KeepError { why: "the program is shutting down".to_owned() })??;
            Ok(path.display().to_string())
        })
    }
}

#[cfg(test)]
mod tests;
