//! Departures that keep arriving on main, in the background of everything else.
//!
//! One thread appends one record at a time, at a steady rate, and counts an append only when it
//! was acknowledged, which means durable. At the end every acknowledged record is read back: it
//! stands in the stream, once, in order, with nothing between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_node::Space;

use super::actor::{Actor, ms, quantile};
use super::error::{DemoError, Doing, expect, expect_equal};
use super::load::DEPARTURES;
use super::story::Arrivals;

/// Shortest time for which departures arrive.
const SHORTEST: Duration = Duration::from_secs(2);
/// Records read at once when they are verified.
const READ: usize = 1_000;

/// The running thread; dropping it stops it.
pub(crate) struct Arriving {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anabranch_node::Result<Acknowledged>>>,
    records: Arc<Vec<Vec<u8>>>,
    first_offset: u64,
    started: Instant,
}

/// What was acknowledged.
struct Acknowledged {
    times: Vec<Duration>,
    elapsed: Duration,
}

impl Arriving {
    /// Starts to append `records` to main, `rate` a second, until stopped or all are there.
    pub(crate) fn start(
        space: &Space,
        records: Vec<Vec<u8>>,
        rate: u32,
    ) -> Result<Arriving, DemoError> {
        let actor = Actor::new(space, "airport", "departures as they happen");
        let first_offset = actor.length("main", DEPARTURES)?;
        let stop = Arc::new(AtomicBool::new(false));
        let records = Arc::new(records);
        let (stopped, feed) = (Arc::clone(&stop), Arc::clone(&records));
        let thread = std::thread::Builder::new()
            .name("demo-arrivals".to_owned())
            .spawn(move || append_all(&actor, &feed, rate, &stopped))
            .map_err(DemoError::Thread)?;
        let started = Instant::now();
        Ok(Arriving { stop, thread: Some(thread), records, first_offset, started })
    }

    /// Waits until departures have arrived long enough for their latency to mean something.
    pub(crate) fn settle(&self) {
        std::thread::sleep(SHORTEST.saturating_sub(self.started.elapsed()));
    }

    /// Stops, and reads back what was acknowledged.
    pub(crate) fn finish(mut self, reader: &Actor) -> Result<Arrivals, DemoError> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or(DemoError::Panicked("arrivals"))?;
        let acknowledged = thread.join().map_err(|_| DemoError::Panicked("arrivals"))?;
        let Acknowledged { mut times, elapsed } = acknowledged.doing("append a departure")?;
        expect(!times.is_empty(), "departures arrived meanwhile", "none")?;
        self.verify(reader, times.len())?;
        times.sort_unstable();
        Ok(Arrivals {
            acknowledged: times.len() as u64,
            first_offset: self.first_offset,
            seconds: elapsed.as_secs_f64(),
            ms_p50: quantile(&times, 50),
            ms_p99: quantile(&times, 99),
            ms_max: quantile(&times, 100),
        })
    }

    /// The stream on main, from the first arrival to its end, is what was acknowledged.
    fn verify(&self, reader: &Actor, acknowledged: usize) -> Result<(), DemoError> {
        let mut expected = self.records.iter().take(acknowledged);
        let mut offset = self.first_offset;
        loop {
            let page = reader.space.read("main", DEPARTURES, offset, READ);
            let page = page.doing("read the departures")?;
            if page.records.is_empty() {
                break;
            }
            for record in page.records {
                expect_equal("the offset of a departure", &record.offset, &offset)?;
                let same = expected.next().is_some_and(|expected| *expected == record.value);
                expect(
                    same,
                    format!("the record at offset {offset} is the one acknowledged in its place"),
                    String::from_utf8_lossy(&record.value),
                )?;
                offset += 1;
            }
        }
        let missing = expected.count();
        expect(missing == 0, "every acknowledged departure is in the stream", missing)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its error comes second to the one that ends the demo.
            drop(thread.join());
        }
    }
}

