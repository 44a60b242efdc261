//! What a fork costs: to make, to keep, and for its parent.

use std::time::{Duration, Instant};

use anabranch_log::{
    BranchId, BranchName, Entry, ForkKind as LogKind, Operation, SessionId, State, WriteId,
};
use anabranch_node::{ForkKind, Options as SpaceOptions, Space};

use super::load::{Scratch, by, durable, during, fill, fork_request, space_options, sql, unsynced};
use super::stats::{Round, Rounds, percent};
use super::writes::append;
use super::{Error, Options, Table};

const MEGABYTE: u64 = 1 << 20;
const GIGABYTE: u64 = 1 << 30;

/// Forks that are there, and bytes of table data.
const SIZES: [(u64, u64); 5] =
    [(10, MEGABYTE), (10_000, MEGABYTE), (100_000, MEGABYTE), (10, GIGABYTE), (100_000, GIGABYTE)];

/// Durable fork, its software part, and the change of state alone.
pub(super) fn cost(options: &Options) -> Result<Vec<Table>, Error> {
    let scratch = Scratch::new(options, "fork")?;
    let divisor = options.divisor.max(1);
    let count = (200 / divisor).max(5);
    let mut spaces = Vec::new();
    for (number, (forks, bytes)) in SIZES.into_iter().enumerate() {
        let dir = scratch.path().join(number.to_string());
        let (forks, bytes) = ((forks / divisor).max(1), (bytes / divisor).max(4_096));
        let space = unsynced(&dir, space_options())?;
        fill(&space, bytes)?;
        make_forks(&space, forks, ForkKind::Live)?;
        space.checkpoint(&by())?;
        drop(space);
        spaces.push((forks, bytes, dir));
    }
    let mut tables = Vec::new();
    let kinds = [
        ("durable fork, as a client of the embedded API sees it", true),
        ("the same without waiting for the disk: the in-memory part (NOT durable)", false),
    ];
    for (title, real) in kinds {
        let mut open = Vec::new();
        for (forks, bytes, dir) in &spaces {
            let space = if real { durable(dir)? } else { unsynced(dir, space_options())? };
            open.push((*forks, *bytes, space, [Rounds::default(), Rounds::default()]));
        }
        for _ in 0..options.rounds {
            for (_, _, space, [in_a_row, discarded]) in &mut open {
                in_a_row.push(forks_round(space, count)?);
                discarded.push(discarding_round(space, count)?);
            }
        }
        let columns = ["forks", "discards", "table data", "p50 µs", "p99 µs", "of first"];
        let mut table = Table::new(title, &columns);
        for (way, name) in ["afterwards", "in between"].into_iter().enumerate() {
            let whole = open[0].3[way].p50().median;
            for (forks, bytes, _, rounds) in &open {
                let share = percent(rounds[way].p50().median, whole);
                let [_, p50, p99] = rounds[way].cells();
                let forks = forks.to_string();
                table.row(vec![forks, name.to_owned(), size(*bytes), p50, p99, share]);
            }
        }
        table.note(format!("{count} frozen forks of main per round, each discarded, untimed:"));
        table.note("after all of them were made, or before the next one is made");
        tables.push(table);
    }
    tables.push(state_alone(options));
    Ok(tables)
}

fn size(bytes: u64) -> String {
    if bytes >= MEGABYTE { format!("{} MiB", bytes / MEGABYTE) } else { format!("{bytes} B") }
}

fn make_forks(space: &Space, count: u64, kind: ForkKind) -> Result<(), Error> {
    for number in 0..count {
        space.fork(&fork_request("main", format!("idle-{number}"), kind), &by())?;
    }
    Ok(())
}

/// Makes forks, timed, and then discards them, untimed.
fn forks_round(space: &Space, count: u64) -> Result<Round, Error> {
    let mut round = Round::new();
    let start = Instant::now();
    let requests: Vec<_> = (0..count)
        .map(|number| fork_request("main", format!("timed-{number}"), ForkKind::Frozen))
        .collect();
    for request in &requests {
        let before = Instant::now();
        space.fork(request, &by())?;
        round.record(before.elapsed());
    }
    let elapsed = start.elapsed();
    for request in &requests {
        space.discard(&request.name, &by())?;
    }
    Ok(round.took(elapsed))
}

/// Makes forks, timed, and discards each, untimed, before the next one.
fn discarding_round(space: &Space, count: u64) -> Result<Round, Error> {
    let mut round = Round::new();
    let start = Instant::now();
    for number in 0..count {
        let request = fork_request("main", format!("timed-{number}"), ForkKind::Frozen);
        let before = Instant::now();
        space.fork(&request, &by())?;
        round.record(before.elapsed());
        space.discard(&request.name, &by())?;
    }
    Ok(round.took(start.elapsed()))
}

/// The state machine's part: what every replica does for a fork.
fn state_alone(options: &Options) -> Table {
    let title = "the change of state alone (one apply; nothing is encoded or written)";
    let mut table = Table::new(title, &["forks", "p50 µs", "p99 µs"]);
    for forks in [10_u64, 10_000, 100_000] {
        let forks = (forks / options.divisor.max(1)).max(1);
        let mut state = State::new();
        let mut next = 0;
        let mut fork = |state: &mut State, round: Option<&mut Round>| {
            next += 1;
            let entry = fork_entry(next);
            let before = Instant::now();
            let applied = state.apply(&entry);
            let took = before.elapsed();
            assert!(applied.outcome.is_ok(), "a fork of main is never refused");
            if let Some(round) = round {
                round.record(took);
            }
        };
        for _ in 0..forks {
            fork(&mut state, None);
        }
        let mut rounds = Rounds::default();
        for _ in 0..options.rounds {
            let mut round = Round::new();
            for _ in 0..200 {
                fork(&mut state, Some(&mut round));
            }
            rounds.push(round.took(Duration::from_secs(1)));
        }
        table.row(vec![forks.to_string(), rounds.p50().show(2), rounds.p99().show(2)]);
    }
    table
}

