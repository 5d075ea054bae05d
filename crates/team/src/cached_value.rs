//! Caches one value that another program sends. The cache fetches the value when a caller needs it, with one request
//! for all callers that wait.
//!
//! The request runs in a task of its own. So it goes on, and its result is stored, even if the caller that caused it
//! gives up.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use toolrack_host::run_in_own_task;

use crate::fetch::Unreachable;

/// How long a value is valid before it is fetched again. So a key that a provider withdraws
/// stays valid at most this long.
const FRESH_FOR: Duration = Duration::from_secs(60 * 60);
/// How long a value stays valid if it cannot be fetched again: users can still sign in while a provider is down.
const STALE_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two requests. Each token with an unknown key causes a request, so without this limit a
/// caller with invalid tokens could flood the provider.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_secs(30);

type FetchResult<T> = Result<Arc<T>, Unreachable>;
type PendingFetch<T> = Shared<BoxFuture<'static, FetchResult<T>>>;

/// A cache for one value of type `T`, which `fetch` gets from the other program.
pub(crate) struct CachedValue<T> {
    fetch: Box<dyn Fn() -> BoxFuture<'static, FetchResult<T>> + Send + Sync>,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    /// The value, and when it arrived.
    value: Option<(Arc<T>, Instant)>,
    /// When the last request began, and how it failed if it did.
    last_request: Option<(Instant, Option<Unreachable>)>,
    /// The request that is under way. This clone keeps its task alive while no caller waits.
    pending: Option<PendingFetch<T>>,
}

impl<T> State<T> {
    /// Stores the result of the request that was under way.
    fn end_request(&mut self, result: &FetchResult<T>) {
        self.pending = None;
        match result {
            Ok(value) => self.value = Some((Arc::clone(value), Instant::now())),
            Err(error) => self.last_request = self.last_request.take().map(|(began, _)| (began, Some(error.clone()))),
        }
    }
}

