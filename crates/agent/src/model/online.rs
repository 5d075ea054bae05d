//! Reaches a model over HTTP. The model's wire (the API format of its provider) writes the requests, and reads the
//! responses piece by piece.

use std::{collections::VecDeque, fmt, mem, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream, stream::BoxStream};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::Value;
use toolrack_host::sse::SseParser;
use url::Url;

use super::{
    Delta, Model, Reply, Request, Wire, anthropic,
    draft::{Deltas, Draft},
    error::{ModelError, ModelErrorKind},
    failure::{self, ErrorBody, ErrorResponse},
    gemini, openai_chat, openai_responses,
    provider::Dialect,
    settings::ModelSettings,
    transport::{self, Attempts, Body, FailedAttempt, Transport},
};

/// Implements one wire (the API format of a provider): writes requests, and makes the readers of answers.
pub(super) trait Adapter: Send + Sync + fmt::Debug {
    /// Returns the URL of a request; `is_streamed` says whether it asks for a stream.
    fn url(&self, base: &Url, is_streamed: bool) -> Url;

    /// Returns the body of a request.
    fn body(&self, request: &Request<'_>, is_streamed: bool) -> Bytes;

    /// Returns a reader for the answer to a conversation with this many messages. The ids that the reader gives to
    /// calls contain this number.
    fn decoder(&self, message_count: usize) -> Box<dyn Decode>;
}

/// The reader of one answer.
pub(super) trait Decode: Send {
    /// Reads one event of a stream, and appends its content to `deltas`.
    fn read_event(&mut self, data: &str, deltas: &mut Deltas) -> Result<Progress, DecodeError>;

    /// Reads an answer that is not streamed, and appends its content to `deltas`.
    fn read_whole(&mut self, answer: Value, deltas: &mut Deltas) -> Result<(), DecodeError>;

    /// Returns the draft, which has all pieces of the answer. The caller calls this at the end of the response.
    ///
    /// # Errors
    /// When the answer is not complete.
    fn into_draft(self: Box<Self>) -> Result<Draft, DecodeError>;
}

/// Whether the answer goes on after an event, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    End,
}

/// The reason why an answer cannot be used.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// The provider reports an error.
    Reported(ErrorBody),
    /// The wire cannot read the answer.
    Invalid(ModelErrorKind),
}

impl From<ModelErrorKind> for DecodeError {
    fn from(kind: ModelErrorKind) -> Self {
        Self::Invalid(kind)
    }
}

impl DecodeError {
    /// Returns the error for an answer that broke off.
    pub(super) fn cut() -> Self {
        Self::Invalid(ModelErrorKind::Cut { why: "the connection was closed".into() })
    }

    /// Returns the error for an answer in a format that the wire cannot read.
    pub(super) fn unreadable(why: impl fmt::Display) -> Self {
        Self::Invalid(ModelErrorKind::Unreadable { why: failure::quote(&why.to_string(), None) })
    }
}

/// Returns the text in the member `name`; empty if there is none.
pub(super) fn text_member<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Parses an event. An event that reports an error becomes that error.
pub(super) fn event_json(data: &str) -> Result<Value, DecodeError> {
    let value: Value = serde_json::from_str(data)
        .map_err(|error| DecodeError::unreadable(format_args!("an event in it is not JSON ({error})")))?;
    reject_error(value)
}

/// Returns the value, unless it reports an error.
pub(super) fn reject_error(value: Value) -> Result<Value, DecodeError> {
    // Gemini wraps an error in a list.
    let error_value = value.as_array().and_then(|list| list.first()).unwrap_or(&value);
    let is_error = error_value.get("error").is_some_and(|error| error.is_object() || error.is_string())
        || error_value.get("type").is_some_and(|kind| kind == "error");
    match ErrorBody::read(&value).filter(|_| is_error) {
        Some(body) => Err(DecodeError::Reported(body)),
        None => Ok(value),
    }
}

/// A model behind HTTP.
struct Online {
    name: String,
    settings: Arc<ModelSettings>,
    adapter: Arc<dyn Adapter>,
    transport: Arc<Transport>,
    base: Url,
}

impl fmt::Debug for Online {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Online").field("name", &self.name).field("wire", &self.settings.wire).finish_non_exhaustive()
    }
}

/// Creates a model from settings, without a request to its provider.
///
/// # Errors
/// The text says which setting cannot be used, and why.
pub(super) fn connect(settings: ModelSettings, dialect: Dialect) -> Result<Arc<dyn Model>, String> {
    let name = settings.name();
    let base = base_url(&settings)?;
    let transport = Transport {
        client: transport::client(settings.bounds.connect, &base)?,
        model: name.clone(),
        headers: headers(&settings, &base)?,
        key: settings.key.clone(),
        bounds: settings.bounds.clone(),
        key_advice: match &settings.key_variable {
            Some(variable) => format!("check {variable}"),
            None => "check the key".to_owned(),
        },
    };
    let settings = Arc::new(settings);
    let adapter: Arc<dyn Adapter> = Arc::from(adapter(&settings, dialect));
    Ok(Arc::new(Online { name, settings, adapter, transport: Arc::new(transport), base }))
}

