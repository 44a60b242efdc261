//! Admission: what is decided before an operation is acknowledged.

use super::State;
use crate::branch::Status;
use crate::session::Lookup;
use crate::{BranchId, Entry, Operation, Refusal, StreamKind, StreamName, limits};

impl State {
    /// Decides whether an operation may be taken, before it is made durable or acknowledged.
    ///
    /// A nil-external operation admitted now is refused by [`State::apply`] only if its branch is
    /// closed in between (which takes a `Closing`, and the order of everything acknowledged before
    /// it), or its session is, or its own client calls it answered before it is ordered.
    ///
    /// Any other operation may still be refused when it is applied; here only what is plain
    /// already is refused, to save the way through the log. A retry whose first outcome is
    /// remembered is always admitted.
    pub fn admit(&self, entry: &Entry) -> Result<(), Refusal> {
        entry.validate()?;
        match self.sessions.lookup(entry.id) {
            Lookup::Fresh => {}
            Lookup::Replay(_) => return Ok(()),
            Lookup::Refused(refusal) => return Err(refusal),
        }
        match &entry.operation {
            Operation::Append { branch, stream, .. } => {
                self.admit_write(*branch, StreamKind::Plain, stream)
            }
            Operation::Put { branch, stream, .. }
            | Operation::Delete { branch, stream, .. }
            | Operation::Cas { branch, stream, .. }
            | Operation::Incr { branch, stream, .. } => {
                self.admit_write(*branch, StreamKind::Keyed, stream)
            }
            Operation::Fork { parent, name, kind, at, .. } => {
                // A position may lie in what is still to be ordered: its bounds are not plain yet.
                let at = at.filter(|at| *at <= self.applied_index());
                self.check_fork(*parent, name, *kind, at)
            }
            Operation::Closing { branch, .. }
            | Operation::Commit { branch, .. }
            | Operation::AddCheck { branch, .. }
            | Operation::DropCheck { branch, .. } => self.open(*branch).map(|_| ()),
            Operation::Promote { branch, closing, .. }
            | Operation::Discard { branch, closing }
            | Operation::Reopen { branch, closing } => match self.not_closed(*branch)?.status {
                Status::Closing { at, .. } if at == *closing => Ok(()),
                _ => Err(Refusal::NotClosing { branch: *branch, closing: *closing }),
            },
            Operation::CloseSession { session } if self.session(*session).is_none() => {
                Err(self.sessions.absent(*session))
            }
            Operation::CloseSession { .. }
            | Operation::OpenSession { .. }
            | Operation::Checkpoint => Ok(()),
        }
    }

    fn admit_write(
        &self,
        branch: BranchId,
        kind: StreamKind,
        stream: &StreamName,
    ) -> Result<(), Refusal> {
        let of = self.open(branch)?;
        let count = of.own.as_ref().map_or(0, |own| own.plain.len() + own.keyed.len());
        if count >= limits::OWN_STREAMS && of.own_runs(kind, stream).is_none() {
            return Err(Refusal::TooManyStreams { branch, count: count as u64 });
        }
        Ok(())
    }
}
