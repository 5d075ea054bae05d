//! Subscribes to changes of single resources. In the legacy era (MCP 2025-11-25 and older), the host sends one request
//! for each resource. In the modern era (2026-07-28), one standing request covers all resources, and a new request
//! replaces it when other resources are desired.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    link::{
        Link,
        channel::NewRequest,
        error::{LinkError, RpcError},
        inbound::topics::{SubscriptionState, Topics},
        message::RawAnswer,
        protocol::listen::{FIRST_WAIT, next_wait},
    },
    mcp::codes::METHOD_NOT_FOUND,
    spec::{Era, Setting},
};

/// The resources that have listeners, with the numbers of their topics; see [`Topics::desired`].
type Subscriptions = BTreeSet<(String, u64)>;

impl Link {
    /// Waits until the server has agreed to a subscription.
    pub(crate) async fn subscribed(self, mut state: watch::Receiver<SubscriptionState>) -> Result<(), LinkError> {
        if !self.session().capabilities.resources_subscribe() {
            return Err(refusal_error("the server does not report changes of its resources"));
        }
        self.stay_subscribed_to_resources();
        let time_limit = self.timeouts().call;
        let decision = state.wait_for(|state| !matches!(state, SubscriptionState::Pending));
        tokio::select! {
            reason = self.closed() => Err(reason),
            decision = timeout(time_limit, decision) => match decision {
                Ok(Ok(state)) => match &*state {
                    SubscriptionState::Refused(error) => Err(error.clone()),
                    _ => Ok(()),
                },
                Ok(Err(_)) => Err(LinkError::Stopped),
                Err(_) => Err(self.timeout_error()),
            },
        }
    }

    /// Keeps the subscriptions at the server equal to those of the callers, until the connection ends.
    pub(super) fn stay_subscribed_to_resources(&self) {
        let inbound = &self.channel().inbound;
        let Some(topics) = inbound.topics() else { return };
        if inbound.maintains_subscriptions.swap(true, Ordering::AcqRel)
            || !self.session().capabilities.resources_subscribe()
        {
            return;
        }
        topics.reset();
        let link = self.clone();
        match self.session().era {
            Era::Legacy => self.spawn(async move { link.subscribe_each(&topics).await }),
            Era::Modern => self.spawn(async move { link.subscribe_all(&topics).await }),
        }
    }

    /// Subscribes to each desired resource, and unsubscribes from each that is no longer desired (legacy era).
    async fn subscribe_each(&self, topics: &Arc<Topics>) {
        let (mut requested_subscriptions, mut refused_subscriptions) = (Subscriptions::new(), Subscriptions::new());
        loop {
            let desired = topics.desired();
            // A subscription that the server refused needs no end.
            for (uri, _) in requested_subscriptions
                .difference(&desired)
                .filter(|undesired| !refused_subscriptions.remove(undesired))
            {
                // If this fails, the server reports changes without listeners.
                let _ = self.request_for("resources/unsubscribe", uri).await;
            }
            for new_subscription @ (uri, _) in desired.difference(&requested_subscriptions) {
                let answer = self.request_for("resources/subscribe", uri).await;
                if answer.is_err() && self.is_closed() {
                    return;
                }
                if answer.is_err() {
                    refused_subscriptions.insert(new_subscription.clone());
                }
                topics.record_answer(uri, answer.map(drop));
            }
            requested_subscriptions = desired;
            topics.wait_for_change().await;
        }
    }

    /// Sends a request about one resource, within the time-out of a call.
    async fn request_for(&self, method: &'static str, uri: &str) -> RawAnswer {
        let (params, after) = (json!({ "uri": uri }), self.timeouts().call);
        timeout(after, self.channel().request(NewRequest::new(method, &params)))
            .await
            .map_err(|_| self.timeout_error())?
    }