/// Returns the implementation of the wire that the settings name.
pub(super) fn adapter(settings: &Arc<ModelSettings>, dialect: Dialect) -> Box<dyn Adapter> {
    match settings.wire {
        Wire::Anthropic => Box::new(anthropic::Anthropic::new(settings.clone())),
        Wire::OpenAiChat => Box::new(openai_chat::OpenAiChat::new(settings.clone(), dialect)),
        Wire::OpenAiResponses => Box::new(openai_responses::OpenAiResponses::new(settings.clone())),
        Wire::Gemini => Box::new(gemini::Gemini::new(settings.clone())),
    }
}

/// Parses the address of the model. An address without a path gets the usual path of its wire.
fn base_url(settings: &ModelSettings) -> Result<Url, String> {
    let mut url =
        Url::parse(settings.base_url.trim()).map_err(|error| format!("the base URL is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("the base URL is neither http nor https".into());
    }
    let default_path = if settings.wire == Wire::Gemini { "/v1beta" } else { "/v1" };
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(if path.is_empty() { default_path } else { &path });
    Ok(url)
}

/// Appends a path to a URL, and keeps its query.
pub(super) fn join_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// Returns the headers of every request. Fails if the provider needs a key and there is none.
fn headers(settings: &ModelSettings, base: &Url) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if settings.wire == Wire::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
    }
    match &settings.key {
        Some(key) if !key.reveal().is_empty() => {
            let (name, value) = match settings.wire {
                Wire::Anthropic => ("x-api-key", key.reveal().to_owned()),
                Wire::Gemini => ("x-goog-api-key", key.reveal().to_owned()),
                Wire::OpenAiChat | Wire::OpenAiResponses => ("authorization", format!("Bearer {}", key.reveal())),
            };
            let (name, value) =
                transport::secret_header(name, &value).map_err(|_| "the key has forbidden characters".to_owned())?;
            headers.insert(name, value);
        }
        // A missing key is an error only at the provider's own host, because a user's own server may need none. With
        // further headers, it is no error either, because one of them may have the credentials.
        _ => {
            let provider = super::provider::PROVIDERS.iter().find(|provider| provider.name == settings.provider);
            let provider_of_host =
                provider.filter(|known| Url::parse(known.base_url).is_ok_and(|url| url.host() == base.host()));
            if let Some(variable) =
                provider_of_host.and_then(|known| known.key_variable).filter(|_| settings.headers.is_empty())
            {
                return Err(format!("there is no key; set {variable}"));
            }
        }
    }
    for (name, value) in &settings.headers {
        let (name, value) = transport::secret_header(name, value.reveal())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

impl Online {
    /// Prepares the request; [`Attempts`] then sends it.
    fn attempts(&self, request: &Request<'_>, is_streamed: bool) -> Attempts {
        let url = self.adapter.url(&self.base, is_streamed);
        let body = self.adapter.body(request, is_streamed);
        let attempts = Attempts::new(self.transport.clone(), url, body, failure::classify_response);
        if is_streamed { attempts } else { attempts.unstreamed() }
    }

    /// Returns the error for tools in the format of another wire, because the provider's own error would not help.
    fn tool_format_error(&self, request: &Request<'_>) -> Option<ModelErrorKind> {
        let tools = request.tools.filter(|tools| !tools.is_empty() && tools.wire() != self.settings.wire)?;
        let why = format!("the tools are written for {}, but this model speaks {}", tools.wire(), self.settings.wire);
        Some(ModelErrorKind::Settings { why })
    }
}

impl Model for Online {
    fn name(&self) -> &str {
        &self.name
    }

    fn wire(&self) -> Wire {
        self.settings.wire
    }

    fn context_tokens(&self) -> Option<u64> {
        self.settings.context_tokens
    }

    fn cost_of(&self, usage: &super::Usage) -> Option<f64> {
        self.settings.price.map(|price| price.cost_of(usage))
    }

    fn complete(&self, request: Request<'_>) -> BoxFuture<'static, Result<Reply, ModelError>> {
        let format_error = self.tool_format_error(&request);
        let mut reader = AnswerReader::new(self, &request);
        let is_streamed = false;
        let mut attempts = self.attempts(&request, is_streamed);
        async move {
            let reply = async {
                format_error.map_or(Ok(()), Err)?;
                let response = attempts.send_with_retries().await?;
                reader.read_unstreamed(Body::new(response, &attempts)).await?;
                reader.finish()
            };
            reply
                .await
                .map_err(|failed_attempt: FailedAttempt| failed_attempt.into_error(&attempts.transport, attempts.count))
        }
        .boxed()
    }

    fn stream(&self, request: Request<'_>) -> BoxStream<'static, Result<Delta, ModelError>> {
        let is_streamed = true;
        let answer = StreamedAnswer {
            reader: AnswerReader::new(self, &request),
            attempts: self.attempts(&request, is_streamed),
            stage: (self.tool_format_error(&request))
                .map_or(Stage::Sending, |format_error| Stage::Failed(Some(format_error.into()))),
        };
        stream::unfold(Some(answer), |answer| async move {
            let mut answer = answer?;
            match answer.next().await {
                Ok(delta @ Delta::Done(_)) => Some((Ok(delta), None)),
                Ok(delta) => Some((Ok(delta), Some(answer))),
                Err(failed_attempt) => {
                    Some((Err(failed_attempt.into_error(&answer.attempts.transport, answer.attempts.count)), None))
                }
            }
        })
        .boxed()
    }
}

/// Reads an answer with the decoder of its wire.
struct AnswerReader {
    adapter: Arc<dyn Adapter>,
    /// How many messages the conversation has.
    message_count: usize,
    /// `None` once [`Self::finish`] has returned the answer.
    decoder: Option<Box<dyn Decode>>,
    /// The deltas that were read and not yet returned.
    deltas: Deltas,
    settings: Arc<ModelSettings>,
    transport: Arc<Transport>,
}

impl AnswerReader {
    fn new(model: &Online, request: &Request<'_>) -> Self {
        let message_count = request.messages.len();
        Self {
            adapter: Arc::clone(&model.adapter),
            message_count,
            decoder: Some(model.adapter.decoder(message_count)),
            deltas: VecDeque::new(),
            settings: model.settings.clone(),
            transport: model.transport.clone(),
        }
    }

    /// Discards the answer so far, before the next try.
    fn restart(&mut self) {
        self.decoder = Some(self.adapter.decoder(self.message_count));
        self.deltas.clear();
    }

    /// Returns whether a part of the answer was read and not yet returned. Usage is no part of the answer: Anthropic
    /// reports it before the first word.
    fn has_content(&self) -> bool {
        self.deltas.iter().any(|delta| !matches!(delta, Delta::Usage(_)))
    }

    fn decoder(&mut self) -> Result<&mut Box<dyn Decode>, FailedAttempt> {
        self.decoder.as_mut().ok_or_else(|| ModelErrorKind::Cut { why: "its end was read already".into() }.into())
    }

    /// Reads an answer that does not come as a stream.
    async fn read_unstreamed(&mut self, body: Body) -> Result<(), FailedAttempt> {
        let bytes = body.read_all().await?;
        let answer = serde_json::from_slice(&bytes).map_err(|error| {
            let text = String::from_utf8_lossy(&bytes);
            let why = match text.trim() {
                "" => "it is empty".to_owned(),
                text if failure::is_html(text) => "it is an HTML page".to_owned(),
                _ => format!("it is not JSON ({error})"),
            };
            self.failed_attempt(DecodeError::unreadable(why))
        })?;
        let mut deltas = mem::take(&mut self.deltas);
        let result = reject_error(answer).and_then(|answer| match self.decoder.as_mut() {
            Some(decoder) => decoder.read_whole(answer, &mut deltas),
            None => Err(DecodeError::cut()),
        });
        self.deltas = deltas;
        result.map_err(|error| self.failed_attempt(error))
    }

    /// Reads one event.
    fn read_event(&mut self, data: &str) -> Result<Progress, FailedAttempt> {
        let mut deltas = mem::take(&mut self.deltas);
        let result = self.decoder()?.read_event(data, &mut deltas);
        self.deltas = deltas;
        result.map_err(|error| self.failed_attempt(error))
    }

    /// Returns the whole answer, at the end of the response.
    fn finish(&mut self) -> Result<Reply, FailedAttempt> {
        let decoder = self.decoder.take();
        let draft = decoder
            .map_or_else(|| Err(DecodeError::cut()), Decode::into_draft)
            .map_err(|error| self.failed_attempt(error))?;
        let mut reply = draft.finish(self.settings.wire, &self.settings.model);
        reply.cost = reply.cost.or_else(|| self.settings.price.map(|price| price.cost_of(&reply.usage)));
        Ok(reply)
    }

    /// Converts an error of the decoder.
    fn failed_attempt(&self, error: DecodeError) -> FailedAttempt {
        match error {
            DecodeError::Invalid(kind) => kind.into(),
            DecodeError::Reported(body) => {
                let response = ErrorResponse {
                    status: None,
                    headers: &HeaderMap::new(),
                    body: &[],
                    key: self.transport.key.as_ref(),
                    key_advice: &self.transport.key_advice,
                };
                failure::classify(&response, &body).into()
            }
        }
    }
}

/// A streamed answer, from its request to its end.
struct StreamedAnswer {
    reader: AnswerReader,
    attempts: Attempts,
    stage: Stage,
}

/// How far a streamed answer has come.
enum Stage {
    /// The next step is to send the request, for the first time or again.
    Sending,
    /// A response has arrived, and its body is being read.
    Reading {
        body: Box<Body>,
        event_parser: Box<SseParser>,
        /// Whether an event has arrived in the body.
        has_read_event: bool,
    },
    /// A failure, which is returned after the deltas that were read before it. `None` once it has been returned.
    Failed(Option<FailedAttempt>),
    /// The answer is complete; its last deltas and [`Delta::Done`] remain to be returned.
    Ended,
}

impl StreamedAnswer {
    /// Returns the next delta.
    async fn next(&mut self) -> Result<Delta, FailedAttempt> {
        loop {
            if let Some(delta) = self.reader.deltas.pop_front() {
                return Ok(delta);
            }
            match &mut self.stage {
                Stage::Sending => match self.attempts.send().await {
                    Ok(response) => self.begin_reading(Body::new(response, &self.attempts)).await?,
                    Err(failed_attempt) => return self.retry(failed_attempt),
                },
                Stage::Reading { .. } => self.read_chunk().await?,
                Stage::Failed(failed_attempt) => {
                    let failed_attempt = failed_attempt.take();
                    return self.retry(
                        failed_attempt.unwrap_or_else(|| ModelErrorKind::Cut { why: "it failed".into() }.into()),
                    );
                }
                Stage::Ended => return self.reader.finish().map(|reply| Delta::Done(Box::new(reply))),
            }
        }
    }

    /// Prepares the next try after a wait, if this failure allows one, and returns [`Delta::Retry`]. Otherwise returns
    /// the failure.
    fn retry(&mut self, failed_attempt: FailedAttempt) -> Result<Delta, FailedAttempt> {
        let Some(after) = self.attempts.pause_after(&failed_attempt) else { return Err(failed_attempt) };
        self.reader.restart();
        self.stage = Stage::Sending;
        // Report the retry before the wait: the caller polls again at once, and `send` then waits.
        self.attempts.pause_before_next = Some(after);
        Ok(Delta::Retry { after, why: failed_attempt.kind.to_string() })
    }

    /// Chooses how to read the body, by its media type.
    async fn begin_reading(&mut self, body: Body) -> Result<(), FailedAttempt> {
        match body.media_type().as_str() {
            // Some servers do not stream although the request asks for it.
            "application/json" => {
                self.reader.read_unstreamed(body).await?;
                self.stage = Stage::Ended;
            }
            kind if kind.contains("html") => {
                return Err(ModelErrorKind::Unreadable { why: "it is an HTML page".into() }.into());
            }
            // Read any other body as a stream: some servers label a stream with a wrong media type, or with none.
            _ => {
                let event_parser = Box::new(SseParser::new(self.attempts.transport.bounds.response_bytes));
                self.stage = Stage::Reading { body: Box::new(body), event_parser, has_read_event: false };
            }
        }
        Ok(())
    }

    /// Reads the next chunk of the body, and the events that it completes.
    async fn read_chunk(&mut self) -> Result<(), FailedAttempt> {
        let Stage::Reading { body, event_parser, has_read_event } = &mut self.stage else { return Ok(()) };
        let Some(chunk) = body.chunk().await? else {
            if !*has_read_event {
                return Err(ModelErrorKind::Unreadable { why: "there is no event in it".into() }.into());
            }
            self.stage = Stage::Ended;
            return Ok(());
        };
        let mut new_events = VecDeque::new();
        event_parser.push(&chunk, &mut new_events);
        *has_read_event |= !new_events.is_empty();
        for event in new_events {
            let result = match event {
                Ok(event) if event.data.is_empty() => continue,
                Ok(event) => self.reader.read_event(&event.data),
                Err(error) => Err(ModelErrorKind::Unreadable { why: error.to_string() }.into()),
            };
            match result {
                Ok(Progress::More) => {
                    body.has_begun |= self.reader.has_content();
                    continue;
                }
                Ok(Progress::End) => {
                    body.drain().await;
                    self.stage = Stage::Ended;
                }
                Err(failed_attempt) => {
                    let has_begun = body.has_begun || self.reader.has_content();
                    let failed_attempt = if has_begun { failed_attempt } else { failed_attempt.before_the_answer() };
                    self.stage = Stage::Failed(Some(failed_attempt));
                }
            }
            break;
        }
        Ok(())
    }
}
