//! Promoting 1 000 changed rows into a table of 1 000 000.

use std::time::Instant;

use anabranch_node::{ForkKind, PromoteOptions, Space, SqlOptions};
use anabranch_sql::Value;

use super::load::{Scratch, by, durable, fork_request, integer, space_options, sql, unsynced};
use super::stats::{Round, Rounds};
use super::{Error, Options, Table};

/// Promotes of each kind per round.
const PER_ROUND: u64 = 5;

pub(super) fn promote(options: &Options) -> Result<Vec<Table>, Error> {
    let rows = (1_000_000 / options.divisor.max(1)).max(2_000);
    let changed = 1_000;
    let scratch = Scratch::new(options, "promote")?;
    let space = unsynced(scratch.path(), space_options())?;
    load(&space, rows)?;
    space.checkpoint(&by())?;
    drop(space);
    let space = durable(scratch.path())?;
    let mut number = 0;
    let mut rounds: [Rounds; 3] = Default::default();
    for _ in 0..options.rounds {
        for (kind, rounds) in rounds.iter_mut().enumerate() {
            let mut round = Round::new();
            let start = Instant::now();
            for _ in 0..PER_ROUND {
                number += 1;
                let moved = kind > 0;
                let fork = if kind == 2 { ForkKind::Live } else { ForkKind::Frozen };
                let name = format!("fork-{number}");
                space.fork(&fork_request("main", name.clone(), fork), &by())?;
                let step = rows / changed;
                sql(
                    &space,
                    &name,
                    &format!("UPDATE t SET amount = amount + {number} WHERE id % {step} = 1"),
                )?;
                if moved {
                    let change = format!("UPDATE t SET note = 'm{number}' WHERE id = {step}");
                    sql(&space, "main", &change)?;
                }
                let before = Instant::now();
                let promoted = space.promote(&name, &PromoteOptions::default(), &by())?;
                round.record(before.elapsed());
                assert!(promoted.rows.1 >= changed, "all changed rows landed");
            }
            rounds.push(round.took(start.elapsed()));
        }
    }
    let title = format!("promote of {changed} changed rows, table of {rows} rows, durable");
    let mut table = Table::new(title, &["variant", "p50 µs", "highest µs"]);
    let names = [
        "frozen fork, the parent's tables stood still",
        "frozen fork, the parent's tables changed meanwhile",
        "live fork, the parent's tables changed meanwhile",
    ];
    for (name, rounds) in names.iter().zip(&rounds) {
        table.row(vec![(*name).to_owned(), rounds.p50().show(0), rounds.p99().show(0)]);
    }
    table.note("the changed rows are spread over the whole table; no check is defined");
    Ok(vec![table])
}

fn load(space: &Space, rows: u64) -> Result<(), Error> {
    const BATCH: u64 = 100_000;
    sql(
        space,
        "main",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, note TEXT NOT NULL)",
    )?;
    let mut next = 1;
    while next <= rows {
        let end = (rows + 1).min(next + BATCH);
        let batch: Vec<_> = (next..end)
            .map(|id| vec![integer(id), integer(id * 7 % 1_000), Value::Text(format!("note {id}"))])
            .collect();
        let mut transaction = space.begin("main", &SqlOptions::default(), &by())?;
        transaction.run_many("INSERT INTO t VALUES (?1, ?2, ?3)", &batch)?;
        transaction.commit()?;
        next = end;
    }
    Ok(())
}
