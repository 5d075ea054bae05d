//! Answers that go on for as long as something happens, on their way through programs in between.

use axum::response::Response;
use http::{
    HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};

/// nginx and those that took it over from there hold answers back until they are large or have ended, unless they are told.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Asks whatever is between here and the client to pass events on as they come: not gathered, kept or compressed. For every
/// answer of a router, so that no stream can be without it.
pub(crate) async fn passed_on(mut response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    response
}