impl<T: Send + Sync + 'static> CachedValue<T> {
    pub(crate) fn new(fetch: impl Fn() -> BoxFuture<'static, FetchResult<T>> + Send + Sync + 'static) -> Self {
        let state = State { value: None, last_request: None, pending: None };
        Self { fetch: Box::new(fetch), state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the value. It is at most an hour old, or at most a day if the other program cannot be reached. A request
    /// begins at least 30 s after the one before.
    ///
    /// # Errors
    /// [`Unreachable`] when there is no value.
    pub(crate) async fn get(&self) -> FetchResult<T> {
        let value = self.value_within(FRESH_FOR);
        match value {
            Some(value) => Ok(value),
            None => self.fetch_or_wait().await,
        }
    }

    /// Returns a newer value than `value`, for a caller that searched `value` without success. `None` if the
    /// last request began less than 30 s ago.
    ///
    /// # Errors
    /// [`Unreachable`]
    pub(crate) async fn newer_than(&self, value: &Arc<T>) -> Result<Option<Arc<T>>, Unreachable> {
        let is_same = |other: &Arc<T>| Arc::ptr_eq(other, value);
        if let Some(other) = self.value_within(STALE_FOR).filter(|other| !is_same(other)) {
            return Ok(Some(other));
        }
        Ok(Some(self.fetch_or_wait().await?).filter(|other| !is_same(other)))
    }

    /// Returns the value, if it is younger than `max_age`.
    fn value_within(&self, max_age: Duration) -> Option<Arc<T>> {
        let state = self.state.lock();
        state.value.as_ref().filter(|(_, arrived)| arrived.elapsed() < max_age).map(|(value, _)| Arc::clone(value))
    }

    /// Waits for the request that is under way, or makes one. If the last request began less than 30 s ago, returns its
    /// result.
    async fn fetch_or_wait(&self) -> FetchResult<T> {
        let Some(fetch) = self.begin_fetch() else { return self.last_result() };
        fetch.await.or_else(|error| self.value_within(STALE_FOR).ok_or(error))
    }

    /// Returns the request that is under way, or begins one. `None` if the last request began less than 30 s ago.
    fn begin_fetch(&self) -> Option<PendingFetch<T>> {
        let mut state = self.state.lock();
        if let Some(pending) = &state.pending {
            return Some(pending.clone());
        }
        if state.last_request.as_ref().is_some_and(|(began, _)| began.elapsed() < MIN_REQUEST_INTERVAL) {
            return None;
        }
        // Weak, because the state owns the request: dropping the cache ends the request.
        let (request, weak_state) = ((self.fetch)(), Arc::downgrade(&self.state));
        let fetch_and_store = async move {
            let result = request.await;
            if let Some(state) = weak_state.upgrade() {
                state.lock().end_request(&result);
            }
            result
        };
        let fetch = run_in_own_task(fetch_and_store).boxed().shared();
        state.last_request = Some((Instant::now(), None));
        state.pending = Some(fetch.clone());
        Some(fetch)
    }

    /// Returns the value, or if there is none, the error of the last request.
    fn last_result(&self) -> FetchResult<T> {
        if let Some(value) = self.value_within(STALE_FOR) {
            return Ok(value);
        }
        let state = self.state.lock();
        let error = state.last_request.as_ref().and_then(|(_, error)| error.clone());
        Err(error.unwrap_or_else(Unreachable::for_unknown_reason))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::advance;

    use super::*;

    /// Counts its requests; each takes a second, and fails while `fails` is not zero.
    fn counted(fails: &Arc<AtomicUsize>) -> (Arc<AtomicUsize>, CachedValue<usize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let (fails, counts) = (Arc::clone(fails), Arc::clone(&requests));
        let fetch = move || {
            let number = counts.fetch_add(1, Ordering::SeqCst);
            let fails = fails.load(Ordering::SeqCst) > 0;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if fails { Err(Unreachable::for_unknown_reason()) } else { Ok(Arc::new(number)) }
            }
            .boxed()
        };
        (requests, CachedValue::new(fetch))
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_callers_share_one_request_and_a_known_value_needs_none() {
        let (requests, remembered) = counted(&Arc::default());
        let (one, other) = tokio::join!(remembered.get(), remembered.get());
        assert_eq!((*one.unwrap(), *other.unwrap()), (0, 0));
        remembered.get().await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        advance(FRESH_FOR).await;
        assert_eq!(*remembered.get().await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_for_newer_values_are_rate_limited() {
        let (requests, remembered) = counted(&Arc::default());
        let known = remembered.get().await.unwrap();
        for _ in 0..9 {
            assert_eq!(remembered.newer_than(&known).await.unwrap(), None);
        }
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        advance(MIN_REQUEST_INTERVAL).await;
        assert_eq!(remembered.newer_than(&known).await.unwrap().as_deref(), Some(&1));
        assert_eq!(remembered.newer_than(&known).await.unwrap().as_deref(), Some(&1), "the value is newer");
        assert_eq!(requests.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_request_is_repeated_and_the_last_value_is_valid_for_a_day() {
        let fails = Arc::new(AtomicUsize::new(1));
        let (requests, remembered) = counted(&fails);
        assert!(remembered.get().await.is_err() && remembered.get().await.is_err());
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        advance(MIN_REQUEST_INTERVAL).await;
        fails.store(0, Ordering::SeqCst);
        assert_eq!(*remembered.get().await.unwrap(), 1);
        fails.store(1, Ordering::SeqCst);
        advance(FRESH_FOR).await;
        assert_eq!(*remembered.get().await.unwrap(), 1, "the value of an hour ago");
        advance(STALE_FOR).await;
        assert!(remembered.get().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_stops_no_other_caller() {
        let (requests, remembered) = counted(&Arc::default());
        let given_up = tokio::time::timeout(Duration::from_millis(100), remembered.get()).await;
        assert!(given_up.is_err());
        assert_eq!(*remembered.get().await.unwrap(), 0);
        assert_eq!(requests.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_goes_on_without_the_caller_that_began_it_and_its_value_has_the_age_of_its_arrival() {
        let requests = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&requests);
        // As with the requests of `Http`: a time limit runs, and several steps are necessary.
        let fetch = move || {
            let number = counts.fetch_add(1, Ordering::SeqCst);
            let steps = async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Arc::new(number))
            };
            async move {
                let answered = tokio::time::timeout(Duration::from_secs(5), steps).await;
                answered.unwrap_or_else(|_| Err(Unreachable::for_unknown_reason()))
            }
            .boxed()
        };
        let cached = CachedValue::new(fetch);
        assert!(tokio::time::timeout(Duration::from_millis(100), cached.get()).await.is_err());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cached.get().now_or_never().and_then(Result::ok).as_deref(), Some(&0));
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        tokio::time::sleep(FRESH_FOR).await;
        assert_eq!(*cached.get().await.unwrap(), 1, "the first value arrived more than an hour ago");
    }
}
