//! The lock around the engine, and the waiting.
//!
//! Whoever waits drives: a thread that waits for durability and finds no flush under way runs the
//! next one for everybody, outside the lock; the others sleep until it is done. So group commit
//! needs no thread of its own, and the simulator, which has one thread, runs the very same code.
//!
//! Sleepers stand in two queues, by the parity of the flush they wait for, so that the end of a
//! flush wakes those it served and one of the next to run the next.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_log::Kind;
use anabranch_store::{Flush, LockGuard, Ordinal};

use crate::clock::Clock;
use crate::engine::{Engine, Fence};
use crate::error::Result;
use crate::expiry::Idle;
use crate::live::Views;
use crate::options::Options;
use crate::reads::Reads;
use crate::sql::Writers;
use crate::sweep::Pins;

/// All parts of an open space that its handles share.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    /// Signalled at the end of a flush, by its parity.
    flushed: [Condvar; 2],
    /// Signalled when operations were applied (for tails).
    applied: Condvar,
    pub(crate) name: String,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) writers: Writers,
    pub(crate) views: Views,
    pub(crate) reads: Reads,
    pub(crate) pins: Arc<Pins>,
    pub(crate) idle: Mutex<Idle>,
    /// Held for as long as the space is open.
    _directory: LockGuard,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        name: String,
        options: Options,
        clock: Arc<dyn Clock>,
        directory: LockGuard,
    ) -> Shared {
        Shared {
            engine: Mutex::new(engine),
            flushed: [Condvar::new(), Condvar::new()],
            applied: Condvar::new(),
            name,
            options,
            clock,
            writers: Writers::default(),
            views: Views::default(),
            reads: Reads::default(),
            pins: Arc::default(),
            idle: Mutex::new(Idle::default()),
            _directory: directory,
        }
    }

    /// The engine. After a panic under the lock the engine is fenced: what it holds may be half
    /// changed, what is on disk is not.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(fence)
    }

    /// Waits until `done` says so, running flushes while there is something to flush.
    pub(crate) fn wait<T>(&self, done: impl FnMut(&mut Engine) -> Option<T>) -> Result<T> {
        self.wait_locked(self.lock(), done).1
    }

    /// The same from within the lock, and back.
    pub(crate) fn wait_locked<'a, T>(
        &'a self,
        mut engine: MutexGuard<'a, Engine>,
        mut done: impl FnMut(&mut Engine) -> Option<T>,
    ) -> (MutexGuard<'a, Engine>, Result<T>) {
        // What the caller waits for is in the buffer or in the flush under way.
        let mut flush = engine.next_flush();
        loop {
            if let Some(value) = done(&mut engine) {
                self.pass_on(&mut engine);
                return (engine, Ok(value));
            }
            if let Some(error) = engine.in_flight_error() {
                return (engine, Err(error));
            }
            if let Some(flush) = engine.take_turn() {
                drop(engine);
                engine = self.run(flush);
            } else if engine.unsettled() {
                engine.settle();
                self.applied.notify_all();
            } else if engine.flushing {
                let queue = &self.flushed[parity(flush.max(engine.current_flush()))];
                engine = queue.wait(engine).unwrap_or_else(fence);
            } else {
                // Nothing to flush and nobody flushing: the replica has to be asked for more.
                let before = (engine.raft.0, engine.journal.last());
                engine.step(anabranch_replica::Event::Order);
                assert!(
                    engine.fence.is_some()
                        || engine.unsettled()
                        || engine.journal.pending()
                        || (engine.raft.0, engine.journal.last()) != before,
                    "a wait without anything to wait for"
                );
            }
            // Whatever it was is under way by now, or nobody is flushing.
            flush = 0;
        }
    }

    /// Runs a flush whose turn was taken, outside the lock; hands the next one over, and wakes
    /// those whom this one served.
    pub(crate) fn run(&self, flush: Flush) -> MutexGuard<'_, Engine> {
        let result = flush.run();
        let mut engine = self.lock();
        let (number, before) = (engine.current_flush(), engine.raft.0);
        engine.complete_flush(flush, result);
        let fenced = engine.fence.is_some();
        let (served, next) = (engine.take_served(), engine.hand_over());
        let called = if fenced { engine.unpark_all() } else { Vec::new() };
        drop(engine);
        if let Some((parked, flush)) = next {
            parked.call(Some(flush));
        }
        self.flushed[parity(number)].notify_all();
        if fenced {
            self.flushed[parity(number + 1)].notify_all();
        }
        for parked in called {
            parked.call(None);
        }
        for parked in served {
            parked.acknowledge();
        }
        let mut engine = self.lock();
        engine.settle_all();
        if engine.raft.0 > before || fenced {
            self.applied.notify_all();
        }
        engine
    }

    /// Somebody leaves: if there is something to flush and nobody does it, wakes one who waits.
    fn pass_on(&self, engine: &mut Engine) {
        if let Some((parked, flush)) = engine.hand_over() {
            parked.call(Some(flush));
        } else if !engine.flushing && engine.journal.pending() {
            self.flushed[parity(engine.next_flush())].notify_one();
        }
    }

    /// Runs one flush if there is something to flush; false if there was nothing to do.
    pub(crate) fn drive(&self) -> bool {
        let mut engine = self.lock();
        if engine.unsettled() {
            engine.settle_all();
            self.applied.notify_all();
        }
        let Some(flush) = engine.take_turn() else { return false };
        drop(engine);
        let mut engine = self.run(flush);
        self.pass_on(&mut engine);
        true
    }

    /// Sleeps until something was applied, or until the timeout; the caller looks again.
    pub(crate) fn wait_applied<'a>(
        &self,
        engine: MutexGuard<'a, Engine>,
        timeout: Duration,
    ) -> MutexGuard<'a, Engine> {
        let waited = self.applied.wait_timeout(engine, timeout);
        waited.map_or_else(|error| fence(PoisonError::new(error.into_inner().0)), |w| w.0)
    }

    /// Waits until the state covers everything acknowledged before the call.
    pub(crate) fn barrier(&self) -> Result<()> {
        let mut engine = self.lock();
        let Some(ticket) = engine.begin_read()? else { return Ok(()) };
        self.wait_locked(engine, |engine| engine.read_ready(ticket).then_some(())).1
    }

    /// Waits until the journal is durable through an ordinal.
    pub(crate) fn durable(&self, through: Ordinal) -> Result<()> {
        self.wait(|engine| (engine.journal.durable() >= through).then_some(()))
    }
}

fn parity(flush: u64) -> usize {
    usize::from(flush % 2 == 1)
}

fn fence(poison: PoisonError<MutexGuard<'_, Engine>>) -> MutexGuard<'_, Engine> {
    let mut engine = poison.into_inner();
    if engine.fence.is_none() {
        let message = "a thread of this node panicked; restart it";
        engine.fence = Some(Fence::new(Kind::Internal, message));
    }
    engine
}
