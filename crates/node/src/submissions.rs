//! Writes left for whoever ends the flush under way.
//!
//! A crowd of writers that all want the engine's lock would keep it from the one thread that the
//! disk waits for. While a flush is under way they leave their writes here instead, under a lock
//! held for a push only, and whoever ends the flush takes all of them in at once (flat combining:
//! Hendler, Incze, Shavit and Tzafrir, SPAA 2010).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_log::{BranchId, Entry, Kind, Operation};

use crate::engine::{Engine, Prepared};
use crate::error::Error;
use crate::names;
use crate::parking::{Crowd, Parked, Woken, wake};
use crate::view::Origin;
use crate::write::Numbered;

/// Makes the operation once its branch is known.
pub(crate) type Make = Box<dyn FnOnce(BranchId) -> Operation + Send>;

/// A nil-external write that was left.
pub(crate) struct Submission {
    pub(crate) branch: String,
    pub(crate) by: Origin,
    pub(crate) make: Make,
    pub(crate) parked: Arc<Parked>,
}

/// What became of it.
pub(crate) enum Taken {
    /// Submitted under this number.
    In(Numbered),
    /// It did not happen.
    Refused(Error),
    /// Its writer has to submit it itself.
    Back(Make),
}

/// The writes left, and whether anybody is going to take them in.
#[derive(Default)]
pub(crate) struct Submissions(Mutex<Left>);

/// Invariants: while `attended`, a flush is under way, and whoever ends it takes `writes` in;
/// else `writes` is empty.
#[derive(Default)]
struct Left {
    attended: bool,
    writes: Vec<Submission>,
    /// What those sleep on who come before the next take.
    crowd: Arc<Crowd>,
}

impl Submissions {
    /// Leaves the write that `make` makes, unless nobody would take it in.
    pub(crate) fn leave(
        &self,
        make: impl FnOnce(Arc<Parked>) -> Submission,
    ) -> Option<Arc<Parked>> {
        let mut left = self.lock();
        if !left.attended {
            return None;
        }
        let parked = Parked::new(&left.crowd);
        left.writes.push(make(Arc::clone(&parked)));
        Some(parked)
    }

    /// Somebody who just took the turn to flush promises to take in what will be left.
    pub(crate) fn attend(&self) {
        self.lock().attended = true;
    }

    /// Everything left so far; if that is nothing and the promise ends here, `None`.
    pub(crate) fn take(&self, last: bool) -> Option<Vec<Submission>> {
        let mut left = self.lock();
        if left.writes.is_empty() && last {
            left.attended = false;
            return None;
        }
        left.crowd = Arc::default();
        let room = Vec::with_capacity(left.writes.len());
        Some(std::mem::replace(&mut left.writes, room))
    }

    /// For a writer that parks after it submitted its write itself.
    pub(crate) fn crowd(&self) -> Arc<Crowd> {
        Arc::clone(&self.lock().crowd)
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Submission {
    /// Submits the write for its writer, which sleeps on until it is durable, or is woken now if
    /// it has something else to do.
    pub(crate) fn take_in(self, engine: &mut Engine) {
        let Submission { branch, by, make, parked } = self;
        let Some(numbered) = engine.number(&by).filter(|_| engine.flusher) else {
            parked.tell(Taken::Back(make));
            return wake([(&parked, Woken::ToLook)]);
        };
        let submitted = names::branch(&engine.state, &branch).and_then(|branch| {
            engine.submit(&Prepared::new(Entry {
                id: numbered.id,
                answered: numbered.answered,
                actor: by.actor,
                intent: by.intent,
                time_ms: by.time_ms,
                operation: make(branch),
            }))
        });
        if let Err(error) = submitted {
            engine.answered(numbered.local);
            parked.tell(Taken::Refused(error));
            return wake([(&parked, Woken::ToLook)]);
        }
        parked.tell(Taken::In(numbered));
        if engine.is_open(numbered.id) {
            engine.park(numbered, parked);
        } else {
            wake([(&parked, Woken::ToLook)]);
        }
    }

    /// Tells the writer that nobody will take the write in any more.
    pub(crate) fn refuse(self) {
        let message = "the thread that took writes in panicked; restart the node";
        self.parked.tell(Taken::Refused(Error::no(Kind::Internal, message)));
        wake([(&self.parked, Woken::ToLook)]);
    }
}
