//! Legacy HTTP: messages that answer no request come on a separate stream, which the client opens with `GET`. A server
//! that asks during a call may send its question there, so no call may start before the stream is open.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::sleep,
};
use toolrack_host::ServerSpec;

use crate::worlds::{host_of, selectors, text};

/// Accepts connections for ever, and handles all of them at once.
pub(super) async fn serve_each<C: Future>(listener: TcpListener, connection: impl Fn(TcpStream) -> C) -> ! {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => connections.push(connection(accepted.unwrap().0)),
            Some(_ended) = connections.next() => {}
        }
    }
}

/// A server in a few lines, whose standing stream takes its time to open.
#[derive(Debug, Default)]
struct Slow {
    open: AtomicBool,
}

impl Slow {
    async fn serve(&self, listener: TcpListener) -> ! {
        serve_each(listener, |stream| self.connection(stream)).await
    }

    /// Answers requests until the client is gone.
    async fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (method, body) = request(&mut stream).await?;
            let answer = match method.as_str() {
                "GET" => {
                    sleep(Duration::from_millis(300)).await;
                    self.open.store(true, Ordering::SeqCst);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await?;
                    return std::future::pending().await;
                }
                "POST" => self.answer(&serde_json::from_slice(&body)?),
                _ => None,
            };
            let response = answer.map_or_else(
                || "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
                |answer| {
                    let length = answer.to_string().len();
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s";
                    format!("{head}\r\nContent-Length: {length}\r\n\r\n{answer}")
                },
            );
            stream.write_all(response.as_bytes()).await?;
        }
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let tool = json!({"name": "is_open", "inputSchema": {"type": "object"}});
        let result = match message["method"].as_str()? {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}}}),
            "tools/list" => json!({"tools": [tool]}),
            "tools/call" => crate::scripted::text_result(&self.open.load(Ordering::SeqCst).to_string()),
            "server/discover" => return Some(json!({"id": message["id"], "error": {"code": -32601, "message": "no"}})),
            _ => return None,
        };
        Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

/// The method and the body of the next request.
pub(super) async fn request(stream: &mut BufReader<TcpStream>) -> std::io::Result<(String, Vec<u8>)> {
    let (head, body) = request_with_head(stream).await?;
    Ok((head[0].split(' ').next().unwrap_or_default().to_ascii_uppercase(), body))
}

/// The lines of the head of the next request, in lower case, and its body.
pub(super) async fn request_with_head(stream: &mut BufReader<TcpStream>) -> std::io::Result<(Vec<String>, Vec<u8>)> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            None if !head.is_empty() => break,
            _ => {}
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((head, body))
}

#[tokio::test]
async fn no_call_is_made_before_the_standing_stream_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Slow::default();
    let story = async {
        let host = host_of([("slow", ServerSpec::http(url))]).await;
        assert_eq!(selectors(&host), ["slow/is_open"]);
        assert_eq!(text(&host, "slow/is_open", json!({})).await, "true");
        host.shutdown().await;
    };
    tokio::select! {
        () = story => {}
        _ = server.serve(listener) => {}
    }
}
