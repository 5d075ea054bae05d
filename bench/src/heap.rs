//! The counters of the allocator. It counts in programs that begin with
//! `#[global_allocator] static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;` and stays at zero in all others.

use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

/// The counters of the whole process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Heap(Stats);

impl Heap {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self(INSTRUMENTED_SYSTEM.stats())
    }

    /// Bytes that are in use.
    #[must_use]
    pub fn live(self) -> f64 {
        self.0.bytes_allocated as f64 - self.0.bytes_deallocated as f64
    }

    /// The number of allocations since this moment, growing an existing one included.
    #[must_use]
    pub fn allocations(self) -> f64 {
        let now = Self::now().0 - self.0;
        (now.allocations + now.reallocations) as f64
    }

    /// The allocated bytes since this moment.
    #[must_use]
    pub fn allocated(self) -> f64 {
        (Self::now().0 - self.0).bytes_allocated as f64
    }
}

/// Bytes in use once they no longer change: tasks that have done their work take a moment to end. Waits five seconds at
/// most.
pub async fn quiet() -> f64 {
    let mut live = Heap::now().live();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = Heap::now().live();
        if now == live {
            break;
        }
        live = now;
    }
    live
}
