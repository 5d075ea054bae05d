//! Lists that fail, never end or lie, tools that cannot be used, schemas that cost too much.

use std::time::{Duration, Instant};

use serde_json::json;
use toolrack_host::{Content, Era, ServerSpec};

use crate::{
    programs::Canary,
    stage::{AT_ONCE, Over, SLACK, Stage},
};

const EVERYWHERE: [(Over, Era); 4] =
    [(Over::Stdio, Era::Legacy), (Over::Stdio, Era::Modern), (Over::Http, Era::Legacy), (Over::Http, Era::Modern)];

/// Tools that the fake server offers.
const TOOLS: usize = 22;

/// The tools cannot be listed: the state says so and why, and everything else of the server works.
async fn tools_failed(over: Over, era: Era, script: &str, why: &str) {
    let stage = Stage::new(over, era, script).await;
    let status = stage.rise().await;
    assert_eq!(status.state.word(), "tools_failed", "{script}: {:?}", status.state);
    let error = status.state.error().unwrap_or_default();
    assert!(error.contains(why), "{script}: `{why}` is not in: {error}");
    let told = stage.host.why("faulty/echo").to_string();
    assert!(told.contains("NO  list") && told.contains(why), "{told}");
    let called = stage.call("echo", json!({})).await.within(AT_ONCE);
    let (_, words) = called.failure();
    assert!(words.contains(why), "{words}");
    assert!(words.contains("is connected, but its tools could not be listed"), "{words}");
    let prompt = stage.prompt().await;
    assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{script}: {prompt:?}");
    assert_eq!(stage.host.resources("faulty").await.unwrap().len(), 3);
    stage.fall().await;
}

#[tokio::test]
async fn a_list_that_fails() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "list-fails --fault-times 100", "told to fail").await;
    }
}

#[tokio::test]
async fn a_list_that_never_comes() {
    tools_failed(Over::Stdio, Era::Modern, "no-answer --fault-on tools/list", "list_timeout").await;
    tools_failed(Over::Http, Era::Legacy, "hang --fault-on tools/list", "list_timeout").await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read() {
    tools_failed(Over::Stdio, Era::Legacy, "unparsable-answer --fault-on tools/list", "cannot be read").await;
    tools_failed(Over::Http, Era::Modern, "result-42 --fault-on tools/list", "cannot be read").await;
    tools_failed(Over::Http, Era::Legacy, "html --fault-on tools/list", "text/html").await;
}

#[tokio::test]
async fn a_list_over_the_limit() {
    tools_failed(Over::Stdio, Era::Legacy, "huge-line --fault-on tools/list", "1048576").await;
    tools_failed(Over::Http, Era::Modern, "body-huge --fault-on tools/list", "1048576").await;
    let events = "sse-huge-event --answers sse --fault-on tools/list";
    tools_failed(Over::Http, Era::Legacy, events, "max_list_bytes").await;
    tools_failed(Over::Stdio, Era::Modern, "huge-line --fault-on tools/list", "max_list_bytes").await;
}

/// The larger limit of lists does not apply to other messages.
#[tokio::test]
async fn a_list_may_be_larger_than_any_other_message() {
    let events = [(Over::Http, Era::Legacy, "--answers sse"), (Over::Sse, Era::Legacy, "")];
    for (over, era, script) in EVERYWHERE.into_iter().map(|(over, era)| (over, era, "")).chain(events) {
        let mut stage = Stage::new(over, era, script).await;
        stage.spec.limits.message_bytes = 3_000;
        let status = stage.rise().await;
        assert_eq!((status.state.word(), status.tools), ("connected", TOOLS), "{over:?} {era:?} {script}");
        let (_, words) = stage.call("echo", json!({"text": "x".repeat(5_000)})).await.failure();
        assert!(words.contains("the limit is 3000 (max_message_bytes)"), "{over:?} {era:?} {script}: {words}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.fall().await;
    }
}

#[tokio::test]
async fn a_list_of_an_unknown_kind() {
    tools_failed(Over::Stdio, Era::Modern, "unknown-result-type --fault-on tools/list", "banana").await;
}

#[tokio::test]
async fn pages_without_an_end() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "endless-cursor", "more than 20 pages").await;
    }
}

