//! JSON bodies, bounded in size and silence.

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
        message::{Answered, Outgoing, answered, messages, rpc_error},
    },
    spec::Setting,
    text::quote,
};

/// The most bytes to read of an error's body.
const ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

impl HttpWire {
    /// Returns the answer in a JSON body.
    pub(super) async fn json_answer(&self, response: Response, request: &Outgoing) -> Answered {
        let body = self.read(response, self.0.bounds.answer_to(request.method)).await?;
        if body.is_empty() {
            return Err(LinkError::protocol("the answer is empty"));
        }
        self.find_answer(&body, request, true)
            .unwrap_or_else(|| Err(LinkError::protocol("the body holds no answer to this request")))
    }

    /// Returns the answer to `request` in these bytes, or the reason why it cannot be parsed; dispatches all other
    /// messages in them. If more bytes follow (not `whole`), skips bytes that are not a message and do not name the
    /// request.
    pub(super) fn find_answer(&self, bytes: &Bytes, request: &Outgoing, whole: bool) -> Option<Answered> {
        let (id, mut found) = (request.id, None);
        self.0.inbound.received(bytes);
        messages(bytes, |message| match message {
            Ok(Envelope::Response { id: named, outcome }) if named.number() == Some(id) => {
                found = Some(answered(bytes, outcome));
            }
            // On a request's own stream, an error without an id is the answer.
            Ok(Envelope::Orphan { error }) => found = Some(Err(LinkError::Rpc(rpc_error(error)))),
            Ok(other) => self.0.inbound.accept(other, Some(id), &self.outlet()),
            Err(bad) if is_list(request.method) && bad.is_not_utf8() => {
                let escaped = Bytes::from(with_escapes(bytes));
                found = match peek(&escaped) {
                    Ok(Envelope::Response { id: named, outcome }) if named.number() == Some(id) => {
                        Some(answered(&escaped, outcome))
                    }
                    _ => Some(Err(LinkError::unparsable(bad.to_string()))),
                };
            }
            Err(bad) if !whole && bad.salvaged.id.as_ref().and_then(Id::number) != Some(id) => {
                self.0.inbound.noise("an event that is not an MCP message", bytes);
            }
            Err(bad) => found = Some(Err(LinkError::unparsable(bad.to_string()))),
        });
        found
    }

    async fn read(&self, mut response: Response, bound: Bound) -> Result<Bytes, LinkError> {
        let too_large = |seen: u64| bound.passed("HTTP_BODY_TOO_LARGE", "the body of the answer", seen);
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
    let html = matches!(media_type(response.headers()), Media::Other(kind) if kind.contains("html"));
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY - body.len())]);
            if body.len() >= ERROR_BODY {
                break;
            }
        }
    };
    let _ = timeout(ERROR_BODY_TIME, read).await;
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
            return LinkError::SessionNotFound { unread: true };
        }
        return LinkError::Rpc(rpc);
    }
    let text = String::from_utf8_lossy(&body);
    LinkError::Http {
        status,
        body: if html { "an HTML page".into() } else { quote(&text.chars().take(200).collect::<String>()) },
    }
}
