//! Draws the next operation: appends, keys, SQL, forks and their ends, and background work.
//!
//! Chosen so that the twin can tell every result: records are unique; a branch writes rows of its
//! own range of ids (a frozen fork sometimes updates a row it inherited, which may make its
//! promotion conflict: a refusal, and nothing happens). Keys are shared, so promotions clash.

use std::fmt::{self, Write};

use super::model::{BranchNumber, Event, Model, Moment, Row};
use super::operation::{Mark, Operation};
use super::random::Random;

/// Most branches of a world, closed ones included.
const BRANCHES_MAX: usize = 24;
/// Most open branches at a time.
const OPEN_MAX: usize = 8;
/// Most tables in one view.
const TABLES_MAX: usize = 3;
/// Ids of a branch: its number times this, and up.
const RANGE: i64 = 100_000;

/// How often each kind of operation comes, drawn anew for each world.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    weights: Vec<(Draw, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    Append,
    Batch,
    AppendAt,
    Put,
    Delete,
    Cas,
    Incr,
    Rows,
    Bulk,
    Table,
    Fork,
    Promote,
    Discard,
    Checkpoint,
    Tick,
    Look,
}

const DRAWS: [(Draw, u64); 16] = [
    (Draw::Append, 20),
    (Draw::Batch, 8),
    (Draw::AppendAt, 8),
    (Draw::Put, 10),
    (Draw::Delete, 3),
    (Draw::Cas, 5),
    (Draw::Incr, 5),
    (Draw::Rows, 20),
    (Draw::Bulk, 3),
    (Draw::Table, 3),
    (Draw::Fork, 8),
    (Draw::Promote, 6),
    (Draw::Discard, 2),
    (Draw::Checkpoint, 3),
    (Draw::Tick, 8),
    (Draw::Look, 4),
];

/// What the next operation is drawn from.
pub(crate) struct Situation<'a> {
    pub(crate) model: &'a Model,
    pub(crate) moment: Moment,
    pub(crate) marks: &'a [Mark],
}

impl Workload {
    /// Draws how often each kind comes: up to three times its usual weight, or never.
    pub(crate) fn draw(random: &mut Random) -> Workload {
        let weights = DRAWS.iter().map(|(draw, usual)| (*draw, usual * random.below(4)));
        let mut weights: Vec<_> = weights.collect();
        weights.push((Draw::Append, 4));
        weights.push((Draw::Rows, 4));
        Workload { weights }
    }