#[tokio::test]
async fn a_page_that_comes_again_and_again() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "same-cursor", "same cursor twice").await;
    }
}

#[tokio::test]
async fn slow_pages_have_one_deadline_together() {
    let started = Instant::now();
    tools_failed(Over::Stdio, Era::Modern, "endless-cursor --delay-ms 300", "list_timeout").await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

/// The next page cannot be requested. The tools on this one are used, and the list does not pass for complete.
#[tokio::test]
async fn a_cursor_that_is_no_text_is_an_error() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "odd-cursor").await;
        assert_eq!(stage.rise().await.tools, TOOLS);
        let warnings = stage.witness.warnings();
        assert!(warnings.iter().any(|warning| warning.contains("nextCursor")), "{warnings:#?}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.fall().await;
    }
}

#[tokio::test]
async fn an_empty_cursor_is_a_cursor() {
    let stage = Stage::new(Over::Stdio, Era::Legacy, "empty-cursor").await;
    assert_eq!(stage.rise().await.tools, TOOLS);
    stage.fall().await;
}

/// One tool that cannot be read costs that tool; `why` and the status say which and why.
#[tokio::test]
async fn a_bad_tool_is_set_aside_alone() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "bad-tool").await;
        let status = stage.rise().await;
        assert_eq!(status.tools, TOOLS, "{:?}", status.state);
        assert_eq!(status.warnings.len(), 3, "{:#?}", status.warnings);
        assert!(status.warnings.iter().any(|warning| warning.contains("bad_schema")), "{:#?}", status.warnings);
        let why = stage.host.why("faulty/bad_schema");
        assert!(!why.present && why.to_string().contains("inputSchema"), "{why}");
        let (code, words) = stage.call("bad_schema", json!({})).await.within(AT_ONCE).failure();
        assert_eq!(code, "UNKNOWN_TOOL", "{words}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.fall().await;
    }
}

#[tokio::test]
async fn a_tool_that_is_listed_twice_is_there_once() {
    let stage = Stage::new(Over::Stdio, Era::Modern, "duplicate-tool").await;
    let status = stage.rise().await;
    assert_eq!((status.tools, status.warnings.len()), (TOOLS, 1), "{:#?}", status.warnings);
    assert_eq!(stage.call("echo", json!({"text": "one"})).await.text(), "one");
    stage.fall().await;
}

#[tokio::test]
async fn header_names_that_break_a_rule_cost_their_tools() {
    let stage = Stage::new(Over::Http, Era::Modern, "bad-header-name").await;
    let status = stage.rise().await;
    assert_eq!((status.tools, status.warnings.len()), (TOOLS, 5), "{:#?}", status.warnings);
    assert_eq!(stage.call("region", json!({"region": "é\n"})).await.text(), "é\n");
    stage.fall().await;
}

#[tokio::test]
async fn thousands_of_tools_are_listed() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "--tools 5000 --page-size 500").await;
    // This process is not optimized, and the machine is busy.
    stage.spec.timeouts.list = Duration::from_secs(20);
    assert_eq!(stage.rise().await.tools, 5_000 + TOOLS);
    assert_eq!(stage.call("tool_4999", json!({})).await.text(), "tool_4999");
    stage.fall().await;
}

#[tokio::test]
async fn a_negative_ttl_is_ignored() {
    let stage = Stage::new(Over::Http, Era::Modern, "negative-ttl").await;
    stage.rise().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(stage.log().count_of("tools/list"), 1, "{:?}", stage.log().methods());
    stage.fall().await;
}

#[tokio::test]
async fn a_ttl_of_a_moment_is_no_busy_loop() {
    let stage = Stage::new(Over::Http, Era::Modern, "--ttl-ms 1").await;
    stage.rise().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lists = stage.log().count_of("tools/list");
    assert!((2..=6).contains(&lists), "{lists} lists in a second");
    stage.fall().await;
}

