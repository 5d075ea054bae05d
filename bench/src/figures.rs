//! The measurements, and their clocks.

use std::time::{Duration, Instant};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use serde::{Deserialize, Serialize};

/// The results of one run of one client. A row sets only those that apply to it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Figures {
    /// Median of single calls, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// Calls or events per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The whole work, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// Processor time of the client per call, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
    /// The maximum memory of the client, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hwm_kb: Option<f64>,
    /// Events that never came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Events that came after a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disordered: Option<u64>,
}

/// A wall clock and a processor clock, started together.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    began: Instant,
    cpu: Duration,
}

impl Watch {
    /// Starts both clocks.
    #[must_use]
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_time(UsageWho::RUSAGE_SELF) }
    }

    /// Returns the figures for `count` pieces of work, which have just ended.
    #[must_use]
    pub fn stop(self, count: usize) -> Figures {
        let wall = self.began.elapsed();
        let cpu = cpu_time(UsageWho::RUSAGE_SELF).saturating_sub(self.cpu);
        let count = count.max(1) as f64;
        Figures {
            per_second: Some(count / wall.as_secs_f64()),
            ms: Some(wall.as_secs_f64() * 1e3),
            cpu_us: Some(cpu.as_secs_f64() * 1e6 / count),
            hwm_kb: Some(peak_memory()),
            ..Figures::default()
        }
    }
}

/// Returns the median of `samples`, in microseconds.
#[must_use]
pub fn median_us(samples: &mut [Duration]) -> f64 {
    samples.sort_unstable();
    samples.get(samples.len() / 2).map_or(0.0, |middle| middle.as_secs_f64() * 1e6)
}

/// User and system time so far.
#[must_use]
pub fn cpu_time(who: UsageWho) -> Duration {
    let Ok(usage) = getrusage(who) else {
        return Duration::ZERO;
    };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// Returns the maximum memory of this process so far, in KiB (`getrusage(2)`, `ru_maxrss` on Linux).
fn peak_memory() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| usage.max_rss() as f64)
}
