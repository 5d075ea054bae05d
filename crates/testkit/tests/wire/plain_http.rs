//! A client of HTTP/1.1 with one connection for each request. It reports exactly how an answer ended.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use toolrack_testkit::FakeHttp;

use crate::plain_stdio::LONG;
use crate::{initialize, modern};

/// The maximum number of bytes of a body that the client reads.
const MAX_BODY: usize = 12 << 20;

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// After its last byte.
    Whole,
    /// The connection was closed before that.
    Cut,
    /// The connection was reset.
    Reset,
    /// The framing is broken.
    Garbled,
    /// Nothing more came within the time limit.
    Silent,
    /// The body is longer than [`MAX_BODY`].
    Endless,
}

/// An answer, as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Reads the body as an event stream, each message on one line `data: …`, and returns the messages.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    }
}

/// One connection, after its request was sent.
#[derive(Debug)]
pub(crate) struct Open(BufReader<TcpStream>);

/// Connects and sends a request.
pub(crate) fn open(server: &FakeHttp, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Open {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let path = server.url().rsplit_once(server.address()).unwrap().1;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", server.address());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    Open(BufReader::new(stream))
}

impl Open {
    /// Reads the answer, waiting for each piece of it up to `limit`.
    pub(crate) fn read(&mut self, limit: Duration) -> Answer {
        self.0.get_ref().set_read_timeout(Some(limit)).unwrap();
        let mut answer = Answer { status: 0, headers: Vec::new(), body: Vec::new(), end: End::Whole };
        answer.end = match self.read_into(&mut answer) {
            Ok(end) => end,
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset => End::Reset,
                ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Silent,
                ErrorKind::UnexpectedEof => End::Cut,
                ErrorKind::InvalidData => End::Garbled,
                _ => panic!("{error}"),
            },
        };
        answer
    }

    /// Returns the next line of an event stream, without its end. Skips empty lines and the sizes of chunks.
    pub(crate) fn event_line(&mut self) -> String {
        self.0.get_ref().set_read_timeout(Some(LONG)).unwrap();
        loop {
            let line = self.line().unwrap();
            if line.contains(':') && !line.starts_with("HTTP/") {
                return line;
            }
        }
    }

    /// Returns the next message of an event stream, each message on one line `data: …`.
    pub(crate) fn event(&mut self) -> Value {
        loop {
            if let Some(data) = self.event_line().strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        if self.0.read_until(b'\n', &mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn read_into(&mut self, answer: &mut Answer) -> std::io::Result<End> {
        let status = self.line()?;
        answer.status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            answer.headers.push((name.to_owned(), value.to_owned()));
        }
        if answer.header("transfer-encoding").is_some() {
            return self.chunks(answer);
        }
        let length = answer.header("content-length").unwrap().parse().unwrap();
        self.bytes(length, answer)
    }

    fn chunks(&mut self, answer: &mut Answer) -> std::io::Result<End> {
        loop {
            let size = self.line()?;
            let Ok(size) = usize::from_str_radix(&size, 16) else { return Err(ErrorKind::InvalidData.into()) };
            if self.bytes(size, answer)? == End::Endless {
                return Ok(End::Endless);
            }
            self.line()?;
            if size == 0 {
                return Ok(End::Whole);
            }
        }
    }

    fn bytes(&mut self, length: usize, answer: &mut Answer) -> std::io::Result<End> {
        let mut piece = [0; 65_536];
        let mut left = length;
        while left > 0 {
            let max_read = left.min(piece.len());
            let read = self.0.read(&mut piece[..max_read])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            answer.body.extend_from_slice(&piece[..read]);
            left -= read;
            if answer.body.len() > MAX_BODY {
                return Ok(End::Endless);
            }
        }
        Ok(End::Whole)
    }
}

/// The header fields that every POST needs.
const POST: [(&str, &str); 2] =
    [("accept", "application/json, text/event-stream"), ("content-type", "application/json")];

/// Posts a message with these header fields as well, and reads the answer.
pub(crate) fn post(server: &FakeHttp, headers: &[(&str, &str)], message: &Value) -> Answer {
    open_post(server, headers, message).read(LONG)
}

/// Posts a message and leaves the answer to be read.
pub(crate) fn open_post(server: &FakeHttp, headers: &[(&str, &str)], message: &Value) -> Open {
    open(server, "POST", &[&POST, headers].concat(), message.to_string().as_bytes())
}

/// Opens a GET stream.
pub(crate) fn open_get(server: &FakeHttp, headers: &[(&str, &str)]) -> Open {
    open(server, "GET", &[&[("accept", "text/event-stream")], headers].concat(), b"")
}

/// Does the legacy handshake; returns the session id.
pub(crate) fn handshake(server: &FakeHttp) -> String {
    let answer = post(server, &[], &initialize(0));
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(server, &[("mcp-session-id", &session)], &initialized).status, 202);
    session
}

/// Returns the headers of a modern request that repeat parts of its body.
pub(crate) fn mirrored(message: &Value) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", message["method"].as_str().unwrap().to_owned()),
    ];
    let name = message["params"]["name"].as_str().or_else(|| message["params"]["uri"].as_str());
    headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
    headers
}

/// Posts a modern request with the headers that repeat parts of its body.
pub(crate) fn open_modern(server: &FakeHttp, message: &Value) -> Open {
    let headers = mirrored(message);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    open_post(server, &headers, message)
}

/// Posts a modern request and reads the answer.
pub(crate) fn post_modern(server: &FakeHttp, id: u64, method: &str, params: Value) -> Answer {
    open_modern(server, &modern(id, method, params)).read(LONG)
}
