//! Starting: the environment of a child process, and the errors if it does not start.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::{Instant, timeout},
};
use toolrack_host::{
    Call, CallErrorKind, Era, Host, Native, ServerSpec,
    spec::{InheritEnv, Transport},
};
use toolrack_testkit::{FakeHttp, Home, fake_server_path};

use crate::{
    scripted::{Reaction, Scripted, text_result, tool},
    worlds::{call, fake, host_of, name, settle, state_is, status, text, world},
};

#[tokio::test]
async fn a_child_gets_only_the_environment_of_its_entry() {
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
async fn a_child_inherits_the_variables_that_its_spec_names_from_the_host_s_environment() {
    let folder = fake_server_path().parent().unwrap();
    let variables = [("PATH", folder.to_str().unwrap()), ("LC_ALL", "C"), ("TEAM", "blue"), ("TOKEN", "secret")];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let host = Host::builder().environment(variables).build();
    // As on the first page of the documentation: a program that is found by its name.
    let spec = ServerSpec::stdio(fake_server_path().file_name().unwrap().to_str().unwrap(), ["stdio"]);
    let inheriting = |inherit_env| {
        let mut spec = spec.clone();
        let Transport::Stdio(stdio) = &mut spec.transport else { panic!("not stdio") };
        // Found by its path where nothing is inherited; the entry's variables win over inherited ones.
        stdio.command = fake_server_path().to_str().unwrap().to_owned();
        stdio.env.insert("LC_ALL".into(), "own".into());
        stdio.inherit_env = inherit_env;
        spec
    };
    let desired = world([
        ("everything", spec.clone()),
        ("named", inheriting(InheritEnv::Names(vec!["TEAM".to_owned(), "ABSENT".to_owned()]))),
        ("all", inheriting(InheritEnv::All)),
        ("none", inheriting(InheritEnv::None)),
    ]);
    settle(&host, desired).await;
    for (server, expected) in [
        ("everything", &["LC_ALL", "PATH"][..]),
        ("named", &["LC_ALL", "PATH", "TEAM"]),
        ("all", &["LC_ALL", "PATH", "TEAM", "TOKEN"]),
        ("none", &["LC_ALL"]),
    ] {
        let mut names: Vec<String> =
            serde_json::from_str(&text(&host, &format!("{server}/env"), json!({})).await).unwrap();
        names.sort();
        assert_eq!(names, expected, "{server}");
    }
    assert_eq!(text(&host, "everything/env", json!({"name": "LC_ALL"})).await, "\"C\"");
    assert_eq!(text(&host, "all/env", json!({"name": "LC_ALL"})).await, "\"own\"");
    host.shutdown().await;
}

#[tokio::test]
async fn every_failure_to_start_says_what_went_wrong() {
    let home = Home::new();
    let not_executable = home.write("work/server.sh", "#!/bin/sh\n");
    let (html, closed) = (FakeHttp::start(&["--fault", "html"]), FakeHttp::start(&["--fault", "http-401"]));
    let no_args = || [""; 0];
    // The server takes the bytes for a part of a request, and waits for the rest.
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

/// A host that waits for the first attempt must not wait forever when that ended between handshake and list.
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

/// A caller may know a tool's name from before: a client of a restarted gateway, a script.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_server_that_is_starting_and_for_no_other() {
    let lists_late = |after| {
        Scripted::new(Era::Legacy, move |method, _| {
            let tools = json!({"tools": [tool("echo")]});
            (method == "tools/list").then(|| Reaction::After(Duration::from_secs(after), tools))
        })
    };
    for selector in ["slow/echo", "slow.echo", "mcp__slow__echo"] {
        let (slow, slower) = (lists_late(5), lists_late(9));
        let host = Host::builder().build();
        host.apply(world([("slow", slow.spec()), ("slower", slower.spec())])).await;
        let began = Instant::now();
        assert_eq!(call(&host, selector, json!({})).await.unwrap().text, "done", "{selector}");
        assert_eq!(began.elapsed(), Duration::from_secs(5), "{selector}");
        let unknown = call(&host, "slow/nothing", json!({})).await.unwrap_err();
        assert_eq!((unknown.kind(), began.elapsed()), (CallErrorKind::UnknownTool, Duration::from_secs(5)));
        let hasty = Call::from_map("slower/echo", Map::new()).timeout(Duration::from_secs(2));
        let error = host.call(hasty).await.unwrap_err();
        assert!(error.to_string().contains("slower"), "{error}");
        assert_eq!((error.kind(), began.elapsed()), (CallErrorKind::Unreachable, Duration::from_secs(7)));
    }
}

/// A call does not wait for a server whose name is a part of the named server's, or of the call's.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_own_server_only() {
    let silent = || Scripted::new(Era::Legacy, |_, _| Some(Reaction::Silence)).spec();
    let neighbours = ["git", "hub", "git-", "git.h", "echo", "mcp", "github.com", "git.hub.io"];
    for own in ["github", "git-hub", "git.hub", "git_hub"] {
        let owned = own.replace('.', "_");
        for (selector, tool_name) in [
            (format!("{own}/echo"), "echo"),
            (format!("{own}.echo"), "echo"),
            (format!("{own}/git/echo"), "git/echo"),
            (format!("{own}/hub.echo"), "hub.echo"),
            (format!("mcp__{owned}__echo"), "echo"),
        ] {
            // A name with a suffix is a different name.
            if own.contains('.') && selector.starts_with("mcp__") {
                continue;
            }
            let healthy = Scripted::plain().with_tools([tool(tool_name)]);
            let host = Host::builder().build();
            let mut all = world([(own, healthy.spec())]);
            all.extend(neighbours.iter().map(|neighbour| (name(neighbour), silent())));
            host.apply(all).await;
            let began = Instant::now();
            let calls = [(); 3].map(|()| call(&host, &selector, json!({})));
            for outcome in futures::future::join_all(calls).await {
                assert_eq!(outcome.unwrap_or_else(|error| panic!("{selector}: {error}")).text, "done");
            }
            assert!(began.elapsed() < Duration::from_secs(1), "{selector} after {:?}", began.elapsed());
        }
    }
}

