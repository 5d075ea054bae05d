//! Adds headers to event streams, so that proxies pass each event on at once.

use axum::response::Response;
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};

/// nginx and similar proxies hold an answer back until it is large or has ended, unless this header tells them not to.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Asks proxies between the daemon and the client to pass events on as they come, and not to buffer, cache or compress
/// them. Applied to every answer of a router, so that no stream lacks it.
pub(crate) async fn disable_buffering(mut response: Response) -> Response {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|content_type| content_type.starts_with("text/event-stream")) {
        response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    response
}