    /// The next operation.
    pub(crate) fn next(&self, random: &mut Random, now: &Situation<'_>) -> Operation {
        let open = now.model.open();
        // Main is chosen as often as all forks together.
        let branch = if random.one_in(2) { 0 } else { *random.pick(&open) };
        let draw = random.weighted(&self.weights);
        match draw {
            Draw::Append | Draw::Batch => {
                let (stream, records) = records(draw == Draw::Batch, branch, random, now);
                Operation::Append { branch, stream, records }
            }
            Draw::AppendAt => {
                let (stream, records) = records(random.one_in(3), branch, random, now);
                Operation::AppendAt { branch, stream, records, expected: random.one_in(2) }
            }
            Draw::Put | Draw::Delete | Draw::Cas | Draw::Incr => key(draw, branch, random, now),
            Draw::Rows => rows(branch, random, now),
            Draw::Bulk => bulk(branch, random, now),
            Draw::Table => table(branch, random, now),
            Draw::Fork => fork(branch, random, now).unwrap_or(Operation::Look { branch }),
            Draw::Promote => {
                let ready = open.iter().filter_map(|fork| Some((*fork, now.model.target(*fork)?)));
                let ready: Vec<_> = ready.collect();
                if ready.is_empty() {
                    return Operation::Look { branch };
                }
                let (branch, into) = *random.pick(&ready);
                Operation::Promote { branch, into }
            }
            Draw::Discard if branch != 0 => Operation::Discard { branch },
            Draw::Discard | Draw::Look => Operation::Look { branch },
            Draw::Checkpoint => Operation::Checkpoint,
            Draw::Tick => Operation::Tick { advance_ms: random.between(1, 40) },
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("weights")?;
        for (draw, weight) in self.weights.iter().filter(|(_, weight)| *weight > 0) {
            write!(f, " {draw:?}={weight}")?;
        }
        Ok(())
    }
}

fn records(
    many: bool,
    branch: BranchNumber,
    random: &mut Random,
    now: &Situation<'_>,
) -> (String, Vec<Vec<u8>>) {
    let stream = format!("s{}", random.below(2));
    let count = if many { random.between(2, 12) } else { 1 };
    let records = (0..count).map(|number| {
        let mut record = format!("{branch}.{}.{number}:", now.moment).into_bytes();
        let size = *random.pick(&[0, 10, 100, 500, 3_000]);
        record.resize(record.len() + size, *random.pick(b"abcdefghijklmnopqrstuvwxyz"));
        record
    });
    (stream, records.collect())
}

fn key(draw: Draw, branch: BranchNumber, random: &mut Random, now: &Situation<'_>) -> Operation {
    if draw == Draw::Incr {
        let key = format!("n{}", random.below(3)).into_bytes();
        let delta = i64::try_from(random.below(9)).expect("small") - 3;
        return Operation::Incr { branch, stream: "numbers".to_owned(), key, delta };
    }
    let stream = format!("k{}", random.below(2));
    // One key in three is the branch's own, so that some promotions do not clash.
    let shared = !random.one_in(3);
    let owner = if shared { String::new() } else { branch.to_string() };
    let key = format!("{owner}/{}", random.below(6)).into_bytes();
    let value = format!("{branch}.{}", now.moment).into_bytes();
    match draw {
        Draw::Put => Operation::Put { branch, stream, key, value },
        Draw::Delete => Operation::Delete { branch, stream, key },
        _ => {
            let value = (!random.one_in(4)).then_some(value);
            Operation::Cas { branch, stream, key, value }
        }
    }
}

fn table(branch: BranchNumber, random: &mut Random, now: &Situation<'_>) -> Operation {
    if now.model.view(branch).tables.len() >= TABLES_MAX {
        return rows(branch, random, now);
    }
    let table = format!("t{}", now.moment);
    let script = format!(
        "CREATE TABLE {table}(id INTEGER PRIMARY KEY, text TEXT NOT NULL, number INTEGER NOT NULL);"
    );
    let events = vec![Event::Table { table }];
    Operation::Sql { branch, script, events, interactive: random.one_in(4) }
}

/// A transaction of several rows: inserts, updates and deletes.
fn rows(branch: BranchNumber, random: &mut Random, now: &Situation<'_>) -> Operation {
    let view = now.model.view(branch);
    let tables: Vec<_> = view.tables.keys().collect();
    if tables.is_empty() {
        return table(branch, random, now);
    }
    let name = (*random.pick(&tables)).clone();
    let mut known = view.tables[&name].clone();
    let (mut script, mut events) = (String::new(), Vec::new());
    for number in 0..random.between(1, 5) {
        let from_main = now.model.branch(branch).parent == Some(0);
        let inherited = from_main && now.model.branch(branch).is_frozen() && random.one_in(5);
        let id = if inherited && !known.is_empty() {
            **random.pick(&known.keys().collect::<Vec<_>>())
        } else {
            own_id(branch, random.below(8))
        };
        let foreign = id / RANGE != own_id(branch, 0) / RANGE;
        let row: Option<Row> = if known.contains_key(&id) && !foreign && random.one_in(4) {
            None
        } else {
            let length = *random.pick(&[0, 20, 400]);
            let text = format!("{}.{number}-{}", now.moment, "x".repeat(length));
            Some((text, i64::try_from(now.moment).expect("small")))
        };
        statement(&mut script, &name, id, (known.contains_key(&id), row.as_ref()));
        match &row {
            Some(row) => known.insert(id, row.clone()),
            None => known.remove(&id),
        };
        events.push(Event::Row { table: name.clone(), id, row });
    }
    Operation::Sql { branch, script, events, interactive: random.one_in(4) }
}

fn own_id(branch: BranchNumber, number: u64) -> i64 {
    let number = i64::try_from(number).expect("small");
    (i64::try_from(branch).expect("few branches") + 1) * RANGE + number
}

fn statement(script: &mut String, table: &str, id: i64, (there, row): (bool, Option<&Row>)) {
    let written = match (there, row) {
        (_, None) => write!(script, "DELETE FROM {table} WHERE id = {id};"),
        (false, Some((text, number))) => {
            write!(script, "INSERT INTO {table} VALUES ({id}, '{text}', {number});")
        }
        (true, Some((text, number))) => {
            write!(script, "UPDATE {table} SET text = '{text}', number = {number} WHERE id = {id};")
        }
    };
    written.expect("a string takes everything");
}

/// A transaction too large for one record; the next one removes its rows.
fn bulk(branch: BranchNumber, random: &mut Random, now: &Situation<'_>) -> Operation {
    const COUNT: u64 = 40;
    let view = now.model.view(branch);
    let tables: Vec<_> = view.tables.keys().collect();
    if tables.is_empty() {
        return table(branch, random, now);
    }
    let name = (*random.pick(&tables)).clone();
    let ids = (0..COUNT).map(|number| own_id(branch, 1_000 + number));
    let there = view.tables[&name].contains_key(&own_id(branch, 1_000));
    let (mut script, mut events) = (String::new(), Vec::new());
    for id in ids {
        let text = format!("{}-{}", now.moment, "y".repeat(2_500));
        let row = (!there).then_some((text, id));
        statement(&mut script, &name, id, (there, row.as_ref()));
        events.push(Event::Row { table: name.clone(), id, row });
    }
    Operation::Sql { branch, script, events, interactive: false }
}

fn fork(parent: BranchNumber, random: &mut Random, now: &Situation<'_>) -> Option<Operation> {
    let model = now.model;
    if model.count() >= BRANCHES_MAX || model.open().len() >= OPEN_MAX {
        return None;
    }
    let live = random.one_in(2);
    // A name may have a second life.
    let taken: Vec<_> =
        model.open().iter().map(|branch| model.branch(*branch).name.clone()).collect();
    let reused = (1..model.count()).map(|branch| model.branch(branch).name.clone());
    let reused: Vec<_> = reused.filter(|name| !taken.contains(name)).collect();
    let name = if !reused.is_empty() && random.one_in(3) {
        random.pick(&reused).clone()
    } else {
        format!("b{}", now.moment)
    };
    let at = (parent == 0 && !live && !now.marks.is_empty() && random.one_in(3))
        .then(|| random.pick(now.marks).clone());
    let ttl = random.one_in(8).then_some(100);
    Some(Operation::Fork { parent, name, live, at, ttl })
}
