//! HTTP exchanges that are not MCP: statuses, pages, redirects, bodies that break off or never end.

use std::time::Duration;

use serde_json::json;
use toolrack_host::Era;

use crate::{
    programs::Canary,
    row::rows,
    stage::{AT_ONCE, Over, Stage},
};

rows! { statuses: Http in [legacy modern] {
    a_web_page: "html --fault-on tools/call"
        => fails("PROTOCOL_ERROR").at_once().saying("text/html").saying("MCP endpoint's URL");
    an_internal_error: "http-500 --fault-on tools/call" => fails("HTTP_ERROR").at_once().saying("HTTP 500");
    a_bad_request: "http-400 --fault-on tools/call" => fails("HTTP_ERROR").at_once().saying("HTTP 400");
    too_many_requests: "http-429=7" => fails("RATE_LIMITED").at_once().saying("7 s");
    too_many_requests_until_a_date: "http-429=Fri,31-Dec-1999" => fails("RATE_LIMITED").at_once();
    an_overloaded_server: "http-503=7" => fails("HTTP_ERROR").at_once().saying("HTTP 503");
    accepted_and_never_answered: "http-202" => fails("PROTOCOL_ERROR").at_once().saying("202");
    no_content_type: "no-content-type" => answers("written").at_once();
    a_giant_header: "headers-giant" => fails("CONNECTION_BROKEN").at_once();
    not_a_byte: "hang" => fails("TIMED_OUT").saying("call took longer than 1.5 s");
}}

rows! { sign_ins: Http in [legacy modern] {
    a_call_that_needs_one: "http-401 --fault-on tools/call"
        => fails("AUTH_REQUIRED").at_once().saying("401").saying("`Authorization` header of its entry");
    a_call_that_is_forbidden: "http-403 --fault-on tools/call"
        => fails("AUTH_REQUIRED").at_once().saying("403").for_good();
    a_server_without_a_challenge: "http-401 --fault-times 100" => stays_away("AUTH_REQUIRED").at_once().saying("401");
    a_server_with_a_challenge: "http-401=Bearer --fault-times 100"
        => stays_away("AUTH_REQUIRED").at_once().saying("401");
}}

rows! { redirects: Http in [legacy modern] {
    to_another_path: "redirect-same" => answers("written").at_once().in_requests(2);
    to_another_path_for_good: "redirect-same=308" => answers("written").at_once().in_requests(2);
    that_loses_the_method: "redirect-same=302"
        => fails("REDIRECT_REFUSED").at_once().saying("(HTTP 302)").saying("loses the method");
    that_loses_the_method_for_good: "redirect-same=301" => fails("REDIRECT_REFUSED").at_once();
    that_see_other: "redirect-same=303" => fails("REDIRECT_REFUSED").at_once();
    in_a_loop: "redirect-loop --fault-times 100" => fails("REDIRECT_REFUSED").at_once().in_requests(11).saying("more than 10").for_good();
}}

rows! { bodies: Http in [legacy modern] {
    one_byte_at_a_time: "slow-body" => fails("TIMED_OUT").saying("call took longer than 1.5 s");
    cut_off: "cut-body" => fails("CONNECTION_BROKEN").at_once();
    reset: "reset-body" => fails("CONNECTION_BROKEN").at_once();
    in_broken_chunks: "bad-chunks" => fails("CONNECTION_BROKEN").at_once();
    that_never_ends: "body-endless" => fails("HTTP_BODY_TOO_LARGE").at_once().saying("1048576");
    that_unpacks_to_much_more: "gzip-bomb" => fails("HTTP_BODY_TOO_LARGE").at_once().saying("1048576");
}}

