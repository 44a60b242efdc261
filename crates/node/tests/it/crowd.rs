//! Many writers at once, while the disk is slow, fails, or the thread that waits for it panics.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_log::{Happened, Kind};
use anabranch_node::{Acknowledged, Error, MonotonicClock, Options, Origin, SessionWrite, Space};
use anabranch_store::{Disk, DiskFile, LockGuard, MemoryDisk, Open};

use crate::{me, records, values};

/// What becomes of a sync of the journal.
#[derive(Clone, Copy, PartialEq)]
enum Syncs {
    Done,
    Held,
    Failed,
    Panicking,
}

#[derive(Clone)]
struct Gate(Arc<(Mutex<Syncs>, Condvar)>);

impl Gate {
    fn set(&self, syncs: Syncs) {
        *self.lock() = syncs;
        self.0.1.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        let waited = self.0.1.wait_while(self.lock(), |syncs| *syncs == Syncs::Held);
        let syncs = *waited.unwrap_or_else(PoisonError::into_inner);
        match syncs {
            Syncs::Done | Syncs::Held => Ok(()),
            Syncs::Failed => Err(io::Error::other("injected")),
            Syncs::Panicking => panic!("injected"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Syncs> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A disk in memory whose journal syncs pass a gate.
struct Gated(MemoryDisk, Gate);

impl Disk for Gated {
    fn open(&self, path: &str, mode: Open) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.0.open(path, mode)?;
        let gate = path.starts_with("journal").then(|| self.1.clone());
        Ok(Arc::new(GatedFile(file, gate)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        self.0.rename(source, target)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.0.create_dir(dir)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn lock(&self) -> io::Result<LockGuard> {
        self.0.lock()
    }
}

struct GatedFile(Arc<dyn DiskFile>, Option<Gate>);

impl DiskFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.1.as_ref().map_or(Ok(()), Gate::pass)?;
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.drop_cache()
    }
}

fn open() -> (Space, Gate) {
    let gate = Gate(Arc::new((Mutex::new(Syncs::Done), Condvar::new())));
    let disk = Arc::new(Gated(MemoryDisk::new(), gate.clone()));
    let space = Space::open_on(disk, Arc::new(MonotonicClock::new()), Options::default()).unwrap();
    space.append("main", "s", records(&["first"]), &me()).unwrap();
    (space, gate)
}

type Writer = JoinHandle<Result<Acknowledged, Error>>;

/// Writers that begin while a flush is held; the last two are refused, the one before is large.
fn crowd(space: &Space, gate: &Gate) -> Vec<Writer> {
    gate.set(Syncs::Held);
    let spawn = |branch: &'static str, record: Vec<u8>, by: Origin| {
        let space = space.clone();
        std::thread::spawn(move || space.append(branch, "s", vec![record], &by))
    };
    let mut writers: Vec<_> =
        (0..9).map(|number| spawn("main", format!("{number}").into_bytes(), me())).collect();
    writers.push(spawn("main", vec![b'l'; 20 << 10], me()));
    // Most of them are asleep by now; whoever is not is answered all the same.
    std::thread::sleep(Duration::from_millis(60));
    writers.push(spawn("nowhere", b"lost".to_vec(), me()));
    let write = Some(SessionWrite { session: 999, seq: 1, answered: 0 });
    writers.push(spawn("main", b"lost".to_vec(), Origin { write, ..me() }));
    std::thread::sleep(Duration::from_millis(60));
    writers
}

#[test]
fn writes_that_come_during_a_flush_are_taken_in_at_its_end() {
    let (space, gate) = open();
    let mut writers = crowd(&space, &gate);
    gate.set(Syncs::Done);
    let refused = writers.split_off(10).into_iter().map(|writer| writer.join().unwrap());
    let refused: Vec<_> = refused.map(|result| result.unwrap_err().kind).collect();
    assert_eq!(refused, [Kind::UnknownBranch, Kind::InvalidArgument]);
    let numbers: Vec<_> =
        writers.into_iter().map(|writer| writer.join().unwrap().unwrap().seq).collect();
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), numbers.len(), "every write has its own number");
    let mut found = values(&space, "main", "s");
    assert_eq!(found.remove(0), "first");
    found.sort_unstable();
    assert!(found.pop().is_some_and(|large| large.len() == 20 << 10));
    assert!(found.into_iter().eq((0..9).map(|number| number.to_string())), "each of them once");
}

#[test]
fn a_retry_that_comes_during_the_flush_of_its_first_attempt_happens_once() {
    let (space, gate) = open();
    let session = space.open_session(&me()).unwrap();
    gate.set(Syncs::Held);
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let space = space.clone();
            let write = Some(SessionWrite { session, seq: 1, answered: 0 });
            let by = Origin { write, ..me() };
            std::thread::spawn(move || space.append("main", "s", records(&["once"]), &by))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(60));
    gate.set(Syncs::Done);
    for writer in writers {
        assert_eq!(writer.join().unwrap().unwrap(), Acknowledged { session, seq: 1 });
    }
    assert_eq!(values(&space, "main", "s"), ["first", "once"]);
}

#[test]
fn nobody_sleeps_on_after_a_failed_flush() {
    let (space, gate) = open();
    let writers = crowd(&space, &gate);
    gate.set(Syncs::Failed);
    let mut unknown = 0;
    for writer in writers {
        let error = writer.join().unwrap().unwrap_err();
        unknown += u32::from(error.happened == Happened::Unknown);
    }
    assert!(unknown > 0, "what was being flushed may have happened");
    let error = space.append("main", "s", records(&["late"]), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Poisoned, Happened::No));
}

#[test]
fn nobody_sleeps_on_after_a_panic_during_a_flush() {
    let (space, gate) = open();
    let writers = crowd(&space, &gate);
    gate.set(Syncs::Panicking);
    // One of them, or a thread of the node, ran the flush.
    let ended = writers.into_iter().map(JoinHandle::join);
    let answered: Vec<_> = ended.filter_map(Result::ok).collect();
    assert!(answered.len() >= 11, "at most one thread panicked");
    assert!(answered.iter().all(Result::is_err), "nothing is acknowledged any more");
    let error = space.append("main", "s", records(&["late"]), &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Internal, Happened::No));
}
