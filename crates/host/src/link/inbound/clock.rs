//! Measures the time of a request with two clocks: one for silence, which progress resets, and one for the total time,
//! which is never reset. Both are paused while a user is being asked, for at most [`LONGEST_PAUSE`] in total.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

use crate::{deadline::deadline, link::error::LinkError, spec::Setting};

/// The longest total pause of the clocks of one request. Without this limit, a server could keep a call open forever by
/// asking repeatedly.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// The time limits of one request, and how much time it has taken.
#[derive(Debug)]
pub(crate) struct Clock {
    /// How long the server may send nothing.
    idle_limit: Duration,
    /// How long the request may take.
    total_limit: Duration,
    /// The part of `total_limit` that had passed before the clocks started.
    spent_before: Duration,
    /// The name of the request in the error.
    label: &'static str,
    state: Mutex<State>,
    resumed: Notify,
}

#[derive(Debug)]
struct State {
    /// When the server last sent something.
    last_message_at: Instant,
    /// The start of the request, moved forward by each pause.
    started_at: Instant,
    /// The number of [`Pause`] guards that exist now.
    pause_count: u32,
    /// When the current pause began, or when its length so far was last added to the total.
    paused_at: Instant,
    /// The total length of the pauses so far.
    total_pause: Duration,
}

impl State {
    /// Adds the current pause to the total, up to the limit.
    fn add_up_pause(&mut self) {
        let now = Instant::now();
        let counted_pause = (now - self.paused_at).min(LONGEST_PAUSE - self.total_pause);
        if !counted_pause.is_zero() {
            // After a pause, silence is measured from its end.
            self.last_message_at = self.last_message_at.max(self.paused_at + counted_pause);
            self.started_at += counted_pause;
            self.total_pause += counted_pause;
        }
        self.paused_at = now;
    }
}

impl Clock {
    /// Starts a clock that expires after a silence of `idle_limit`, and after `total_limit` at the latest.
    pub(crate) fn start(label: &'static str, idle_limit: Duration, total_limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            idle_limit,
            total_limit,
            spent_before: Duration::ZERO,
            label,
            state: Mutex::new(State {
                last_message_at: now,
                started_at: now,
                pause_count: 0,
                paused_at: now,
                total_pause: Duration::ZERO,
            }),
            resumed: Notify::new(),
        }
    }

    /// Counts `spent_before` as a part of the total limit that has passed already. The error still names the whole
    /// limit.
    pub(crate) fn with_spent(self, spent_before: Duration) -> Self {
        Self { spent_before, ..self }
    }

    /// Restarts the clock of silence, because the server sent something.
    pub(crate) fn touch(&self) {
        self.state.lock().last_message_at = Instant::now();
    }

    /// Stops both clocks until the guard is dropped, or until they have been paused for [`LONGEST_PAUSE`] in total.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let mut state = self.state.lock();
        if state.pause_count == 0 {
            state.paused_at = Instant::now();
        }
        state.pause_count += 1;
        Pause(self)
    }

    /// Waits until a time limit is reached, and returns the error that names the limit.
    pub(crate) async fn expired(&self) -> LinkError {
        loop {
            let resumed = self.resumed.notified();
            let (idle_end, total_end, pause_left) = {
                let mut state = self.state.lock();
                let is_paused = state.pause_count > 0;
                if is_paused {
                    state.add_up_pause();
                }
                let pause_left = if is_paused { LONGEST_PAUSE - state.total_pause } else { Duration::ZERO };
                (
                    deadline(state.last_message_at, self.idle_limit),
                    deadline(state.started_at, self.total_limit.saturating_sub(self.spent_before)),
                    pause_left,
                )
            };
            if !pause_left.is_zero() {
                // Look again in either case: the pause has ended, or no more of it counts.
                let _ = timeout(pause_left, resumed).await;
                continue;
            }
            let now = Instant::now();
            if total_end <= now {
                return self.error(self.total_limit, Setting::MaxCallTime);
            }
            if idle_end <= now {
                return self.error(self.idle_limit, Setting::CallTimeout);
            }
            tokio::select! {
                () = sleep_until(idle_end.min(total_end)) => {}
                () = resumed => {}
            }
        }
    }

    fn error(&self, after: Duration, setting: Setting) -> LinkError {
        LinkError::TimedOut { what: self.label, after, setting }
    }
}

/// Stops both clocks until this guard is dropped.
#[derive(Debug)]
pub(crate) struct Pause<'a>(&'a Clock);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.pause_count -= 1;
        if state.pause_count == 0 {
            state.add_up_pause();
            drop(state);
            self.0.resumed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> Clock {
        Clock::start("the call", 10 * SECOND, 25 * SECOND)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it() {
        let (clock, start) = (clock(), Instant::now());
        assert!(clock.expired().await.to_string().contains("call_timeout"));
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_connection_counts_and_the_error_names_the_whole_limit() {
        let clock = Clock::start("the call", 10 * SECOND, 12 * SECOND).with_spent(3 * SECOND);
        let start = Instant::now();
        let error = clock.expired().await.to_string();
        assert_eq!(start.elapsed().as_secs(), 9);
        assert_eq!(error, "the call took longer than 12 s (max_call_time)");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_any_length_is_a_limit() {
        let clock = Clock::start("the call", Duration::MAX, Duration::MAX);
        let expired = tokio::time::timeout(86_400 * SECOND, clock.expired()).await;
        assert!(expired.is_err(), "{expired:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn being_heard_extends_it_up_to_the_total() {
        let (clock, start) = (clock(), Instant::now());
        let talk = async {
            loop {
                tokio::time::sleep(4 * SECOND).await;
                clock.touch();
            }
        };
        let error = tokio::select! { error = clock.expired() => error, () = talk => unreachable!() };
        assert!(error.to_string().contains("max_call_time"), "{error}");
        assert_eq!(start.elapsed().as_secs(), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_stops_both_clocks() {
        let (clock, start) = (clock(), Instant::now());
        let ask = async {
            tokio::time::sleep(5 * SECOND).await;
            let pause = clock.pause();
            tokio::time::sleep(100 * SECOND).await;
            drop(pause);
        };
        let (_, error) = tokio::join!(ask, clock.expired());
        assert!(error.to_string().contains("call_timeout"));
        assert_eq!(start.elapsed().as_secs(), 115, "5 s, the pause, 10 s of silence");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_without_an_end_stop_the_clocks_for_half_an_hour_in_all() {
        for longest in [540 * SECOND, 36_000 * SECOND] {
            let (clock, start) = (clock(), Instant::now());
            let ask = async {
                loop {
                    let _pause = clock.pause();
                    tokio::time::sleep(longest).await;
                }
            };
            let day = tokio::time::sleep(86_400 * SECOND);
            tokio::select! {
                error = clock.expired() => assert!(error.to_string().contains("call_timeout"), "{error}"),
                () = ask => unreachable!(),
                () = day => panic!("it goes on forever"),
            }
            assert_eq!(start.elapsed().as_secs(), 30 * 60 + 10, "what counts of the pauses, 10 s of silence");
        }
    }
}
