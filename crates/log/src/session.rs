//! Client sessions: the reason a retry takes effect once.
//!
//! A session remembers the outcome of each write that the client has not called answered. The
//! window ([`crate::limits::SESSION_WINDOW`]) bounds how many those are: an entry's number lies at
//! most the window above its own low-water mark, and the session's mark is never below that of any
//! entry applied, so all kept outcomes lie within one window.

use std::collections::BTreeMap;

use crate::{Index, Invalid, Outcome, Refusal, SessionId, WriteId};

/// One open session. Read it through its methods; the state changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub(crate) owner: Box<str>,
    pub(crate) opened: Index,
    /// All numbers up to and including this one are answered. Never falls.
    pub(crate) answered: u64,
    /// Outcomes by number, all above `answered` and at most the window above it.
    pub(crate) outcomes: BTreeMap<u64, Result<Outcome, Refusal>>,
}

impl Session {
    /// Who opened it.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Index of the operation that opened it.
    #[must_use]
    pub fn opened(&self) -> Index {
        self.opened
    }

    /// The client's low-water mark: all numbers up to and including it are answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Outcomes kept for retries.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.outcomes.len()
    }
}

/// All sessions of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sessions {
    /// Number of the next session; all below it, from 1, were given once.
    pub(crate) next: u64,
    pub(crate) open: BTreeMap<SessionId, Session>,
}

/// What the sessions say about a write.
pub(crate) enum Lookup<'a> {
    /// Never executed, as far as is remembered: execute it.
    Fresh,
    /// Executed before, with this outcome.
    Replay(&'a Result<Outcome, Refusal>),
    /// Must not be executed.
    Refused(Refusal),
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions { next: 1, open: BTreeMap::new() }
    }

    pub(crate) fn lookup(&self, id: WriteId) -> Lookup<'_> {
        if id.session == SessionId::NONE {
            return Lookup::Fresh;
        }
        let Some(session) = self.open.get(&id.session) else {
            return Lookup::Refused(self.absent(id.session));
        };
        if let Some(outcome) = session.outcomes.get(&id.seq) {
            return Lookup::Replay(outcome);
        }
        if id.seq <= session.answered {
            let (session, seq) = (id.session, id.seq);
            return Lookup::Refused(Refusal::OutcomeForgotten { session, seq });
        }
        Lookup::Fresh
    }

    /// Why an absent session is refused.
    pub(crate) fn absent(&self, session: SessionId) -> Refusal {
        if session != SessionId::NONE && session.0 < self.next {
            Refusal::SessionExpired { session }
        } else {
            Refusal::Invalid(Invalid::SessionNeverGiven)
        }
    }

    /// Forgets what the client calls answered.
    pub(crate) fn advance(&mut self, id: SessionId, answered: u64) {
        if let Some(session) = self.open.get_mut(&id)
            && answered > session.answered
        {
            session.answered = answered;
            session.outcomes = session.outcomes.split_off(&(answered + 1));
        }
    }

    /// Keeps an outcome for retries, unless the entry itself closed its session.
    pub(crate) fn keep(&mut self, id: WriteId, outcome: &Result<Outcome, Refusal>) {
        if let Some(session) = self.open.get_mut(&id.session) {
            let before = session.outcomes.insert(id.seq, outcome.clone());
            assert!(before.is_none(), "a write is executed once");
        }
    }

    pub(crate) fn open(&mut self, owner: &str, opened: Index) -> SessionId {
        let id = SessionId(self.next);
        self.next += 1;
        let session =
            Session { owner: owner.into(), opened, answered: 0, outcomes: BTreeMap::new() };
        self.open.insert(id, session);
        id
    }
}
