//! Stops a call that runs too long, does too much work, or is no longer wanted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// SQLite calls the progress handler once per this many virtual machine instructions.
pub(crate) const OPS_PER_TICK: u32 = 1000;

/// Why a call was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Time,
    Work,
    Cancelled,
    /// The row hook cannot keep any more.
    Overflow,
}

/// Shared between a connection, its progress handler and those who may cancel.
#[derive(Default)]
pub(crate) struct Monitor {
    cancelled: AtomicBool,
    /// Set by the row hook.
    pub(crate) overflow: Arc<AtomicBool>,
    ticks_left: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    armed: bool,
    deadline: Option<Instant>,
    stop: Option<Stop>,
}

impl Monitor {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the clock of one call. Zero is unbounded. Forgets earlier requests to cancel.
    pub(crate) fn arm(&self, time_ms: u64, ops: u64) {
        self.cancelled.store(false, Ordering::Relaxed);
        self.overflow.store(false, Ordering::Relaxed);
        let ticks = if ops == 0 { u64::MAX } else { ops.div_ceil(u64::from(OPS_PER_TICK)) };
        self.ticks_left.store(ticks, Ordering::Relaxed);
        let deadline = (time_ms > 0)
            .then(|| Instant::now().checked_add(Duration::from_millis(time_ms)))
            .flatten();
        *self.inner() = Inner { armed: true, deadline, stop: None };
    }

    /// Why the call was stopped, if it was.
    pub(crate) fn why(&self) -> Option<Stop> {
        self.inner().stop
    }

    /// Pauses (or resumes) stopping, for work that must not be cut short.
    pub(crate) fn set_armed(&self, armed: bool) {
        self.inner().armed = armed;
    }

    /// The progress handler: true stops SQLite.
    pub(crate) fn tick(&self) -> bool {
        let mut inner = self.inner();
        if !inner.armed {
            return false;
        }
        let left = self.ticks_left.load(Ordering::Relaxed);
        self.ticks_left.store(left.saturating_sub(1), Ordering::Relaxed);
        let stop = if self.cancelled.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else if self.overflow.load(Ordering::Relaxed) {
            Some(Stop::Overflow)
        } else if left == 0 {
            Some(Stop::Work)
        } else if inner.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(Stop::Time)
        } else {
            None
        };
        if stop.is_some() {
            inner.stop = stop;
        }
        stop.is_some()
    }
}

/// Stops the running call of a connection, from any thread.
#[derive(Clone)]
pub struct Cancel {
    monitor: Arc<Monitor>,
}

impl Cancel {
    pub(crate) fn new(monitor: Arc<Monitor>) -> Cancel {
        Cancel { monitor }
    }

    /// Asks the running call to stop; it ends with kind `Cancelled`, and a write is rolled back
    /// with its whole transaction. Does nothing to calls that begin later.
    pub fn cancel(&self) {
        self.monitor.cancelled.store(true, Ordering::Relaxed);
    }
}
