//! The daemon behind common proxies with their default settings: below a path, and with streams.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::json;
use tokio::time::{sleep, timeout};
use toolrack_testkit::Home;

use crate::up::{DaemonOptions, Events, LONG, Up, fake, servers};

/// The path of the daemon at the proxy.
const BELOW: &str = "/tools/rack";

/// A program that ends with its test.
struct Program(Child);

/// A proxy in front of a daemon.
struct Proxy {
    program: Program,
    url: String,
    client: Client,
    up: Up,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Debian installs some programs in folders that only root has on its path.
#[expect(clippy::disallowed_methods, reason = "where programs are is known to the disk alone")]
fn program(name: &str) -> String {
    let place = format!("/usr/sbin/{name}");
    if Path::new(&place).exists() { place } else { name.to_owned() }
}

impl Proxy {
    /// Starts a proxy in front of a new daemon. `config` gets the proxy's port and the daemon's address, and returns
    /// the proxy's configuration. `arguments` gets the proxy's folder and its configuration file, and returns the
    /// arguments with which the proxy stays in the foreground.
    async fn start(
        name: &str,
        config: impl Fn(u16, &str) -> String,
        arguments: impl Fn(&str, &str) -> Vec<String>,
    ) -> Self {
        Self::before(DaemonOptions::default(), name, config, arguments).await
    }

