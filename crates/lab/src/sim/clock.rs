//! Simulated time: it moves only when the schedule says so.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_node::Clock;

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct SimClock {
    now_ms: AtomicU64,
}

impl SimClock {
    /// Lets time pass.
    pub fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}
