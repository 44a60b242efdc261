//! Applying an entry: session, dispatch, and the outcome kept for retries.

use super::State;
use crate::session::Lookup;
use crate::{Applied, Change, Entry, Index, Operation, Outcome, Refusal};

impl State {
    /// Applies the next entry of the order.
    ///
    /// Total: every entry gets an outcome or a refusal, whatever it holds. An entry that fails
    /// [`Entry::validate`] leaves no trace; any other refusal is remembered by its session like an
    /// outcome, except those that leave the number free for the next attempt
    /// ([`Refusal::leaves_seq_unused`]). What was acknowledged after [`State::admit`] is refused
    /// here only for the reasons named there.
    pub fn apply(&mut self, entry: &Entry) -> Applied {
        if let Err(refusal) = entry.validate() {
            return self.refused(refusal);
        }
        let id = entry.id;
        match self.sessions.lookup(id) {
            Lookup::Fresh => {}
            Lookup::Replay(outcome) => {
                let outcome = outcome.clone();
                self.sessions.advance(id.session, entry.answered);
                let first = Index(self.next);
                return Applied { first, count: 0, outcome, replayed: true, changes: Vec::new() };
            }
            Lookup::Refused(refusal) => return self.refused(refusal),
        }
        self.sessions.advance(id.session, entry.answered);
        let first = Index(self.next);
        let mut changes = Vec::new();
        let outcome = self.execute(&entry.operation, &mut changes);
        let count = self.next - first.0;
        if let Ok(done) = &outcome {
            assert_eq!(count, entry.operation.index_count(), "every operation takes its share");
            assert_eq!(done.index(), first, "an outcome names its first index");
        } else {
            assert_eq!(count, 0, "a refused operation takes no index");
            assert!(changes.is_empty(), "a refused operation changes nothing");
        }
        if !matches!(&outcome, Err(refusal) if refusal.leaves_seq_unused()) {
            self.sessions.keep(id, &outcome);
        }
        Applied { first, count, outcome, replayed: false, changes }
    }

    fn refused(&self, refusal: Refusal) -> Applied {
        Applied {
            first: Index(self.next),
            count: 0,
            outcome: Err(refusal),
            replayed: false,
            changes: Vec::new(),
        }
    }

    /// Each arm refuses before it changes anything.
    fn execute(
        &mut self,
        operation: &Operation,
        changes: &mut Vec<Change>,
    ) -> Result<Outcome, Refusal> {
        match operation {
            Operation::Append { branch, stream, expected, records } => {
                self.append(*branch, stream, *expected, records, changes)
            }
            Operation::Put { branch, stream, key, value } => {
                self.not_closed(*branch)?;
                Ok(self.put(*branch, stream, key, Some(value), changes))
            }
            Operation::Delete { branch, stream, key } => {
                self.not_closed(*branch)?;
                Ok(self.put(*branch, stream, key, None, changes))
            }
            Operation::Cas { branch, stream, key, expected, value } => {
                self.open(*branch)?;
                self.check_version(*branch, stream, key, *expected)?;
                Ok(self.put(*branch, stream, key, value.as_deref(), changes))
            }
            Operation::Incr { branch, stream, key, delta } => {
                self.incr(*branch, stream, key, *delta, changes)
            }
            Operation::Fork { parent, name, kind, at, owner, ttl_ms } => {
                self.check_fork(*parent, name, *kind, *at)?;
                Ok(self.fork((*parent, *kind, *at), name, owner, *ttl_ms, changes))
            }
            Operation::Closing { branch, purpose } => self.closing(*branch, *purpose),
            Operation::Promote { .. } => self.promote(operation, changes),
            Operation::Discard { branch, closing } => self.discard(*branch, *closing, changes),
            Operation::Reopen { branch, closing } => self.reopen(*branch, *closing),
            Operation::Commit { branch, base, parent, .. } => {
                self.commit(*branch, *base, *parent, changes)
            }
            Operation::AddCheck { branch, name, sql } => self.add_check(*branch, name, sql),
            Operation::DropCheck { branch, name } => self.drop_check(*branch, name),
            Operation::OpenSession { owner } => self.open_session(owner),
            Operation::CloseSession { session } => self.close_session(*session),
            Operation::Checkpoint => Ok(Outcome::Checkpointed { index: Index(self.take(1)) }),
        }
    }
}
