//! Agents, each with servers that no other agent has.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolrack_daemon::{MetricValue, Metrics};
use toolrack_testkit::{EffectLog, Home, fake_server_path, processes};

use crate::up::{DaemonOptions, Events, LONG, Up};

/// A configuration with the agents `coder` and `a/b c`, each with a server of its own beside the one that they share.
/// The fake servers write what they do to `effects`.
fn home(effects: &EffectLog) -> Home {
    let home = Home::new();
    let args = json!(["stdio", "--era", "both", "--log", effects.path_str()]);
    let entry = |name: &str| format!("name = \"{name}\"\ncommand = {:?}\nargs = {args}\n", fake_server_path());
    let (shared, one, two) = (entry("shared"), entry("one"), entry("two"));
    home.write(
        "toolrack/toolrack.toml",
        format!(
            "[[defaults.mcp]]\n{shared}[[agents]]\nid = \"coder\"\n[[agents.mcp]]\n{one}\
             [[agents]]\nid = \"a/b c\"\n[[agents.mcp]]\n{two}"
        ),
    );
    home
}

/// The names in a list of servers.
fn names(servers: &Value) -> Vec<&str> {
    servers["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect()
}

/// Whether the world of the agent `id` runs.
async fn is_running(up: &Up, id: &str) -> bool {
    let agents = up.get("/api/v1/agents").await;
    agents["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == id && agent["running"] == true)
}

#[tokio::test]
async fn no_agent_sees_the_servers_of_another() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    let listed = up.get("/api/v1/agents").await;
    let expected = json!({ "agents": [
        { "id": "a/b c", "running": false, "api": "/agents/a%2Fb%20c/api/v1", "mcp": "/agents/a%2Fb%20c/mcp" },
        { "id": "coder", "running": false, "api": "/agents/coder/api/v1", "mcp": "/agents/coder/mcp" },
    ] });
    assert_eq!(listed, expected);
    assert_eq!(names(&up.get("/api/v1/servers").await), ["shared"]);
    assert_eq!(names(&up.get("/agents/coder/api/v1/servers").await), ["one", "shared"]);
    assert_eq!(names(&up.get("/agents/a%2Fb%20c/api/v1/servers").await), ["shared", "two"]);

    let call = async |base: &str, tool: &str| {
        let body = json!({ "tool": tool, "arguments": { "text": "hi" }, "approved": true });
        up.post(&format!("{base}/api/v1/calls"), body).await
    };
    up.eventually("the agent's server is connected", async || {
        let one = up.get("/agents/coder/api/v1/servers/one").await;
        (one["state"] == "connected").then_some(())
    })
    .await;
    let (status, body) = call("/agents/coder", "one/echo").await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(call("/agents/coder", "two/echo").await.0, 404);
    assert_eq!(call("", "one/echo").await.0, 404);
    up.down().await;
    assert!(effects.read().pids().iter().all(|pid| !processes::alive(*pid)), "a server outlived its agent's world");
}

/// The lines that a page for Prometheus has for the values that `wanted` selects, made from what collectors get.
fn lines(up: &Up, wanted: impl Fn(&MetricValue) -> bool) -> Vec<String> {
    let of = |metric| {
        let values = up.metrics.values(metric).into_iter().filter(|value| wanted(value));
        values.map(move |value| {
            let labels: Vec<_> = value.labels.iter().map(|(label, text)| format!("{label}=\"{text}\"")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            format!("{}{labels} {}", metric.name, value.value)
        })
    };
    // The uptime is left out, because it changes between two readings.
    Metrics::all().iter().filter(|metric| metric.name != "toolrack_up_seconds").flat_map(of).collect()
}

#[tokio::test]
async fn collectors_get_what_the_pages_of_the_daemon_and_its_agents_have() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    let call = json!({ "tool": "shared/echo", "arguments": { "text": "hi" }, "approved": true });
    for base in ["", "/agents/coder"] {
        up.eventually("the server answers", async || {
            let (status, _) = up.post(&format!("{base}/api/v1/calls"), call.clone()).await;
            (status == 200).then_some(())
        })
        .await;
    }
    up.eventually("both pages have what collectors get", async || {
        let is_of_agent = |value: &MetricValue| value.labels.contains(&("agent", "coder".to_owned()));
        let mut are_equal = true;
        for (base, of_agent) in [("", false), ("/agents/coder", true)] {
            let page = up.get(&format!("{base}/metrics")).await;
            let page = page.as_str().unwrap().lines();
            let page: Vec<_> =
                page.filter(|line| !line.starts_with("# ") && !line.starts_with("toolrack_up_seconds ")).collect();
            let sent = lines(&up, |value| is_of_agent(value) == of_agent);
            let sent: Vec<_> =
                sent.iter().map(|line| line.replace(",agent=\"coder\"", "").replace("{agent=\"coder\"}", "")).collect();
            assert!(sent.iter().any(|line| line.starts_with("toolrack_calls_total{server=\"shared\"")), "{sent:?}");
            are_equal &= page == sent;
        }
        are_equal.then_some(())
    })
    .await;
    up.down().await;
}

#[tokio::test]
async fn the_token_of_an_agent_opens_only_its_own_mcp_endpoint() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    let (status, given) = up.post("/api/v1/agents/coder/token", json!({})).await;
    assert_eq!((status.as_u16(), &given["mcp"]), (200, &json!("/agents/coder/mcp")));
    assert_eq!(up.post("/api/v1/agents/coder/token", json!({})).await.1, given, "the token stays the same");
    let token = given["token"].as_str().unwrap();
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    let ask = |path: &str| {
        let request = up.client.post(format!("{}{path}", up.url)).bearer_auth(token).json(&initialize);
        request.header("accept", "application/json, text/event-stream").send()
    };
    assert_eq!(ask("/agents/coder/mcp").await.unwrap().status(), 200);
    for path in ["/agents/a%2Fb%20c/mcp", "/mcp", "/agents/coder/api/v1/calls", "/api/v1/calls"] {
        assert_eq!(ask(path).await.unwrap().status(), 401, "{path}");
    }
    up.down().await;
}

