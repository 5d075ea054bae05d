//! Reads the bodies of HTTP responses, with bounds for the size and for the time between two pieces.

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
        framing::envelope::{Envelope, Id, peek, with_escapes},
        http::{HttpWire, Media, media_type},
        inbound::Inbound,
        message::{Outgoing, RawAnswer, for_each_message, into_answer, rpc_error},
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

/// The part of a response in which the answer to a request is looked for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// The whole body of the response.
    Body,
    /// One event of a stream, after which others may follow.
    Event,
}

impl HttpWire {
    /// Returns the answer in a JSON body.
    pub(super) async fn json_answer(&self, response: Response, request: &Outgoing) -> RawAnswer {
        let body = self.read(response, self.0.bounds.answer_to(request.method)).await?;
        if body.is_empty() {
            return Err(LinkError::protocol("the answer is empty"));
        }
        self.find_answer(&body, request, Source::Body)
            .unwrap_or_else(|| Err(LinkError::protocol("the body holds no answer to this request")))
    }

    /// Returns the answer to `request` in these bytes, or the reason why it cannot be parsed; dispatches all other
    /// messages in them. Skips an event that is not a message and does not name the request: a later event may be the
    /// answer.
    pub(super) fn find_answer(&self, bytes: &Bytes, request: &Outgoing, source: Source) -> Option<RawAnswer> {
        let (id, mut found) = (request.id, None);
        self.0.inbound.received(bytes);
        for_each_message(bytes, |message| match message {
            Ok(Envelope::Response { id: answered, outcome }) if answered.number() == Some(id) => {
                found = Some(into_answer(bytes, outcome));
            }
            // On a request's own stream, an error without an id is the answer.
            Ok(Envelope::Orphan { error }) => found = Some(Err(LinkError::Rpc(rpc_error(error)))),
            // The outlet takes the host's answers to requests of the server.
            Ok(other) => self.0.inbound.accept(other, Some(id), &self.outlet()),
            // A list with bytes that are not UTF-8 loses only the items that contain them: in place of these bytes, the
            // whole body gets an escape that is valid syntax, but that no string can be decoded from. The items of a
            // list are decoded one by one, so only that of an item with the escape fails.
            Err(bad) if is_list(request.method) && bad.is_not_utf8() => {
                let escaped = Bytes::from(with_escapes(bytes));
                found = match peek(&escaped) {
                    Ok(Envelope::Response { id: answered, outcome }) if answered.number() == Some(id) => {
                        Some(into_answer(&escaped, outcome))
                    }
                    _ => Some(Err(LinkError::unparsable(bad.to_string()))),
                };
            }
            Err(bad) if source == Source::Event && bad.salvaged.id.as_ref().and_then(Id::number) != Some(id) => {
                self.0.inbound.noise("an event that is not an MCP message", bytes);
            }
            Err(bad) => found = Some(Err(LinkError::unparsable(bad.to_string()))),
        });
        found
    }

    async fn read(&self, mut response: Response, bound: Bound) -> Result<Bytes, LinkError> {
        let too_large = |seen: u64| bound.too_large("HTTP_BODY_TOO_LARGE", "the body of the answer", seen);
        let announced = response.content_length().unwrap_or(0);
        if announced > bound.bytes as u64 {
            return Err(too_large(announced));
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
                Ok(Err(error)) => return Err(self.0.unreachable(error)),
                Ok(Ok(None)) => return Ok(body.freeze()),
                Ok(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > bound.bytes {
                        return Err(too_large((body.len() + chunk.len()) as u64));
                    }
                    // The first chunk is the whole body: return it without a copy.
                    if body.is_empty() && announced == chunk.len() as u64 {
                        return Ok(chunk);
                    }
                    body.extend_from_slice(&chunk);
                }
            }
        }
    }
}

/// Returns the error for a status that means failure: the JSON-RPC error in the body, if there is one.
pub(super) async fn failure(mut response: Response, status: u16, had_session: bool, inbound: &Inbound) -> LinkError {
    let is_html = matches!(media_type(response.headers()), Media::Other(kind) if kind.contains("html"));
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY_BYTES - body.len())]);
            if body.len() >= ERROR_BODY_BYTES {
                break;
            }
        }
    };
    // After the time-out, the part that has been read is used.
    let _ = timeout(ERROR_BODY_TIMEOUT, read).await;
    inbound.received(&body);
    #[derive(Deserialize)]
    struct Failure<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let rpc = serde_json::from_slice::<Failure<'_>>(&body).ok().map(|failure| rpc_error(failure.error));
    if let Some(rpc) = rpc {
        // Some servers answer 400 where the specification requires 404.
        if had_session && status == 400 && rpc.message.to_lowercase().contains("session") {
            return LinkError::SessionNotFound { not_executed: true };
        }
        return LinkError::Rpc(rpc);
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
