use super::*;

async fn get(port: u16, target: &str, host: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn only_the_browser_that_was_sent_is_heard() {
    let here = Loopback::bind(0).await.unwrap();
    let port = here.port;
    let own = format!("127.0.0.1:{port}");
    let page = Url::parse("https://as.example/authorize?state=right").unwrap();
    let visits = async {
        // A silent connection does not hold up the others.
        let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        for (target, host) in [
            ("/favicon.ico", own.as_str()),
            ("/callback?code=c&state=wrong", &own),
            ("/callback?code=c", &own),
            ("/callback?code=c&state=right", "evil.example"),
            ("//evil.example/callback?code=c&state=right&host=evil", "evil.example"),
        ] {
            assert!(get(port, target, host).await.starts_with("HTTP/1.1 404"), "{target}");
        }
        get(port, "/callback?code=c&state=right", &own).await
    };
    let (back, answer) = tokio::join!(here.wait(&page, Duration::from_secs(20)), visits);
    assert_eq!(back.unwrap().query(), Some("code=c&state=right"));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("default-src 'none'"), "{answer}");
}

#[tokio::test]
async fn a_busy_port_and_a_browser_that_never_comes_are_reported() {
    let here = Loopback::bind(0).await.unwrap();
    assert!(matches!(Loopback::bind(here.port).await, Err(BrowserError::Port { .. })));
    tokio::time::pause();
    let page = Url::parse("https://as.example/authorize?state=right").unwrap();
    let waited = here.wait(&page, Duration::from_secs(300)).await;
    assert_eq!(waited, Err(BrowserError::TimedOut { after: Duration::from_secs(300) }));
}

fn head(request: &str, headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("{request}\r\n{headers}\r\n")
}

#[tokio::test]
async fn of_all_that_a_request_can_be_only_the_answer_of_the_sign_in_is_taken() {
    let here = Loopback::bind(0).await.unwrap();
    let host = format!("Host: 127.0.0.1:{}", here.port);
    let target = |request: &str, headers: &[&str]| here.redirect_in(&head(request, headers), Some("right"));
    let good = "GET /callback?code=c&state=right HTTP/1.1";
    for headers in [
        &[&*host][..],
        &[&host.to_uppercase()],
        &[&host.replace("Host:", "host:")],
        &[&format!("{host}  ")],
        &["Accept: */*", "Cookie: a=b: c", &host],
    ] {
        let back = target(good, headers).unwrap();
        assert_eq!(back.as_str(), format!("{}?code=c&state=right", here.redirect_uri()), "{headers:?}");
    }
    for headers in [
        &[][..],
        &["Host:"],
        &["Host: 127.0.0.1"],
        &["Host: 127.0.0.1:1"],
        &[&format!("Host: localhost:{}", here.port)],
        &[&format!("Host: evil.example:{}", here.port)],
        // The first `Host` counts: a browser never sends two.
        &["Host: evil.example", &host],
    ] {
        assert_eq!(target(good, headers), None, "{headers:?}");
    }
    for request in [
        "",
        "GET",
        "GET ",
        "POST /callback?code=c&state=right HTTP/1.1",
        "get /callback?code=c&state=right HTTP/1.1",
        "HEAD /callback?code=c&state=right HTTP/1.1",
        "OPTIONS /callback?code=c&state=right HTTP/1.1",
        "GET /callback/?code=c&state=right HTTP/1.1",
        "GET /Callback?code=c&state=right HTTP/1.1",
        "GET /x/callback?code=c&state=right HTTP/1.1",
        "GET callback?code=c&state=right HTTP/1.1",
        "GET http://127.0.0.1/callback?code=c&state=right HTTP/1.1",
        "GET //evil.example/callback?code=c&state=right HTTP/1.1",
        "GET /\\evil.example/callback?code=c&state=right HTTP/1.1",
        "GET /callback?code=c&state=RIGHT HTTP/1.1",
        "GET /callback?code=c&state=right%20 HTTP/1.1",
        "GET /callback?code=c&state=wrong&state=right HTTP/1.1",
        "GET /callback?code=c&State=right HTTP/1.1",
        "GET /callback#code=c&state=right HTTP/1.1",
    ] {
        assert_eq!(target(request, &[&host]), None, "{request}");
    }
    // A redirect with an error belongs to the sign-in as well. `AuthorizationRequest::exchange` handles the error.
    assert!(target("GET /callback?error=access_denied&state=right HTTP/1.1", &[&host]).is_some());
    assert!(target("GET /callback?state=%72ight HTTP/1.1", &[&host]).is_some());
}

#[tokio::test]
async fn a_page_without_a_state_waits_for_an_answer_without_one() {
    let here = Loopback::bind(0).await.unwrap();
    let host = format!("Host: 127.0.0.1:{}", here.port);
    let target = |target: &str| here.redirect_in(&head(&format!("GET {target} HTTP/1.1"), &[&host]), None);
    assert!(target("/callback?code=c").is_some());
    assert!(target("/callback?code=c&state=x").is_none());
}

#[tokio::test]
async fn a_request_that_comes_in_pieces_is_read_and_one_without_an_end_is_not() {
    let here = Loopback::bind(0).await.unwrap();
    let port = here.port;
    let page = Url::parse("https://as.example/authorize?state=right").unwrap();
    let visits = async {
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        // A request whose head is too long gets no answer.
        let mut long = connect().await.unwrap();
        let padding = "x".repeat(2 * MAX_HEAD_BYTES);
        let endless =
            format!("GET /callback?code=c&state=right HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: {padding}\r\n\r\n");
        // The listener may close the connection before everything is sent.
        let _ = long.write_all(endless.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = long.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{answer:?}");
        // A connection that closes within the head does not end the wait.
        let mut cut = connect().await.unwrap();
        cut.write_all(b"GET /callback?code=c&state=right HTTP/1.1\r\n").await.unwrap();
        drop(cut);
        let mut slow = connect().await.unwrap();
        let request = format!("GET /callback?code=c&state=right HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        for piece in request.as_bytes().chunks(7) {
            slow.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut answer = String::new();
        slow.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let (back, ()) = tokio::join!(here.wait(&page, Duration::from_secs(20)), visits);
    assert_eq!(back.unwrap().query(), Some("code=c&state=right"));
}

#[tokio::test]
async fn connections_that_say_nothing_give_up_their_places() {
    let here = Loopback::bind(0).await.unwrap();
    let port = here.port;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
    }
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let page = Url::parse("https://as.example/authorize?state=right").unwrap();
    let own = format!("127.0.0.1:{port}");
    let visit = get(port, "/callback?code=c&state=right", &own);
    let (back, answer) = tokio::join!(here.wait(&page, Duration::from_secs(300)), visit);
    assert!(back.is_ok() && answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(started.elapsed() >= REQUEST_TIMEOUT && started.elapsed() < REQUEST_TIMEOUT * 2, "{:?}", started.elapsed());
}
