//! Reads the bodies of HTTP responses. The size, and the time between two pieces, are limited.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    link::{
        bounds::{Bound, is_list},
        error::LinkError,
        framing::envelope::{Envelope, Id, escape_invalid_utf8, peek},
        http::{HttpTransport, MediaType, media_type},
        inbound::Inbound,
        message::{OutgoingRequest, RawAnswer, for_each_message, into_answer, parse_rpc_error},
    },
    spec::Setting,
    text::quote,
};

/// The most bytes to read of an error's body.
const ERROR_BODY_BYTES: usize = 64 * 1024;
/// How long reading an error's body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The most characters of an error's body that the error quotes.
const ERROR_TEXT_CHARS: usize = 200;

/// The part of a response that is searched for the answer to a request.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AnswerSource {
    /// The whole body of the response.
    Body,
    /// One event of a stream, after which others may follow.
    Event,
}

impl HttpTransport {
    /// Returns the answer in a JSON body.
    pub(super) async fn json_answer(&self, response: Response, request: &OutgoingRequest) -> RawAnswer {
        let body = self.read_body(response, self.0.bounds.answer_to(request.method)).await?;
        if body.is_empty() {
            return Err(LinkError::protocol("the answer is empty"));
        }
        self.find_answer(&body, request, AnswerSource::Body)
            .unwrap_or_else(|| Err(LinkError::protocol("the body holds no answer to this request")))
    }

    /// Returns the answer to `request` in these bytes, or the reason why it cannot be parsed; dispatches all other
    /// messages in them. Skips an event that is not a message and does not name the request: a later event may be the
    /// answer.
    pub(super) fn find_answer(
        &self,
        bytes: &Bytes,
        request: &OutgoingRequest,
        source: AnswerSource,
    ) -> Option<RawAnswer> {
        let (id, mut answer) = (request.id, None);
        self.0.inbound.observe_received(bytes);
        for_each_message(bytes, |message| match message {
            Ok(Envelope::Response { id: response_id, outcome }) if response_id.number() == Some(id) => {
                answer = Some(into_answer(bytes, outcome));
            }
            // On a request's own stream, an error without an id is the answer, unless a batch has the answer itself.
            Ok(Envelope::Orphan { error }) => {
                answer.get_or_insert_with(|| Err(LinkError::Rpc(parse_rpc_error(error))));
            }
            // The sink takes the host's answers to requests of the server.
            Ok(other) => self.0.inbound.accept(other, Some(id), &self.sink()),
            // In a list, bytes that are not UTF-8 cost only the items that contain them. An escape replaces these
            // bytes: it is valid JSON, but no string can be decoded from it. The items are decoded one by one, so
            // decoding fails only for an item with the escape.
            Err(bad_message) if is_list(request.method) && bad_message.is_not_utf8() => {
                let escaped = Bytes::from(escape_invalid_utf8(bytes));
                answer = match peek(&escaped) {
                    Ok(Envelope::Response { id: response_id, outcome }) if response_id.number() == Some(id) => {
                        Some(into_answer(&escaped, outcome))
                    }
                    _ => Some(Err(LinkError::unparsable(bad_message.to_string()))),
                };
            }
            Err(bad_message)
                if source == AnswerSource::Event
                    && bad_message.salvaged.id.as_ref().and_then(Id::number) != Some(id) =>
            {
                self.0.inbound.note_noise("an event that is not an MCP message", bytes);
            }
            // A bad element of a batch does not replace the answer in the same batch.
            Err(bad_message) => {
                answer.get_or_insert_with(|| Err(LinkError::unparsable(bad_message.to_string())));
            }
        });
        answer
    }

    /// Reads the whole body.
    async fn read_body(&self, mut response: Response, bound: Bound) -> Result<Bytes, LinkError> {
        let too_large = |seen: u64| bound.too_large("HTTP_BODY_TOO_LARGE", "the body of the answer", seen);
        // 0 if the server does not say how long the body is.
        let content_length = response.content_length().unwrap_or(0);
        if content_length > bound.bytes as u64 {
            return Err(too_large(content_length));
        }
        let mut body = BytesMut::new();
        loop {
            match timeout(self.0.spec.read_timeout, response.chunk()).await {
                Err(_) => {
                    return Err(LinkError::TimedOut {
                        what: "a piece of the body",
                        after: self.0.spec.read_timeout,
                        setting: Setting::ReadTimeout,
                    });
                }
                Ok(Err(error)) => return Err(self.0.link_error(error)),
                Ok(Ok(None)) => return Ok(body.freeze()),
                Ok(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > bound.bytes {
                        return Err(too_large((body.len() + chunk.len()) as u64));
                    }
                    // The first chunk is the whole body: return it without a copy.
                    if body.is_empty() && content_length == chunk.len() as u64 {
                        return Ok(chunk);
                    }
                    body.extend_from_slice(&chunk);
                }
            }
        }
    }
}

/// Returns the error for a status that means failure: the JSON-RPC error in the body, if there is one.
pub(super) async fn status_error(
    mut response: Response,
    status: u16,
    had_session: bool,
    inbound: &Inbound,
) -> LinkError {
    let is_html = matches!(media_type(response.headers()), MediaType::Other(kind) if kind.contains("html"));
    let mut body = Vec::new();
    let read_body = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY_BYTES - body.len())]);
            if body.len() >= ERROR_BODY_BYTES {
                break;
            }
        }
    };
    // After the time-out, the part that has been read is used.
    let _ = timeout(ERROR_BODY_TIMEOUT, read_body).await;
    inbound.observe_received(&body);
    #[derive(Deserialize)]
    struct Failure<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let rpc_error = serde_json::from_slice::<Failure<'_>>(&body).ok().map(|failure| parse_rpc_error(failure.error));
    if let Some(rpc_error) = rpc_error {
        // Some servers answer 400 where the specification requires 404.
        if had_session && status == 400 && rpc_error.message.to_lowercase().contains("session") {
            return LinkError::SessionNotFound { not_executed: true };
        }
        return LinkError::Rpc(rpc_error);
    }
    let text = String::from_utf8_lossy(&body);
    LinkError::Http {
        status,
        body: if is_html {
            "an HTML page".into()
        } else {
            quote(&text.chars().take(ERROR_TEXT_CHARS).collect::<String>())
        },
    }
}
