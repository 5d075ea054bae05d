//! Measures calls and events, the same way for every client in Rust.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};

use crate::{AnyError, Figures, Job, Watch, figures::median_us};

/// Warms up, then makes as many calls as `job` asks for, with as many in flight as its row has. `timed_call` makes the
/// call with this number, and returns how long it took.
///
/// # Errors
/// The first error of `timed_call`.
pub async fn calls(
    job: &Job,
    timed_call: impl AsyncFn(usize) -> Result<Duration, AnyError>,
) -> Result<Figures, AnyError> {
    let run = async |count: usize| -> Result<Vec<Duration>, AnyError> {
        stream::iter(0..count).map(|index| timed_call(index)).buffer_unordered(job.row.in_flight()).try_collect().await
    };
    run(job.row.warm_up()).await?;
    let watch = Watch::start();
    let mut samples = run(job.count).await?;
    let figures = watch.stop(job.count);
    let p50_us = (job.row.in_flight() == 1).then(|| median_us(&mut samples));
    Ok(Figures { p50_us, ms: None, ..figures })
}

/// The number of turns that are timed together, because a single turn takes less time than a clock can measure.
const TURNS_PER_SAMPLE: usize = 100;

/// Measures the time of a turn. `turn` takes one, and its result is dropped.
#[must_use]
pub fn turns<T>(count: usize, mut turn: impl FnMut() -> T) -> Figures {
    let watch = Watch::start();
    let mut samples: Vec<Duration> = (0..count / TURNS_PER_SAMPLE)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..TURNS_PER_SAMPLE {
                std::hint::black_box(turn());
            }
            began.elapsed()
        })
        .collect();
    let figures = watch.stop(count);
    Figures { p50_us: Some(median_us(&mut samples) / TURNS_PER_SAMPLE as f64), per_second: None, ms: None, ..figures }
}

/// Counts the steps of a call that reports its progress, which are whole numbers from 1.
#[derive(Debug, Default)]
pub struct Steps {
    count: AtomicU64,
    last: AtomicU64,
    disordered: AtomicU64,
}

impl Steps {
    /// Counts one more step.
    pub fn record(&self, progress: f64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let step = progress as u64;
        if self.last.swap(step, Ordering::Relaxed) > step {
            self.disordered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns `figures` with the number of steps that are missing out of `count`, and of those that came after a later
    /// one.
    #[must_use]
    pub fn add_to(&self, figures: Figures, count: usize) -> Figures {
        let lost = (count as u64).saturating_sub(self.count.load(Ordering::Relaxed));
        let disordered = self.disordered.load(Ordering::Relaxed);
        Figures { lost: Some(lost), disordered: Some(disordered), ..figures }
    }
}
