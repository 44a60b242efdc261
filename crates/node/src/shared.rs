//! The lock around the engine, and the waiting.
//!
//! Whoever waits drives: a thread that waits for durability and finds no flush under way runs the
//! next one for everybody, outside the lock; the others sleep until it is done. So group commit
//! needs no thread of its own, and the simulator, which has one thread, runs the very same code.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anabranch_log::{BranchId, Entry, Kind, Operation, Outcome, Refusal, SessionId, WriteId};
use anabranch_store::{LockGuard, Ordinal};

use crate::clock::Clock;
use crate::engine::{Engine, Prepared};
use crate::error::{Error, Result};
use crate::expiry::Idle;
use crate::live::Views;
use crate::options::Options;
use crate::reads::Reads;
use crate::session::LocalSession;
use crate::sql::Writers;
use crate::sweep::Pins;
use crate::view::{Origin, SessionWrite};

/// All parts of an open space that its handles share.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    /// Signalled after every flush.
    flushed: Condvar,
    /// Signalled when operations were applied (for tails).
    applied: Condvar,
    pub(crate) session: Mutex<LocalSession>,
    session_free: Condvar,
    /// Numbers writes outside any session, and transactions with parts; unique within a term.
    unnumbered: Mutex<u64>,
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

/// A write that is under way.
pub(crate) struct Ticket<'a> {
    shared: &'a Shared,
    id: WriteId,
    /// To be reported as answered to the local session.
    local: Option<u64>,
}

