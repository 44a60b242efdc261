//! Writers that wait for durability only: parked threads, woken one by one without the lock.
//!
//! A crowd of threads woken through a condition variable would all fight for the engine's lock
//! just to learn that they are done. A parked writer learns it from its own word instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;

const WAITING: u8 = 0;
const ACKNOWLEDGED: u8 = 1;
const CALLED: u8 = 2;

/// One parked writer.
#[derive(Debug)]
pub(crate) struct Parked {
    state: AtomicU8,
    thread: Thread,
}

impl Parked {
    /// The calling thread, about to wait.
    pub(crate) fn here() -> Arc<Parked> {
        Arc::new(Parked { state: AtomicU8::new(WAITING), thread: std::thread::current() })
    }

    /// Sleeps until woken: true if the write is durable, false if the thread is called to look
    /// for itself (to run the next flush, or because the node is fenced).
    pub(crate) fn sleep(&self) -> bool {
        loop {
            match self.state.load(Ordering::Acquire) {
                WAITING => std::thread::park(),
                state => return state == ACKNOWLEDGED,
            }
        }
    }

    /// Tells it that its write is durable.
    pub(crate) fn acknowledge(&self) {
        self.wake(ACKNOWLEDGED);
    }

    /// Calls it to look for itself.
    pub(crate) fn call(&self) {
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
        parked.call();
        assert!(!parked.sleep(), "called, not acknowledged");
    }

    #[test]
    fn a_sleeping_thread_is_woken() {
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let parked = Parked::here();
            send.send(Arc::clone(&parked)).unwrap();
            parked.sleep()
        });
        receive.recv().unwrap().acknowledge();
        assert!(thread.join().unwrap());
    }
}
