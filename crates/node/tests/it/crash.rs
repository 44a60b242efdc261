//! Power cuts: the real node over a disk that keeps, drops or tears what was not synced.
//!
//! Each life opens the space, works until the disk stops taking changes at a drawn moment, and is
//! cut off. The next life must find everything that was acknowledged, once, in order; what was
//! under way at the cut may be there or not.

use std::sync::Arc;

use anabranch_log::{Happened, Kind};
use anabranch_node::{
    ForkKind, MonotonicClock, Options, PromoteOptions, Result, Space, SqlOptions, Value,
};
use anabranch_store::MemoryDisk;
use anabranch_store::disk::CrashKeeps;

use crate::{fork, me};

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What must be there.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Records of the stream, in order.
    records: Vec<String>,
    /// A record that may be there, once, at the end.
    maybe_record: Option<String>,
    /// Rows of the table.
    rows: u64,
    maybe_row: u64,
    /// Value of the counter.
    counter: i64,
    maybe_counter: i64,
    forks: u64,
}

fn open(disk: &MemoryDisk, accept_loss: bool) -> Result<Space> {
    let options = Options {
        segment_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        background: false,
        identity: Some([7; 16]),
        accept_loss,
        ..Options::default()
    };
    Space::open_on(Arc::new(disk.clone()), Arc::new(MonotonicClock::new()), options)
}

/// Opens after a cut. A tail that cannot be told from damage needs the operator's word; what is
/// given up then was never acknowledged, which the checks that follow prove.
fn reopen(disk: &MemoryDisk) -> Space {
    match open(disk, false) {
        Ok(space) => space,
        Err(error) => {
            assert_eq!(error.kind, Kind::Corrupt, "{error}");
            assert!(error.message.contains("newest flush"), "{error}");
            open(disk, true).unwrap_or_else(|error| panic!("with accept_loss: {error}"))
        }
    }
}

impl Acknowledged {
    /// Works until the disk fails; notes what was acknowledged and what was under way.
    fn work(&mut self, space: &Space, draw: &mut Draw) -> Result<()> {
        for _ in 0..60 {
            match draw.below(10) {
                0..4 => {
                    let record = format!("r{}", draw.next());
                    self.maybe_record = Some(record.clone());
                    let records = vec![record.clone().into_bytes()];
                    if draw.below(2) == 0 {
                        space.append("main", "s", records, &me())?;
                    } else {
                        space.append_at("main", "s", records, None, &me())?;
                    }
                    self.maybe_record = None;
                    self.records.push(record);
                }
                4..7 => {
                    self.maybe_row = 1;
                    let insert = "INSERT INTO t(a) VALUES (1)";
                    space.sql("main", insert, &[], &SqlOptions::default(), &me())?;
                    self.maybe_row = 0;
                    self.rows += 1;
                }
                7 => {
                    self.maybe_counter = 3;
                    space.incr("main", "k", b"n", 3, &me())?;
                    self.maybe_counter = 0;
                    self.counter += 3;
                }
                8 => self.fork_and_promote(space, draw)?,
                _ => match draw.below(3) {
                    0 => drop(space.checkpoint(&me())?),
                    _ => space.tick()?,
                },
            }
        }
        Ok(())
    }

    /// A record on a fork is part of main only once the promotion is.
    fn fork_and_promote(&mut self, space: &Space, draw: &mut Draw) -> Result<()> {
        self.forks += 1;
        let name = format!("f{}-{}", self.forks, draw.below(1 << 30));
        let kind = if draw.below(2) == 0 { ForkKind::Live } else { ForkKind::Frozen };
        let request = anabranch_node::ForkRequest {
            parent: "main".into(),
            name: name.clone(),
            kind,
            at: None,
            owner: String::new(),
            ttl_ms: None,
        };
        space.fork(&request, &me())?;
        let record = format!("p{}", draw.next());
        space.append(&name, "s", vec![record.clone().into_bytes()], &me())?;
        self.maybe_record = Some(record.clone());
        space.promote(&name, &PromoteOptions::default(), &me())?;
        self.maybe_record = None;
        self.records.push(record);
        Ok(())
    }

