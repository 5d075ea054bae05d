//! Lets the user end the calls that are under way, or the whole turn.

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
    /// Reaches the calls that are under way.
    calls: ArcSwapOption<oneshot::Sender<()>>,
    /// A step is being written.
    keeping: AtomicBool,
    /// Nothing more may begin.
    pulled: AtomicBool,
}

impl Brake {
    /// Resolves when the user ends the calls that begin now.
    pub(super) fn calls(&self) -> BoxFuture<'static, ()> {
        let (unwanted, notified) = oneshot::channel();
        self.calls.store(Some(Arc::new(unwanted)));
        Box::pin(async {
            if notified.await.is_err() {
                future::pending::<()>().await;
            }
        })
    }

    /// Ends the calls that are under way; `false` when there are none.
    pub(crate) fn cancel_calls(&self) -> bool {
        let unwanted = self.calls.swap(None).and_then(Arc::into_inner);
        unwanted.is_some_and(|unwanted| unwanted.send(()).is_ok())
    }

    /// Writes a step. If the turn has to end, this never returns, so that nothing follows the step.
    pub(super) async fn store_step<E>(&self, keep: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        self.keeping.store(true, Ordering::Relaxed);
        let kept = keep.await;
        self.keeping.store(false, Ordering::Relaxed);
        if kept.is_ok() && self.pulled.load(Ordering::Relaxed) {
            future::pending::<()>().await;
        }
        kept
    }

    /// Waits until `run` can be dropped without a half-written step; returns its output if it ends before that.
    pub(crate) async fn stop<F: Future + Unpin>(&self, mut run: F) -> Option<F::Output> {
        self.pulled.store(true, Ordering::Relaxed);
        let mut run = pin!(&mut run);
        future::poll_fn(|context| {
            if !self.keeping.load(Ordering::Relaxed) {
                return Poll::Ready(None);
            }
            match run.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if self.keeping.load(Ordering::Relaxed) => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await
    }
}
