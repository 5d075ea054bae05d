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

/// Asserts that the tools cannot be listed, that the state says why, and that everything else of the server works.
async fn tools_failed(over: Over, era: Era, script: &str, why: &str) {
    let stage = Stage::new(over, era, script).await;
    let status = stage.start().await;
    assert_eq!(status.state.word(), "tools_failed", "{script}: {:?}", status.state);
    let error = status.state.error().unwrap_or_default();
    assert!(error.contains(why), "{script}: `{why}` is not in: {error}");
    let explanation = stage.host.why("faulty/echo").to_string();
    assert!(explanation.contains("NO  list") && explanation.contains(why), "{explanation}");
    let called = stage.call("echo", json!({})).await.within(AT_ONCE);
    let (_, message) = called.failure();
    assert!(message.contains(why), "{message}");
    assert!(message.contains("is connected, but its tools could not be listed"), "{message}");
    let prompt = stage.prompt().await;
    assert!(prompt.as_ref().is_ok_and(|text| text.contains("Ada")), "{script}: {prompt:?}");
    assert_eq!(stage.host.resources("faulty").await.unwrap().len(), 3);
    stage.finish().await;
}

#[tokio::test]
async fn a_failing_list_is_reported() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "list-fails --fault-times 100", "told to fail").await;
    }
}

#[tokio::test]
async fn a_missing_list_is_reported_at_its_deadline() {
    tools_failed(Over::Stdio, Era::Modern, "no-answer --fault-on tools/list", "list_timeout").await;
    tools_failed(Over::Http, Era::Legacy, "hang --fault-on tools/list", "list_timeout").await;
}

#[tokio::test]
async fn an_unreadable_list_is_reported() {
    tools_failed(Over::Stdio, Era::Legacy, "unparsable-answer --fault-on tools/list", "cannot be read").await;
    tools_failed(Over::Http, Era::Modern, "result-42 --fault-on tools/list", "cannot be read").await;
    tools_failed(Over::Http, Era::Legacy, "html --fault-on tools/list", "text/html").await;
}

#[tokio::test]
async fn a_list_over_the_limit_is_reported() {
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
        let status = stage.start().await;
        assert_eq!((status.state.word(), status.tools), ("connected", TOOLS), "{over:?} {era:?} {script}");
        let (_, words) = stage.call("echo", json!({"text": "x".repeat(5_000)})).await.failure();
        assert!(words.contains("the limit is 3000 (max_message_bytes)"), "{over:?} {era:?} {script}: {words}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.finish().await;
    }
}

#[tokio::test]
async fn a_list_of_an_unknown_kind_is_reported() {
    tools_failed(Over::Stdio, Era::Modern, "unknown-result-type --fault-on tools/list", "banana").await;
}

#[tokio::test]
async fn a_list_with_endless_pages_is_reported() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "endless-cursor", "more than 20 pages").await;
    }
}

#[tokio::test]
async fn a_list_that_repeats_its_cursor_is_reported() {
    for (over, era) in EVERYWHERE {
        tools_failed(over, era, "same-cursor", "same cursor twice").await;
    }
}

#[tokio::test]
async fn all_pages_of_a_list_share_one_deadline() {
    let started = Instant::now();
    tools_failed(Over::Stdio, Era::Modern, "endless-cursor --delay-ms 300", "list_timeout").await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

/// The next page cannot be requested. The host uses the tools of this page, and warns that the list is not complete.
#[tokio::test]
async fn a_cursor_that_is_not_text_gives_a_warning() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "odd-cursor").await;
        assert_eq!(stage.start().await.tools, TOOLS);
        let warnings = stage.witness.warnings();
        assert!(warnings.iter().any(|warning| warning.contains("nextCursor")), "{warnings:#?}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.finish().await;
    }
}

#[tokio::test]
async fn an_empty_cursor_is_a_cursor() {
    let stage = Stage::new(Over::Stdio, Era::Legacy, "empty-cursor").await;
    assert_eq!(stage.start().await.tools, TOOLS);
    stage.finish().await;
}

/// The host leaves out a tool that it cannot read; `why` and the status name the tool and the reason.
#[tokio::test]
async fn only_the_unreadable_tools_of_a_list_are_left_out() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "bad-tool").await;
        let status = stage.start().await;
        assert_eq!(status.tools, TOOLS, "{:?}", status.state);
        assert_eq!(status.warnings.len(), 3, "{:#?}", status.warnings);
        assert!(status.warnings.iter().any(|warning| warning.contains("bad_schema")), "{:#?}", status.warnings);
        let why = stage.host.why("faulty/bad_schema");
        assert!(!why.present && why.to_string().contains("inputSchema"), "{why}");
        let (code, words) = stage.call("bad_schema", json!({})).await.within(AT_ONCE).failure();
        assert_eq!(code, "UNKNOWN_TOOL", "{words}");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        stage.finish().await;
    }
}

#[tokio::test]
async fn a_tool_that_is_listed_twice_is_offered_once() {
    let stage = Stage::new(Over::Stdio, Era::Modern, "duplicate-tool").await;
    let status = stage.start().await;
    assert_eq!((status.tools, status.warnings.len()), (TOOLS, 1), "{:#?}", status.warnings);
    assert_eq!(stage.call("echo", json!({"text": "one"})).await.text(), "one");
    stage.finish().await;
}

