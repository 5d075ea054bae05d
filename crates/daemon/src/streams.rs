//! Keeps event streams flowing through proxies.

use axum::response::Response;
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};

/// nginx, and proxies with the same header, hold answers back until they are large or have ended, unless told not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Asks proxies between here and the client to pass events on as they come: not gathered, kept or compressed. It is
/// applied to every answer of a router, so that no stream is without it.
pub(crate) async fn passed_on(mut response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    response
}
