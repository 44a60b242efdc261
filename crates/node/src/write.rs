//! From an operation to its answer: numbered, submitted, waited for.
//!
//! One write is one stay in the lock, but for the sleep: names are resolved, the number is taken
//! and the payload made where they cannot change any more.

use std::sync::{Arc, MutexGuard};

use anabranch_log::{
    BranchId, Entry, Happened, Kind, Operation, Outcome, Refusal, SessionId, State, WriteId,
};

use crate::engine::{Engine, Prepared};
use crate::error::{Error, Result};
use crate::names;
use crate::parking::{Parked, Woken};
use crate::shared::Shared;
use crate::submissions::{Submission, Taken};
use crate::view::{Acknowledged, Origin, SessionWrite};

/// What an operation learnt when it was applied.
pub(crate) type Decided = std::result::Result<Outcome, Refusal>;

/// What a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Durable, or applied, whichever comes first.
    Acknowledged,
    /// Applied.
    Decided,
}

/// A write's name, and what goes with it.
#[derive(Clone, Copy)]
pub(crate) struct Numbered {
    pub(crate) id: WriteId,
    /// Every number up to here (inclusive) has been answered.
    pub(crate) answered: u64,
    /// Its number, if it is one of the space's own session.
    pub(crate) local: Option<u64>,
}

/// Bytes of an operation above which encoding and hashing it would hold the lock for long.
const LARGE: usize = 8 << 10;

/// Where a write goes.
pub(crate) enum Target {
    /// To this branch.
    Branch(BranchId),
    /// Nowhere: it is a retry, and this was the answer.
    Answered(Outcome),
}

impl Shared {
    /// A nil-external write of about `bytes` to a branch: durable on return.
    pub(crate) fn acknowledge(
        &self,
        branch: &str,
        by: &Origin,
        bytes: usize,
        operation: impl FnOnce(BranchId) -> Operation + Send + 'static,
    ) -> Result<Acknowledged> {
        let (id, decided) = match self.acknowledge_once(branch, by, bytes, operation) {
            Ok(done) => done,
            Err(error) => {
                let id = self.answered_before(by, error)?.0;
                (WriteId { session: SessionId(id.session), seq: id.seq, attempt: 0 }, None)
            }
        };
        decided.transpose()?;
        Ok(Acknowledged { session: id.session.0, seq: id.seq })
    }

    /// The same for an attempt that nothing is known about.
    fn acknowledge_once(
        &self,
        branch: &str,
        by: &Origin,
        bytes: usize,
        operation: impl FnOnce(BranchId) -> Operation + Send + 'static,
    ) -> Result<(WriteId, Option<Decided>)> {
        let mut operation = Some(operation);
        let mut left = None;
        if bytes <= LARGE {
            left = self.submissions.leave(|parked| Submission {
                branch: branch.to_owned(),
                by: by.clone(),
                make: Box::new(operation.take().expect("asked once")),
                parked,
            });
        }
        if let Some(operation) = operation {
            let make = |state: &State| Ok(operation(names::branch(state, branch)?));
            return self.perform(by, 0, Until::Acknowledged, make);
        }
        let parked = left.expect("the operation went with it");
        let woken = parked.sleep();
        match parked.taken() {
            Taken::In(numbered) => {
                let decided = self.wake_up(woken, numbered, Until::Acknowledged)?;
                Ok((numbered.id, decided))
            }
            Taken::Refused(error) => Err(error),
            Taken::Back(operation) => {
                let make = |state: &State| Ok(operation(names::branch(state, branch)?));
                self.perform(by, 0, Until::Acknowledged, make)
            }
        }
    }

    /// Orders an operation on a branch; applied on return.
    pub(crate) fn order(
        &self,
        branch: &str,
        by: &Origin,
        operation: impl FnOnce(BranchId) -> Operation,
    ) -> Result<Outcome> {
        let make = |state: &State| Ok(operation(names::branch(state, branch)?));
        match self.perform(by, 0, Until::Decided, make) {
            Ok((_, decided)) => Ok(decided.ok_or_else(undecided)??),
            Err(error) => Ok(self.answered_before(by, error)?.1),
        }
    }

    /// Orders an operation; applied on return.
    pub(crate) fn applied(&self, operation: Operation, by: &Origin) -> Result<Outcome> {
        Ok(self.decided(operation, by, 0)??)
    }

    /// Orders run number `attempt` of an operation; applied, or refused when applied, on return.
    pub(crate) fn decided(
        &self,
        operation: Operation,
        by: &Origin,
        attempt: u32,
    ) -> Result<Decided> {
        let (_, decided) = self.perform(by, attempt, Until::Decided, |_| Ok(operation))?;
        decided.ok_or_else(undecided)
    }

    /// Orders an operation outside any session: not recognised when retried.
    pub(crate) fn unnumbered(&self, operation: Operation, by: &Origin) -> Result<Outcome> {
        let mut engine = self.lock();
        let id = WriteId { session: SessionId::NONE, seq: engine.unique(), attempt: 0 };
        let numbered = Numbered { id, answered: 0, local: None };
        let answer = self.submit_and_wait(engine, operation, by, numbered, Until::Decided)?;
        Ok(answer.ok_or_else(undecided)??)
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
        let found = names::branch(&self.lock().state, branch);
        match found {
            Ok(id) => Ok(Target::Branch(id)),
            Err(error) => Ok(Target::Answered(self.answered_before(by, error)?.1)),
        }
    }

