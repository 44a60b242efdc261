//! Directories, spaces and tables to measure on, and closed loops.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_node::{
    ForkKind, ForkRequest, MonotonicClock, Options as SpaceOptions, Origin, Space, SqlOptions,
};
use anabranch_sql::Value;

use super::disk::NoSync;
use super::stats::Round;
use super::{Error, Options};

/// A directory that is removed in the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(options: &Options, name: &str) -> Result<Scratch, Error> {
        let path = options.dir.join(format!("anabranch-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind if this fails: it has a telling name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn by() -> Origin {
    Origin::actor("bench")
}

pub(super) fn space_options() -> SpaceOptions {
    SpaceOptions { name: Some("bench".to_owned()), ..SpaceOptions::default() }
}

/// The space in a directory, durable.
pub(super) fn durable(dir: &Path) -> Result<Space, Error> {
    Ok(Space::open(dir, space_options())?)
}

/// The same space without waiting for the disk.
pub(super) fn unsynced(dir: &Path, options: SpaceOptions) -> Result<Space, Error> {
    let disk = Arc::new(NoSync::create(dir)?);
    Ok(Space::open_on(disk, Arc::new(MonotonicClock::new()), options)?)
}

pub(super) fn fork_request(parent: &str, name: String, kind: ForkKind) -> ForkRequest {
    ForkRequest {
        parent: parent.to_owned(),
        name,
        kind,
        at: None,
        owner: String::new(),
        ttl_ms: None,
    }
}

pub(super) fn sql(space: &Space, branch: &str, text: &str) -> Result<(), Error> {
    space.sql(branch, text, &[], &SqlOptions::default(), &by())?;
    Ok(())
}

/// Fills table `data` of main with about `bytes` of rows of 4 000 bytes that differ.
pub(super) fn fill(space: &Space, bytes: u64) -> Result<(), Error> {
    const ROW: usize = 4_000;
    const BATCH: u64 = 8_000;
    sql(space, "main", "CREATE TABLE data(id INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    let rows = bytes.div_ceil(ROW as u64);
    let mut next = 0;
    while next < rows {
        let end = rows.min(next + BATCH);
        let batch: Vec<_> = (next..end)
            .map(|id| {
                let mut body = vec![0_u8; ROW];
                let mut seed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                for word in body.chunks_mut(8) {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    word.copy_from_slice(&seed.to_le_bytes()[..word.len()]);
                }
                vec![integer(id), Value::Blob(body)]
            })
            .collect();
        let mut transaction = space.begin("main", &SqlOptions::default(), &by())?;
        transaction.run_many("INSERT INTO data VALUES (?1, ?2)", &batch)?;
        transaction.commit()?;
        next = end;
    }
    Ok(())
}

pub(super) fn integer(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Calls for a while, one after the other.
pub(super) fn during(
    duration: Duration,
    mut call: impl FnMut() -> Result<(), Error>,
) -> Result<Round, Error> {
    let mut round = Round::new();
    let start = Instant::now();
    let mut before = start;
    while before - start < duration {
        call()?;
        let after = Instant::now();
        round.record(after - before);
        before = after;
    }
    Ok(round.took(before - start))
}

/// Several threads, each calling for a while; `make` gives each its call.
pub(super) fn together<C>(
    threads: usize,
    duration: Duration,
    make: impl Fn(usize) -> C,
) -> Result<Round, Error>
where
    C: FnMut() -> Result<(), Error> + Send,
{
    let calls: Vec<C> = (0..threads).map(make).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> =
            calls.into_iter().map(|call| scope.spawn(move || during(duration, call))).collect();
        let mut all = Round::new();
        for thread in running {
            let round = thread.join().expect("a measuring thread does not panic")?;
            all.add(&round);
        }
        Ok(all)
    })
}