/// A bad list after a good one: the state reports it, and the old list does not count as current.
#[tokio::test]
async fn a_failed_refresh_is_reported() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "list-fails --fault-after 1 --fault-times 100").await;
        assert_eq!(stage.rise().await.state.word(), "connected");
        stage
            .until("it listens", |log| {
                over == Over::Stdio || era == Era::Legacy || log.count_of("subscriptions/listen") > 0
            })
            .await;
        assert_eq!(stage.call("tools_changed", json!({"add": "new"})).await.text(), "changed");
        let status = stage.becomes("tools_failed").await;
        assert!(status.state.error().is_some_and(|error| error.contains("told to fail")), "{:?}", status.state);
        let prompt = stage.prompt().await;
        assert!(prompt.is_ok(), "{prompt:?}");
        stage.fall().await;
    }
}

/// Structured content that breaks its own schema reaches the model, with a warning.
#[tokio::test]
async fn structured_content_against_its_schema_is_passed_on_with_a_warning() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "wrong-structured").await;
        stage.rise().await;
        let called = stage.call("structured", json!({})).await;
        let outcome = called.outcome();
        assert_eq!(outcome.structured, Some(json!({"label": 42})));
        assert!(outcome.warnings.iter().any(|warning| warning.contains("label")), "{:?}", outcome.warnings);
        stage.fall().await;
    }
}

/// A failure whose mark is of the wrong type does not pass for a result.
#[tokio::test]
async fn an_error_that_is_marked_with_text_is_an_error() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "odd-is-error").await;
        stage.rise().await;
        let called = stage.call("write", json!({})).await;
        let outcome = called.outcome();
        assert!(outcome.is_error, "{outcome:?}");
        assert!(outcome.warnings.iter().any(|warning| warning.contains("isError")), "{:?}", outcome.warnings);
        stage.fall().await;
    }
}

/// A schema of a few lines that takes an age to check is not checked to the end.
#[tokio::test]
async fn an_expensive_schema_is_given_up() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "expensive-schema=60").await;
        stage.rise().await;
        let called = stage.call("structured", json!({})).await.within(AT_ONCE);
        let outcome = called.outcome();
        assert!(!outcome.warnings.is_empty() && outcome.structured.is_some(), "{outcome:?}");
        stage.fall().await;
    }
}

/// A schema may name an address. The host never requests it.
#[tokio::test]
async fn the_references_of_a_schema_are_never_fetched() {
    for scheme in ["", "file:///etc/hostname"] {
        let canary = Canary::new();
        let address = if scheme.is_empty() { canary.url() } else { scheme };
        let stage = Stage::new(Over::Stdio, Era::Modern, &format!("remote-ref-schema={address}")).await;
        stage.rise().await;
        let called = stage.call("structured", json!({})).await.within(AT_ONCE);
        assert!(!called.outcome().warnings.is_empty(), "{:?}", called.outcome());
        canary.is_untouched();
        stage.fall().await;
    }
}

/// Blocks of unknown kinds are kept as they came.
#[tokio::test]
async fn content_of_unknown_kinds_is_stored_as_json() {
    let stage = Stage::new(Over::Http, Era::Legacy, "bad-content").await;
    stage.rise().await;
    let called = stage.call("write", json!({})).await;
    let outcome = called.outcome();
    let kept: Vec<_> = outcome.content.iter().filter(|block| matches!(block, Content::Other(_))).collect();
    assert_eq!((outcome.content.len(), kept.len()), (3, 2), "{:?}", outcome.content);
    assert_eq!(outcome.warnings.len(), 2, "{:?}", outcome.warnings);
    stage.fall().await;
}

/// While its list is slow, calls to the server wait; calls to other servers do not.
#[tokio::test]
async fn a_slow_list_does_not_hold_up_the_host() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "no-answer --fault-on tools/list").await;
    shorten(&mut stage.spec);
    let started = Instant::now();
    stage.rise().await;
    assert!(started.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", started.elapsed());
    stage.fall().await;
}

fn shorten(spec: &mut ServerSpec) {
    spec.timeouts.list = Duration::from_millis(500);
}
