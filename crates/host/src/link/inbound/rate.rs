//! A bound on how often something is reported.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Allows so many per second and counts the rest.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    second: Instant,
    said: u32,
    dropped: u64,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, state: Mutex::new(State { second: Instant::now(), said: 0, dropped: 0 }) }
    }

    /// Allows one more, and returns how many were dropped since the last one; `None` over the rate.
    pub(crate) fn allow(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.second.elapsed() >= Duration::from_secs(1) {
            state.second = Instant::now();
            state.said = 0;
        }
        if state.said >= self.per_second {
            state.dropped += 1;
            return None;
        }
        state.said += 1;
        Some(std::mem::take(&mut state.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_over_the_rate_is_counted_and_told_with_the_next() {
        let rate = Rate::new(2);
        let told: Vec<_> = (0..5).map(|_| rate.allow()).collect();
        assert_eq!(told, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((rate.allow(), rate.allow(), rate.allow()), (Some(3), Some(0), None));
    }
}
