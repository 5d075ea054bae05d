//! Starting: what a child process gets, and what is said when nothing starts.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::timeout,
};
use toolrack_host::{CallErrorKind, Host, Native, ServerSpec, spec::Transport};
use toolrack_testkit::{FakeHttp, Home};

use crate::{
    scripted::Scripted,
    worlds::{call, fake, host_of, settle, status, text, world},
};

#[tokio::test]
async fn a_child_gets_what_its_entry_says_and_nothing_else() {
    let home = Home::new();
    let mut spec = fake(&[]);
    let Transport::Stdio(stdio) = &mut spec.transport else { panic!("not stdio") };
    stdio.env.insert("TOKEN".into(), "secret".into());
    stdio.cwd = Some(home.work());
    let host = host_of([("fake", spec)]).await;
    let names: Vec<String> = serde_json::from_str(&text(&host, "fake/env", json!({})).await).unwrap();
    assert_eq!(names, ["TOKEN"]);
    assert_eq!(text(&host, "fake/env", json!({"name": "TOKEN"})).await, "\"secret\"");
    assert_eq!(text(&host, "fake/cwd", json!({})).await, home.work().to_str().unwrap());
    host.shutdown().await;
}

/// Each cause has one clear error that names server and cause, and a healthy neighbour does not notice.
#[tokio::test]
async fn every_way_not_to_start_says_what_went_wrong() {
    let home = Home::new();
    let not_executable = home.write("work/server.sh", "#!/bin/sh\n");
    let (html, closed) = (FakeHttp::start(&["--fault", "html"]), FakeHttp::start(&["--fault", "http-401"]));
    let no_args = || [""; 0];
    // It waits for the rest of what it takes for a request.
    let mut tls = ServerSpec::http(format!("https://{}/mcp", html.address()));
    let Transport::Http(http) = &mut tls.transport else { panic!("not HTTP") };
    http.open_timeout = Duration::from_millis(300);
    let causes = [
        ("missing", ServerSpec::stdio("/no/such/program", no_args()), "/no/such/program", CallErrorKind::Unreachable),
        (
            "forbidden",
            ServerSpec::stdio(not_executable.to_str().unwrap(), no_args()),
            "not an executable file",
            CallErrorKind::Unreachable,
        ),
        (
            "ends",
            ServerSpec::stdio("/bin/sh", ["-c", "echo no database >&2; exit 3"]),
            "no database",
            CallErrorKind::Unreachable,
        ),
        ("refused", ServerSpec::http("http://127.0.0.1:1/mcp"), "http://127.0.0.1:1", CallErrorKind::Unreachable),
        ("tls", tls, "https://127.0.0.1", CallErrorKind::Unreachable),
        ("not-a-url", ServerSpec::http("no url at all"), "is not a URL", CallErrorKind::Config),
        ("not-http", ServerSpec::http("ftp://127.0.0.1/mcp"), "neither http nor https", CallErrorKind::Config),
        ("html", ServerSpec::http(html.url()), "text/html", CallErrorKind::Other),
        ("closed", ServerSpec::http(closed.url()), "sign-in", CallErrorKind::NeedsAuth),
    ];
    let host = host_of([("steady", Scripted::plain().spec())]).await;
    let mut desired = world([("steady", Scripted::plain().spec())]);
    desired.extend(causes.iter().map(|(server, spec, ..)| (crate::worlds::name(server), spec.clone())));
    settle(&host, desired).await;
    assert_eq!(text(&host, "steady/echo", json!({})).await, "done");
    for (server, _, cause, kind) in causes {
        let state = status(&host, server).state;
        assert!(state.error().unwrap_or_default().contains(cause), "{server}: {state:?}");
        let error = call(&host, &format!("{server}/any"), json!({})).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{server}: {error}");
        assert!(error.to_string().contains(server) && error.to_string().contains(cause), "{error}");
    }
    host.shutdown().await;
}

/// A host that waits for the first attempt must not wait for ever when that ended between handshake and list.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_before_it_lists_its_tools_has_settled() {
    let mut spec = ServerSpec::native(Native::new("brief", |io, _| async move {
        let (read, mut write) = tokio::io::split(io);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let answer = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}})
                }
                Some("tools/list") => return,
                _ => json!({"error": {"code": -32601, "message": "no such method"}}),
            };
            if let Some(id) = message.get("id") {
                let mut answer = answer;
                answer["jsonrpc"] = json!("2.0");
                answer["id"] = id.clone();
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    }));
    spec.retry.attempts = 0;
    let host = Host::builder().build();
    host.apply(world([("brief", spec)])).await;
    timeout(Duration::from_secs(60), host.settled()).await.expect("it has settled");
    assert_eq!(host.status()[0].state.word(), "failed");
}
