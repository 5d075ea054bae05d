//! Subscribes to changes of single resources. In the legacy era (MCP 2025-11-25 and older), the host sends one request
//! for each resource. In the modern era (2026-07-28), one standing request covers all resources, and a new request
//! replaces it when other resources are wanted.

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

/// The wanted resources, with the numbers of their topics; see [`Topics::wanted`].
type Subscriptions = BTreeSet<(String, u64)>;

impl Link {
    /// Waits until the server has agreed to a subscription.
    pub(crate) async fn subscribed(self, mut state: watch::Receiver<SubscriptionState>) -> Result<(), LinkError> {
        if !self.session().capabilities.resources_subscribe() {
            return Err(refusal("the server does not report changes of its resources"));
        }
        self.stay_subscribed();
        let after = self.timeouts().call;
        let decided = state.wait_for(|state| !matches!(state, SubscriptionState::Pending));
        tokio::select! {
            why = self.closed() => Err(why),
            decided = timeout(after, decided) => match decided {
                Ok(Ok(state)) => match &*state {
                    SubscriptionState::Refused(error) => Err(error.clone()),
                    _ => Ok(()),
                },
                Ok(Err(_)) => Err(LinkError::Stopped),
                Err(_) => Err(self.timed_out()),
            },
        }
    }

    /// Keeps the subscriptions at the server equal to those of the callers, until the connection ends.
    pub(super) fn stay_subscribed(&self) {
        let inbound = &self.channel().inbound;
        let Some(topics) = inbound.topics() else { return };
        if inbound.subscribing.swap(true, Ordering::AcqRel) || !self.session().capabilities.resources_subscribe() {
            return;
        }
        topics.reset();
        let link = self.clone();
        match self.session().era {
            Era::Legacy => self.spawn(async move { link.subscribe_each(&topics).await }),
            Era::Modern => self.spawn(async move { link.subscribe_all(&topics).await }),
        }
    }

    /// Subscribes to each wanted resource, and unsubscribes from each that is no longer wanted (legacy era).
    async fn subscribe_each(&self, topics: &Arc<Topics>) {
        let (mut asked, mut refused) = (Subscriptions::new(), Subscriptions::new());
        loop {
            let wanted = topics.wanted();
            // A subscription that the server refused needs no end.
            for (uri, _) in asked.difference(&wanted).filter(|unwanted| !refused.remove(unwanted)) {
                // If this fails, the server reports changes without listeners.
                let _ = self.request_for("resources/unsubscribe", uri).await;
            }
            for new @ (uri, _) in wanted.difference(&asked) {
                let answer = self.request_for("resources/subscribe", uri).await;
                if answer.is_err() && self.is_closed() {
                    return;
                }
                if answer.is_err() {
                    refused.insert(new.clone());
                }
                topics.record_answer(uri, answer.map(drop));
            }
            asked = wanted;
            topics.changed().await;
        }
    }

    async fn request_for(&self, method: &'static str, uri: &str) -> RawAnswer {
        let (params, after) = (json!({ "uri": uri }), self.timeouts().call);
        timeout(after, self.channel().request(NewRequest::new(method, &params), None))
            .await
            .map_err(|_| self.timed_out())?
    }

    /// Keeps one standing request for all wanted resources (modern era).
    async fn subscribe_all(&self, topics: &Arc<Topics>) {
        let meta = self.meta_for(&self.0.asker);
        let mut wait = FIRST_WAIT;
        let mut standing: Option<StandingRequest<'_>> = None;
        loop {
            let wanted = topics.wanted();
            if wanted.is_empty() {
                standing = None;
                topics.changed().await;
                continue;
            }
            let began = Instant::now();
            // The error for the resources that the server has not agreed to; `None` if it has not answered.
            let not_agreed = match self.agree(&meta, &wanted, &mut standing).await {
                Ok(()) => Some(refusal("the server does not report changes of this resource")),
                Err(error @ LinkError::Rpc(_)) => Some(error),
                Err(_) => None,
            };
            let mut lasted = Duration::ZERO;
            if let Some(not_agreed) = not_agreed {
                for (uri, _) in &wanted {
                    // The earlier subscription stays valid when the server refuses the new one.
                    let is_agreed = standing.as_ref().is_some_and(|agreed| agreed.resources.contains(uri));
                    topics.record_answer(uri, if is_agreed { Ok(()) } else { Err(not_agreed.clone()) });
                }
                tokio::select! {
                    () = changed_from(&wanted, topics) => continue,
                    _ = ended(&mut standing) => lasted = began.elapsed(),
                }
            }
            if self.is_closed() {
                return;
            }
            if standing.is_none() {
                topics.reset();
            }
            wait = next_wait(wait, lasted);
            tokio::select! {
                () = sleep(wait) => {}
                // A change of the wanted resources cuts a longer wait short.
                () = async { tokio::join!(sleep(FIRST_WAIT), changed_from(&wanted, topics)); } => {}
                _ = ended(&mut standing) => topics.reset(),
            }
        }
    }

    /// Requests all wanted resources while the earlier request is still open. When the server agrees, the new request
    /// replaces the earlier one. The time-out of a call applies.
    async fn agree<'a>(
        &'a self,
        meta: &'a str,
        wanted: &Subscriptions,
        standing: &mut Option<StandingRequest<'a>>,
    ) -> Result<(), LinkError> {
        let uris: Vec<_> = wanted.iter().map(|(uri, _)| uri).collect();
        let filter: Value = json!({ "notifications": { "resourceSubscriptions": uris } });
        let (mut acknowledged, request) =
            self.channel().subscribe(NewRequest::new("subscriptions/listen", filter).meta(meta));
        let mut request = request.boxed();
        let deadline = sleep(self.timeouts().call);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                resources = &mut acknowledged => {
                    let resources = resources.unwrap_or_default().into_iter().collect();
                    *standing = Some(StandingRequest { request, resources });
                    return Ok(());
                }
                answer = &mut request => return match answer {
                    Ok(_) => Err(LinkError::protocol("a subscription ended before it began")),
                    Err(error) => Err(error),
                },
                () = &mut deadline => return Err(self.timed_out()),
                _ = ended(standing) => {}
            }
        }
    }

    fn timed_out(&self) -> LinkError {
        LinkError::TimedOut { what: "the subscription", after: self.timeouts().call, setting: Setting::CallTimeout }
    }
}

/// A standing request, and the resources that the server has agreed to report on.
struct StandingRequest<'a> {
    request: BoxFuture<'a, RawAnswer>,
    resources: BTreeSet<String>,
}

/// Waits until the wanted resources change.
async fn changed_from(wanted: &Subscriptions, topics: &Topics) {
    while topics.wanted() == *wanted {
        topics.changed().await;
    }
}

/// Waits until the standing request has ended; forever if there is none.
async fn ended(standing: &mut Option<StandingRequest<'_>>) -> RawAnswer {
    let Some(agreed) = standing else { return pending().await };
    let answer = (&mut agreed.request).await;
    *standing = None;
    answer
}

fn refusal(why: &str) -> LinkError {
    LinkError::Rpc(RpcError { code: METHOD_NOT_FOUND, message: why.to_owned(), data: None })
}
