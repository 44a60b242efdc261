//! The space's own session: numbers writes of callers that bring no session of their own.

use std::collections::BTreeSet;

use anabranch_log::SessionId;

/// Sequence numbers of one session, given out in order.
///
/// Invariants: every number below the smallest in `open` (or below `next` if `open` is empty) has
/// been answered; `open` holds only numbers below `next`; `next` is at most `WINDOW` above the
/// smallest number in `open`, however long its writer is kept waiting.
#[derive(Debug, Default)]
pub(crate) struct LocalSession {
    /// The session, once it was opened in the log.
    pub(crate) id: Option<SessionId>,
    next: u64,
    open: BTreeSet<u64>,
}

/// Span of unanswered numbers, at most: below the log's window, so that the log never refuses one.
pub(crate) const WINDOW: u64 = 1_000;

impl LocalSession {
    /// Starts numbering for a session that was just opened.
    pub(crate) fn opened(&mut self, id: SessionId) {
        *self = LocalSession { id: Some(id), next: 1, open: BTreeSet::new() };
    }

    /// The next number and the answered low-water mark, or `None` while the window is full.
    pub(crate) fn take(&mut self) -> Option<(u64, u64)> {
        let oldest = self.open.first().map_or(self.next, |first| *first);
        if self.next - oldest >= WINDOW {
            return None;
        }
        let answered = oldest - 1;
        let seq = self.next;
        self.next += 1;
        self.open.insert(seq);
        Some((seq, answered))
    }

    /// The caller of `seq` has its answer.
    pub(crate) fn answered(&mut self, seq: u64) {
        self.open.remove(&seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_water_mark_stops_at_the_oldest_open_write() {
        let mut session = LocalSession::default();
        session.opened(SessionId(7));
        assert_eq!(session.take(), Some((1, 0)));
        assert_eq!(session.take(), Some((2, 0)));
        session.answered(2);
        assert_eq!(session.take(), Some((3, 0)));
        session.answered(1);
        assert_eq!(session.take(), Some((4, 2)));
    }

    #[test]
    fn window_is_bounded() {
        let mut session = LocalSession::default();
        session.opened(SessionId(7));
        for _ in 0..WINDOW {
            assert!(session.take().is_some());
        }
        assert_eq!(session.take(), None);
        session.answered(500);
        assert_eq!(session.take(), None, "the oldest write still holds the window");
        session.answered(1);
        assert!(session.take().is_some());
    }
}
