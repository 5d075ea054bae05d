//! A small HTTP/1.1 implementation for the fake server: it can read the requests of a client, and write any bytes back.
//! A library would not write what a test needs, such as a body that is shorter than its length says.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Longest request body that is read, in bytes.
const MAX_BODY: usize = 256 * 1024 * 1024;

/// A request of a client.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path without its query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case, in the order of the wire.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    /// The value of the first header field of this name, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// The value of the first header field of this name, given in lower case.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
}

/// Header fields of an answer.
pub(crate) type Fields<'a> = &'a [(&'a str, &'a str)];

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // An error only makes the connection slower.
        let _ = stream.set_nodelay(true);
        Self { stream: BufReader::new(stream) }
    }

    /// The next request; `None` when the client closed.
    pub(crate) async fn read_request(&mut self) -> io::Result<Option<HttpRequest>> {
        let Some(first) = self.read_line().await? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::other(format!("not a request line: {first}")));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = Vec::new();
        while let Some(line) = self.read_line().await?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let body = self.read_body(&headers).await?;
        Ok(Some(HttpRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body,
        }))
    }

    async fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    async fn read_body(&mut self, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
        if header(headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if header(headers, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return self.read_chunked_body().await;
        }
        let length = header(headers, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        self.read_exactly(length).await
    }

    async fn read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > MAX_BODY {
            return Err(io::Error::other("request body too large"));
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    async fn read_chunked_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line().await?.unwrap_or_default();
            let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if body.len() + length > MAX_BODY {
                return Err(io::Error::other("request body too large"));
            }
            body.extend(self.read_exactly(length).await?);
            // The line end after the data of the chunk.
            self.read_line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// Writes these bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// Writes a status line and header fields, without the empty line that ends them.
    async fn write_head(&mut self, status: u16, fields: Fields<'_>) -> io::Result<()> {
        let reason = reason_phrase(status);
        let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
        for (name, value) in fields {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        self.write(head.as_bytes()).await
    }

    /// Writes a whole answer with its length.
    pub(crate) async fn respond(&mut self, status: u16, fields: Fields<'_>, body: &[u8]) -> io::Result<()> {
        self.respond_in_part(status, fields, body, body.len()).await
    }

    /// Writes an answer whose header promises `length` bytes, but whose body is `body`.
    pub(crate) async fn respond_in_part(
        &mut self,
        status: u16,
        fields: Fields<'_>,
        body: &[u8],
        length: usize,
    ) -> io::Result<()> {
        self.write_head(status, fields).await?;
        // Also for an empty body: without a length, the client would wait until the connection closes.
        self.write(format!("content-length: {length}\r\n\r\n").as_bytes()).await?;
        self.write(body).await
    }

    /// Begins an answer of unknown length.
    pub(crate) async fn respond_in_chunks(&mut self, status: u16, fields: Fields<'_>) -> io::Result<()> {
        self.write_head(status, fields).await?;
        self.write(b"transfer-encoding: chunked\r\n\r\n").await
    }

    /// Writes one chunk. An empty one ends the answer.
    pub(crate) async fn write_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk).await
    }

    /// Waits until the client has closed its side, or broken the connection.
    pub(crate) async fn wait_until_closed(&mut self) {
        match self.stream.fill_buf().await {
            Ok([]) | Err(_) => {}
            // The next request has arrived: the client is connected, and its end can no longer be detected.
            Ok(_) => std::future::pending().await,
        }
    }

    /// Ends the connection with a reset instead of a close.
    pub(crate) fn reset(self) {
        // With this option, dropping the socket resets the connection. An error means that the client has closed it.
        let _ = self.stream.get_ref().set_zero_linger();
    }
}

fn reason_phrase(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}
