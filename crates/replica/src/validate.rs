//! The rules as inequalities. Run after every step in debug builds; tests call it too.
//!
//! The numbers are those of the list in the crate's documentation.

use crate::Replica;

impl Replica {
    /// Panics unless every invariant of the replica holds.
    pub fn validate(&self) {
        let (entries, applied) = (self.raft.entries(), self.raft.applied());
        let last = entries.last_index();
        entries.validate();
        self.writes.validate();
        self.reads.validate(self.unordered.durable_end());

        // 1. Ends of the log.
        assert!(entries.base().0 <= applied, "only applied entries are compacted");
        assert!(applied <= self.raft.committed(), "only committed entries are applied");
        assert!(self.raft.committed() <= self.raft.durable(), "one voter commits what it has");
        assert!(self.raft.durable() <= last, "only entries of the log are durable");
        assert_eq!(last.next(), self.raft.next_index(), "every entry is handed to be written");

        // 2. and 3. The unordered log.
        self.unordered.validate(self.durable, applied, last);

        // 4. Term and vote.
        let term = self.raft.term();
        assert!(self.durable_vote.term <= term, "a vote is stored as it was cast");
        assert_eq!(
            self.durable_vote.term < term,
            self.writes.vote_pending(),
            "a new term is being stored until it is durable"
        );
        if let Some((_, led)) = self.leader {
            assert!(led <= self.durable_vote.term, "nobody leads a term that is not durable");
        }
        assert!(
            entries.term(last).is_some_and(|newest| newest <= term),
            "no entry is of the future"
        );
    }
}