#[tokio::test]
async fn the_token_of_an_agent_opens_its_endpoint_in_every_percent_encoding() {
    let home = Home::new();
    home.write("toolrack/toolrack.toml", "[[agents]]\nid = \"my-agent\"\n[[agents]]\nid = \"other\"\n");
    let up = Up::of(home).await;
    let (_, given) = up.post("/api/v1/agents/my-agent/token", json!({})).await;
    assert_eq!(given["mcp"], "/agents/my-agent/mcp");
    let (_, other) = up.post("/api/v1/agents/other/token", json!({})).await;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    for path in ["/agents/my-agent/mcp", "/agents/my%2Dagent/mcp"] {
        for (token, status) in [(&given["token"], 200), (&other["token"], 401)] {
            let request =
                up.client.post(format!("{}{path}", up.url)).bearer_auth(token.as_str().unwrap()).json(&initialize);
            let request = request.header("accept", "application/json, text/event-stream").send().await.unwrap();
            assert_eq!(request.status(), status, "{path}");
        }
    }
    up.down().await;
}

#[tokio::test]
async fn an_unused_world_ends_with_its_servers_and_starts_again_on_demand() {
    let effects = EffectLog::new();
    let up = Up::idle(home(&effects), Duration::from_millis(300)).await;
    // A client listens to the events of one agent, so that its world stays in use.
    let listening = up.request(Method::GET, "/agents/coder/api/v1/events").send().await.unwrap();
    let mut listening = Events::of(listening);
    up.get("/agents/a%2Fb%20c/api/v1/servers").await;
    assert!(is_running(&up, "a/b c").await);
    up.eventually("the unused world ends", async || (!is_running(&up, "a/b c").await).then_some(())).await;
    assert!(is_running(&up, "coder").await, "a world in use must not end");
    up.get("/agents/a%2Fb%20c/api/v1/servers").await;
    assert!(is_running(&up, "a/b c").await, "the world starts again");

    assert_eq!(up.post("/api/v1/agents/coder/stop", json!({})).await.0, 204);
    let ended = async { while listening.next().await.is_some() {} };
    tokio::time::timeout(LONG, ended).await.expect("the event streams of a world end with it");
    up.down().await;
}

