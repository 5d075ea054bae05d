//! Calls a tool through a gateway: `bench-through ROW COUNT URL`, with the token in `TOOLRACK_BENCH_TOKEN` if it is
//! set.
//!
//! The same simple client measures all gateways. It speaks 2025-11-25, calls the tool whose name ends with `echo`, and
//! reads answers that are JSON or a stream of events.

use std::{
    env,
    time::{Duration, Instant},
};

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use toolrack_bench::{AnyError, Job, measure};

const SESSION: &str = "mcp-session-id";

fn main() -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        let job = Job::from_command_line()?;
        let gateway = Gateway::connect(job.url()?.to_owned()).await?;
        let tool = gateway.echo_tool().await?;
        let params = json!({ "name": tool, "arguments": { "text": "hello" } });
        let timed_call = async |_| -> Result<Duration, AnyError> {
            let began = Instant::now();
            let result = gateway.ask("tools/call", &params).await?;
            let took = began.elapsed();
            if result["content"][0]["text"] == "hello" {
                Ok(took)
            } else {
                Err(format!("the answer was {result}").into())
            }
        };
        measure::calls(&job, timed_call).await
    })?;
    toolrack_bench::print(&figures)
}

struct Gateway {
    client: Client,
    url: String,
    token: Option<String>,
    session: Option<String>,
}

impl Gateway {
    /// Connects to the gateway, with the handshake.
    async fn connect(url: String) -> Result<Self, AnyError> {
        let client = Client::builder().no_proxy().build()?;
        let mut gateway = Self { client, url, token: env::var("TOOLRACK_BENCH_TOKEN").ok(), session: None };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench-through", "version": "1" },
        });
        let answer = gateway.post(&request("initialize", &params)).send().await?.error_for_status()?;
        gateway.session = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        result(answer).await?;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        gateway.post(&initialized).send().await?.error_for_status()?;
        Ok(gateway)
    }

    /// Returns the gateway's name for the tool `echo`.
    async fn echo_tool(&self) -> Result<String, AnyError> {
        let listed = self.ask("tools/list", &json!({})).await?;
        let names = listed["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
        let mut echo = names.filter(|name| name.ends_with("echo"));
        Ok(echo.next().ok_or("there is no tool echo")?.to_owned())
    }

    async fn ask(&self, method: &str, params: &Value) -> Result<Value, AnyError> {
        result(self.post(&request(method, params)).send().await?.error_for_status()?).await
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let mut post =
            self.client.post(&self.url).header("accept", "application/json, text/event-stream").json(message);
        if let Some(token) = &self.token {
            post = post.bearer_auth(token);
        }
        if let Some(session) = &self.session {
            post = post.header(SESSION, session).header("mcp-protocol-version", "2025-11-25");
        }
        post
    }
}

/// Returns a request with a new id. The id is not compared with that of the answer: over HTTP, each answer comes on the
/// connection of its request.
fn request(method: &str, params: &Value) -> Value {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns the result in an answer that is JSON, or in the last event of an answer that is a stream.
async fn result(answer: Response) -> Result<Value, AnyError> {
    let text = answer.text().await?;
    let body = match text.trim_start().starts_with('{') {
        true => text.as_str(),
        false => text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("data:").filter(|data| !data.trim().is_empty()))
            .ok_or("no event")?,
    };
    let mut message: Value = serde_json::from_str(body)?;
    match message.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(message.to_string().into()),
    }
}
