//! Subscriptions to single resources: one request for each in the legacy era; in the modern one a standing request for
//! all of them, which a new one replaces when the wanted resources change.

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
        channel::Ask,
        error::{LinkError, METHOD_NOT_FOUND, RpcError},
        inbound::topics::{SubscriptionState, Topics},
        message::Answered,
        protocol::listen::{FIRST_WAIT, longer},
    },
    spec::{Era, Setting},
};

type Subscriptions = BTreeSet<(String, u64)>;

impl Link {
    /// Waits until the server has agreed to a subscription.
    pub(crate) async fn subscribed(self, mut state: watch::Receiver<SubscriptionState>) -> Result<(), LinkError> {
        if !self.session().capabilities.resources_subscribe() {
            return Err(refusal("the server does not tell of changes of its resources"));
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
                Err(_) => Err(self.late()),
            },
        }
    }

    /// Synchronizes the subscriptions at the server with those of the callers, until the connection ends.
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

    async fn subscribe_each(&self, topics: &Arc<Topics>) {
        let (mut asked, mut refused) = (Subscriptions::new(), Subscriptions::new());
        loop {
            let wanted = topics.wanted();
            for (uri, _) in asked.difference(&wanted).filter(|gone| !refused.remove(gone)) {
                // If this fails, the server reports changes without listeners.
                let _ = self.ask_of("resources/unsubscribe", uri).await;
            }
            for new @ (uri, _) in wanted.difference(&asked) {
                let answer = self.ask_of("resources/subscribe", uri).await;
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

    async fn ask_of(&self, method: &'static str, uri: &str) -> Answered {
        let (params, after) = (json!({ "uri": uri }), self.timeouts().call);
        timeout(after, self.channel().ask(Ask::new(method, &params), None)).await.map_err(|_| self.late())?
    }

    async fn subscribe_all(&self, topics: &Arc<Topics>) {
        let meta = self.meta_for(&self.0.asker);
        let mut wait = FIRST_WAIT;
        let mut standing: Option<Agreed<'_>> = None;
        loop {
            let wanted = topics.wanted();
            if wanted.is_empty() {
                standing = None;
                topics.changed().await;
                continue;
            }
            let born = Instant::now();
            let refused = match self.agree(&meta, &wanted, &mut standing).await {
                Ok(()) => Some(refusal("the server does not tell of changes of this resource")),
                Err(error @ LinkError::Rpc(_)) => Some(error),
                Err(_) => None,
            };
            let mut lived = Duration::ZERO;
            if let Some(refused) = refused {
                for (uri, _) in &wanted {
                    // The earlier subscription stays valid when the server refuses the new one.
                    let stands = standing.as_ref().is_some_and(|agreed| agreed.to.contains(uri));
                    topics.record_answer(uri, if stands { Ok(()) } else { Err(refused.clone()) });
                }
                tokio::select! {
                    () = changed_from(&wanted, topics) => continue,
                    _ = over(&mut standing) => lived = born.elapsed(),
                }
            }
            if self.is_closed() {
                return;
            }
            if standing.is_none() {
                topics.reset();
            }
            wait = longer(wait, lived);
            tokio::select! {
                () = sleep(wait) => {}
                () = async { tokio::join!(sleep(FIRST_WAIT), changed_from(&wanted, topics)); } => {}
                _ = over(&mut standing) => topics.reset(),
            }
        }
    }

    /// Requests all wanted resources while the earlier request is still open. When the server agrees, the new request
    /// replaces it; the time-out is that of a call.
    async fn agree<'a>(
        &'a self,
        meta: &'a str,
        wanted: &Subscriptions,
        standing: &mut Option<Agreed<'a>>,
    ) -> Result<(), LinkError> {
        let uris: Vec<_> = wanted.iter().map(|(uri, _)| uri).collect();
        let filter: Value = json!({ "notifications": { "resourceSubscriptions": uris } });
        let (mut acknowledged, request) = self.channel().subscribe(Ask::new("subscriptions/listen", filter).meta(meta));
        let mut request = request.boxed();
        let late = sleep(self.timeouts().call);
        tokio::pin!(late);
        loop {
            tokio::select! {
                to = &mut acknowledged => {
                    *standing = Some(Agreed { request, to: to.unwrap_or_default().into_iter().collect() });
                    return Ok(());
                }
                ended = &mut request => return match ended {
                    Ok(_) => Err(LinkError::protocol("a subscription ended before it began")),
                    Err(error) => Err(error),
                },
                () = &mut late => return Err(self.late()),
                _ = over(standing) => {}
            }
        }
    }

    fn late(&self) -> LinkError {
        LinkError::TimedOut { what: "the subscription", after: self.timeouts().call, setting: Setting::CallTimeout }
    }
}

/// A standing request, and the resources that the server has agreed to report on.
struct Agreed<'a> {
    request: BoxFuture<'a, Answered>,
    to: BTreeSet<String>,
}

/// Waits until the wanted resources change.
async fn changed_from(wanted: &Subscriptions, topics: &Topics) {
    while topics.wanted() == *wanted {
        topics.changed().await;
    }
}

/// Drives a standing request to its end, if there is one.
async fn over(standing: &mut Option<Agreed<'_>>) -> Answered {
    let Some(agreed) = standing else { return pending().await };
    let ended = (&mut agreed.request).await;
    *standing = None;
    ended
}

fn refusal(why: &str) -> LinkError {
    LinkError::Rpc(RpcError { code: METHOD_NOT_FOUND, message: why.to_owned(), data: None })
}