#[tokio::test]
async fn an_agent_that_is_not_configured_is_unknown() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    for (method, path) in [
        (Method::GET, "/agents/missing/api/v1/servers"),
        (Method::POST, "/api/v1/agents/missing/stop"),
        (Method::POST, "/api/v1/agents/missing/token"),
    ] {
        let (status, body) = up.send(method, path, None).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &json!("UNKNOWN_AGENT")), "{path}");
    }
    assert_eq!(
        up.send(Method::GET, "/agents/coder/api/v1/agents", None).await.0,
        404,
        "an agent does not see other agents"
    );
    assert_eq!(up.client.get(format!("{}/agents/coder/api/v1/servers", up.url)).send().await.unwrap().status(), 401);

    let mut events = up.events(None).await;
    assert_eq!(up.get("/agents/coder/api/v1/overview").await["approvals"], 0);
    up.home.write("toolrack/toolrack.toml", "[[agents]]\nid = \"other\"\n");
    let (_, changed) = events.wait("config_changed").await;
    assert_eq!(changed["agents"], json!(["other"]));
    assert_eq!(
        up.send(Method::GET, "/agents/coder/api/v1/servers", None).await.0,
        404,
        "the agent is no longer in the file"
    );
    up.down().await;
}

#[tokio::test]
async fn the_daemon_lists_and_answers_questions_of_agents() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    for (at, server) in [("", "shared"), ("/agents/coder", "one")] {
        up.eventually("its server is connected", async || {
            let found = up.get(&format!("{at}/api/v1/servers/{server}")).await;
            (found["state"] == "connected").then_some(())
        })
        .await;
    }
    let mut events = up.events(None).await;
    let write = async |base: &str, tool: &str| {
        up.post(&format!("{base}/api/v1/calls"), json!({ "tool": tool, "arguments": { "path": "a" } })).await
    };
    let answers = async {
        let open = up
            .eventually("both questions wait", async || {
                let open = up.get("/api/v1/approvals").await["approvals"].as_array().unwrap().clone();
                (open.len() == 2).then_some(open)
            })
            .await;
        let origins: Vec<_> = open.iter().map(|question| (&question["agent"], &question["server"])).collect();
        assert_eq!(origins, [(&Value::Null, &json!("shared")), (&json!("coder"), &json!("one"))]);
        assert_eq!(up.get("/api/v1/overview").await["approvals"], 2);
        let inside = up.get("/agents/coder/api/v1/approvals").await;
        assert_eq!(inside["approvals"].as_array().unwrap().len(), 1);
        let id = inside["approvals"][0]["id"].as_str().unwrap();
        assert_eq!(open[1]["id"], format!("coder:{id}"));
        for unknown in [&*format!("missing:{id}"), &format!("a/b c:{id}"), &format!("coder:{id}7"), "coder:", ":"] {
            let path = format!("/api/v1/approvals/{}", unknown.replace('/', "%2F"));
            assert_eq!(up.post(&path, json!({ "answer": "once" })).await.0, 404, "{unknown}");
        }
        assert!(!is_running(&up, "a/b c").await, "an answer starts no world");
        assert_eq!(up.answer(&open[1], json!({ "answer": "once" })).await, 204);
        assert_eq!(up.answer(&open[1], json!({ "answer": "once" })).await, 404);
        assert_eq!(up.answer(&open[0], json!({ "answer": "deny" })).await, 204);
    };
    let (shared, one, ()) = futures::join!(write("", "shared/write"), write("/agents/coder", "one/write"), answers);
    assert_eq!((shared.0.as_u16(), one.0.as_u16(), effects.read().runs_of("write")), (403, 200, 1));
    loop {
        let (_, closed) = events.wait("question_closed").await;
        if closed["agent"] == "coder" {
            break assert!(closed["id"].as_str().unwrap().starts_with("coder:q1-"), "{closed}");
        }
    }
    up.down().await;
}

