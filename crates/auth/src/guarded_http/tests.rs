use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_fails_with_its_timeout_and_its_origin_is_noted() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/token", silent.local_addr().unwrap())).unwrap();
    let http = GuardedHttpMaker::new(Egress::default()).http_for(&url).unwrap();
    let request = http::Request::post(url.as_str()).body(Vec::new()).unwrap();
    let message = http.send_recorded(request).await.unwrap_err().to_string();
    assert!(message.contains(" within ") && message.ends_with(" s"), "{message}");
    // The reason names the origin as well, without the path, which may hold a secret.
    assert_eq!(http.no_response_reason(), Some(format!("{}: {message}", url.origin().ascii_serialization())));
}

/// Serves these bytes to every request. Returns the URL, and the heads of the requests so far.
async fn serve(answer: String) -> (Url, Arc<Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/token", listener.local_addr().unwrap())).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&asked);
    tokio_util::task::TaskTracker::new().spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            received.lock().push(String::from_utf8_lossy(&head).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, asked)
}

fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn get(http: &GuardedHttp, url: &Url) -> Result<http::Response<Vec<u8>>, HttpError> {
    http.send_recorded(http::Request::get(url.as_str()).body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn an_operation_sends_so_many_requests_and_no_more() {
    let (url, asked) = serve(answer("200 OK", "{}")).await;
    let http_maker = GuardedHttpMaker::new(Egress::default());
    let http = http_maker.http_for(&url).unwrap();
    for _ in 0..MAX_REQUESTS {
        assert_eq!(get(&http, &url).await.unwrap().body(), b"{}");
        assert_eq!(http.no_response_reason(), None);
    }
    let error = get(&http, &url).await.unwrap_err().to_string();
    assert_eq!(error, "it leads to more than 32 requests");
    assert_eq!(
        (http.no_response_reason(), asked.lock().len()),
        (Some(format!("{}: {error}", url.origin().ascii_serialization())), MAX_REQUESTS as usize)
    );
    assert!(get(&http_maker.http_for(&url).unwrap(), &url).await.is_ok(), "another operation has its own");
}

#[tokio::test]
async fn an_answer_has_a_size_that_it_may_have() {
    for (bytes, is_read) in [(MAX_BODY_BYTES, true), (MAX_BODY_BYTES + 1, false)] {
        let (url, _) = serve(answer("200 OK", &"x".repeat(bytes))).await;
        let http = GuardedHttpMaker::new(Egress::default()).http_for(&url).unwrap();
        match get(&http, &url).await {
            Ok(answer) => assert!(is_read && answer.body().len() == bytes),
            Err(error) => {
                assert_eq!((is_read, error.to_string()), (false, "its answer is larger than 262144 bytes".into()))
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (elsewhere, asked) = serve(answer("200 OK", "{}")).await;
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let (url, _) = serve(answer(&format!("{status}\r\nLocation: {elsewhere}"), "")).await;
        let http = GuardedHttpMaker::new(Egress::default()).http_for(&url).unwrap();
        assert!(get(&http, &url).await.unwrap().status().is_redirection(), "{status}");
    }
    assert!(asked.lock().is_empty());
}

#[tokio::test]
async fn an_address_that_may_not_be_asked_is_not_and_a_failure_shows_no_url() {
    let (url, asked) = serve(answer("200 OK", "{}")).await;
    let http =
        GuardedHttpMaker::new(Egress::default()).http_for(&Url::parse("https://h.example/mcp").unwrap()).unwrap();
    let error = get(&http, &url).await.unwrap_err();
    assert!(matches!(error, HttpError::Refused(_)), "{error}");
    assert!(asked.lock().is_empty());
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let gone = Url::parse(&format!("http://127.0.0.1:{port}/token?key=canary")).unwrap();
    let http = GuardedHttpMaker::new(Egress::default()).http_for(&gone).unwrap();
    let error = get(&http, &gone).await.unwrap_err();
    assert!(!error.to_string().contains("canary") && !error.to_string().is_empty(), "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn metadata_that_requires_bound_tokens_is_recognized() {
    for (head, body, wants) in [
        ("200 OK", r#"{"resource": "https://h", "dpop_bound_access_tokens_required": true}"#, true),
        ("200 OK", r#"{"resource": "https://h", "dpop_bound_access_tokens_required": false}"#, false),
        ("200 OK", r#"{"resource": "https://h"}"#, false),
        ("200 OK", r#"{"dpop_bound_access_tokens_required": true}"#, false),
        ("200 OK", r#"{"resource": "https://h", "dpop_bound_access_tokens_required": "true"}"#, false),
        ("404 Not Found", r#"{"resource": "https://h", "dpop_bound_access_tokens_required": true}"#, false),
        ("200 OK", "", false),
    ] {
        let (url, _) = serve(answer(head, body)).await;
        let http = GuardedHttpMaker::new(Egress::default()).http_for(&url).unwrap();
        get(&http, &url).await.unwrap();
        assert_eq!(http.requires_bound_tokens(), wants, "{head} {body}");
    }
}
