//! The node's only view of time: monotonic milliseconds. No correctness rule reads it; it decides
//! when an idle fork's expiry is *proposed*.

use std::time::Instant;

/// Monotonic time.
pub trait Clock: Send + Sync {
    /// Milliseconds since some fixed point in the past; never decreases.
    fn now_ms(&self) -> u64;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct MonotonicClock {
    started: Instant,
}

impl MonotonicClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> MonotonicClock {
        MonotonicClock { started: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