fn append_all(
    actor: &Actor,
    records: &[Vec<u8>],
    rate: u32,
    stop: &AtomicBool,
) -> anabranch_node::Result<Acknowledged> {
    let started = Instant::now();
    let mut times = Vec::with_capacity(records.len());
    let mut due = Duration::ZERO;
    for record in records {
        // A late append does not make the next one early: the rate is a bound, not an average.
        std::thread::sleep(due.saturating_sub(started.elapsed()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let asked = Instant::now();
        due = started.elapsed() + Duration::from_secs(1) / rate;
        actor.space.append("main", DEPARTURES, vec![record.clone()], &actor.origin())?;
        times.push(asked.elapsed());
    }
    Ok(Acknowledged { times, elapsed: started.elapsed() })
}

/// Forks main a number of times and discards the forks; returns the sorted times in milliseconds.
pub(crate) fn measure_forks(actor: &Actor, count: usize) -> Result<(f64, f64), DemoError> {
    let mut times = Vec::with_capacity(count);
    for number in 1..=count {
        let started = Instant::now();
        actor.fork_as(&probe(number), anabranch_node::ForkKind::Live, None)?;
        times.push(started.elapsed());
    }
    for number in 1..=count {
        let name = probe(number);
        let discarded = actor.space.discard(&name, &actor.origin());
        discarded.doing(format!("discard `{name}`"))?;
    }
    times.sort_unstable();
    Ok((quantile(&times, 50), times.last().copied().map_or(0.0, ms)))
}

/// Beginning of the names of forks made only to be measured.
pub(crate) const PROBE: &str = "probe-";

fn probe(number: usize) -> String {
    format!("{PROBE}{number:03}")
}

#[cfg(test)]
mod tests {
    use anabranch_node::Options;

    use super::*;

    const RATE: u32 = 10_000;

    fn space() -> (tempfile::TempDir, Space) {
        let directory = tempfile::tempdir().expect("a directory");
        let space = Space::open(directory.path(), Options::default()).expect("a new space");
        (directory, space)
    }

    fn records() -> Vec<Vec<u8>> {
        (0..20).map(|number: u32| number.to_string().into_bytes()).collect()
    }

    /// Appends all records, then lets somebody else `meddle`, then verifies.
    fn finished(meddle: impl FnOnce(&Actor)) -> Result<Arrivals, DemoError> {
        let (_directory, space) = space();
        let reader = Actor::new(&space, "you", "read");
        let mut arriving = Arriving::start(&space, records(), RATE)?;
        while reader.length("main", DEPARTURES)? < 20 {
            std::thread::yield_now();
        }
        meddle(&reader);
        arriving.started = Instant::now().checked_sub(SHORTEST).expect("the clock is older");
        arriving.settle();
        arriving.finish(&reader)
    }

    #[test]
    fn all_that_was_acknowledged_is_read_back() {
        let arrivals = finished(|_| {}).expect("all is there");
        assert_eq!((arrivals.acknowledged, arrivals.first_offset), (20, 0));
        assert!(arrivals.ms_p50 <= arrivals.ms_p99 && arrivals.ms_p99 <= arrivals.ms_max);
    }

    #[test]
    fn a_record_that_nobody_acknowledged_is_found() {
        let meddle = |actor: &Actor| {
            let foreign = vec![b"foreign".to_vec()];
            actor.space.append("main", DEPARTURES, foreign, &actor.origin()).expect("it works");
        };
        let error = finished(meddle).expect_err("one record too many");
        assert!(error.to_string().ends_with("found=`foreign`"), "{error}");
    }

    #[test]
    fn a_record_that_is_missing_is_found() {
        let (_directory, space) = space();
        let reader = Actor::new(&space, "you", "read");
        let mut arriving = Arriving::start(&space, records(), RATE).expect("a thread");
        while reader.length("main", DEPARTURES).expect("it reads") < 20 {
            std::thread::yield_now();
        }
        arriving.records = Arc::new([records(), records()].concat());
        let error = arriving.verify(&reader, 21).expect_err("there are only twenty");
        assert!(error.to_string().contains("every acknowledged departure"), "{error}");
    }
}
