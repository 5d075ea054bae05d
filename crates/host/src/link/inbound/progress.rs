//! Passes progress, which a server reports while it works on a call, to the code that waits for the call.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::value::RawValue;

use crate::link::{decode, inbound::Inbound};

impl Inbound {
    /// Handles `notifications/progress`. `stream_request` is the request of this host on whose stream the notification
    /// arrived, if the transport knows that request.
    pub(super) fn handle_progress(&self, params: Option<&RawValue>, stream_request: Option<i64>) {
        let Some((token, progress)) = params.and_then(decode::progress) else {
            return;
        };
        let (request, stream_owner) = {
            let requests = &self.state.lock().requests;
            let stream_owner = stream_request.and_then(|id| requests.get(&id).cloned());
            (requests.get(&token).cloned(), stream_owner)
        };
        let Some(request) = request else { return };
        // Progress of one call that arrives on the stream of another call is ignored. A call that runs as a task has
        // several requests with one clock: its progress may arrive on the stream of the request for its result.
        let belongs_to_this_call = stream_request.is_none_or(|id| id == token)
            || stream_owner.is_some_and(|other| Arc::ptr_eq(&other.clock, &request.clock));
        if !belongs_to_this_call {
            return;
        }
        request.clock.touch();
        if let Some(on_progress) = &request.on_progress {
            // The embedder's code runs on the reading task, and a panic in it must not end the connection.
            let outcome = catch_unwind(AssertUnwindSafe(|| on_progress(progress)));
            if outcome.is_err() {
                tracing::warn!("a listener for progress panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use serde_json::{json, value::to_raw_value};

    use super::*;
    use crate::{
        ask::NoAsker,
        link::inbound::{InboundParts, OnProgress, OpenRequest, clock::Clock},
        spec::ServerName,
        witness::Caller,
    };

    fn inbound() -> Arc<Inbound> {
        Inbound::new(ServerName::new("server").unwrap(), InboundParts::unwatched())
    }

    #[tokio::test]
    async fn progress_counts_on_the_streams_of_its_own_call_and_on_no_other() {
        let (inbound, reports) = (inbound(), Arc::new(AtomicUsize::new(0)));
        let counter = reports.clone();
        let count: OnProgress = Arc::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let clock = || Arc::new(Clock::start("the call", Duration::from_secs(1), Duration::from_secs(1)));
        let open = |clock: &Arc<Clock>| {
            OpenRequest::new(clock.clone(), Arc::new(NoAsker), Caller::default(), Some(count.clone()))
        };
        let (task, other_call) = (clock(), clock());
        let _registered = [
            inbound.register(1, open(&task)),
            // The request for the result of the task.
            inbound.register(2, open(&task)),
            inbound.register(3, open(&other_call)),
        ];
        let params = to_raw_value(&json!({ "progressToken": 1, "progress": 0.5 })).unwrap();
        for (stream_request, expected) in [(None, 1), (Some(1), 1), (Some(2), 1), (Some(3), 0), (Some(4), 0)] {
            reports.store(0, Ordering::SeqCst);
            inbound.handle_progress(Some(&*params), stream_request);
            assert_eq!(reports.load(Ordering::SeqCst), expected, "{stream_request:?}");
        }
    }
}