/// A redirect to another origin is not followed, with or without headers: not at the first request and not later.
async fn a_redirect_to_another_origin_is_refused(era: Era) {
    let canary = Canary::new();
    let script = format!("redirect-cross={}", canary.url());
    let stage = Stage::new(Over::Http, era, &script).await;
    stage.start().await;
    let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
    assert_eq!(code, "REDIRECT_REFUSED", "{words}");
    assert!(words.contains(canary.url().trim_end_matches("/canary")), "{words}");
    assert!(words.contains("another origin than that of its url"), "{words}");
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    canary.assert_untouched();
    stage.finish().await;

    let stage = Stage::new(Over::Http, era, &format!("{script} --fault-on * --fault-times 100")).await;
    assert_ne!(stage.start().await.state.word(), "connected");
    let (code, words) = stage.call("write", json!({})).await.failure();
    assert_eq!(code, "REDIRECT_REFUSED", "{words}");
    canary.assert_untouched();
    stage.finish().await;
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_refused_in_the_legacy_era() {
    a_redirect_to_another_origin_is_refused(Era::Legacy).await;
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_refused_in_the_modern_era() {
    a_redirect_to_another_origin_is_refused(Era::Modern).await;
}

/// A call that the server refuses temporarily is not repeated automatically, even if the server would accept it soon.
#[tokio::test]
async fn too_many_requests_are_never_repeated() {
    let stage = Stage::new(Over::Http, Era::Modern, "http-429=0").await;
    stage.start().await;
    assert_eq!(stage.call("write", json!({})).await.failure().0, "RATE_LIMITED");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stage.log().count_of("tools/call"), 1);
    stage.finish().await;
}

/// A status applies to its own request alone. Another request in flight does not count as refused: it may have been
/// carried out.
#[tokio::test]
async fn a_demand_to_sign_in_refuses_only_its_own_call() {
    for era in [Era::Legacy, Era::Modern] {
        let stage = Stage::new(Over::Http, era, "http-401 --fault-on tools/call --fault-after 1 --answers sse").await;
        stage.start().await;
        let (held, ()) = tokio::join!(stage.call("sleep", json!({"ms": 1_000})), async {
            stage.until("the first call runs", |log| log.runs_of("sleep") == 1).await;
            assert_eq!(stage.call("write", json!({})).await.failure().0, "AUTH_REQUIRED");
        });
        let (code, words) = held.failure();
        assert_eq!(code, "CONNECTION_BROKEN", "{words}");
        assert!(words.contains("after another request failed") && words.contains("401"), "{words}");
        let hint = held.result.unwrap_err().hint().unwrap();
        assert!(hint.contains("not known whether"), "{hint}");
        stage.becomes("needs_auth").await;
        stage.finish().await;
    }
}

/// Over HTTP+SSE a refused request fails alone, and only a status that rules out all further requests ends the
/// connection.
#[tokio::test]
async fn a_refusal_over_legacy_sse_refuses_only_its_own_call() {
    for (fault, code) in [("http-429=7", "RATE_LIMITED"), ("http-500 --fault-on tools/call", "HTTP_ERROR")] {
        let stage = Stage::new(Over::Sse, Era::Legacy, &format!("{fault} --fault-after 1")).await;
        stage.start().await;
        let (held, ()) = tokio::join!(stage.call("sleep", json!({"ms": 500})), async {
            stage.until("the first call runs", |log| log.runs_of("sleep") == 1).await;
            assert_eq!(stage.call("write", json!({})).await.within(AT_ONCE).failure().0, code);
        });
        assert_eq!(held.text(), "slept 500 ms");
        assert_eq!(stage.call("write", json!({})).await.text(), "written");
        assert_eq!(stage.log().count_of("initialize"), 1, "it is the same connection");
        stage.finish().await;
    }
}

/// An HTTP+SSE endpoint that no longer knows the session in its address is replaced by a new one.
#[tokio::test]
async fn a_lost_session_is_replaced_over_legacy_sse() {
    let stage = Stage::new(Over::Sse, Era::Legacy, "http-404 --fault-on tools/call").await;
    stage.start().await;
    let (code, words) = stage.call("write", json!({})).await.within(AT_ONCE).failure();
    assert_eq!(code, "MCP_SESSION_NOT_FOUND", "{words}");
    assert_eq!(stage.call("write", json!({})).await.text(), "written");
    assert_eq!(stage.log().count_of("initialize"), 2, "one new session");
    stage.finish().await;
}
