//! Legacy HTTP: the answer comes in a batch with other messages, and each request has one type of content.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use toolrack_host::{ServerSpec, spec::Transport};

use super::standing_stream::{request_with_head, serve_each};
use crate::{
    scripted::text_result,
    worlds::{host_of, text},
};

/// A server in a few lines, which answers each request of a tool with a batch.
#[derive(Debug, Default)]
struct Batching {
    /// The lines `Content-Type` of each request with a body.
    content_types: Mutex<Vec<Vec<String>>>,
}

impl Batching {
    async fn serve(&self, listener: TcpListener) -> ! {
        serve_each(listener, |stream| self.connection(stream)).await
    }

    /// Answers requests until the client is gone.
    async fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (head, body) = request_with_head(&mut stream).await?;
            let response = if body.is_empty() {
                "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else {
                let types = head.iter().filter(|line| line.starts_with("content-type:")).cloned().collect();
                self.content_types.lock().unwrap().push(types);
                respond(&serde_json::from_slice(&body)?)
            };
            stream.write_all(response.as_bytes()).await?;
        }
    }
}

fn respond(message: &Value) -> String {
    let id = &message["id"];
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let error = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
    let body = match message["method"].as_str().unwrap_or_default() {
        "initialize" => answer(json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}})),
        "tools/list" => answer(json!({"tools": [crate::scripted::tool("echo")]})),
        "tools/call" => json!([answer(text_result("done")), 7, error(&Value::Null)]),
        _ if id.is_null() => return "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => error(id),
    };
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Starts the server, and calls its tool. Returns the answer.
async fn answer_of(server: &Batching, headers: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = ServerSpec::http(format!("http://{}/mcp", listener.local_addr().unwrap()));
    let Transport::Http(http) = &mut spec.transport else { panic!("not HTTP") };
    http.headers.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let story = async {
        let host = host_of([("batching", spec)]).await;
        let answer = text(&host, "batching/echo", json!({})).await;
        host.shutdown().await;
        answer
    };
    tokio::select! {
        answer = story => answer,
        _ = server.serve(listener) => unreachable!(),
    }
}

#[tokio::test]
async fn a_bad_message_in_a_batch_does_not_replace_the_answer_beside_it() {
    assert_eq!(answer_of(&Batching::default(), &[]).await, "done");
}

#[tokio::test]
async fn a_configured_content_type_is_not_sent_beside_that_of_the_message() {
    let server = Batching::default();
    answer_of(&server, &[("Content-Type", "application/json; charset=utf-8")]).await;
    let sent = server.content_types.lock().unwrap();
    assert!(!sent.is_empty());
    assert!(sent.iter().all(|lines| lines[..] == ["content-type: application/json"]), "{sent:?}");
}
