//! Writers that wait for durability only: parked threads, woken together without the lock.
//!
//! A crowd of threads woken through a condition variable would all fight for the engine's lock
//! just to learn that they are done. A parked writer learns it from its own word instead, and all
//! that parked during one flush sleep on one word more, so that one system call wakes them.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::submissions::Taken;

const WAITING: u8 = 0;
const ACKNOWLEDGED: u8 = 1;
const TO_APPLY: u8 = 2;
const TO_LOOK: u8 = 3;

/// Those who parked during the same flush.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Number of times that somebody in it was told something.
    told: AtomicU32,
}

/// One parked writer.
pub(crate) struct Parked {
    state: AtomicU8,
    crowd: Arc<Crowd>,
    /// What became of the write that it left, if it left one.
    taken: Mutex<Option<Taken>>,
}

/// Why a parked writer woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Its write is durable.
    Acknowledged,
    /// Its write is durable; before it goes it applies what was decided.
    ToApply,
    /// To look for itself: nobody else will.
    ToLook,
}

impl Parked {
    pub(crate) fn new(crowd: &Arc<Crowd>) -> Arc<Parked> {
        let state = AtomicU8::new(WAITING);
        Arc::new(Parked { state, crowd: Arc::clone(crowd), taken: Mutex::default() })
    }

    /// Says what became of the write that it left, before it is woken.
    pub(crate) fn tell(&self, taken: Taken) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }

    /// What became of the write that it left; asked once, after the sleep.
    pub(crate) fn taken(&self) -> Taken {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.expect("whoever takes a write in says what became of it")
    }

    /// Sleeps until woken.
    pub(crate) fn sleep(&self) -> Woken {
        loop {
            let told = self.crowd.told.load(Ordering::Acquire);
            match self.state.load(Ordering::Acquire) {
                WAITING => atomic_wait::wait(&self.crowd.told, told),
                ACKNOWLEDGED => return Woken::Acknowledged,
                TO_APPLY => return Woken::ToApply,
                _ => return Woken::ToLook,
            }
        }
    }
}

/// Tells each of them why and wakes them.
pub(crate) fn wake<'a>(parked: impl IntoIterator<Item = (&'a Arc<Parked>, Woken)>) {
    let mut crowds: Vec<&Arc<Crowd>> = Vec::new();
    for (parked, why) in parked {
        let state = match why {
            Woken::Acknowledged => ACKNOWLEDGED,
            Woken::ToApply => TO_APPLY,
            Woken::ToLook => TO_LOOK,
        };
        let before = parked.state.swap(state, Ordering::AcqRel);
        assert_eq!(before, WAITING, "a parked writer is woken once");
        if crowds.last().is_none_or(|last| !Arc::ptr_eq(last, &parked.crowd)) {
            crowds.push(&parked.crowd);
        }
    }
    for crowd in crowds {
        crowd.told.fetch_add(1, Ordering::AcqRel);
        atomic_wait::wake_all(&raw const crowd.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_before_the_sleep_is_not_lost() {
        let parked = Parked::new(&Arc::default());
        wake([(&parked, Woken::ToLook)]);
        assert_eq!(parked.sleep(), Woken::ToLook);
    }

    #[test]
    fn sleepers_learn_what_they_were_told_each_and_the_others_sleep_on() {
        let crowd = Arc::default();
        let parked: Vec<_> = (0..4).map(|_| Parked::new(&crowd)).collect();
        let (send, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for (number, parked) in parked.iter().enumerate() {
                let send = send.clone();
                scope.spawn(move || send.send((number, parked.sleep())).unwrap());
            }
            wake(parked[..2].iter().map(|parked| (parked, Woken::Acknowledged)));
            let mut first = [told.recv().unwrap(), told.recv().unwrap()];
            first.sort_by_key(|(number, _)| *number);
            assert_eq!(first, [(0, Woken::Acknowledged), (1, Woken::Acknowledged)]);
            assert!(told.try_recv().is_err(), "nobody else was told anything");
            wake(parked[2..].iter().map(|parked| (parked, Woken::ToLook)));
            for _ in 2..4 {
                assert_eq!(told.recv().unwrap().1, Woken::ToLook);
            }
        });
    }
}