/// The same name always means the same tool: the longest server name wins, as on the command line.
#[tokio::test]
async fn of_two_servers_that_a_dotted_name_can_mean_it_is_the_longer_one() {
    let answering = |text: &'static str| Scripted::calling(move |_, _| Reaction::Answer(text_result(text)));
    let (git, hub) = (answering("git"), answering("git.hub"));
    let git = git.with_tools([tool("hub.echo")]);
    let host = host_of([("git", git.spec()), ("git.hub", hub.spec())]).await;
    assert_eq!(text(&host, "git.hub.echo", json!({})).await, "git.hub");
    assert_eq!(text(&host, "git/hub.echo", json!({})).await, "git");
    let call = Call::of(name("git"), "hub.echo", Map::new());
    assert_eq!(host.call(call).await.unwrap().text, "git");
}

/// A server is connected a moment before its tools are in the catalog, and longer where catalogs are large.
#[tokio::test]
async fn a_tool_of_a_server_that_is_connected_is_known() {
    for _ in 0..50 {
        let host = Host::builder().build();
        let rest = ["one", "two", "three", "four"].map(|name| (name, Scripted::plain().spec()));
        host.apply(world(rest)).await;
        state_is(&host, "four", "connected").await;
        assert_eq!(call(&host, "four/echo", json!({})).await.unwrap().text, "done");
        host.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_may_wait_for_any_time_and_call_with_any_limit() {
    let slow = || Reaction::After(Duration::from_secs(1), text_result("done"));
    let host = Host::builder().build();
    host.apply(world([("server", Scripted::calling(move |_, _| slow()).spec())])).await;
    host.settled_within(Duration::MAX).await;
    assert_eq!(status(&host, "server").state.word(), "connected");
    let call = Call::of(name("server"), "echo", Map::new()).timeout(Duration::MAX);
    assert_eq!(host.call(call).await.unwrap().text, "done");
}
