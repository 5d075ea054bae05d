//! Lets the user end the calls that are under way, or the whole turn (all that the model does until it has answered).

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use arc_swap::ArcSwapOption;
use futures::future::{self, BoxFuture};
use tokio::sync::oneshot;

/// Ends a turn, or the calls that are under way in it.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    /// Cancels the calls that are under way.
    cancel_sender: ArcSwapOption<oneshot::Sender<()>>,
    /// Whether a step of the turn is being stored.
    is_storing: AtomicBool,
    /// Whether the turn has to end: no further step may begin.
    is_pulled: AtomicBool,
}

impl Brake {
    /// Returns a future that resolves when the user ends the calls that begin now.
    pub(super) fn calls_cancelled(&self) -> BoxFuture<'static, ()> {
        let (cancel, cancelled) = oneshot::channel();
        self.cancel_sender.store(Some(Arc::new(cancel)));
        Box::pin(async {
            // If the sender is dropped, because later calls replace it, nothing ends these calls early.
            if cancelled.await.is_err() {
                future::pending::<()>().await;
            }
        })
    }

    /// Ends the calls that are under way; `false` when there are none.
    pub(crate) fn cancel_calls(&self) -> bool {
        // `into_inner` always succeeds: the swap has taken the only reference.
        let cancel = self.cancel_sender.swap(None).and_then(Arc::into_inner);
        cancel.is_some_and(|cancel| cancel.send(()).is_ok())
    }

    /// Runs `store`, which stores a step of the turn. If the turn has to end, this never returns, so that no step
    /// follows.
    pub(super) async fn store_step<E>(&self, store: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        self.is_storing.store(true, Ordering::Relaxed);
        let result = store.await;
        self.is_storing.store(false, Ordering::Relaxed);
        if result.is_ok() && self.is_pulled.load(Ordering::Relaxed) {
            future::pending::<()>().await;
        }
        result
    }

    /// Ends the turn that `run` executes: waits until `run` can be dropped without a half-stored step. Returns the
    /// output of `run` if it ends before that.
    pub(crate) async fn stop<F: Future + Unpin>(&self, mut run: F) -> Option<F::Output> {
        self.is_pulled.store(true, Ordering::Relaxed);
        // Only a step that is being stored continues, until it is stored.
        let mut run = pin!(&mut run);
        future::poll_fn(|context| {
            if !self.is_storing.load(Ordering::Relaxed) {
                return Poll::Ready(None);
            }
            match run.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.is_storing.load(Ordering::Relaxed) => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await
    }
}