    /// Starts a proxy in front of a daemon with these options.
    async fn before(
        options: DaemonOptions,
        name: &str,
        config: impl Fn(u16, &str) -> String,
        arguments: impl Fn(&str, &str) -> Vec<String>,
    ) -> Self {
        let home = Home::new();
        home.write("toolrack/mcp.json", servers(&[("fake", fake(&[]))]));
        let port = free();
        let up = Up::started(home, DaemonOptions { hosts: vec![format!("127.0.0.1:{port}")], ..options }).await;
        up.home.write("work/proxy.conf", config(port, up.url.strip_prefix("http://").unwrap()));
        let folder = up.home.work().display().to_string();
        let child = Command::new(program(name))
            .args(arguments(&folder, &format!("{folder}/proxy.conf")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}: run `cargo xtask install`"));
        let client = Client::builder().no_proxy().timeout(LONG).build().unwrap();
        let proxy = Self { program: Program(child), url: format!("http://127.0.0.1:{port}{BELOW}"), client, up };
        timeout(LONG, async {
            // The proxy does not report when it listens.
            while proxy.client.get(format!("{}/health", proxy.url)).send().await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{name} does not answer"));
        proxy
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let origin = self.url.strip_suffix(BELOW).unwrap();
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth("key").header("origin", origin)
    }

    /// Sends the requests of a browser and of a client of the gateway.
    async fn serves_everything(self) {
        let page = self.client.get(format!("{}/", self.url)).send().await.unwrap();
        assert_eq!(page.status(), 200);
        assert!(!page.text().await.unwrap().contains("=\"/"), "the page asks for nothing at the root");
        let script = self.client.get(format!("{}/assets/app.js", self.url)).send().await.unwrap();
        assert_eq!(script.status(), 200);

        let foreign = self.client.get(format!("{}/api/v1/overview", self.url)).bearer_auth("key");
        assert_eq!(foreign.header("origin", "https://evil.example").send().await.unwrap().status(), 403);

        let events = self.request(Method::GET, "/api/v1/events").send();
        let events = timeout(LONG, events).await.expect("the head of a stream comes at once").unwrap();
        assert_eq!(events.status(), 200);
        let mut events = Events::of(events);
        let call = json!({ "tool": "fake/echo", "arguments": { "text": "hi" }, "approved": true });
        let called = self.request(Method::POST, "/api/v1/calls").json(&call).send().await.unwrap();
        assert_eq!(called.status(), 200);
        // The stream does not end, so anything that the proxy held back would never arrive.
        events.wait("tool_completed").await;

        let streamed = self.request(Method::POST, "/api/v1/calls").header("accept", "text/event-stream").json(&call);
        Events::of(streamed.send().await.unwrap()).wait("result").await;

        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        let started = self.mcp(Method::POST).json(&hello).send().await.unwrap();
        assert_eq!(started.status(), 200);
        let session = started.headers()["mcp-session-id"].clone();
        let mut standing = self.mcp(Method::GET).header("mcp-session-id", session).send().await.unwrap();
        let first = timeout(LONG, standing.chunk()).await.expect("it begins at once").unwrap().unwrap();
        assert!(first.starts_with(b": "), "{first:?}");
        drop((events, standing));
        drop(self.program);
        self.up.down().await;
    }

    fn mcp(&self, method: Method) -> RequestBuilder {
        self.request(method, "/mcp").header("accept", "application/json, text/event-stream")
    }
}

#[tokio::test]
async fn nginx_with_its_defaults_passes_everything_on() {
    let config = |port: u16, daemon: &str| {
        format!(
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
             client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n  uwsgi_temp_path uwsgi;\n  \
             scgi_temp_path scgi;\n  server {{\n    listen 127.0.0.1:{port};\n    location {BELOW}/ {{\n      \
             proxy_pass http://{daemon}/;\n    }}\n  }}\n}}\n"
        )
    };
    let arguments = |folder: &str, file: &str| ["-p", folder, "-c", file].map(str::to_owned).to_vec();
    Proxy::start("nginx", config, arguments).await.serves_everything().await;
}

#[tokio::test]
async fn haproxy_passes_everything_on() {
    let config = |port: u16, daemon: &str| {
        format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\nfrontend page\n  bind \
             127.0.0.1:{port}\n  http-request replace-path {BELOW}(/.*) \\1\n  default_backend daemon\nbackend daemon\n  server \
             one {daemon}\n"
        )
    };
    let arguments = |_: &str, file: &str| ["-db", "-q", "-f", file].map(str::to_owned).to_vec();
    Proxy::start("haproxy", config, arguments).await.serves_everything().await;
}

/// The configuration of HAProxy that the guide of many machines has, for one daemon.
fn recommended(port: u16, daemon: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
    #[expect(clippy::disallowed_methods, reason = "the page is a file of the repository")]
    let page = std::fs::read_to_string(page).unwrap();
    let (_, part) = page.split_once("```text\ndefaults\n").unwrap();
    let lines = part.split("```").next().unwrap().lines().filter_map(|line| match line.trim() {
        line if line.starts_with("bind ") => Some(format!("  bind 127.0.0.1:{port}")),
        line if line.starts_with("server one ") => Some(format!("  server one {daemon}")),
        line if line.starts_with("server ") => None,
        _ => Some(line.replace("tools.example", &format!("127.0.0.1:{port}"))),
    });
    // The tests of this file reach the daemon below a path.
    let below = format!("  http-request replace-path {BELOW}(/.*) \\1");
    let lines =
        lines.flat_map(|line| if line.starts_with("frontend ") { vec![line, below.clone()] } else { vec![line] });
    format!("defaults\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn a_daemon_that_drains_finishes_its_calls_and_gets_no_others_from_haproxy() {
    // Longer than HAProxy takes to notice that a daemon refuses connections, and then to cut the running requests.
    let slow = json!({ "tool": "fake/sleep", "arguments": { "ms": 6_000 }, "approved": true });
    let quick = json!({ "tool": "fake/echo", "arguments": { "text": "hi" }, "approved": true });
    let options =
        DaemonOptions { drain: Duration::from_secs(2), grace: Duration::from_secs(20), ..DaemonOptions::default() };
    let arguments = |_: &str, file: &str| ["-db", "-q", "-f", file].map(str::to_owned).to_vec();
    let proxy = Proxy::before(options, "haproxy", recommended, arguments).await;
    let call = |body: &serde_json::Value| proxy.request(Method::POST, "/api/v1/calls").json(body).send();
    timeout(LONG, async { while call(&quick).await.unwrap().status() != 200 {} }).await.unwrap();
    let mut events = proxy.up.events(None).await;
    let mut under_way = tokio::task::JoinSet::new();
    under_way.spawn(call(&slow));
    events.wait("tool_started").await;
    drop(events);
    proxy.up.begin_to_end();
    // Until HAProxy has noticed, the daemon continues to serve. After that, HAProxy answers that no replica is left.
    let refused = timeout(LONG, async {
        loop {
            let answer = call(&quick).await.unwrap();
            if answer.status() != 200 {
                break answer;
            }
        }
    });
    let refused = refused.await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.text().await.unwrap().contains("No server is available"), "the answer is that of HAProxy");
    let answer = under_way.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let Proxy { program, up, .. } = proxy;
    drop(program);
    up.down().await;
}
