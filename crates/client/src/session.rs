//! Numbers for writes: which are open, and the mark below which all are answered.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anabranch_api::http::SessionWrite;

/// Writes in flight in one session, at most: below the space's window of 1 024, so that a retry of
/// the oldest always finds its outcome.
const WINDOW: usize = 1_000;

/// The client's session, opened when first needed.
///
/// Invariants: every number below the smallest in `open` (or below `next`, if `open` is empty) has
/// been answered to the caller or given up; `open` holds only numbers below `next`.
#[derive(Default)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Default)]
struct State {
    session: Option<u64>,
    next: u64,
    open: BTreeSet<u64>,
}

/// One number, open until it is dropped.
pub(crate) struct Ticket<'a> {
    sessions: &'a Sessions,
    pub(crate) write: SessionWrite,
}

impl Sessions {
    /// The open session.
    pub(crate) fn current(&self) -> Option<u64> {
        self.lock().session
    }

    /// The next number; waits while the window is full. `open` is called, without other callers
    /// getting in between, if there is no session.
    pub(crate) fn take<E>(&self, open: impl FnOnce() -> Result<u64, E>) -> Result<Ticket<'_>, E> {
        let mut state = self.lock();
        while state.open.len() >= WINDOW {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let session = if let Some(session) = state.session {
            session
        } else {
            let session = open()?;
            *state = State { session: Some(session), next: 1, open: BTreeSet::new() };
            session
        };
        let answered = state.open.first().copied().unwrap_or(state.next) - 1;
        let seq = state.next;
        state.next += 1;
        state.open.insert(seq);
        Ok(Ticket { sessions: self, write: SessionWrite { session, seq, answered } })
    }

    /// The session does not exist any more; the next write opens another.
    pub(crate) fn forget(&self, session: u64) {
        let mut state = self.lock();
        if state.session == Some(session) {
            *state = State::default();
            self.room.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.sessions.lock();
        if state.session == Some(self.write.session) {
            state.open.remove(&self.write.seq);
            self.sessions.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(sessions: &Sessions) -> Ticket<'_> {
        sessions.take(|| Ok::<_, ()>(7)).unwrap()
    }

    #[test]
    fn mark_stops_at_the_oldest_open_write() {
        let sessions = Sessions::default();
        let one = take(&sessions);
        let two = take(&sessions);
        assert_eq!(one.write, SessionWrite { session: 7, seq: 1, answered: 0 });
        assert_eq!(two.write, SessionWrite { session: 7, seq: 2, answered: 0 });
        drop(two);
        assert_eq!(take(&sessions).write.answered, 0);
        drop(one);
        assert_eq!(take(&sessions).write, SessionWrite { session: 7, seq: 4, answered: 3 });
    }

    #[test]
    fn forgotten_session_is_replaced_and_old_tickets_do_not_count() {
        let sessions = Sessions::default();
        let old = take(&sessions);
        sessions.forget(7);
        assert_eq!(sessions.current(), None);
        let new = sessions.take(|| Ok::<_, ()>(8)).unwrap();
        drop(old);
        assert_eq!(new.write, SessionWrite { session: 8, seq: 1, answered: 0 });
        sessions.forget(7);
        assert_eq!(sessions.current(), Some(8));
    }

    #[test]
    fn failure_to_open_leaves_no_trace() {
        let sessions = Sessions::default();
        assert!(sessions.take(|| Err(())).is_err());
        assert_eq!(take(&sessions).write.seq, 1);
    }

    #[test]
    fn full_window_waits_for_an_answer() {
        let sessions = Sessions::default();
        let mut tickets: Vec<_> = (0..WINDOW).map(|_| take(&sessions)).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(&sessions).write);
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert!(!waiting.is_finished());
            drop(tickets.remove(0));
            assert_eq!(waiting.join().unwrap().answered, 1);
        });
    }
}
