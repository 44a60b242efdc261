//! Main and 31 forks commit while one more fork holds a write transaction open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch_node::{ForkKind, SqlOptions};

use super::load::{Scratch, by, durable, fork_request, sql, together};
use super::stats::{Rounds, percent};
use super::writes::insert;
use super::{Error, Options, Table};

const FORKS: usize = 31;

pub(super) fn open(options: &Options) -> Result<Vec<Table>, Error> {
    let length = Duration::from_millis(10_000 / options.divisor.max(1));
    let length = length.max(Duration::from_millis(50));
    let scratch = Scratch::new(options, "transaction")?;
    let space = durable(scratch.path())?;
    sql(&space, "main", "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let mut names = vec!["main".to_owned()];
    for number in 0..FORKS {
        let name = format!("fork-{number}");
        space.fork(&fork_request("main", name.clone(), ForkKind::Frozen), &by())?;
        names.push(name);
    }
    space.fork(&fork_request("main", "holder".to_owned(), ForkKind::Frozen), &by())?;
    let ids = AtomicU64::new(1);
    let text = "r".repeat(128);
    let mut rounds: [Rounds; 2] = Default::default();
    for _ in 0..options.rounds {
        for (holding, rounds) in rounds.iter_mut().enumerate() {
            let held = if holding == 1 {
                let mut transaction = space.begin("holder", &SqlOptions::default(), &by())?;
                let id = ids.fetch_add(1, Ordering::Relaxed);
                transaction.run(&format!("INSERT INTO t VALUES ({id}, 'held')"), &[])?;
                Some(transaction)
            } else {
                None
            };
            let round = together(names.len(), length, |thread| {
                let (space, name, ids, text) = (&space, &names[thread], &ids, &text);
                move || insert(space, name, ids.fetch_add(1, Ordering::Relaxed), text)
            })?;
            rounds.push(round);
            if let Some(transaction) = held {
                transaction.commit()?;
            }
        }
    }
    let title = format!(
        "main and {FORKS} forks, one writer each, committing one row at a time for {} ms, durable",
        length.as_millis()
    );
    let columns = ["variant", "commits per second", "p50 µs", "p99 µs", "p99 of first"];
    let mut table = Table::new(title, &columns);
    let whole = rounds[0].p99().median;
    let names = ["no other transaction", "one more fork holds a write transaction open"];
    for (name, rounds) in names.iter().zip(&rounds) {
        let [rate, p50, p99] = rounds.cells();
        let share = percent(rounds.p99().median, whole);
        table.row(vec![(*name).to_owned(), rate, p50, p99, share]);
    }
    table.note("the held transaction commits in the end: it was never rolled back");
    Ok(vec![table])
}
