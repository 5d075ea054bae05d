//! A file server on this machine. It stands in for the download page, and can simulate network faults.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::report::Stop;

/// What goes wrong when the server sends an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The last byte is changed.
    Changed,
    /// The connection ends after half of the bytes.
    BrokenOff,
    /// The same as [`BrokenOff`](Self::BrokenOff), and there is no `Content-Length`.
    BrokenOffWithoutLength,
}

/// A running server, which `drop` stops.
#[derive(Debug)]
pub(crate) struct FileServer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FileServer {
    /// Serves the files of a folder, with this fault in each archive.
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub(crate) fn start(folder: &Path, fault: Fault) -> Result<Self, Stop> {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            bound.map_err(|error| Stop::Failed(format!("the file server cannot start: {error}")))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (has_ended, folder) = (Arc::clone(&ended), folder.to_path_buf());
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::SeqCst) {
                    break;
                }
                // An error means that the client has closed the connection.
                let _ = answer(&stream, &folder, fault);
            }
        });
        Ok(Self { address, ended, thread: Some(thread) })
    }

    /// Returns the URL of the server.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // This connection wakes the thread, which then sees `ended`.
        drop(TcpStream::connect(self.address));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: &TcpStream, folder: &Path, fault: Fault) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // Reads all headers: closing a socket with unread bytes resets the connection.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut file: PathBuf = folder.join(path.trim_start_matches('/'));
    if path.ends_with('/') {
        file.push("index.html");
    }
    let Ok(mut bytes) = fs::read(&file) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let kind = if file.extension().is_some_and(|end| end == "html") { "text/html" } else { "application/octet-stream" };
    let length = apply_fault(&mut bytes, &file, fault).map(|length| format!("Content-Length: {length}\r\n"));
    let length = length.unwrap_or_default();
    let head = format!("HTTP/1.1 200 OK\r\n{length}Content-Type: {kind}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    if method == "HEAD" { Ok(()) } else { stream.write_all(&bytes) }
}

/// Applies `fault` to the bytes of an archive, and returns the `Content-Length` to send.
fn apply_fault(bytes: &mut Vec<u8>, file: &Path, fault: Fault) -> Option<usize> {
    let length = bytes.len();
    if file.extension().is_none_or(|end| end != "gz") {
        return Some(length);
    }
    match fault {
        Fault::None => {}
        Fault::Changed => bytes.iter_mut().last().into_iter().for_each(|last| *last ^= 1),
        Fault::BrokenOff | Fault::BrokenOffWithoutLength => bytes.truncate(length / 2),
    }
    (fault != Fault::BrokenOffWithoutLength).then_some(length)
}