    /// The first outcome of a refused write, if it is a retry of one that happened; else the error.
    fn answered_before(&self, by: &Origin, error: Error) -> Result<(SessionWrite, Outcome)> {
        if error.happened != Happened::No {
            // Not refused: looking it up may fail, too, and that error would say it did not happen.
            return Err(error);
        }
        match (by.write, self.first_outcome(by)?) {
            (Some(write), Some(outcome)) => Ok((write, outcome)),
            _ => Err(error),
        }
    }

    fn perform(
        &self,
        by: &Origin,
        attempt: u32,
        until: Until,
        make: impl FnOnce(&State) -> Result<Operation>,
    ) -> Result<(WriteId, Option<Decided>)> {
        let (mut engine, mut numbered) = self.number(by)?;
        numbered.id.attempt = attempt;
        match make(&engine.state) {
            Ok(operation) => {
                let id = numbered.id;
                Ok((id, self.submit_and_wait(engine, operation, by, numbered, until)?))
            }
            Err(error) => {
                engine.answered(numbered.local);
                Err(error)
            }
        }
    }

    fn submit_and_wait<'a>(
        &'a self,
        mut engine: MutexGuard<'a, Engine>,
        operation: Operation,
        by: &Origin,
        numbered: Numbered,
        until: Until,
    ) -> Result<Option<Decided>> {
        let Numbered { id, answered, local } = numbered;
        let entry = Entry {
            id,
            answered,
            actor: by.actor.clone(),
            intent: by.intent.clone(),
            time_ms: by.time_ms,
            operation,
        };
        let prepared = if is_large(&entry.operation) {
            drop(engine);
            let prepared = Prepared::new(entry);
            engine = self.lock();
            prepared
        } else {
            Prepared::new(entry)
        };
        if engine.journal_is_full() {
            // Back-pressure: whoever adds to a full buffer first helps to empty it.
            let (back, emptied) =
                self.wait_locked(engine, |engine| (!engine.journal_is_full()).then_some(()));
            engine = back;
            if let Err(error) = emptied {
                engine.answered(local);
                return Err(Error::no(error.kind, error.message));
            }
        }
        if let Err(error) = engine.submit(&prepared) {
            engine.discard_parts(&prepared.entry.operation);
            engine.answered(local);
            return Err(error);
        }
        if until == Until::Acknowledged && engine.flusher && engine.flushing && engine.is_open(id) {
            let parked = Parked::new(&self.submissions.crowd());
            engine.park(numbered, Arc::clone(&parked));
            drop(engine);
            return self.wake_up(parked.sleep(), numbered, until);
        }
        self.wait_for_answer(engine, numbered, until)
    }

    /// What a writer does that was parked and woken.
    fn wake_up(&self, woken: Woken, numbered: Numbered, until: Until) -> Result<Option<Decided>> {
        match woken {
            Woken::Acknowledged => Ok(None),
            Woken::ToApply => {
                self.apply_decided(&mut self.lock());
                Ok(None)
            }
            Woken::ToLook => self.wait_for_answer(self.lock(), numbered, until),
        }
    }

    fn wait_for_answer<'a>(
        &'a self,
        engine: MutexGuard<'a, Engine>,
        numbered: Numbered,
        until: Until,
    ) -> Result<Option<Decided>> {
        let Numbered { id, local, .. } = numbered;
        let (mut engine, answer) = self.wait_locked(engine, |engine| {
            let answer = engine.answer(id)?;
            match &answer.outcome {
                Some(outcome) => Some(Some(outcome.clone())),
                None => (until == Until::Acknowledged && answer.acknowledged).then_some(None),
            }
        });
        engine.forget(id);
        engine.answered(local);
        answer
    }

    /// The number of a write: the caller's, or the next of the space's own session, which is
    /// opened first if need be.
    fn number(&self, by: &Origin) -> Result<(MutexGuard<'_, Engine>, Numbered)> {
        let mut engine = self.lock();
        loop {
            if let Some(numbered) = engine.number(by) {
                return Ok((engine, numbered));
            }
            if engine.session.id.is_none() {
                drop(engine);
                self.open_local_session()?;
                engine = self.lock();
                continue;
            }
            // The window is full: help those that fill it to get their answers.
            drop(engine);
            self.drive();
            std::thread::sleep(std::time::Duration::from_micros(200));
            engine = self.lock();
        }
    }

    fn open_local_session(&self) -> Result<()> {
        let operation = Operation::OpenSession { owner: "node".to_owned() };
        let outcome = self.unnumbered(operation, &Origin::actor("node"))?;
        let Outcome::Session { session: id, .. } = outcome else {
            return Err(Error::no(Kind::Internal, "opening a session gave another outcome"));
        };
        let mut engine = self.lock();
        if engine.session.id.is_none() {
            engine.session.opened(id);
        }
        Ok(())
    }
}

/// Whether encoding and hashing the operation would hold the lock for long.
fn is_large(operation: &Operation) -> bool {
    match operation {
        Operation::Append { records, .. } => records.iter().map(Vec::len).sum::<usize>() > LARGE,
        Operation::Put { value, .. } => value.len() > LARGE,
        _ => crate::body::tables_body(operation).is_some(),
    }
}

fn undecided() -> Error {
    Error::unknown(Kind::Internal, "an operation was answered before it was applied")
}
