//! Signing in, which begins at the daemon and ends in a browser.

use std::sync::Arc;

use futures::FutureExt as _;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use toolrack_daemon::{NoSignIn, SignInChannels};
use toolrack_testkit::Home;
use url::Url;

use crate::up::{DaemonOptions, LONG, Up, no_sign_in, servers};

const PAGE: &str =
    "https://as.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=s1&client_id=c";
const BACK: &str = "http://127.0.0.1:9/callback?code=c1&state=s1";

/// A daemon with one server that requires a sign-in, which `signs_in` performs.
async fn up<F>(signs_in: impl Fn(SignInChannels) -> F + Send + Sync + 'static) -> Up
where
    F: Future<Output = Result<(), NoSignIn>> + Send + 'static,
{
    let home = Home::new();
    home.write("toolrack/mcp.json", servers(&[("web", json!({ "url": "http://127.0.0.1:1/mcp" }))]));
    let sign_ins = Arc::new(move |page| signs_in(page).boxed());
    Up::started(home, DaemonOptions { sign_ins, ..DaemonOptions::default() }).await
}

async fn begin(up: &Up) -> (StatusCode, Value) {
    up.post("/api/v1/servers/web/sign-in", json!({})).await
}

async fn paste(up: &Up, address: &str) -> (u16, Value) {
    let (status, answer) = up.post("/api/v1/servers/web/sign-in/address", json!({ "address": address })).await;
    (status.as_u16(), answer["error"]["code"].clone())
}

async fn until(up: &Up, state: &str) -> Value {
    up.eventually(&format!("the sign-in is {state}"), async || {
        let now = up.get("/api/v1/servers/web/sign-in").await;
        (now["state"] == state).then_some(now)
    })
    .await
}

#[tokio::test]
async fn an_address_that_is_pasted_ends_a_sign_in_once_if_it_answers_the_page_that_was_shown() {
    let (brings, mut brought) = mpsc::unbounded_channel();
    let up = up(move |SignInChannels { page: page_sender, pasted_address }| {
        let brings = brings.clone();
        async move {
            page_sender.send(Url::parse(PAGE).unwrap()).unwrap();
            brings.send(pasted_address.await.map_err(|_| no_sign_in())?).unwrap();
            Ok(())
        }
    })
    .await;
    assert_eq!(paste(&up, BACK).await, (404, json!("NOT_FOUND")), "no sign-in has begun");
    let (status, body) = begin(&up).await;
    assert_eq!((status.as_u16(), &body["state"], &body["page"]), (202, &json!("waiting"), &json!(PAGE)));
    assert_eq!(up.get("/api/v1/servers/web/sign-in").await, body);
    for other in ["", "c1", "http://127.0.0.1:9/callback?code=c1&state=s2", "https://evil.example/callback?state=s1"] {
        assert_eq!(paste(&up, other).await, (422, json!("ANOTHER_ADDRESS")), "{other}");
    }
    assert_eq!(up.get("/api/v1/servers/web/sign-in").await, body, "a wrong address ends nothing");
    assert_eq!(paste(&up, &format!("\n {BACK} ")).await.0, 204);
    assert_eq!(brought.recv().await.unwrap().as_str(), BACK);
    let done = until(&up, "done").await;
    assert_eq!(done["error"], Value::Null);
    assert_eq!(paste(&up, BACK).await, (404, json!("NOT_FOUND")), "a code is good once");
    up.down().await;
}

#[tokio::test]
async fn a_new_sign_in_cancels_the_one_before() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let up = up(move |SignInChannels { page: page_sender, pasted_address }| {
        let ends = ends.clone();
        async move {
            let page = format!("{PAGE}&number={}", ends.strong_count());
            page_sender.send(Url::parse(&page).unwrap()).unwrap();
            // The future owns this value: its drop shows that the sign-in was cancelled.
            let _ended = told_when_dropped(ends);
            let _pasted_address = pasted_address;
            std::future::pending().await
        }
    })
    .await;
    let first = begin(&up).await.1;
    let second = begin(&up).await.1;
    timeout(LONG, ended.recv()).await.expect("the first one is given up").unwrap();
    assert_eq!((&first["state"], &second["state"]), (&json!("waiting"), &json!("waiting")));
    assert_eq!(up.get("/api/v1/servers/web/sign-in").await, second);
    assert_eq!(paste(&up, BACK).await.0, 204, "the second one waits for an address");
    up.down().await;
    timeout(LONG, ended.recv()).await.expect("the end of the daemon gives up the second").unwrap();
}

/// Reports when it is dropped.
fn told_when_dropped(ends: mpsc::UnboundedSender<()>) -> impl Drop {
    struct Ends(mpsc::UnboundedSender<()>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    Ends(ends)
}

#[tokio::test]
async fn a_sign_in_that_fails_after_its_page_shows_reason_and_next_step() {
    let up = up(|SignInChannels { page: page_sender, pasted_address }| async move {
        page_sender.send(Url::parse(PAGE).unwrap()).unwrap();
        let _ = pasted_address.await;
        let (message, hint) = ("the server refuses the code".to_owned(), Some("begin anew".to_owned()));
        Err(NoSignIn { code: "SIGN_IN_REFUSED", message, hint })
    })
    .await;
    assert_eq!(begin(&up).await.1["state"], "waiting");
    assert_eq!(paste(&up, BACK).await.0, 204);
    let failed = until(&up, "failed").await;
    assert_eq!((&failed["error"], &failed["hint"]), (&json!("the server refuses the code"), &json!("begin anew")));
    assert_eq!(begin(&up).await.1["state"], "waiting", "it can be tried again");
    up.down().await;
}

#[tokio::test]
async fn a_sign_in_that_needs_no_page_is_done_at_once() {
    let up = up(|SignInChannels { .. }| async { Ok(()) }).await;
    let (status, body) = begin(&up).await;
    assert_eq!((status.as_u16(), &body["page"]), (202, &Value::Null));
    until(&up, "done").await;
    up.down().await;
}