    /// Keeps one request open that covers all desired resources (modern era).
    async fn subscribe_all(&self, topics: &Arc<Topics>) {
        let meta = self.meta_for(&self.0.asker);
        let mut wait = FIRST_WAIT;
        let mut standing_request: Option<StandingRequest<'_>> = None;
        loop {
            let desired = topics.desired();
            if desired.is_empty() {
                standing_request = None;
                topics.wait_for_change().await;
                continue;
            }
            let start = Instant::now();
            // The error for the resources that the server has not agreed to; `None` if it has not answered.
            let not_agreed_error = match self.replace_standing_request(&meta, &desired, &mut standing_request).await {
                Ok(()) => Some(refusal_error("the server does not report changes of this resource")),
                Err(error @ LinkError::Rpc(_)) => Some(error),
                Err(_) => None,
            };
            let mut last_duration = Duration::ZERO;
            if let Some(not_agreed_error) = not_agreed_error {
                for (uri, _) in &desired {
                    // The earlier subscription stays valid when the server refuses the new one.
                    let is_agreed = standing_request
                        .as_ref()
                        .is_some_and(|standing_request| standing_request.resources.contains(uri));
                    topics.record_answer(uri, if is_agreed { Ok(()) } else { Err(not_agreed_error.clone()) });
                }
                tokio::select! {
                    () = wait_until_changed(&desired, topics) => continue,
                    _ = standing_request_ended(&mut standing_request) => last_duration = start.elapsed(),
                }
            }
            if self.is_closed() {
                return;
            }
            if standing_request.is_none() {
                topics.reset();
            }
            wait = next_wait(wait, last_duration);
            tokio::select! {
                () = sleep(wait) => {}
                // A change of the desired resources cuts a longer wait short.
                () = async { tokio::join!(sleep(FIRST_WAIT), wait_until_changed(&desired, topics)); } => {}
                _ = standing_request_ended(&mut standing_request) => topics.reset(),
            }
        }
    }

    /// Requests all desired resources while the earlier request is still open. When the server agrees, the new request
    /// replaces the earlier one. The time-out of a call applies.
    async fn replace_standing_request<'a>(
        &'a self,
        meta: &'a str,
        desired: &Subscriptions,
        standing_request: &mut Option<StandingRequest<'a>>,
    ) -> Result<(), LinkError> {
        let uris: Vec<_> = desired.iter().map(|(uri, _)| uri).collect();
        let filter: Value = json!({ "notifications": { "resourceSubscriptions": uris } });
        let (mut acknowledgement, request) =
            self.channel().subscribe(NewRequest::new("subscriptions/listen", filter).with_meta(meta));
        let mut request = request.boxed();
        let deadline = sleep(self.timeouts().call);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                resources = &mut acknowledgement => {
                    // The sender is dropped without resources only together with the connection.
                    let resources = resources.unwrap_or_default().into_iter().collect();
                    *standing_request = Some(StandingRequest { request, resources });
                    return Ok(());
                }
                answer = &mut request => return match answer {
                    Ok(_) => Err(LinkError::protocol("a subscription ended before it began")),
                    Err(error) => Err(error),
                },
                () = &mut deadline => return Err(self.timeout_error()),
                _ = standing_request_ended(standing_request) => {}
            }
        }
    }

    fn timeout_error(&self) -> LinkError {
        LinkError::TimedOut { what: "the subscription", after: self.timeouts().call, setting: Setting::CallTimeout }
    }
}

/// A standing request, and the resources that the server has agreed to report on.
struct StandingRequest<'a> {
    request: BoxFuture<'a, RawAnswer>,
    resources: BTreeSet<String>,
}

/// Waits until the desired resources differ from `desired`.
async fn wait_until_changed(desired: &Subscriptions, topics: &Topics) {
    while topics.desired() == *desired {
        topics.wait_for_change().await;
    }
}

/// Waits until the standing request has ended; forever if there is none.
async fn standing_request_ended(standing_request: &mut Option<StandingRequest<'_>>) -> RawAnswer {
    let Some(open_request) = standing_request else { return pending().await };
    let answer = (&mut open_request.request).await;
    *standing_request = None;
    answer
}

fn refusal_error(why: &str) -> LinkError {
    LinkError::Rpc(RpcError { code: METHOD_NOT_FOUND, message: why.to_owned(), data: None })
}