/// Where a write goes.
pub(crate) enum Target {
    /// To this branch.
    Branch(BranchId),
    /// Nowhere: it is a retry, and this was the answer.
    Answered(Outcome),
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.shared.lock().forget(self.id);
        if let Some(seq) = self.local {
            let mut session = self.shared.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.answered(seq);
            drop(session);
            self.shared.session_free.notify_one();
        }
    }
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
            flushed: Condvar::new(),
            applied: Condvar::new(),
            session: Mutex::new(LocalSession::default()),
            session_free: Condvar::new(),
            unnumbered: Mutex::new(0),
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

    /// The engine. A panic elsewhere leaves its assertions violated at worst, never a half-applied
    /// operation visible: the engine is fenced then.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(|poison| {
            let mut engine = poison.into_inner();
            if engine.fence.is_none() {
                engine.fence = Some(crate::engine::Fence::new(
                    Kind::Internal,
                    "a thread of this node panicked; restart it",
                ));
            }
            engine
        })
    }

    /// Waits until `done` says so, running flushes while there is something to flush.
    pub(crate) fn wait<T>(&self, mut done: impl FnMut(&mut Engine) -> Option<T>) -> Result<T> {
        let mut engine = self.lock();
        loop {
            if let Some(value) = done(&mut engine) {
                return Ok(value);
            }
            if let Some(error) = engine.in_flight_error() {
                return Err(error);
            }
            engine = match engine.take_flush() {
                Some(flush) => {
                    drop(engine);
                    let result = flush.run();
                    let mut engine = self.lock();
                    let before = engine.raft.0;
                    engine.complete_flush(flush, result);
                    let applied = engine.raft.0 > before || engine.fence.is_some();
                    self.flushed.notify_all();
                    if applied {
                        self.applied.notify_all();
                    }
                    engine
                }
                None if engine.flushing => {
                    self.flushed.wait(engine).unwrap_or_else(PoisonError::into_inner)
                }
                None => {
                    // Nothing to flush and nobody flushing: the replica has to be asked for more.
                    let before = (engine.raft.0, engine.journal.last());
                    engine.step(anabranch_replica::Event::Order);
                    assert!(
                        engine.fence.is_some()
                            || engine.journal.pending()
                            || (engine.raft.0, engine.journal.last()) != before
                            || done(&mut engine).is_some(),
                        "a wait without anything to wait for"
                    );
                    engine
                }
            };
        }
    }

    /// Runs one flush if there is something to flush; false if there was nothing to do.
    pub(crate) fn drive(&self) -> bool {
        let mut engine = self.lock();
        let Some(flush) = engine.take_flush() else { return false };
        drop(engine);
        let result = flush.run();
        engine = self.lock();
        engine.complete_flush(flush, result);
        drop(engine);
        self.flushed.notify_all();
        self.applied.notify_all();
        true
    }

    /// Sleeps until something was applied, or until the timeout; the caller looks again.
    pub(crate) fn wait_applied<'a>(
        &self,
        engine: MutexGuard<'a, Engine>,
        timeout: std::time::Duration,
    ) -> MutexGuard<'a, Engine> {
        let waited = self.applied.wait_timeout(engine, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Begins a write under the caller's session or the space's own.
    pub(crate) fn submit(&self, operation: Operation, by: &Origin) -> Result<Ticket<'_>> {
        self.submit_attempt(operation, by, 0)
    }

    /// The same for run number `attempt` of one statement.
    pub(crate) fn submit_attempt(
        &self,
        operation: Operation,
        by: &Origin,
        attempt: u32,
    ) -> Result<Ticket<'_>> {
        let (write, local) = match by.write {
            Some(write) => (write, None),
            None => {
                let write = self.number()?;
                (write, Some(write.seq))
            }
        };
        self.submit_numbered(operation, by, write, attempt)
            .map_err(|error| {
                if let Some(seq) = local {
                    let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                    session.answered(seq);
                }
                error
            })
            .map(|mut ticket| {
                ticket.local = local;
                ticket
            })
    }

    fn submit_numbered(
        &self,
        operation: Operation,
        by: &Origin,
        write: SessionWrite,
        attempt: u32,
    ) -> Result<Ticket<'_>> {
        let id = WriteId { session: SessionId(write.session), seq: write.seq, attempt };
        let prepared = Prepared::new(Entry {
            id,
            answered: write.answered,
            actor: by.actor.clone(),
            intent: by.intent.clone(),
            time_ms: by.time_ms,
            operation,
        });
        let mut engine = self.lock();
        while engine.journal_is_full() && engine.fence.is_none() {
            // Back-pressure: whoever adds to a full buffer first helps to empty it.
            drop(engine);
            if !self.drive() {
                std::thread::yield_now();
            }
            engine = self.lock();
        }
        if let Err(error) = engine.submit(&prepared) {
            engine.discard_parts(&prepared.entry.operation);
            return Err(error);
        }
        Ok(Ticket { shared: self, id, local: None })
    }

    /// A write outside any session: not recognised when retried.
    pub(crate) fn submit_unnumbered(
        &self,
        operation: Operation,
        by: &Origin,
    ) -> Result<Ticket<'_>> {
        let seq = self.unique();
        let write = SessionWrite { session: SessionId::NONE.0, seq, answered: 0 };
        self.submit_numbered(operation, by, write, 0)
    }

    /// A number no other caller gets, now or after a restart: the term leads.
    pub(crate) fn unique(&self) -> u64 {
        let term = self.lock().raft.1.0;
        let mut last = self.unnumbered.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        (term << 32) | *last
    }

    /// Takes a number of the space's own session, opening it first if need be.
    fn number(&self) -> Result<SessionWrite> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(id) = session.id else {
                drop(session);
                self.open_local_session()?;
                session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if let Some((seq, answered)) = session.take() {
                return Ok(SessionWrite { session: id.0, seq, answered });
            }
            session = self.session_free.wait(session).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open_local_session(&self) -> Result<()> {
        let operation = Operation::OpenSession { owner: "node".to_owned() };
        let ticket = self.submit_unnumbered(operation, &Origin::actor("node"))?;
        let outcome = ticket.applied()?;
        let Outcome::Session { session: id, .. } = outcome else {
            return Err(Error::no(Kind::Internal, "opening a session gave another outcome"));
        };
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if session.id.is_none() {
            session.opened(id);
        }
        Ok(())
    }

    /// Waits until the state covers everything acknowledged before the call.
    pub(crate) fn barrier(&self) -> Result<()> {
        let Some(ticket) = self.lock().begin_read() else { return Ok(()) };
        self.wait(|engine| engine.read_ready(ticket).then_some(()))
    }

    /// The first outcome of a write that is being retried, if its session remembers it.
    pub(crate) fn first_outcome(&self, by: &Origin) -> Result<Option<Outcome>> {
        let Some(write) = by.write else { return Ok(None) };
        let id = WriteId { session: SessionId(write.session), seq: write.seq, attempt: 0 };
        self.barrier()?;
        let outcome = self.lock().state.outcome_of(id).cloned();
        Ok(outcome.transpose()?)
    }

    /// The branch of a write; or, where the name no longer leads to an open branch, the first
    /// outcome of the write if this is a retry.
    pub(crate) fn target_of(&self, branch: &str, by: &Origin) -> Result<Target> {
        let found = crate::names::branch(&self.lock().state, branch);
        match found {
            Ok(id) => Ok(Target::Branch(id)),
            Err(error) => match self.first_outcome(by)? {
                Some(outcome) => Ok(Target::Answered(outcome)),
                None => Err(error),
            },
        }
    }

    /// Orders an operation on a branch and waits until it is applied.
    pub(crate) fn order(
        &self,
        branch: &str,
        by: &Origin,
        operation: impl FnOnce(BranchId) -> Operation,
    ) -> Result<Outcome> {
        match self.target_of(branch, by)? {
            Target::Branch(id) => self.submit(operation(id), by)?.applied(),
            Target::Answered(outcome) => Ok(outcome),
        }
    }

    /// Waits until the journal is durable through an ordinal.
    pub(crate) fn durable(&self, through: Ordinal) -> Result<()> {
        self.wait(|engine| (engine.journal.durable() >= through).then_some(()))
    }
}

impl Ticket<'_> {
    /// Waits until the write is durable, or applied, whichever comes first.
    pub(crate) fn acknowledged(&self) -> Result<()> {
        let id = self.id;
        let refused = self.shared.wait(|engine| {
            let answer = engine.answer(id)?;
            match &answer.outcome {
                Some(outcome) => Some(outcome.clone().err()),
                None => answer.acknowledged.then_some(None),
            }
        })?;
        refused.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Waits until the write is applied.
    pub(crate) fn applied(&self) -> Result<Outcome> {
        Ok(self.decided()??)
    }

    /// Waits until the write is applied or refused when applied.
    pub(crate) fn decided(&self) -> Result<std::result::Result<Outcome, Refusal>> {
        let id = self.id;
        self.shared.wait(|engine| engine.answer(id)?.outcome.clone())
    }

    /// The session and number it went under.
    pub(crate) fn id(&self) -> WriteId {
        self.id
    }
}