    /// Compares with what is there, and settles what was under way.
    fn check(&mut self, space: &Space, what: &str) {
        let page = space.read("main", "s", 0, 10_000).unwrap();
        let found: Vec<String> = page
            .records
            .into_iter()
            .map(|record| String::from_utf8(record.value).unwrap())
            .collect();
        let known = self.records.len();
        assert!(found.len() >= known, "{what}: {known} acknowledged, {} found", found.len());
        assert_eq!(found[..known], self.records, "{what}");
        let extra = &found[known..];
        assert!(
            extra.is_empty() || extra == self.maybe_record.as_slice(),
            "{what}: {extra:?} instead of {:?}",
            self.maybe_record
        );
        self.records = found;
        self.maybe_record = None;

        let count = space.sql("main", "SELECT count(*) FROM t", &[], &SqlOptions::default(), &me());
        let Value::Integer(rows) = count.unwrap().rows[0][0] else { panic!("{what}: a count") };
        let rows = rows.unsigned_abs();
        assert!((self.rows..=self.rows + self.maybe_row).contains(&rows), "{what}: {rows} rows");
        (self.rows, self.maybe_row) = (rows, 0);

        let counter = space.get("main", "k", b"n").unwrap();
        let text = counter.map_or_else(|| "0".into(), |n| String::from_utf8(n.value).unwrap());
        let counter: i64 = text.parse().unwrap();
        let possible = [self.counter, self.counter + self.maybe_counter];
        assert!(possible.contains(&counter), "{what}: counter {counter}, not {possible:?}");
        (self.counter, self.maybe_counter) = (counter, 0);
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    for seed in 0..12 {
        let mut draw = Draw(seed);
        let mut disk = MemoryDisk::new();
        let space = open(&disk, false).unwrap();
        let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)";
        space.sql("main", table, &[], &SqlOptions::default(), &me()).unwrap();
        drop(space);
        let mut acknowledged = Acknowledged::default();
        for life in 0..12 {
            let what = format!("seed {seed}, life {life}");
            let space = reopen(&disk);
            acknowledged.check(&space, &what);
            disk.fail_after(draw.below(250));
            let ended = acknowledged.work(&space, &mut draw);
            if let Err(error) = ended {
                assert_ne!(error.happened, Happened::Yes, "{what}: {error}");
            }
            let cut = disk.after_crash(CrashKeeps::Some(draw.next()));
            drop(space);
            disk = cut;
        }
        let space = reopen(&disk);
        acknowledged.check(&space, &format!("seed {seed}, at the end"));
        drop(space);
        let report = anabranch_store::verify(&disk).unwrap();
        assert!(report.clean(), "seed {seed}: {:?}", report.findings);
    }
}

#[test]
fn a_closed_space_verifies_clean_and_opens_from_its_checkpoint() {
    let disk = MemoryDisk::new();
    let space = open(&disk, false).unwrap();
    let run = |sql: &str| space.sql("main", sql, &[], &SqlOptions::default(), &me()).unwrap();
    run("CREATE TABLE t(a)");
    fork(&space, "main", "f", ForkKind::Live);
    space.append("f", "s", vec![b"x".to_vec()], &me()).unwrap();
    space.checkpoint(&me()).unwrap();
    run("INSERT INTO t VALUES (1)");
    drop(space);
    let report = anabranch_store::verify(&disk).unwrap();
    assert!(report.clean(), "{:?}", report.findings);
    assert!(report.records > 10);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let disk = MemoryDisk::new();
    let space = open(&disk, false).unwrap();
    let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_capacity(Some(used + (200 << 10)));
    let mut acknowledged = 0_u64;
    let error = loop {
        match space.append("main", "s", vec![vec![b'x'; 1_000]], &me()) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, Kind::DiskFull, "{error}");
    assert!(acknowledged > 0);
    drop(space);
    disk.set_capacity(None);
    let space = reopen(&disk);
    let length = space.read("main", "s", 0, 1).unwrap().length;
    let possible = acknowledged..=acknowledged + u64::from(error.happened != Happened::No);
    assert!(possible.contains(&length), "{length} records, {acknowledged} acknowledged");
    space.append("main", "s", vec![b"again".to_vec()], &me()).unwrap();
}

#[test]
fn a_failed_sync_poisons_until_the_next_start() {
    let disk = MemoryDisk::new();
    let space = open(&disk, false).unwrap();
    space.append("main", "s", vec![b"kept".to_vec()], &me()).unwrap();
    disk.fail_sync_after(0);
    let error = space.append("main", "s", vec![b"lost".to_vec()], &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Poisoned, Happened::Unknown));
    let error = space.append("main", "s", vec![b"later".to_vec()], &me()).unwrap_err();
    assert_eq!((error.kind, error.happened), (Kind::Poisoned, Happened::No));
    let cut = disk.after_crash(CrashKeeps::Synced);
    drop(space);
    let space = reopen(&cut);
    let page = space.read("main", "s", 0, 10).unwrap();
    assert_eq!(page.records[0].value, b"kept");
}
