//! Stored data, read page by page: the audit log, conversations, the logs of servers.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};
use toolrack_host::{Caller, Way};
use toolrack_store::{Approval, LogLine, NewSession, Store};
use toolrack_testkit::Home;

use crate::up::{Up, fake};

fn approval(name: &str) -> Approval {
    let (project, shown) = (PathBuf::from("/project"), "{}".to_owned());
    Approval { project, name: name.to_owned(), hash: "h".to_owned(), shown, approved_at: 1 }
}

fn seqs(page: &Value) -> Vec<u64> {
    page["rows"].as_array().unwrap().iter().map(|row| row["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn the_audit_log_is_read_page_by_page_from_the_newest_to_the_oldest_also_while_it_grows() {
    let up = Up::with(&[]).await;
    for number in 0..7 {
        up.store.approve(&approval(&format!("s{number}")), &Caller::local(Way::Cli)).await.unwrap();
    }
    let all = up.get("/api/v1/audit").await;
    let newest = seqs(&all)[0];
    assert_eq!((all["rows"].as_array().unwrap().len(), &all["next"]), (7, &Value::Null));
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = up.get(&format!("/api/v1/audit?limit=3{before}")).await;
        assert!(seqs(&page).len() <= 3, "{page}");
        seen.extend(seqs(&page));
        // Rows that are written meanwhile do not shift the pages.
        up.store
            .revoke(&PathBuf::from("/project"), &format!("s{}", seen.len()), &Caller::local(Way::Cli))
            .await
            .unwrap();
        let Some(next) = page["next"].as_u64() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(seen, (1..=newest).rev().collect::<Vec<_>>());
    up.down().await;
}

#[tokio::test]
async fn rows_of_the_audit_log_are_filtered_by_every_parameter() {
    let up = Up::with(&[]).await;
    for name in ["one", "two", "one"] {
        up.store.approve(&approval(name), &Caller::local(Way::Cli)).await.unwrap();
    }
    let count = async |query: &str| seqs(&up.get(&format!("/api/v1/audit?{query}")).await).len();
    for (query, expected) in [
        ("", 3),
        ("server=one", 2),
        ("server=two", 1),
        ("server=One", 0),
        ("tool=one", 0),
        ("agent=coder", 0),
        ("denied=true", 0),
        ("denied=false", 3),
        ("limit=2", 2),
        ("limit=0", 0),
        ("before=1", 0),
        ("before=2", 1),
        ("since=2020-01-01T00:00:00Z", 3),
        ("since=2020-01-01T05:00:00%2B05:00", 3),
        ("since=9999-01-01T00:00:00Z", 0),
        ("server=one&limit=1", 1),
    ] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    let row = up.get("/api/v1/audit?limit=1").await["rows"][0].clone();
    assert_eq!((&row["kind"], &row["who"], &row["server"]), (&json!("trusted"), &json!("cli"), &json!("one")));
    assert_eq!(row["hash"].as_str().map(str::len), Some(64), "{row}");
    up.down().await;
}

/// Has a conversation, and returns its id.
async fn talk(up: &Up, text: &str) -> String {
    let model = json!([{ "text": "Yes." }]).to_string();
    let body = up.request(Method::POST, "/api/v1/turns").json(&json!({ "text": text, "model": model }));
    assert!(body.send().await.unwrap().text().await.unwrap().contains("event: done"));
    up.get("/api/v1/sessions?limit=1").await["sessions"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn conversations_are_listed_by_page_and_found_by_words_and_by_the_beginning_of_their_ids() {
    let up = Up::with(&[]).await;
    let mut ids = Vec::new();
    for text in ["about lions", "about tigers", "ABOUT 100% of bears", "about lions and tigers", "of_course"] {
        ids.push(talk(&up, text).await);
    }
    ids.reverse();
    let listed = async |query: &str| {
        let page = up.get(&format!("/api/v1/sessions?{query}")).await;
        assert_eq!(page["total"], 5, "{query}");
        let sessions = page["sessions"].as_array().unwrap().iter();
        sessions.map(|session| session["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ids);
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = listed(&format!("limit=2{after}")).await;
        let Some(last) = page.last() else { break };
        after = format!("&after={last}");
        paged.extend(page);
    }
    assert_eq!(paged, ids);
    for (query, found) in [
        ("q=lions", &[1, 4][..]),
        ("q=TIGERS", &[1, 3]),
        ("q=lions&limit=1", &[1]),
        ("q=100%25", &[2]),
        ("q=%25", &[2]),
        ("q=_", &[0]),
        ("q=elephants", &[]),
        ("limit=0", &[]),
    ] {
        assert_eq!(listed(query).await, found.iter().map(|at| ids[*at].clone()).collect::<Vec<_>>(), "{query}");
    }

    let get = async |id: &str| {
        let (status, answer) = up.send(Method::GET, &format!("/api/v1/sessions/{id}"), None).await;
        (status.as_u16(), answer["error"]["code"].as_str().map(str::to_owned), answer)
    };
    for id in [&ids[0], &ids[0].replace('-', ""), &ids[0].to_uppercase(), "last"] {
        assert_eq!(get(id).await.2["session"]["id"], ids[0], "{id}");
    }
    let (status, code, error) = get(&ids[0][..4]).await;
    assert_eq!((status, code.as_deref()), (409, Some("AMBIGUOUS_SESSION")), "{error}");
    for id in [&ids[0][..3], "zzzzzzzz", "00000000", "LAST", &format!("{}0", ids[0])] {
        assert_eq!(get(id).await.1.as_deref(), Some("UNKNOWN_SESSION"), "{id}");
    }
    for after in ["00000000", "x"] {
        let (status, _) = up.send(Method::GET, &format!("/api/v1/sessions?after={after}"), None).await;
        assert_eq!(status, 404, "{after}");
    }
    up.down().await;
}

#[tokio::test]
async fn a_conversation_is_exported_as_a_file_of_the_kind_that_is_asked_for() {
    let up = Up::with(&[]).await;
    let id = talk(&up, "Are there `lions`?").await;
    for (query, kind, ending) in [
        ("", "text/markdown; charset=utf-8", ".md"),
        ("?format=md", "text/markdown; charset=utf-8", ".md"),
        ("?format=json", "application/json", ".json"),
    ] {
        let path = format!("/api/v1/sessions/{id}/export{query}");
        let response = up.request(Method::GET, &path).send().await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &kind.parse().unwrap()));
        let file = response.headers()["content-disposition"].to_str().unwrap().to_owned();
        assert!(file.starts_with("attachment; filename=\"session-") && file.contains(ending), "{query}: {file}");
        let text = response.text().await.unwrap();
        assert!(text.contains("Are there `lions`?") && text.contains("Yes."), "{query}: {text}");
    }
    assert_eq!(up.send(Method::DELETE, &format!("/api/v1/sessions/{id}"), None).await.0, 204);
    for below in ["", "/export"] {
        let (status, error) = up.send(Method::GET, &format!("/api/v1/sessions/{id}{below}"), None).await;
        assert_eq!((status.as_u16(), &error["error"]["code"]), (404, &json!("UNKNOWN_SESSION")), "{below}");
    }
    assert_eq!(up.get("/api/v1/sessions").await["total"], 0);
    up.down().await;
}

#[tokio::test]
async fn logs_shows_the_newest_lines_of_a_server_in_order() {
    let up = Up::with(&[("fake", fake(&[])), ("other", fake(&[]))]).await;
    let source = up.home.toolrack_home().join("mcp.json").display().to_string();
    let line = |server: &str, source: &str, number: i64| LogLine {
        id: 0,
        server: server.to_owned(),
        source: source.to_owned(),
        at: number * 1_000,
        kind: "stderr".to_owned(),
        text: format!("{server} {number}"),
    };
    let mut lines: Vec<_> = (0..250).map(|number| line("fake", &source, number)).collect();
    lines.push(line("other", &source, 1));
    lines.push(line("fake", "/another/file/of/the/same/name.json", 999));
    up.store.keep_log(&lines).await.unwrap();
    let texts = async |query: &str| {
        let shown = up.get(&format!("/api/v1/servers/fake/logs{query}")).await;
        let lines = shown["lines"].as_array().unwrap().iter();
        lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = |from: i64| (from..250).map(|number| format!("fake {number}")).collect::<Vec<_>>();
    for (query, from) in [("", 50), ("?limit=3", 247), ("?limit=5000", 0), ("?limit=100000", 0), ("?limit=0", 250)] {
        assert_eq!(texts(query).await, expected(from), "{query}");
    }
    let first = up.get("/api/v1/servers/fake/logs?limit=250").await["lines"][0].clone();
    assert_eq!(first, json!({ "at": "1970-01-01T00:00:00.000Z", "level": "stderr", "text": "fake 0" }));
    up.down().await;
}

#[tokio::test]
async fn the_daemon_deletes_the_conversations_that_the_settings_no_longer_keep() {
    let home = Home::new();
    home.write("toolrack/toolrack.toml", "[sessions]\nkeep_days = 90\n");
    let store = Store::open(home.toolrack_home().join("toolrack.db")).await.unwrap();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/fixtures/synapse.db");
    assert_eq!(store.import_sessions(old.as_ref()).await.unwrap().sessions, 2);
    let new = store.create_session(&NewSession::default()).await.unwrap();
    store.close().await;
    let up = Up::of(home).await;
    let left = up.eventually("the old conversations are gone", async || {
        let page = up.get("/api/v1/sessions").await;
        let sessions = page["sessions"].as_array().unwrap();
        (sessions.len() == 1).then(|| sessions[0]["id"].clone())
    });
    assert_eq!(left.await, json!(new.id.to_string()));
    up.down().await;
}
