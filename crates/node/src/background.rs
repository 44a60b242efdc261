//! The node's own threads.
//!
//! One orders idle writes, prepares segments, expires forks and takes checkpoints: nobody waits
//! for it, it makes sure that what nobody waits for still happens. The other is the flusher.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_log::{Kind, Purpose};

use crate::error::{Error, Result};
use crate::flusher::Flusher;
use crate::shared::Shared;
use crate::view::Origin;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(10);

/// The threads; they stop when dropped.
pub(crate) struct Background {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    _flusher: Flusher,
}

impl Background {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Background> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&stop);
        let weak = Arc::downgrade(shared);
        let thread = std::thread::Builder::new()
            .name("anabranch-node".to_owned())
            .spawn(move || run(&weak, &seen))
            .map_err(|error| {
                Error::no(Kind::Unavailable, "no thread could be started").because(error)
            })?;
        Ok(Background { stop, thread: Some(thread), _flusher: Flusher::start(shared)? })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the node's thread panicked");
        }
    }
}

fn run(shared: &Weak<Shared>, stop: &(Mutex<bool>, Condvar)) {
    loop {
        let guard = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = stop.1.wait_timeout_while(guard, TICK, |stop| !*stop);
        let stopping = *waited.unwrap_or_else(PoisonError::into_inner).0;
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.tick() {
            tracing::error!(%error, "background work failed");
        }
        if stopping {
            // One last round has ordered what was idle: the next start has less to do.
            return;
        }
    }
}

impl Shared {
    /// One round of background work.
    pub(crate) fn tick(&self) -> Result<()> {
        self.prepare_segment();
        self.order_idle();
        self.expire_due()?;
        let due = {
            let engine = self.lock();
            engine.fence.is_none() && engine.bytes_since_checkpoint >= self.options.checkpoint_bytes
        };
        if due {
            self.checkpoint(&Origin::actor("node").because("journal is long"))?;
        }
        Ok(())
    }

    /// Zero-fills the next journal segment before it is needed, without holding the lock.
    fn prepare_segment(&self) {
        let Some(job) = self.lock().journal.segment_job() else { return };
        let prepared = job.run();
        if let Err(error) = self.lock().journal.install_segment(prepared) {
            tracing::warn!(%error, "the next journal segment could not be prepared");
        }
    }

    /// Flushes what nobody waits for, and confirms the last flush once nothing follows it.
    fn order_idle(&self) {
        while self.drive() {}
        let mut engine = self.lock();
        if engine.fence.is_none() && !engine.flushing && engine.unordered() == 0 {
            engine.confirm_tail();
        }
        drop(engine);
        self.drive();
    }

    /// Proposes the end of forks whose time ran out. Void if somebody used them meanwhile.
    fn expire_due(&self) -> Result<()> {
        let now = self.clock.now_ms();
        self.watch_used(now);
        let due = self.idle.lock().unwrap_or_else(PoisonError::into_inner).due(now);
        for (branch, last_used) in due {
            let by = Origin::actor("node").because("time to live ran out");
            match self.close(branch, Purpose::Expire { last_used }, &by) {
                Ok(_) => tracing::info!(%branch, "fork expired"),
                Err(error) if error.kind == Kind::Poisoned => return Err(error),
                Err(error) => {
                    tracing::info!(%branch, %error, "fork not expired");
                    self.touch(branch);
                }
            }
        }
        Ok(())
    }

    /// Looks at when each fork with a time to live was last written to.
    pub(crate) fn watch_used(&self, now_ms: u64) {
        let watched: Vec<_> = {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.due(now_ms).into_iter().map(|(branch, _)| branch).collect()
        };
        for branch in watched {
            let used = {
                let engine = self.lock();
                let found = engine.state.branch(branch).filter(|branch| branch.is_open());
                found.and_then(|branch| Some((branch.ttl_ms()?, branch.last_used())))
            };
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            match used {
                Some((ttl_ms, last_used)) => idle.seen(branch, ttl_ms, last_used, now_ms),
                None => idle.gone(branch),
            }
        }
    }

    /// After a start: every open fork with a time to live begins a new one.
    pub(crate) fn watch_forks(&self) {
        let now = self.clock.now_ms();
        let engine = self.lock();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        for branch in engine.state.branches().filter(|branch| branch.is_open()) {
            if let Some(ttl_ms) = branch.ttl_ms() {
                idle.seen(branch.id(), ttl_ms, branch.last_used(), now);
            }
        }
    }
}
