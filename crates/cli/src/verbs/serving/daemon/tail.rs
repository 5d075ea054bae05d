//! Follows a file by its name while other processes write, rotate, truncate or recreate it.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

/// The maximum number of bytes of one read.
const CHUNK_BYTES: usize = 64 * 1024;

/// The most bytes of a line. The rest of a longer line is the next line.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The file that is read, and the position in it.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// `None` until the file exists.
    file: Option<File>,
    /// The bytes of `file` that were read, or skipped at the beginning.
    position: u64,
    /// The beginning of a line whose end is not written yet.
    partial_line: Vec<u8>,
}

impl Tail {
    /// Follows the file at `path`, from at most `last_bytes` before its end: the first line may be only the end of one.
    /// A file that does not exist yet is followed from its beginning.
    ///
    /// # Errors
    /// When the file exists but cannot be opened.
    pub(super) fn open(path: PathBuf, last_bytes: u64) -> io::Result<Self> {
        let mut tail = Self { path, file: None, position: 0, partial_line: Vec::new() };
        tail.open_path()?;
        if let Some(file) = &tail.file {
            tail.position = file.metadata()?.len().saturating_sub(last_bytes);
        }
        Ok(tail)
    }

    /// Returns lines that were written since the last call, without line breaks, or `None` when there is nothing more
    /// to read for now. One call reads at most 64 KiB; after an empty list, call again. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// When the file cannot be read. The call may be repeated.
    pub(super) fn read_lines(&mut self) -> io::Result<Option<Vec<String>>> {
        // Look at the path before reading. Then everything that was written before a rotation is read before the next
        // file is opened.
        let metadata_at_path = self.metadata_of_path()?;
        let mut lines = Vec::new();
        let Some(file) = &mut self.file else {
            self.open_path()?;
            return Ok(self.file.is_some().then_some(lines));
        };
        let opened_metadata = file.metadata()?;
        // The file was truncated. If it has grown beyond the position again, this goes unnoticed.
        if opened_metadata.len() < self.position {
            self.position = 0;
            self.flush_partial_line(&mut lines);
            return Ok(Some(lines));
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let read_count = file.read(&mut chunk)?;
        if read_count > 0 {
            self.position += read_count as u64;
            self.split_lines(&chunk[..read_count], &mut lines);
            return Ok(Some(lines));
        }
        // The path names another file now.
        if metadata_at_path.is_some_and(|metadata_at_path| {
            (metadata_at_path.dev(), metadata_at_path.ino()) != (opened_metadata.dev(), opened_metadata.ino())
        }) {
            self.flush_partial_line(&mut lines);
            self.open_path()?;
            return Ok(Some(lines));
        }
        Ok(None)
    }

    /// Returns the metadata of the file at the path; `None` if a rotated file has no successor yet.
    fn metadata_of_path(&self) -> io::Result<Option<Metadata>> {
        none_if_missing(fs::metadata(&self.path))
    }

    fn open_path(&mut self) -> io::Result<()> {
        self.file = none_if_missing(File::open(&self.path))?;
        self.position = 0;
        Ok(())
    }

    /// Appends the complete lines in `bytes` to `lines`, and keeps the rest as the partial line.
    fn split_lines(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) {
        while !bytes.is_empty() {
            let available = bytes.len().min(MAX_LINE_BYTES - self.partial_line.len());
            let end = bytes[..available].iter().position(|byte| *byte == b'\n');
            self.partial_line.extend_from_slice(&bytes[..end.unwrap_or(available)]);
            bytes = &bytes[end.map_or(available, |end| end + 1)..];
            if end.is_some() {
                lines.push(self.take_line());
            } else if self.partial_line.len() == MAX_LINE_BYTES {
                self.flush_partial_line(lines);
            }
        }
    }

    /// Appends the partial line to `lines` as it is, unless it is empty.
    fn flush_partial_line(&mut self, lines: &mut Vec<String>) {
        if !self.partial_line.is_empty() {
            lines.push(self.take_line());
        }
    }

    fn take_line(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.partial_line).into_owned();
        self.partial_line.clear();
        line
    }
}

/// Turns the error for a missing file into `None`.
fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write as _, path::Path};

    use super::*;

    fn write(path: &Path, text: &[u8]) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text).unwrap();
    }

    fn all(tail: &mut Tail) -> Vec<String> {
        std::iter::from_fn(|| tail.read_lines().unwrap()).flatten().collect()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        (folder, path)
    }

    #[test]
    fn only_complete_lines_are_followed() {
        let (_folder, path) = folder();
        let mut tail = Tail::open(path.clone(), 0).unwrap();
        assert_eq!(all(&mut tail), [""; 0], "there is no file yet");
        write(&path, "one\ntwo é".as_bytes());
        assert_eq!(all(&mut tail), ["one"]);
        write(&path, b" and more\n\n\xff\n");
        assert_eq!(all(&mut tail), ["two é and more", "", "\u{fffd}"]);
        assert_eq!(all(&mut tail), [""; 0]);
        let mut late = Tail::open(path, 3).unwrap();
        assert_eq!(all(&mut late), ["", "\u{fffd}"], "only the last bytes were asked for");
    }

    #[test]
    fn a_file_that_is_put_aside_is_read_to_its_end_and_then_the_next_one() {
        let (_folder, path) = folder();
        write(&path, b"one\n");
        let mut tail = Tail::open(path.clone(), 100).unwrap();
        assert_eq!(all(&mut tail), ["one"]);
        let aside = path.with_extension("old");
        fs::rename(&path, &aside).unwrap();
        write(&aside, b"late\ncut");
        assert_eq!(all(&mut tail), ["late"]);
        write(&path, b"new\n");
        assert_eq!(all(&mut tail), ["cut", "new"]);
    }

    #[test]
    fn a_file_that_is_cut_short_is_read_from_its_beginning() {
        let (_folder, path) = folder();
        write(&path, b"a long line\nbegun");
        let mut tail = Tail::open(path.clone(), 100).unwrap();
        assert_eq!(all(&mut tail), ["a long line"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(all(&mut tail), ["begun", "new"]);
    }

    #[test]
    fn a_line_without_an_end_is_held_only_up_to_its_bound() {
        let (_folder, path) = folder();
        write(&path, &vec![b'x'; 3 * MAX_LINE_BYTES + 1]);
        let mut tail = Tail::open(path.clone(), u64::MAX).unwrap();
        assert_eq!(all(&mut tail).iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE_BYTES; 3]);
        assert_eq!(tail.partial_line.len(), 1);
        write(&path, b"\n");
        assert_eq!(all(&mut tail), ["x"]);
    }
}
