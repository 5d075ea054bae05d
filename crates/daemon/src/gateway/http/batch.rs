//! Answers a batch (an array of messages). The gateway runs its requests at the same time, and sends each answer as an
//! event of one stream as soon as the request has ended.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::Either, stream};
use toolrack_host::{ClientTransport, Era, Principal};

use super::{
    super::{
        Gateway,
        exchange::StartedRequest,
        incoming::{Batch, BatchedRequest},
        message::{self, Incoming},
        methods::{ClientCaller, ClientRequest},
        refusal::Refusal,
        session::Session,
    },
    empty_response, events,
};

/// Handles the messages of a batch, and answers with a stream of events; without a body, if no message needs an answer.
///
/// # Errors
/// When `body` is no batch that the gateway accepts.
pub(super) fn response(
    gateway: &Gateway,
    principal: &Principal,
    session: &Arc<Session>,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let Batch { requests, errors } = Batch::receive(session, body)?;
    if requests.is_empty() && errors.is_empty() {
        return Ok(empty_response(StatusCode::ACCEPTED));
    }
    let caller = ClientCaller {
        principal: principal.clone(),
        era: Era::Legacy,
        client: session.client_info.get().cloned().unwrap_or_default(),
        view: session.view.clone(),
        session: Some(session.clone()),
        transport: ClientTransport::Http,
    };
    let errors = stream::iter(errors).map({
        let gateway = gateway.clone();
        move |error| events::event(&gateway.0.concealed(error))
    });
    let answers = requests.into_iter().map(|request| answer_events(gateway.clone(), caller.clone(), request).boxed());
    Ok(events::stream_response(stream::select(errors, stream::select_all(answers))))
}

/// Runs a request, and returns its events up to its answer. There is no answer if the client cancels the request.
fn answer_events(
    gateway: Gateway,
    caller: ClientCaller,
    request: BatchedRequest,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let answer_stream = async move {
        let BatchedRequest { id, message, running_request } = request;
        let begin_future = async {
            let Ok(Incoming::Request { method, params, .. }) = message::read(&message) else {
                return Err(Refusal::invalid_request("not a request"));
            };
            gateway.begin_exchange(&caller, &id, ClientRequest { method: &method, params }).await
        };
        let answer = match running_request.token.clone().run_until_cancelled(begin_future).await {
            Some(Ok(StartedRequest::Exchange(exchange))) => {
                return Either::Left(events::answer_events(*exchange, Some(running_request), None));
            }
            Some(Ok(StartedRequest::Answered(result))) => Some(message::response(&id, &result)),
            Some(Err(refusal)) => Some(message::error(Some(&id), &refusal)),
            None => None,
        };
        let event = answer.map(|answer| events::event(&gateway.0.concealed(answer)));
        Either::Right(stream::iter(event))
    };
    stream::once(answer_stream).flatten()
}