#[tokio::test]
async fn tools_with_forbidden_header_names_are_left_out() {
    let stage = Stage::new(Over::Http, Era::Modern, "bad-header-name").await;
    let status = stage.start().await;
    assert_eq!((status.tools, status.warnings.len()), (TOOLS, 5), "{:#?}", status.warnings);
    assert_eq!(stage.call("region", json!({"region": "é\n"})).await.text(), "é\n");
    stage.finish().await;
}

#[tokio::test]
async fn thousands_of_tools_are_listed() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "--tools 5000 --page-size 500").await;
    // Longer than usual: this is a debug build, on a busy machine.
    stage.spec.timeouts.list = Duration::from_secs(20);
    assert_eq!(stage.start().await.tools, 5_000 + TOOLS);
    assert_eq!(stage.call("tool_4999", json!({})).await.text(), "tool_4999");
    stage.finish().await;
}

#[tokio::test]
async fn a_negative_ttl_is_ignored() {
    let stage = Stage::new(Over::Http, Era::Modern, "negative-ttl").await;
    stage.start().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(stage.log().count_of("tools/list"), 1, "{:?}", stage.log().methods());
    stage.finish().await;
}

#[tokio::test]
async fn a_ttl_of_one_millisecond_causes_no_busy_loop() {
    let stage = Stage::new(Over::Http, Era::Modern, "--ttl-ms 1").await;
    stage.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lists = stage.log().count_of("tools/list");
    assert!((2..=6).contains(&lists), "{lists} lists in a second");
    stage.finish().await;
}

/// A bad list after a good one: the state reports it, and the old list does not count as current.
#[tokio::test]
async fn a_failed_refresh_is_reported() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "list-fails --fault-after 1 --fault-times 100").await;
        assert_eq!(stage.start().await.state.word(), "connected");
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
        stage.finish().await;
    }
}

/// Structured content that breaks its own schema reaches the model, with a warning.
#[tokio::test]
async fn structured_content_that_breaks_its_schema_is_passed_on_with_a_warning() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "wrong-structured").await;
        stage.start().await;
        let called = stage.call("structured", json!({})).await;
        let outcome = called.outcome();
        assert_eq!(outcome.structured, Some(json!({"label": 42})));
        assert!(outcome.warnings.iter().any(|warning| warning.contains("label")), "{:?}", outcome.warnings);
        stage.finish().await;
    }
}

/// A failure whose `isError` has the wrong type does not count as a success.
#[tokio::test]
async fn an_error_mark_of_the_wrong_type_still_means_an_error() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "odd-is-error").await;
        stage.start().await;
        let called = stage.call("write", json!({})).await;
        let outcome = called.outcome();
        assert!(outcome.is_error, "{outcome:?}");
        assert!(outcome.warnings.iter().any(|warning| warning.contains("isError")), "{:?}", outcome.warnings);
        stage.finish().await;
    }
}

/// The host gives up checking against a short schema that would take very long.
#[tokio::test]
async fn the_check_of_an_expensive_schema_is_abandoned() {
    for (over, era) in EVERYWHERE {
        let stage = Stage::new(over, era, "expensive-schema=60").await;
        stage.start().await;
        let called = stage.call("structured", json!({})).await.within(AT_ONCE);
        let outcome = called.outcome();
        assert!(!outcome.warnings.is_empty() && outcome.structured.is_some(), "{outcome:?}");
        stage.finish().await;
    }
}

/// A schema may name an address. The host never requests it.
#[tokio::test]
async fn the_references_of_a_schema_are_never_fetched() {
    for scheme in ["", "file:///etc/hostname"] {
        let canary = Canary::new();
        let address = if scheme.is_empty() { canary.url() } else { scheme };
        let stage = Stage::new(Over::Stdio, Era::Modern, &format!("remote-ref-schema={address}")).await;
        stage.start().await;
        let called = stage.call("structured", json!({})).await.within(AT_ONCE);
        assert!(!called.outcome().warnings.is_empty(), "{:?}", called.outcome());
        canary.assert_untouched();
        stage.finish().await;
    }
}

/// Blocks of unknown kinds are kept as they came.
#[tokio::test]
async fn content_of_unknown_kinds_is_stored_as_json() {
    let stage = Stage::new(Over::Http, Era::Legacy, "bad-content").await;
    stage.start().await;
    let called = stage.call("write", json!({})).await;
    let outcome = called.outcome();
    let kept: Vec<_> = outcome.content.iter().filter(|block| matches!(block, Content::Other(_))).collect();
    assert_eq!((outcome.content.len(), kept.len()), (3, 2), "{:?}", outcome.content);
    assert_eq!(outcome.warnings.len(), 2, "{:?}", outcome.warnings);
    stage.finish().await;
}

/// While its list is slow, calls to the server wait; calls to other servers do not.
#[tokio::test]
async fn a_slow_list_does_not_hold_up_the_host() {
    let mut stage = Stage::new(Over::Stdio, Era::Legacy, "no-answer --fault-on tools/list").await;
    shorten(&mut stage.spec);
    let started = Instant::now();
    stage.start().await;
    assert!(started.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", started.elapsed());
    stage.finish().await;
}

fn shorten(spec: &mut ServerSpec) {
    spec.timeouts.list = Duration::from_millis(500);
}
