//! The counters of the allocator. They count only in programs that declare `#[global_allocator] static ALLOCATOR:
//! &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;`; in all others they stay at zero.

use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

/// The counters of the whole process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Heap(Stats);

impl Heap {
    /// Reads the counters.
    #[must_use]
    pub fn now() -> Self {
        Self(INSTRUMENTED_SYSTEM.stats())
    }

    /// Returns the number of bytes in use at this moment.
    #[must_use]
    pub fn live(self) -> f64 {
        self.0.bytes_allocated as f64 - self.0.bytes_deallocated as f64
    }

    /// Returns the number of allocations since this moment, those that grow an existing one included.
    #[must_use]
    pub fn allocations(self) -> f64 {
        let now = Self::now().0 - self.0;
        (now.allocations + now.reallocations) as f64
    }

    /// Returns the number of bytes that were allocated since this moment.
    #[must_use]
    pub fn allocated(self) -> f64 {
        (Self::now().0 - self.0).bytes_allocated as f64
    }
}

/// Waits until the number of bytes in use no longer changes, for five seconds at most, and returns it. Tasks that have
/// done their work take a moment to end.
pub async fn settled_bytes() -> f64 {
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
