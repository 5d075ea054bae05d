//! Clients whose id is the address of a document.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse as _, Redirect},
    routing::get,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use url::Url;

use crate::{
    browser::{Browser, parameter},
    stage::{BACK, Stage, listen, serve},
};

/// A site that publishes documents at `/good`, and unusable ones at other paths.
struct Site {
    url: Url,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

async fn site() -> Site {
    let (listener, url) = listen().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let (counted, base) = (Arc::clone(&requests), url.clone());
    let document = move |path: &str, changed: Value| {
        let mut document = json!({ "client_id": base.join(path).unwrap(), "client_name": "A published client", "redirect_uris": [BACK] });
        document.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        document
    };
    let answers = [
        ("/good", document("/good", json!({ "unknown": 1 }))),
        ("/other-id", document("/good", json!({}))),
        ("/secret", document("/secret", json!({ "token_endpoint_auth_method": "private_key_jwt" }))),
        ("/script", document("/script", json!({ "redirect_uris": ["javascript:alert(1)"] }))),
        ("/none", document("/none", json!({ "redirect_uris": [] }))),
        ("/large", document("/large", json!({ "more": "x".repeat(70_000) }))),
    ];
    let mut router = Router::new()
        .route("/elsewhere", get(|| async { Redirect::to("/good") }))
        .route("/broken", get(|| async { "{" }))
        .route("/missing", get(|| async { StatusCode::NOT_FOUND.into_response() }));
    for (path, document) in answers {
        let counted = Arc::clone(&counted);
        router = router.route(
            path,
            get(move || async move {
                counted.fetch_add(1, Ordering::SeqCst);
                Json(document)
            }),
        );
    }
    let mut tasks = JoinSet::new();
    serve(&mut tasks, listener, router).await;
    Site { url, requests, _tasks: tasks }
}

#[tokio::test]
async fn a_client_with_a_document_needs_no_registration_and_its_host_is_shown() {
    let (stage, site) = (Stage::new().await, site().await);
    let id = site.url.join("/good").unwrap().to_string();
    let url = stage.authorize(&id, &[]);
    // Before a sign-in, this program sends no requests for a client.
    assert_eq!(Browser::new().get(&url).await.location().unwrap().path(), "/sign-in");
    assert_eq!(site.requests.load(Ordering::SeqCst), 0);

    let mut ann = stage.ann().await;
    let page = ann.get(&url).await;
    assert!(page.body.contains("A published client") && page.body.contains("Described by"), "{}", page.body);
    let to = stage.allow(&mut ann, &page).await.location().unwrap();
    let code = parameter(&to, "code").unwrap();
    assert_eq!(stage.exchange(&id, &code, &[]).await.status, 200);
    assert_eq!(site.requests.load(Ordering::SeqCst), 1, "the document is remembered");
}

#[tokio::test]
async fn a_document_that_proves_nothing_is_refused_and_its_redirects_are_not_followed() {
    let (stage, site) = (Stage::new().await, site().await);
    let mut ann = stage.ann().await;
    for path in ["/other-id", "/secret", "/script", "/none", "/large", "/elsewhere", "/broken", "/missing"] {
        let answer = ann.get(&stage.authorize(site.url.join(path).unwrap().as_str(), &[])).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (400, None), "{path}");
        assert!(answer.body.contains("invalid_client_metadata"), "{path}: {}", answer.body);
    }
    let other = stage.authorize(site.url.join("/good").unwrap().as_str(), &[("redirect_uri", "https://evil.example/")]);
    let answer = ann.get(&other).await;
    assert_eq!((answer.status.as_u16(), answer.location()), (400, None));
}

#[tokio::test]
async fn an_id_that_is_not_a_plain_address_is_not_fetched() {
    let (stage, site) = (Stage::new().await, site().await);
    let mut ann = stage.ann().await;
    let good = site.url.join("/good").unwrap().to_string();
    for id in [
        site.url.to_string(),
        format!("{good}#x"),
        good.replace("//", "//user@"),
        good.replace("/good", "/x/../good"),
        good.to_uppercase(),
        "file:///etc/passwd".to_owned(),
        format!("{good}?{}", "x".repeat(1_100)),
    ] {
        let answer = ann.get(&stage.authorize(&id, &[])).await;
        assert_eq!((answer.status.as_u16(), answer.location()), (400, None), "{id}");
    }
    assert_eq!(site.requests.load(Ordering::SeqCst), 0);
}
