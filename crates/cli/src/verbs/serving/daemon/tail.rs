//! Follows a file by its name while other processes write, rotate, truncate or recreate it.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The most bytes of a line. The rest of a longer line is the next line.
const MAX_LINE: usize = 64 * 1024;

/// The file that is read, and the position in it.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// `None` until there is one.
    file: Option<File>,
    /// Bytes of `file` that were read, or skipped at the beginning.
    at: u64,
    /// A line that has no end yet.
    begun: Vec<u8>,
}

impl Tail {
    /// Starts at most `last` bytes before the end of the file at `path`; if there is no such file yet, at its beginning
    /// later.
    pub(super) fn of(path: PathBuf, last: u64) -> io::Result<Self> {
        let mut tail = Self { path, file: None, at: 0, begun: Vec::new() };
        tail.open()?;
        if let Some(file) = &tail.file {
            tail.at = file.metadata()?.len().saturating_sub(last);
        }
        Ok(tail)
    }

    /// The lines that were written since the last call, without their ends; invalid UTF-8 is replaced. `None` when
    /// there is nothing to read, for now. It holds at most a chunk and a line.
    ///
    /// # Errors
    /// When the file cannot be read. It may be tried again.
    pub(super) fn more(&mut self) -> io::Result<Option<Vec<String>>> {
        // Check this first: the rest of a rotated file is read before the next file.
        let now = self.named()?;
        let mut lines = Vec::new();
        let Some(file) = &mut self.file else {
            self.open()?;
            return Ok(self.file.is_some().then_some(lines));
        };
        let here = file.metadata()?;
        if here.len() < self.at {
            self.at = 0;
            self.end_line(&mut lines);
            return Ok(Some(lines));
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk)?;
        if read > 0 {
            self.at += read as u64;
            self.take(&chunk[..read], &mut lines);
            return Ok(Some(lines));
        }
        if now.is_some_and(|now| (now.dev(), now.ino()) != (here.dev(), here.ino())) {
            self.end_line(&mut lines);
            self.open()?;
            return Ok(Some(lines));
        }
        Ok(None)
    }

    /// The file that has the name now; `None` between two files.
    fn named(&self) -> io::Result<Option<Metadata>> {
        found(fs::metadata(&self.path))
    }

    fn open(&mut self) -> io::Result<()> {
        self.file = found(File::open(&self.path))?;
        self.at = 0;
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8], lines: &mut Vec<String>) {
        while !bytes.is_empty() {
            let room = bytes.len().min(MAX_LINE - self.begun.len());
            let end = bytes[..room].iter().position(|byte| *byte == b'\n');
            self.begun.extend_from_slice(&bytes[..end.unwrap_or(room)]);
            bytes = &bytes[end.map_or(room, |end| end + 1)..];
            if end.is_some() {
                lines.push(self.line());
            } else if self.begun.len() == MAX_LINE {
                self.end_line(lines);
            }
        }
    }

    /// Ends the line with what was read of it.
    fn end_line(&mut self, lines: &mut Vec<String>) {
        if !self.begun.is_empty() {
            lines.push(self.line());
        }
    }

    fn line(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.begun).into_owned();
        self.begun.clear();
        line
    }
}

/// A missing file is not an error.
fn found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(thing) => Ok(Some(thing)),
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
        std::iter::from_fn(|| tail.more().unwrap()).flatten().collect()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        (folder, path)
    }

    #[test]
    fn only_complete_lines_are_followed() {
        let (_folder, path) = folder();
        let mut tail = Tail::of(path.clone(), 0).unwrap();
        assert_eq!(all(&mut tail), [""; 0], "there is no file yet");
        write(&path, "one\ntwo é".as_bytes());
        assert_eq!(all(&mut tail), ["one"]);
        write(&path, b" and more\n\n\xff\n");
        assert_eq!(all(&mut tail), ["two é and more", "", "\u{fffd}"]);
        assert_eq!(all(&mut tail), [""; 0]);
        let mut late = Tail::of(path, 3).unwrap();
        assert_eq!(all(&mut late), ["", "\u{fffd}"], "only the last bytes were asked for");
    }

    #[test]
    fn a_file_that_is_put_aside_is_read_to_its_end_and_then_the_next_one() {
        let (_folder, path) = folder();
        write(&path, b"one\n");
        let mut tail = Tail::of(path.clone(), 100).unwrap();
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
        let mut tail = Tail::of(path.clone(), 100).unwrap();
        assert_eq!(all(&mut tail), ["a long line"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(all(&mut tail), ["begun", "new"]);
    }

    #[test]
    fn a_line_without_an_end_is_held_only_up_to_its_bound() {
        let (_folder, path) = folder();
        write(&path, &vec![b'x'; 3 * MAX_LINE + 1]);
        let mut tail = Tail::of(path.clone(), u64::MAX).unwrap();
        assert_eq!(all(&mut tail).iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE; 3]);
        assert_eq!(tail.begun.len(), 1);
        write(&path, b"\n");
        assert_eq!(all(&mut tail), ["x"]);
    }
}
