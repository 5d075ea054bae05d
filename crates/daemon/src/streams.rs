//! Keeps event streams flowing through proxies.

use axum::response::Response;
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};

/// nginx and similar proxies hold an answer back until it is large or has ended, unless this header tells them not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Asks proxies between the daemon and the client to pass events on as they come, and not to buffer, cache or compress
/// them. Applied to every answer of a router, so that no stream lacks it.
pub(crate) async fn unbuffered(mut response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    response
}