#[tokio::test]
async fn a_late_answer_approves_nothing_in_the_next_world_of_the_agent() {
    let effects = EffectLog::new();
    let daemon_options = DaemonOptions { grace: Duration::from_millis(100), ..DaemonOptions::default() };
    let up = Up::started(home(&effects), daemon_options).await;
    let write = || up.post("/agents/coder/api/v1/calls", json!({ "tool": "one/write", "arguments": { "path": "a" } }));
    let connected = async || {
        up.eventually("its server is connected", async || {
            let found = up.get("/agents/coder/api/v1/servers/one").await;
            (found["state"] == "connected").then_some(())
        })
        .await;
    };
    connected().await;
    let first = async {
        let question = up.question().await;
        assert_eq!(up.post("/api/v1/agents/coder/stop", json!({})).await.0, 204);
        question
    };
    let ((status, given_up), stale) = futures::join!(write(), first);
    assert_eq!((status.as_u16(), &given_up["error"]["code"]), (503, &json!("ENDING")), "the call ends with its world");
    connected().await;
    let second = async {
        let question = up.question().await;
        assert_ne!(question["id"], stale["id"]);
        assert_eq!(up.answer(&stale, json!({ "answer": "once" })).await, 404);
        assert_eq!(up.answer(&question, json!({ "answer": "deny" })).await, 204);
    };
    let ((status, _), ()) = futures::join!(write(), second);
    assert_eq!((status.as_u16(), effects.read().runs_of("write")), (403, 0));
    up.down().await;
}

#[tokio::test]
async fn a_daemon_that_ends_waits_for_running_calls_of_agents() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    up.eventually("its server is connected", async || {
        let found = up.get("/agents/coder/api/v1/servers/one").await;
        (found["state"] == "connected").then_some(())
    })
    .await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "mcp__one__sleep", "arguments": { "ms": 1_000 },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let request = up.request(Method::POST, "/agents/coder/mcp").json(&call);
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "mcp__one__sleep");
    let mut asking = JoinSet::new();
    asking.spawn(async { request.send().await.unwrap().text().await.unwrap() });
    let question = up.question().await;
    assert_eq!(up.answer(&question, json!({ "answer": "once" })).await, 204);
    let started = async {
        while effects.read().runs_of("sleep") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, started).await.expect("the tool is called");
    up.down().await;
    let answer = asking.join_next().await.unwrap().unwrap();
    assert!(answer.contains("slept 1000 ms"), "{answer}");
}

/// How long the daemon has run, as the page for Prometheus below `base` says.
async fn up_seconds(up: &Up, base: &str) -> f64 {
    let page = up.get(&format!("{base}/metrics")).await;
    let mut lines = page.as_str().unwrap().lines();
    lines.find_map(|line| line.strip_prefix("toolrack_up_seconds ")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_world_that_begins_later_than_the_daemon_says_how_long_the_daemon_has_run() {
    let effects = EffectLog::new();
    let up = Up::of(home(&effects)).await;
    up.until("shared", "connected").await;
    assert!(!is_running(&up, "coder").await);
    up.get("/agents/coder/api/v1/servers").await;
    assert!(is_running(&up, "coder").await);
    let before = up_seconds(&up, "").await;
    let of_agent = up_seconds(&up, "/agents/coder").await;
    let after = up_seconds(&up, "").await;
    assert!(before <= of_agent && of_agent <= after, "{before} {of_agent} {after}");
    let uptime = up.get("/agents/coder/api/v1/overview").await["uptime_s"].as_f64().unwrap();
    assert!(uptime >= before.floor(), "{uptime} {before}");
    up.down().await;
}
