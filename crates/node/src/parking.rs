//! Writers that wait for durability only: parked threads, woken one by one without the lock.
//!
//! A crowd of threads woken through a condition variable would all fight for the engine's lock
//! just to learn that they are done. A parked writer learns it from its own word instead.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

use anabranch_store::Flush;

const WAITING: u8 = 0;
const ACKNOWLEDGED: u8 = 1;
const CALLED: u8 = 2;

/// One parked writer.
pub(crate) struct Parked {
    state: AtomicU8,
    thread: Thread,
    /// The flush that it is called to run.
    turn: Mutex<Option<Flush>>,
}

/// Why a parked writer woke.
pub(crate) enum Woken {
    /// Its write is durable.
    Acknowledged,
    /// To run this flush for everybody.
    ToFlush(Flush),
    /// To look for itself: the node is fenced.
    ToLook,
}

impl Parked {
    /// The calling thread, about to wait.
    pub(crate) fn here() -> Arc<Parked> {
        let (state, thread) = (AtomicU8::new(WAITING), std::thread::current());
        Arc::new(Parked { state, thread, turn: Mutex::new(None) })
    }

    /// Sleeps until woken.
    pub(crate) fn sleep(&self) -> Woken {
        while self.state.load(Ordering::Acquire) == WAITING {
            std::thread::park();
        }
        if self.state.load(Ordering::Acquire) == ACKNOWLEDGED {
            return Woken::Acknowledged;
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        turn.map_or(Woken::ToLook, Woken::ToFlush)
    }

    /// Tells it that its write is durable.
    pub(crate) fn acknowledge(&self) {
        self.wake(ACKNOWLEDGED);
    }

    /// Calls it to run a flush, or to look for itself.
    pub(crate) fn call(&self, turn: Option<Flush>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
        self.wake(CALLED);
    }

    fn wake(&self, state: u8) {
        let before = self.state.swap(state, Ordering::AcqRel);
        assert_eq!(before, WAITING, "a parked writer is woken once");
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_before_the_sleep_is_not_lost() {
        let parked = Parked::here();
        parked.call(None);
        assert!(matches!(parked.sleep(), Woken::ToLook));
    }

    #[test]
    fn a_sleeping_thread_is_woken() {
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let parked = Parked::here();
            send.send(Arc::clone(&parked)).unwrap();
            matches!(parked.sleep(), Woken::Acknowledged)
        });
        receive.recv().unwrap().acknowledge();
        assert!(thread.join().unwrap());
    }
}