fn fork_entry(number: u64) -> Entry {
    Entry {
        id: WriteId { session: SessionId::NONE, seq: number, attempt: 0 },
        answered: 0,
        actor: "bench".to_owned(),
        intent: String::new(),
        time_ms: 0,
        operation: Operation::Fork {
            parent: BranchId::MAIN,
            name: BranchName::new(&format!("f{number}")).expect("a valid name"),
            kind: LogKind::Frozen,
            at: None,
            owner: "bench".to_owned(),
            ttl_ms: None,
        },
    }
}

/// Memory per idle frozen fork, with a SQL commit on the parent between forks.
pub(super) fn memory_frozen(options: &Options) -> Result<Vec<Table>, Error> {
    memory(options, ForkKind::Frozen)
}

/// The same for live forks.
pub(super) fn memory_live(options: &Options) -> Result<Vec<Table>, Error> {
    memory(options, ForkKind::Live)
}

fn memory(options: &Options, kind: ForkKind) -> Result<Vec<Table>, Error> {
    let count = (20_000 / options.divisor.max(1)).max(10);
    let scratch = Scratch::new(options, "memory")?;
    // A small cache: pages of the parent's commits are not the forks' memory.
    let small = SpaceOptions { cache_bytes: 1 << 20, ..space_options() };
    let space = unsynced(scratch.path(), small)?;
    fill(&space, MEGABYTE)?;
    // Once around: what is allocated in any case, the retained table versions among it.
    commit_and_fork(&space, 0..1_000, None)?;
    let steps = [("commits on the parent alone", None), ("a fork after each commit", Some(kind))];
    let columns = ["variant", "count", "growth KiB", "bytes each"];
    let title = format!("resident memory, {kind:?} forks, the parent committing between them");
    let mut table = Table::new(title, &columns);
    let mut next = 1_000;
    let mut each = Vec::new();
    for (name, kind) in steps {
        let before = resident_kib()?;
        commit_and_fork(&space, next..next + count, kind)?;
        next += count;
        let grown = resident_kib()?.saturating_sub(before);
        each.push(grown * 1_024 / count);
        let bytes = (grown * 1_024 / count).to_string();
        table.row(vec![name.to_owned(), count.to_string(), grown.to_string(), bytes]);
    }
    let fork = each[1].saturating_sub(each[0]);
    table.row(vec![
        "the fork's share".to_owned(),
        count.to_string(),
        (fork * count / 1_024).to_string(),
        fork.to_string(),
    ]);
    table.note("growth of the process, allocator slack included; one after the other in one space");
    table.note("no connection is open on the forks; the page cache is limited to 1 MiB");
    Ok(vec![table])
}

fn commit_and_fork(
    space: &Space,
    numbers: std::ops::Range<u64>,
    kind: Option<ForkKind>,
) -> Result<(), Error> {
    for number in numbers {
        // One row of 4 000 bytes, as long as before: one or two pages change.
        let id = number % 250;
        let body = format!("CAST(printf('%04000d', {number}) AS BLOB)");
        sql(space, "main", &format!("UPDATE data SET body = {body} WHERE id = {id}"))?;
        if let Some(kind) = kind {
            space.fork(&fork_request("main", format!("idle-{number}"), kind), &by())?;
        }
    }
    Ok(())
}

fn resident_kib() -> Result<u64, Error> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Error::Io(std::io::ErrorKind::Unsupported.into()))
}

/// Appends to a parent with no fork and with 10 000 live ones.
pub(super) fn parent(options: &Options) -> Result<Vec<Table>, Error> {
    let scratch = Scratch::new(options, "parent")?;
    let divisor = options.divisor.max(1);
    let length = Duration::from_millis(2_000 / divisor).max(Duration::from_millis(20));
    let sizes = [0, (10_000 / divisor).max(1)];
    let dirs: Vec<_> = sizes.iter().map(|forks| scratch.path().join(forks.to_string())).collect();
    for (forks, dir) in sizes.iter().zip(&dirs) {
        make_forks(&unsynced(dir, space_options())?, *forks, ForkKind::Live)?;
    }
    let record = vec![b'r'; 128];
    let mut tables = Vec::new();
    for (title, real) in [("durable", true), ("without waiting for the disk (NOT durable)", false)]
    {
        let mut open = Vec::new();
        for dir in &dirs {
            let space = if real { durable(dir)? } else { unsynced(dir, space_options())? };
            open.push((space, Rounds::default()));
        }
        for _ in 0..options.rounds {
            for (space, rounds) in &mut open {
                rounds.push(during(length, || append(space, &record))?);
            }
        }
        let title = format!("one writer appending to main, {title}");
        let columns = ["live forks", "per second", "p50 µs", "p99 µs", "of first"];
        let mut table = Table::new(title, &columns);
        let whole = open[0].1.p50().median;
        for (forks, (_, rounds)) in sizes.iter().zip(&open) {
            let [rate, p50, p99] = rounds.cells();
            let share = percent(rounds.p50().median, whole);
            table.row(vec![forks.to_string(), rate, p50, p99, share]);
        }
        tables.push(table);
    }
    Ok(tables)
}
