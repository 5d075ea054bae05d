//! Catalogs: immutable pictures of tools that change.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::Instant;
use toolrack_host::{
    AllowAll, CatalogTool, Dashes, Desired, Era, Event, Host, NameCap, NameStyle, Naming, Principal, ServerSpec, State,
    ToolFilter, Who, ask::NoAsker, principal::Kind,
};
use toolrack_testkit::FakeHttp;

use crate::{
    scripted::{Reaction, Scripted, tool},
    worlds::{
        call, catalog_has, event, events_so_far, fake, host_of, selectors, settle, soon, state_is, status, text,
        to_call, world,
    },
};

#[tokio::test(start_paused = true)]
async fn a_renamed_tool_is_in_the_next_catalog_and_a_pinned_one_keeps_the_old() {
    let server = Scripted::plain().with_tools([tool("old")]);
    let host = host_of([("server", server.spec())]).await;
    let pinned = host.catalog();
    server.set_tools([tool("new")]);
    server.say_changed();
    catalog_has(&host, "server/new", true).await;

    assert_eq!(selectors(&host), ["server/new"]);
    assert!(host.catalog().version() > pinned.version());
    let error = call(&host, "server/old", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "UNKNOWN_TOOL");
    // A call with the old catalog still names the old tool, and the server decides what to do.
    host.call(to_call("server/old", json!({})).in_catalog(pinned.clone())).await.unwrap();
    assert_eq!(server.seen_of("tools/call")[0]["params"]["name"], "old");
    assert!(pinned.select("server/new").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_an_empty_cursor_after_its_only_page_has_the_tools_of_that_page() {
    let server = Scripted::new(Era::Legacy, |method, _| {
        let page = || json!({"tools": [tool("echo")], "nextCursor": ""});
        (method == "tools/list").then(|| Reaction::Answer(page()))
    });
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(selectors(&host), ["server/echo"]);
    assert_eq!((status(&host, "server").warnings, server.count_of("tools/list")), (Vec::new(), 2));
    host.shutdown().await;
}

#[tokio::test]
async fn tools_that_are_added_show_up_over_every_wire_and_era() {
    for era in ["legacy", "modern"] {
        let http = FakeHttp::start(&["--era", era]);
        let spec = toolrack_host::ServerSpec::http(http.url());
        let host = host_of([("stdio", fake(&["--era", era])), ("http", spec)]).await;
        for server in ["stdio", "http"] {
            // While a modern subscription is not open yet, the server does not announce the change, so cause it again.
            let added = format!("{server}/later");
            let wait = catalog_has(&host, &added, true);
            let ask = async {
                loop {
                    text(&host, &format!("{server}/tools_changed"), json!({"add": "later"})).await;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            };
            tokio::select! {
                () = wait => {}
                () = ask => unreachable!("this loop has no end"),
            }
            assert_eq!(text(&host, &added, json!({})).await, "later", "{era}, {server}");
        }
        host.shutdown().await;
    }
}

/// In 2026-07-28, a server sends notifications only once it has acknowledged the subscription. It does not announce a
/// change between the list and the acknowledgement, so the client must list again.
#[tokio::test(start_paused = true)]
async fn a_change_between_the_list_and_the_subscription_is_not_missed() {
    let server = Scripted::new(Era::Modern, |_, _| None);
    let host = host_of([("server", server.spec())]).await;
    let listen = server.hears_of("subscriptions/listen").await;
    server.set_tools([tool("echo"), tool("late")]);
    server.say(json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "notifications": {"toolsListChanged": true},
            "_meta": {"io.modelcontextprotocol/subscriptionId": listen["id"]},
        },
    }));
    catalog_has(&host, "server/late", true).await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_changes_is_one_change() {
    let server = Scripted::plain();
    let host = host_of([("server", server.spec())]).await;
    let start = Instant::now();
    server.set_tools([tool("calm")]);
    for _ in 0..60 {
        server.say_changed();
    }
    catalog_has(&host, "server/calm", true).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(server.count_of("tools/list") <= 3, "{} lists", server.count_of("tools/list"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_found_by_each_of_its_names() {
    let server = Scripted::plain().with_tools([tool("read.file")]);
    let host = host_of([("my server", server.spec())]).await;
    let catalog = host.catalog();
    let entry = catalog.tools().next().unwrap();
    // Characters of the name were replaced, so it has a suffix, which distinguishes it from `read_file` of this server.
    assert!(entry.name.starts_with("mcp__my_server__read_file_"), "{}", entry.name);
    assert!(entry.tokens() > 0);
    for selector in ["my server/read.file", "my server.read.file", &entry.name] {
        assert_eq!(text(&host, selector, json!({})).await, "done", "{selector}");
    }
    assert!(server.seen_of("tools/call").iter().all(|call| call["params"]["name"] == "read.file"));
}

#[tokio::test(start_paused = true)]
async fn a_name_of_another_style_selects_a_tool_only_if_it_is_unambiguous() {
    let tools = |names: &[&str]| Scripted::plain().with_tools(names.iter().map(|name| tool(name))).spec();
    let host = host_of([("git", tools(&["log", "show"])), ("hg", tools(&["log", "git_show"]))]).await;
    let catalog = host.catalog();
    let meant = |name: &str| catalog.by_usual_name(name).map(CatalogTool::selector);
    for name in ["mcp__git__log", "git_log", "mcp_git__log"] {
        assert_eq!(meant(name).as_deref(), Some("git/log"), "{name}");
    }
    assert_eq!(meant("show").as_deref(), Some("git/show"));
    assert_eq!(meant("log"), None, "both servers have a `log`");
    assert_eq!(meant("git_show"), None, "`git_show` of hg, or `show` of git with the name of its server in front");
    // In a call, only the model-visible name counts.
    assert_eq!(call(&host, "git_log", json!({})).await.unwrap_err().code(), "UNKNOWN_TOOL");
}

#[tokio::test(start_paused = true)]
async fn a_new_server_renames_no_other_tool() {
    let (first, second) = (Scripted::plain().spec(), Scripted::plain().spec());
    let host = Host::builder().naming((NameStyle::default(), NameCap::default())).build();
    settle(&host, world([("a_b", first.clone())])).await;
    let before: Vec<_> = host.catalog().tools().map(|tool| tool.name.clone()).collect();
    // Both names have the same model-visible spelling.
    settle(&host, world([("a_b", first), ("a b", second)])).await;
    let after: Vec<_> = host.catalog().tools().map(|tool| tool.name.clone()).collect();
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(after.contains(&before[0]), "{before:?} became {after:?}");
}

#[tokio::test(start_paused = true)]
async fn one_bad_tool_costs_only_itself() {
    let good = tool("good");
    let no_schema = json!({"name": "no_schema", "inputSchema": null});
    let server = Scripted::plain().with_tools([json!(7), no_schema, good.clone(), json!({"inputSchema": {}}), good]);
    let host = host_of([("server", server.spec())]).await;
    assert_eq!(selectors(&host), ["server/good"]);
    let warnings = status(&host, "server").warnings;
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    assert!(warnings.iter().any(|warning| warning.contains("no_schema")), "{warnings:#?}");
    assert_eq!(text(&host, "server/good", json!({})).await, "done");
}

#[tokio::test(start_paused = true)]
async fn a_filter_hides_tools_before_a_caller_sees_them() {
    let server = Scripted::plain().with_tools(["read_a", "read_b", "write_a"].map(tool));
    let mut spec = server.spec();
    spec.tools = ToolFilter::new(&["read_*".into()], &["*_b".into()]).unwrap();
    let host = host_of([("server", spec)]).await;
    assert_eq!(selectors(&host), ["server/read_a"]);
    assert_eq!(status(&host, "server").tools_hidden, 2);
    call(&host, "server/write_a", json!({})).await.unwrap_err();
    assert_eq!(server.count_of("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tools_is_connected_all_the_same() {
    for (era, opening) in [(Era::Legacy, "initialize"), (Era::Modern, "server/discover")] {
        let server = Scripted::new(era, move |method, _| match method {
            "tools/list" => Some(Reaction::Refuse(-32601)),
            _ if method == opening => Some(Reaction::Answer(json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "protocolVersion": "2025-11-25",
                "capabilities": {"resources": {}},
                "serverInfo": {"name": "shelf", "version": "1"},
                "ttlMs": 0,
            }))),
            _ => None,
        });
        let host = host_of([("server", server.spec())]).await;
        assert_eq!(status(&host, "server").state, State::Connected { tools: 0 }, "{era}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_list_fails_is_connected_says_why_and_is_asked_again() {
    let broken = std::sync::atomic::AtomicBool::new(true);
    let server = Scripted::new(Era::Legacy, move |method, _| {
        let fails = method == "tools/list" && broken.swap(false, std::sync::atomic::Ordering::SeqCst);
        fails.then_some(Reaction::Refuse(-32603))
    });
    let host = host_of([("server", server.spec())]).await;
    let State::ToolsFailed { error } = status(&host, "server").state else { panic!("{:?}", host.status()) };
    assert!(error.as_str().contains("no tools/list here"), "{error}");
    let message = call(&host, "server/echo", json!({})).await.unwrap_err().to_string();
    assert!(message.contains("no tools/list here"), "{message}");
    state_is(&host, "server", "connected").await;
    assert_eq!(selectors(&host), ["server/echo"]);
    assert_eq!(server.connections(), 1);
}

/// Returns a modern server whose list of tools is fresh for half a minute.
fn with_short_lived_list() -> Scripted {
    Scripted::new(Era::Modern, |method, _| {
        let page = json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 30_000});
        (method == "tools/list").then_some(Reaction::Answer(page))
    })
}

/// A provider discards its prompt cache when the tools change, so no change may be reported without one.
#[tokio::test(start_paused = true)]
async fn an_unchanged_list_does_not_count_as_a_change() {
    let server = with_short_lived_list();
    let host = host_of([("server", server.spec())]).await;
    let (before, mut events) = (host.catalog(), host.events());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(server.count_of("tools/list") >= 9);
    let updates = events_so_far(&mut events, |event| matches!(event, Event::McpToolsUpdated { .. }).then_some(()));
    assert_eq!((host.catalog().version(), updates.len()), (before.version(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_goes_stale_is_fetched_again() {
    let server = with_short_lived_list();
    let _host = host_of([("server", server.spec())]).await;
    assert_eq!(server.count_of("tools/list"), 1);
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(server.count_of("tools/list"), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.count_of("tools/list"), 2);
}

#[tokio::test]
async fn an_excerpt_is_the_same_servers_and_nothing_of_the_others() {
    let host = host_of([("one", fake(&[])), ("two", fake(&[]))]).await;
    let one = host.excerpt(|server| server.as_str() == "one", Arc::new(NoAsker), Arc::new(AllowAll)).await;
    assert_eq!(one.status().iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["one"]);
    let of_one: Vec<_> = selectors(&host).into_iter().filter(|tool| tool.starts_with("one/")).collect();
    assert_eq!(selectors(&one), of_one);
    assert_eq!(text(&one, "one/echo", json!({"text": "x"})).await, "x");
    assert!(call(&one, "two/echo", json!({})).await.is_err());
    let names = |host: &Host| {
        host.catalog()
            .tools()
            .filter(|tool| tool.server.as_str() == "one")
            .map(|tool| tool.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&one), names(&host), "the model-visible names are the same");
    one.apply(Desired::new()).await;
    one.shutdown().await;
    assert_eq!(text(&host, "one/echo", json!({"text": "y"})).await, "y", "the excerpt has stopped no server");
}

#[tokio::test]
async fn a_host_offers_lent_servers_beside_its_own_and_follows_their_changes() {
    let lender = host_of([("shared", fake(&[])), ("mine", fake(&[]))]).await;
    let host = Host::builder().lender(lender.clone(), Principal::LOCAL).build();
    settle(&host, world([("mine", fake(&[]))])).await;
    assert_eq!(text(&host, "shared/echo", json!({"text": "x"})).await, "x");
    assert_eq!(text(&host, "mine/echo", json!({"text": "y"})).await, "y", "the host's own server of that name");
    // Servers that the lender starts and stops later appear and disappear here, too.
    lender.add("later", fake(&[])).await.unwrap();
    catalog_has(&host, "later/echo", true).await;
    assert!(lender.remove("shared").await);
    catalog_has(&host, "shared/echo", false).await;
    assert!(host.status().iter().all(|server| server.name.as_str() != "shared"));
    // This host stops no server of the lender.
    assert!(!host.remove("later").await, "a lent server cannot be removed");
    host.apply(Desired::new()).await;
    assert_eq!(text(&host, "later/echo", json!({"text": "z"})).await, "z");
    host.shutdown().await;
    assert_eq!(text(&lender, "later/echo", json!({"text": "z"})).await, "z");
    lender.shutdown().await;
}

#[tokio::test]
async fn a_lender_lends_a_principal_only_the_servers_that_are_for_it() {
    let of_group = |group: &str| ServerSpec { members: vec![Who::read(group).unwrap()], ..fake(&[]) };
    let lender = host_of([("all", fake(&[])), ("eng", of_group("group:eng"))]).await;
    let ann = Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
    let host = Host::builder().lender(lender.clone(), ann.in_groups(["sales"]).unwrap()).build();
    settle(&host, Desired::new()).await;
    catalog_has(&host, "all/echo", true).await;
    assert!(host.status().iter().all(|server| server.name.as_str() != "eng"));
    lender.add("sales", of_group("group:sal*")).await.unwrap();
    catalog_has(&host, "sales/echo", true).await;
    catalog_has(&host, "eng/echo", false).await;
    assert!(host.call(to_call("eng/echo", json!({ "text": "x" }))).await.is_err());
    // The host loses a server that is for another member now.
    lender.add("all", of_group("person:bob")).await.unwrap();
    catalog_has(&host, "all/echo", false).await;
    host.shutdown().await;
    lender.shutdown().await;
}

#[tokio::test]
async fn a_host_gets_no_events_of_other_hosts_calls_of_a_lent_server() {
    let lender = host_of([("shared", fake(&[]))]).await;
    let host = Host::builder().lender(lender.clone(), Principal::LOCAL).build();
    settle(&host, Desired::new()).await;
    let mut events = host.events();
    assert_eq!(text(&lender, "shared/echo", json!({"text": "x"})).await, "x");
    lender.add("later", fake(&[])).await.unwrap();
    catalog_has(&host, "later/echo", true).await;
    let calls = events_so_far(&mut events, |event| matches!(event, Event::ToolCompleted { .. }).then_some(()));
    assert!(calls.is_empty());
    host.shutdown().await;
    lender.shutdown().await;
}

#[tokio::test]
async fn a_host_is_told_when_a_lent_server_comes_and_goes_and_nothing_of_one_that_its_own_replaces() {
    let is_connected = |event: &Event, name: &str| {
        matches!(event, Event::McpServerConnected { server, .. } if server.as_str() == name).then_some(())
    };
    let lender = host_of([("mine", fake(&[]))]).await;
    let host = Host::builder().lender(lender.clone(), Principal::LOCAL).build();
    settle(&host, world([("mine", fake(&[]))])).await;
    let (mut events, mut next, mut lender_events) = (host.events(), host.events(), lender.events());
    assert!(lender.remove("mine").await);
    lender.add("mine", fake(&[])).await.unwrap();
    event(&mut lender_events, |event| is_connected(event, "mine")).await;
    lender.add("later", fake(&[])).await.unwrap();
    event(&mut next, |event| is_connected(event, "later")).await;
    // The events of the lender's server `mine` came first.
    let of_mine = events_so_far(&mut events, |event| match event {
        Event::McpServerState { server, .. }
        | Event::McpServerConnected { server, .. }
        | Event::McpServerDisconnected { server, .. } => (server.as_str() == "mine").then(|| event.clone()),
        _ => None,
    });
    assert!(of_mine.is_empty(), "{of_mine:?}");
    assert!(lender.remove("later").await);
    let is_gone = |event: &Event| {
        matches!(event, Event::McpServerDisconnected { server, .. } if server.as_str() == "later").then_some(())
    };
    event(&mut next, is_gone).await;
    host.shutdown().await;
    lender.shutdown().await;
}

#[tokio::test]
async fn a_changed_name_style_renames_the_tools_except_in_a_pinned_catalog() {
    let host = host_of([("my-server", fake(&[]))]).await;
    let before = host.catalog();
    assert!(before.get("mcp__my-server__echo").is_some());
    let mut events = host.events();
    host.set_naming(Naming { style: NameStyle::ServerTool, cap: NameCap::Chars128, dashes: Dashes::Underscore });
    let renamed = async {
        while host.catalog().get("mcp__my-server__echo").is_some() {
            let _ = events.recv().await;
        }
    };
    soon("the tools are renamed", renamed).await;
    // With the `_` in `my_server`, a name could be split in two ways, so each name has a suffix.
    assert!(host.catalog().tools().all(|tool| tool.name.starts_with("my_server_")));
    assert!(before.get("mcp__my-server__echo").is_some());
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_another_server_renames_is_reported() {
    let host = Host::builder().naming((NameStyle::Tool, NameCap::Chars64)).build();
    let [one, two] = [(); 2].map(|()| Scripted::plain().with_tools([tool("read")]));
    settle(&host, world([("one", one.spec())])).await;
    let mut events = host.events();
    host.add("two", two.spec()).await.unwrap();
    soon("both are listed", host.settled()).await;
    let names_of_one = |event: &Event| match event {
        Event::McpToolsUpdated { server, tools } if server.as_str() == "one" => Some(tools.clone()),
        _ => None,
    };
    let reported = events_so_far(&mut events, names_of_one);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0], [host.catalog().select("one/read").unwrap().name.clone()]);
    assert_ne!(reported[0], ["read"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_told_nothing_of_servers_that_are_not_for_its_principal() {
    let [shared, secret] = [(); 2].map(|()| Scripted::plain());
    let secret_spec = ServerSpec { members: vec![Who::read("person:bob").unwrap()], ..secret.spec() };
    let lender = host_of([("shared", shared.spec())]).await;
    let ann = Principal::new(Kind::Person, "acme", "https://login.example", "ann").unwrap();
    let host = Host::builder().lender(lender.clone(), ann).build();
    settle(&host, Desired::new()).await;
    let mut events = host.events();
    lender.add("secret", secret_spec).await.unwrap();
    soon("all are listed", lender.settled()).await;
    assert!(lender.remove("secret").await && lender.remove("shared").await);
    // `secret` connected before `shared` ends.
    let servers = async {
        let mut servers = Vec::new();
        while let Ok(event) = events.recv().await {
            match event {
                Event::McpServerState { server, .. } | Event::McpServerConnected { server, .. } => {
                    servers.push(server.to_string());
                }
                Event::McpServerDisconnected { server, .. } => {
                    servers.push(server.to_string());
                    if server.as_str() == "shared" {
                        break;
                    }
                }
                _ => {}
            }
        }
        servers
    };
    let servers = soon("the end of the shared server", servers).await;
    assert!(servers.iter().all(|server| server == "shared"), "{servers:?}");
    host.shutdown().await;
    lender.shutdown().await;
}
