//! Receives a server's reports of changes. In the legacy era (MCP 2025-11-25 and older), they arrive on a standing
//! stream over HTTP, and as plain notifications on a duplex connection. In the modern era (2026-07-28),
//! `subscriptions/listen` requests them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    link::{
        Link,
        channel::{LinkTransport, NewRequest},
        error::LinkError,
    },
    mcp::codes::METHOD_NOT_FOUND,
    spec::Era,
};

/// The wait before a subscription is made again, if the last subscription was stable.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait before a subscription is made again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A subscription that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(60);

impl Link {
    /// Begins to listen, until the connection ends. The returned future ends when the standing stream of legacy HTTP is
    /// open or has failed, or when the server has acknowledged or refused the subscription. It ends immediately if the
    /// connection has neither.
    pub(crate) fn listen(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stream_opened: Option<oneshot::Receiver<()>> = None;
        let mut subscribing_inbound = None;
        if self.channel().inbound.topics().is_some() {
            self.stay_subscribed_to_resources();
        }
        match (&self.channel().transport, self.session().era) {
            (LinkTransport::Http(http), Era::Legacy) if http.has_session() => stream_opened = Some(http.listen()),
            (_, Era::Modern) if self.announced_lists().next().is_some() => {
                let link = self.clone();
                self.spawn(async move { link.stay_subscribed_to_lists().await });
                subscribing_inbound = Some(self.channel().inbound.clone());
            }
            _ => {}
        }
        async move {
            if let Some(stream_opened) = stream_opened {
                // An error means that the connection has ended, which ends the wait as well.
                let _ = stream_opened.await;
            }
            if let Some(inbound) = subscribing_inbound {
                inbound.tools_changed.subscribed().await;
            }
        }
    }

    /// Returns the lists whose changes the server announces, by their names in a subscription.
    fn announced_lists(&self) -> impl Iterator<Item = &'static str> {
        let lists =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        lists.into_iter().filter(|(list, _)| self.session().capabilities.list_changed(list)).map(|(_, name)| name)
    }

    /// Subscribes to the changes that the server announces, and again when the subscription ends.
    async fn stay_subscribed_to_lists(&self) {
        let meta = self.meta_for(&self.0.asker);
        let members: Map<String, Value> =
            self.announced_lists().map(|name| (name.to_owned(), Value::from(true))).collect();
        let filter = json!({ "notifications": members });
        let mut wait = FIRST_WAIT;
        loop {
            let start = Instant::now();
            let request = NewRequest::new("subscriptions/listen", &filter).with_meta(&meta);
            let answer = self.channel().listen(request).await;
            self.channel().inbound.tools_changed.note_no_subscription();
            match answer {
                Err(LinkError::Rpc(error)) if error.code == METHOD_NOT_FOUND => return,
                _ if self.is_closed() => return,
                _ => {}
            }
            wait = next_wait(wait, start.elapsed());
            sleep(wait).await;
        }
    }
}

/// Returns the wait before the next subscription: [`FIRST_WAIT`] after a stable subscription, else twice the last wait.
/// The last subscription lasted for `last_duration`.
pub(super) fn next_wait(last_wait: Duration, last_duration: Duration) -> Duration {
    if last_duration >= STABLE_AFTER { FIRST_WAIT } else { (last_wait * 2).min(LONGEST_WAIT) }
}
