//! A server that makes its client poll (SEP-1699), on the official TypeScript SDK: the stream of a call ends after the
//! event that says when to come back, and a request with `Last-Event-ID` gets the answer.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use toolrack_host::Era;

use crate::{
    programs::HttpProgram,
    worlds::{call, host_of, status},
};

/// The wait that the server asks for.
const WAIT: Duration = Duration::from_millis(700);

#[tokio::test]
async fn a_call_whose_stream_is_closed_on_purpose_is_answered_when_the_client_comes_back() {
    let server = HttpProgram::polling();
    let host = host_of([("polling", server.spec())]).await;
    assert_eq!(status(&host, "polling").era, Some(Era::Legacy));
    let started = Instant::now();
    let outcome = call(&host, "polling/test_reconnection", json!({})).await.unwrap();
    assert_eq!(outcome.text, "reconnected");
    assert!(started.elapsed() >= WAIT, "the client came back too early: {:?}", started.elapsed());
    host.shutdown().await;
}

#[tokio::test]
async fn several_calls_are_polled_for_at_once() {
    let server = HttpProgram::polling();
    let host = host_of([("polling", server.spec())]).await;
    let outcomes = join_all((0..5).map(|_| call(&host, "polling/test_reconnection", json!({})))).await;
    for outcome in outcomes {
        assert_eq!(outcome.unwrap().text, "reconnected");
    }
    host.shutdown().await;
}
