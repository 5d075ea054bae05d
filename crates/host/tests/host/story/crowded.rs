//! A server over HTTP that answers its current connections, and accepts no more.

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use toolrack_host::ServerSpec;

use super::standing_stream::request;
use crate::{
    scripted::text_result,
    worlds::{call, host_of, state_is, text},
};

/// Each request comes on a connection of its own; with the call of `held`, the last is taken.
#[derive(Debug, Default)]
struct Crowded {
    held: Notify,
    full: Notify,
    release: Notify,
}

impl Crowded {
    async fn serve(&self, listener: TcpListener) -> ! {
        let (mut listener, mut connections) = (Some(listener), FuturesUnordered::new());
        loop {
            let next = async {
                match &listener {
                    Some(listener) => listener.accept().await.unwrap().0,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                stream = next => connections.push(self.connection(stream)),
                () = self.held.notified() => {
                    listener = None;
                    self.full.notify_one();
                }
                Some(_ended) = connections.next() => {}
            }
        }
    }

    async fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (_, body) = request(&mut stream).await?;
        let message: Value = serde_json::from_slice(&body)?;
        let tools = ["held", "other"].map(crate::scripted::tool);
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": tools}),
            "tools/call" => {
                self.held.notify_one();
                self.release.notified().await;
                text_result("done")
            }
            _ => Value::Null,
        };
        let answer = match (&message["id"], result) {
            (Value::Null, _) => String::new(),
            (id, Value::Null) => json!({"id": id, "error": {"code": -32601, "message": "no"}}).to_string(),
            (id, result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        };
        let status = if answer.is_empty() { "202 Accepted" } else { "200 OK" };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close");
        stream.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).as_bytes()).await
    }
}

#[tokio::test]
async fn a_call_that_is_being_answered_does_not_end_with_one_that_cannot_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Crowded::default();
    let story = async {
        let host = host_of([("crowded", ServerSpec::http(url))]).await;
        let (answer, ()) = tokio::join!(text(&host, "crowded/held", json!({})), async {
            server.full.notified().await;
            let error = call(&host, "crowded/other", json!({})).await.unwrap_err();
            assert_eq!(error.code(), "UNREACHABLE", "{error}");
            server.release.notify_one();
        });
        assert_eq!(answer, "done");
        // No connection is left to spare.
        let error = call(&host, "crowded/other", json!({})).await.unwrap_err();
        assert_eq!(error.code(), "UNREACHABLE", "{error}");
        state_is(&host, "crowded", "reconnecting").await;
        host.shutdown().await;
    };
    tokio::select! {
        () = story => {}
        _ = server.serve(listener) => {}
    }
}
