//! One writer and 64 writers, against SQLite and bare loops.

use std::time::Duration;

use anabranch_node::{Space, SqlOptions};
use anabranch_sql::Value;

use super::baseline::{GroupCommit, Preallocated, sqlite};
use super::load::{Scratch, by, durable, during, integer, sql, together};
use super::stats::{Rounds, percent};
use super::{Error, Options, Table};

/// Bytes of a record, and of the text of a row.
const RECORD: usize = 128;
const WRITERS: usize = 64;
const PREALLOCATED: u64 = 64 << 20;

fn length(options: &Options) -> Duration {
    Duration::from_millis(3_000 / options.divisor.max(1)).max(Duration::from_millis(20))
}

/// One writer.
pub(super) fn one(options: &Options) -> Result<Vec<Table>, Error> {
    let scratch = Scratch::new(options, "writer")?;
    let space = durable(&scratch.path().join("space"))?;
    sql(&space, "main", "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let lite = sqlite(&scratch.path().join("plain.sqlite"))?;
    let mut bare = Preallocated::create(&scratch.path().join("bare"), PREALLOCATED)?;
    let record = vec![b'r'; RECORD];
    let text = "r".repeat(RECORD);
    let mut rounds: [Rounds; 5] = Default::default();
    let mut next = 0;
    for _ in 0..options.rounds {
        rounds[0].push(during(length(options), || bare.append(&record))?);
        rounds[1].push(during(length(options), || append(&space, &record))?);
        rounds[2].push(during(length(options), || {
            space.append_at("main", "log", vec![record.clone()], None, &by())?;
            Ok(())
        })?);
        rounds[3].push(during(length(options), || {
            next += 1;
            insert(&space, "main", next, &text)
        })?);
        rounds[4].push(during(length(options), || {
            lite.prepare_cached("INSERT INTO t(body) VALUES (?1)")?.execute([&text])?;
            Ok(())
        })?);
    }
    let title = format!("one writer, {RECORD}-byte records, every write durable");
    let columns = ["variant", "per second", "p50 µs", "p99 µs", "of bare"];
    let mut table = Table::new(title, &columns);
    let names = [
        "bare loop: pwrite + fdatasync",
        "anabranch append",
        "anabranch append, position known",
        "anabranch SQL commit, one row",
        "SQLite WAL + synchronous=FULL, one row",
    ];
    let whole = rounds[0].rate().median;
    for (name, rounds) in names.iter().zip(&rounds) {
        let [rate, p50, p99] = rounds.cells();
        let share = percent(rounds.rate().median, whole);
        table.row(vec![(*name).to_owned(), rate, p50, p99, share]);
    }
    table.note("an ordered write waits for two syncs: its record, then its place in the order");
    Ok(vec![table])
}

/// 64 writers.
pub(super) fn many(options: &Options) -> Result<Vec<Table>, Error> {
    let scratch = Scratch::new(options, "writers")?;
    let space = durable(&scratch.path().join("space"))?;
    let bare = Preallocated::create(&scratch.path().join("bare"), PREALLOCATED)?;
    let bare = GroupCommit::new(bare);
    let record = vec![b'r'; RECORD];
    let mut rounds: [Rounds; 2] = Default::default();
    for _ in 0..options.rounds {
        rounds[0].push(together(WRITERS, length(options), |_| || bare.append(&record))?);
        rounds[1].push(together(WRITERS, length(options), |_| || append(&space, &record))?);
    }
    let title = format!("{WRITERS} writers, {RECORD}-byte records, every write durable");
    let columns = ["variant", "per second", "p50 µs", "p99 µs", "of bare"];
    let mut table = Table::new(title, &columns);
    let whole = rounds[0].rate().median;
    for (name, rounds) in ["bare group-commit loop", "anabranch append"].iter().zip(&rounds) {
        let [rate, p50, p99] = rounds.cells();
        let share = percent(rounds.rate().median, whole);
        table.row(vec![(*name).to_owned(), rate, p50, p99, share]);
    }
    Ok(vec![table])
}

pub(super) fn append(space: &Space, record: &[u8]) -> Result<(), Error> {
    space.append("main", "log", vec![record.to_vec()], &by())?;
    Ok(())
}

pub(super) fn insert(space: &Space, branch: &str, id: u64, text: &str) -> Result<(), Error> {
    let values = [integer(id), Value::Text(text.to_owned())];
    space.sql(branch, "INSERT INTO t VALUES (?1, ?2)", &values, &SqlOptions::default(), &by())?;
    Ok(())
}
