//! Receives changes: on the standing stream of legacy HTTP, by `subscriptions/listen` in the modern era, and as plain
//! notifications on a duplex connection.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    link::{
        Link,
        channel::{NewRequest, Wire},
        error::{LinkError, METHOD_NOT_FOUND},
    },
    spec::Era,
};

/// The wait before a subscription is made again, if the last one was stable.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait before a subscription is made again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A subscription that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(60);

impl Link {
    /// Begins to listen, until the connection ends. The future ends when the standing stream of legacy HTTP is open or
    /// has failed, or when the subscription is acknowledged; immediately if there is neither.
    pub(crate) fn listen(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut opened: Option<oneshot::Receiver<()>> = None;
        let mut subscribed = None;
        if self.channel().inbound.topics().is_some() {
            self.stay_subscribed();
        }
        match (&self.channel().wire, self.session().era) {
            (Wire::Http(http), Era::Legacy) if http.has_session() => opened = Some(http.listen()),
            (_, Era::Modern) if self.announced().next().is_some() => {
                let link = self.clone();
                self.spawn(async move { link.subscribe().await });
                subscribed = Some(self.channel().inbound.clone());
            }
            _ => {}
        }
        async move {
            if let Some(opened) = opened {
                let _ = opened.await;
            }
            if let Some(inbound) = subscribed {
                inbound.changed.subscribed().await;
            }
        }
    }

    /// Returns the names of the lists whose changes the server announces, as in a subscription.
    fn announced(&self) -> impl Iterator<Item = &'static str> {
        let lists =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        lists.into_iter().filter(|(list, _)| self.session().capabilities.list_changed(list)).map(|(_, name)| name)
    }

    /// Subscribes to the changes that the server announces, and again when the subscription ends.
    async fn subscribe(&self) {
        let meta = self.meta_for(&self.0.asker);
        let wanted: Map<String, Value> = self.announced().map(|name| (name.to_owned(), Value::from(true))).collect();
        let filter = json!({ "notifications": wanted });
        let mut wait = FIRST_WAIT;
        loop {
            let began = Instant::now();
            let request = NewRequest::new("subscriptions/listen", &filter).meta(&meta);
            match self.channel().listen(request).await {
                Err(LinkError::Rpc(error)) if error.code == METHOD_NOT_FOUND => return,
                _ if self.is_closed() => return,
                _ => {}
            }
            wait = next_wait(wait, began.elapsed());
            sleep(wait).await;
        }
    }
}

/// Returns the next wait, after the last wait and a subscription that lasted for `lasted`.
pub(super) fn next_wait(last_wait: Duration, lasted: Duration) -> Duration {
    if lasted >= STABLE_AFTER { FIRST_WAIT } else { (last_wait * 2).min(LONGEST_WAIT) }
}
