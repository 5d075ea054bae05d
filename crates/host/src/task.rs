//! Runs work in its own task, so that the work continues even while the caller's future is not polled.

use std::{future, panic};

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// Runs `work` in its own task from the first poll on, and returns its output. Dropping the future cancels `work`.
///
/// A future that waits in a collection (`FuturesUnordered`, `buffer_unordered`) or in a branch of a loop makes no
/// progress while its task awaits something else. Other tasks then wait for its resources (a permit, a database
/// connection), forever if its own task awaits the same resource. Use this function for work that holds such resources.
///
/// # Panics
/// If `work` panics, or outside of a tokio runtime.
#[expect(clippy::disallowed_methods, reason = "the returned future owns the task: dropping the future ends the task")]
pub async fn run_in_own_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match AbortOnDropHandle::new(tokio::spawn(work.in_current_span())).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic::resume_unwind(panic),
            // The runtime is being shut down, and this future with it.
            Err(_) => future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{FutureExt as _, stream::FuturesUnordered};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn an_owned_task_releases_its_locks_even_if_its_future_is_not_polled() {
        let permits = Arc::new(Semaphore::new(1));
        let held = permits.acquire().await.unwrap();
        let work = |permits: Arc<Semaphore>| async move { drop(permits.acquire().await) };
        let mut waiting: FuturesUnordered<_> = [Box::pin(run_in_own_task(work(permits.clone())))].into_iter().collect();
        assert!(futures::StreamExt::next(&mut waiting).now_or_never().is_none());
        tokio::task::yield_now().await;
        drop(held);
        // The permit first goes to the work in the collection, which gives it back although nothing polls the future.
        drop(permits.acquire().await.unwrap());
        drop(waiting);
    }

    #[tokio::test]
    async fn work_ends_with_its_future() {
        let alive = Arc::new(());
        let seen = Arc::clone(&alive);
        let mut work = Box::pin(run_in_own_task(async move {
            future::pending::<()>().await;
            drop(seen);
        }));
        assert!(work.as_mut().now_or_never().is_none());
        drop(work);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
