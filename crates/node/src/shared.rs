//! The lock around the engine, and the waiting.
//!
//! Whoever waits drives: a thread that waits for durability and finds no flush under way runs the
//! next one for everybody, outside the lock; the others sleep until it is done. So group commit
//! needs no thread of its own, and the simulator, which has one thread, runs the very same code.
//!
//! Sleepers stand in two queues, by the parity of the flush they wait for, so that the end of a
//! flush wakes those it served and one of the next to run the next. Writers that wait for
//! durability only do not even do that: while a flush is under way they leave their writes and
//! park, and for as long as such a crowd waits the flusher, a thread that does nothing else, runs
//! one flush after the other for it.

use std::iter;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_log::Kind;
use anabranch_store::{Flush, LockGuard, Ordinal};

use crate::clock::Clock;
use crate::engine::{Engine, Fence};
use crate::error::Result;
use crate::expiry::Idle;
use crate::flusher::Turn;
use crate::live::Views;
use crate::options::Options;
use crate::parking::{Parked, Woken, wake};
use crate::reads::Reads;
use crate::sql::Writers;
use crate::submissions::{Submission, Submissions};
use crate::sweep::Pins;

/// All parts of an open space that its handles share.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    /// Signalled at the end of a flush, by its parity.
    flushed: [Condvar; 2],
    /// Signalled when operations were applied (for tails).
    applied: Condvar,
    /// Where the flusher gets its flushes.
    pub(crate) turn: Turn,
    /// Writes left while a flush is under way.
    pub(crate) submissions: Submissions,
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
            turn: Turn::default(),
            submissions: Submissions::default(),
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
            if let Some(flush) = self.take_turn(&mut engine) {
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

    /// Takes the turn to run the next flush, if there is something to flush and nobody does.
    fn take_turn(&self, engine: &mut Engine) -> Option<Flush> {
        let flush = engine.take_turn()?;
        if engine.flusher {
            self.submissions.attend();
        }
        Some(flush)
    }

    /// Runs a flush whose turn was taken, outside the lock; hands the next one over, wakes those
    /// whom this one served, and applies what was decided.
    pub(crate) fn run(&self, flush: Flush) -> MutexGuard<'_, Engine> {
        let (mut engine, next, served) = self.flush(flush);
        match next {
            Some(flush) => self.turn.give(flush),
            None => self.pass_on(&mut engine),
        }
        drop(engine);
        wake(served.iter().map(|parked| (parked, Woken::Acknowledged)));
        let mut engine = self.lock();
        self.apply_decided(&mut engine);
        engine
    }

    /// Runs flushes for as long as parked writers wait for another. One of those whom each flush
    /// served applies what it decided, while the next one is under way.
    pub(crate) fn run_for_parked(&self, flush: Flush) {
        let mut next = Some(flush);
        while let Some(flush) = next {
            let (mut engine, following, served) = self.flush(flush);
            next = following;
            if next.is_none() {
                self.pass_on(&mut engine);
            }
            drop(engine);
            let reasons = iter::once(Woken::ToApply).chain(iter::repeat(Woken::Acknowledged));
            wake(served.iter().zip(reasons));
        }
    }

    /// Runs a flush, follows up on it, and takes in the writes left meanwhile. Returns the next
    /// flush if parked writers wait for it, and those whom this one served, to be woken.
    fn flush(&self, flush: Flush) -> (MutexGuard<'_, Engine>, Option<Flush>, Vec<Arc<Parked>>) {
        let ending = Ending(self);
        let result = flush.run();
        let mut engine = self.lock();
        let number = engine.current_flush();
        engine.complete_flush(flush, result);
        self.flushed[parity(number)].notify_all();
        let next = self.take_in(&mut engine);
        if engine.fence.is_some() {
            self.flushed[parity(number + 1)].notify_all();
            self.applied.notify_all();
            wake(engine.unpark_all().iter().map(|parked| (parked, Woken::ToLook)));
        }
        let served = engine.take_served();
        drop(ending);
        (engine, next, served)
    }

    /// Takes in the writes that were left, at the end of a flush; the next flush, if parked
    /// writers wait for it.
    fn take_in(&self, engine: &mut Engine) -> Option<Flush> {
        let mut last = false;
        while let Some(left) = self.submissions.take(last) {
            for submission in left {
                submission.take_in(engine);
            }
            if engine.needs_flusher()
                && let Some(flush) = self.take_turn(engine)
            {
                return Some(flush);
            }
            last = true;
        }
        None
    }

    /// Applies everything decided.
    pub(crate) fn apply_decided(&self, engine: &mut Engine) {
        if engine.unsettled() {
            engine.settle_all();
            self.applied.notify_all();
        }
    }

    /// Somebody leaves: if there is something to flush and nobody does it, sees that somebody will.
    fn pass_on(&self, engine: &mut Engine) {
        if engine.needs_flusher()
            && let Some(flush) = self.take_turn(engine)
        {
            self.turn.give(flush);
        } else if !engine.flushing && engine.journal.pending() {
            self.flushed[parity(engine.next_flush())].notify_one();
        }
    }

    /// Runs one flush if there is something to flush; false if there was nothing to do.
    pub(crate) fn drive(&self) -> bool {
        let mut engine = self.lock();
        self.apply_decided(&mut engine);
        let Some(flush) = self.take_turn(&mut engine) else { return false };
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

/// Stands guard over the end of a flush: after a panic there the engine is fenced, and nobody
/// sleeps on who waits for that flush or has left a write for its end.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut engine = self.0.lock();
        engine.abandon_flush("a thread of this node panicked at a flush; restart it");
        while let Some(left) = self.0.submissions.take(true) {
            left.into_iter().for_each(Submission::refuse);
        }
        wake(engine.unpark_all().iter().map(|parked| (parked, Woken::ToLook)));
        drop(engine);
        self.0.flushed.iter().for_each(Condvar::notify_all);
        self.0.applied.notify_all();
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
