//! The thread that runs flushes while parked writers wait for them.
//!
//! A writer that ran the flush of others would have to wake the next one to run the next, and the
//! disk would be idle until that one runs. The flusher goes from one flush to the next.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anabranch_log::Kind;
use anabranch_store::Flush;

use crate::error::{Error, Result};
use crate::parking::{Woken, wake};
use crate::shared::Shared;

/// Where a flush is left for the flusher.
#[derive(Default)]
pub(crate) struct Turn {
    next: Mutex<Next>,
    given: Condvar,
}

/// Invariant: a flush is given only while the engine says that there is a flusher, and taken
/// before the next one is given.
#[derive(Default)]
struct Next {
    flush: Option<Flush>,
    stop: bool,
}

impl Turn {
    /// Leaves a flush to be run.
    pub(crate) fn give(&self, flush: Flush) {
        let before = self.lock().flush.replace(flush);
        assert!(before.is_none(), "one flush is under way at a time");
        self.given.notify_one();
    }

    /// Waits for a flush; `None` when told to stop.
    fn take(&self) -> Option<Flush> {
        let waiting = |next: &mut Next| next.flush.is_none() && !next.stop;
        let waited = self.given.wait_while(self.lock(), waiting);
        waited.unwrap_or_else(PoisonError::into_inner).flush.take()
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; stops when dropped.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Flusher> {
        let seen = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("anabranch-flush".to_owned())
            .spawn(move || {
                while let Some(flush) = seen.turn.take() {
                    seen.run_for_parked(flush);
                }
            })
            .map_err(|error| {
                Error::no(Kind::Unavailable, "no thread could be started").because(error)
            })?;
        shared.lock().flusher = true;
        Ok(Flusher { shared: Arc::clone(shared), thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let mut engine = self.shared.lock();
        engine.flusher = false;
        wake(engine.unpark_all().iter().map(|parked| (parked, Woken::ToLook)));
        drop(engine);
        self.shared.turn.lock().stop = true;
        self.shared.turn.given.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the node's flusher panicked");
        }
    }
}
